"""Formulas in Unicode become TeX that says the same, and words stay words."""

from __future__ import annotations

import json
import re
import sys
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "docs"))
_formulas = import_module("typesetting.formulas")
displayed, inline, page = _formulas.displayed, _formulas.inline, _formulas.page
THEORY = sorted(ROOT.glob("docs/theory/*.md"))


@pytest.mark.parametrize(
    ("written", "typeset"),
    [
        ("at most C σ₀ √ε, ε = f/n", r"at most $C \sigma_0 \sqrt{\varepsilon}$, $\varepsilon = f/n$"),
        ("‖x_k − x*‖² ≤ v̄", r"$\lVert x_k - x^{\ast} \rVert^2 \le \bar{v}$"),
        ("Σ_{i∈S} c_i τ_i ≤ |S| σ₀² .", r"$\sum_{i \in S} c_i \tau_i \le \lvert S \rvert \sigma_0^2$."),
        ("f₁′² and c′_i", r"$f_1^{\prime 2}$ and $c_i'$"),
        ("n² · 1e-16, 1e-16", r"$n^2 \cdot 10^{-16}$, 1e-16"),
        ("P(Bin(m, p) > j)", r"$P(\operatorname{Bin}(m, p) \gt j)$"),
        ("μ-strongly convex", r"$\mu$-strongly convex"),
        ("E[‖g‖² | past]", r"$E [\lVert g \rVert^2 \mid \text{past}]$"),
        ("√φ(D) and √θ(D + s)", r"$\sqrt{\varphi(D)}$ and $\sqrt{\theta}(D + s)$"),
    ],
)
def test_a_formula_in_a_sentence_is_typeset(written: str, typeset: str) -> None:
    assert inline(written) == typeset


@pytest.mark.parametrize(
    "written",
    [
        "A step takes a unit direction (section 5.3), and I say so.",
        "by (4.2) and (R), in case (a), of 2,000 points, 5 % of them",
        "`num_byzantine` = 3, [filter](filter.md#5-f) and convex_local-0",
        "L-BFGS, e.g. in float32, and/or 1e-6",
    ],
)
def test_words_code_links_labels_and_plain_numbers_stay(written: str) -> None:
    assert inline(written) == written


def test_a_displayed_formula_has_fractions_words_and_its_number() -> None:
    assert displayed("    ‖M u‖² / ρ ≤ (1/n) Σ a_i    if it is ★.          (2.1)") == (
        r"\frac{\lVert M u \rVert^2}{\rho} \le \frac{1}{n} \sum a_i \qquad \text{ if it is } \star. \tag{2.1}"
    )


def test_code_of_a_page_stays_and_tables_and_lists_are_typeset() -> None:
    code = "```python\nx_1 = a ** b\n```"
    text = f"x ≤ y\n\n{code}\n\n| λ | `a_b` |\n|---|---|\n\n* ε = 1\n\n    x / y ≤ z\n\nc: weights m_S"
    assert page(text) == (
        f"$x \\le y$\n\n{code}\n\n| $\\lambda$ | `a_b` |\n|---|---|\n\n* $\\varepsilon = 1$\n\n"
        "$$\n\\frac{x}{y} \\le z\n$$\n\nc: weights $m_S$"
    )


@pytest.mark.parametrize("path", THEORY, ids=lambda path: path.name)
def test_no_formula_of_the_theory_is_left_in_unicode(path: Path) -> None:
    text = re.sub(r"```.*?```|<!-- [\w-]+ -->.*?<!-- end -->|`[^`]+`", "", path.read_text("utf-8"), flags=re.DOTALL)
    lines = [line for line in text.split("\n") if not line.startswith("#")]
    formulas = re.findall(r"\$\$\n(.+?)\n\$\$|\$([^$\n]+)\$", "\n".join(lines))
    outside = re.sub(r"\$\$\n.+?\n\$\$|\$[^$\n]+\$", "", "\n".join(lines))
    assert formulas
    assert re.findall(r"[α-ωΑ-Ω₀-₉²³‖√∇]", outside) == []
    assert all(tex.count("{") == tex.count("}") for pair in formulas for tex in pair)
    # GitHub's Markdown would take these for its own: a star, a backslash before a sign, a vertical line in a table
    assert [tex for pair in formulas for tex in pair if re.search(r"\*|\\[^A-Za-z]|\|", tex)] == []


def test_the_formulas_of_reports_are_those_of_their_text() -> None:
    found = json.loads((ROOT / "src/steadfed/reports/_render/page/formulas.json").read_text(encoding="utf-8"))
    for each in found.values():
        assert each["tex"] == displayed(each["text"])
        assert each["mathml"].count("<math ") == 1
        assert "http://www.w3.org/1998/Math/MathML" in each["mathml"]
        assert "<script" not in each["mathml"]
