"""The inventory of the paper is complete where its source is at hand, and everything in it is on the map."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.theory import inventory
from tests.theory.latex import Latex

ROOT = Path(__file__).parents[2]
MAP = (ROOT / "docs" / "theory" / "map.md").read_text(encoding="utf-8")
PAPER = ROOT.parent / "shared" / "paper"
"""Where the paper's source is, if somebody put it there; nothing but this test reads it."""
ENTRIES = (*inventory.REMARKS, *inventory.FOOTNOTES, *inventory.CLAIMS)


def places_of(name: str) -> str:
    """Return what stands in brackets behind a name on the map, empty if it is not there."""
    found = re.search(rf"^(?:\| |\* ){re.escape(name)} \(([^)]*)\)", MAP, re.MULTILINE)
    return found[1] if found else ""


@pytest.mark.parametrize("label", inventory.STATEMENTS)
def test_every_label_of_a_statement_is_on_the_map(label: str) -> None:
    assert re.search(rf"(?<![\w:-]){re.escape(label)}(?![\w-])", MAP)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: f"{entry.name}, {entry.place}")
def test_every_remark_footnote_and_claim_is_on_the_map(entry: inventory.Entry) -> None:
    assert entry.place in places_of(entry.name)


def test_the_map_has_no_remark_footnote_or_claim_that_the_inventory_lacks() -> None:
    on_map = set(re.findall(r"^(?:\| |\* )((?:Remark|footnote|text) \d+)\b", MAP, re.MULTILINE))
    assert on_map == {entry.name for entry in ENTRIES}


def test_every_place_with_formulas_in_running_text_has_an_entry() -> None:
    assert inventory.FORMULAS.keys() <= {entry.place for entry in ENTRIES}
    assert {entry.name for entry in inventory.PARAGRAPHS} <= {entry.name for entry in ENTRIES}


@pytest.fixture(scope="module")
def paper() -> Latex:
    found = [path for path in sorted(PAPER.glob("*")) if path.suffix in {".tex", ".txt"}] if PAPER.is_dir() else []
    if not found:
        pytest.skip(f"the paper's LaTeX source is not in {PAPER}; the inventory is taken as it is")
    return Latex(found[0].read_text(encoding="utf-8"))


def test_every_label_of_the_paper_is_in_the_inventory(paper: Latex) -> None:
    assert sorted(paper.labels) == sorted((*inventory.PLACES, *inventory.STATEMENTS))


def test_every_footnote_remark_and_paragraph_of_the_paper_is_in_the_inventory(paper: Latex) -> None:
    assert paper.footnotes == [entry.place for entry in inventory.FOOTNOTES]
    assert paper.remarks == [entry.place for entry in inventory.REMARKS]
    assert paper.paragraphs == [entry.place for entry in inventory.PARAGRAPHS]


def test_every_formula_in_running_text_of_the_paper_was_counted(paper: Latex) -> None:
    assert paper.formulas == inventory.FORMULAS


SMALL = r"""
ignored $a<b$ \begin{document}
\section{First} Text with $x\leq 1$ and \$5.\footnote{Note.} % $never<seen$
\subsection{A $\sigma$ Heading of \ref{x}}\label{sub:a}
\begin{theorem}\label{thm:b} $y\geq2$ \end{theorem} \begin{align*} z &= 1 \end{align*}
\paragraph{Head.} We have $\calO(n)$, $n$ and $k>1$. \begin{remark} $u<v$ \end{remark}
\subsubsection{Need of $\sigma$} Nothing.\footnote{\label{foot:c}Here.}
"""


def test_what_a_source_states_is_found() -> None:
    source = Latex(SMALL)
    assert source.labels == ["sub:a", "thm:b", "foot:c"]
    assert source.footnotes == ["first", "need-of"]
    assert source.remarks == source.paragraphs == ["sub:a"]
    assert source.formulas == {"first": 1, "sub:a": 2}
