"""Tables in LaTeX: whatever names hold, an engine finds the rows and columns that are there, and does nothing else."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from tests.reports.nasty import NASTY, nasty_report

from steadfed.errors import ParameterError
from steadfed.reports._render.figure_style import FigureStyle
from steadfed.reports._render.latex import escaped, latex_of, write_latex
from steadfed.reports.panels import Column, HeatMap, Table, Text, Unit

DOUBLE = FigureStyle(width="double")
COMMANDS = frozenset(
    re.findall(
        "[a-zA-Z]+",
        "begin end centering fontsize selectfont caption label toprule midrule bottomrule textbf pm texttt char "
        "textbackslash textasciicircum textasciitilde dots cdot times le ge ne approx to infty surd Vert nabla circ "
        "linewidth ss ae AE o O aa AA l L oe OE i u v c H",
    )
)
"""What may stand after a backslash."""


def table(*rows: tuple[str | float | None, ...]) -> Table:
    columns = Column("name"), Column("share", Unit.PERCENT), Column("±", Unit.PERCENT, half_width=True)
    return Table(key="t", title="A table", columns=(*columns, Column("time", Unit.SECONDS, minor=True)), rows=rows)


def cells_of(text: str) -> list[list[str]]:
    """Return the cells of a table, as an engine would find them."""
    inside = text[text.index(r"\toprule") : text.index(r"\bottomrule")]
    lines = re.split(r"(?<!\\)\\\\(?![a-zA-Z{])", re.sub(r"\\(top|mid)rule", "", inside))
    return [[cell.strip() for cell in re.split(r"(?<!\\)&", line)] for line in lines if line.strip()]


def check(text: str) -> None:
    """Complain of what an engine would complain of, or act on."""
    assert text.isascii()
    bare = re.sub(r"\\[\\{}$&#%_'`^\"~=.]", "", text)
    depth = 0
    for letter in bare:
        depth += (letter == "{") - (letter == "}")
        assert depth >= 0
    assert depth == 0
    assert bare.count("$") % 2 == 0
    assert not re.search(r"[#~]", bare)
    assert not re.search(r"(?<!\$)[\^_]", bare), "only in formulas"
    assert set(re.findall(r"\\([a-zA-Z]+)", text)) <= COMMANDS | _greek(text)
    assert not re.search(r"(\\\\|rule)\s*[\[*]", text), "an argument of the line's end"


def _greek(text: str) -> set[str]:
    """Return the letters of formulas."""
    return set(re.findall(r"\$\\([a-zA-Z]+)\$", text))


@given(st.text(min_size=1, max_size=20), st.text(max_size=20))
def test_any_name_stays_in_its_cell_and_does_nothing(one: str, other: str) -> None:
    found = latex_of(replace(table((one, 0.5, None, 1.0), (other, None, None, None)), title=one), DOUBLE)
    assert found is not None
    check(found)
    lines = cells_of(found)
    assert [len(line) for line in lines] == [3, 3, 3]
    assert [line[1] for line in lines[1:]] == ["50.0", "--"]


@pytest.mark.parametrize("name", [*NASTY, r"\input{/etc/passwd}", r"\end{document}", "[1ex]", "*", "%", "a & b \\\\"])
def test_names_of_people_who_mean_harm_do_nothing(name: str) -> None:
    found = latex_of(table((name, 0.1, 0.01, 2.0)), DOUBLE)
    assert found is not None
    check(found)
    assert len(cells_of(found)) == 2


def test_what_fonts_lack_is_spelled_out_and_the_rest_is_shown() -> None:
    assert escaped("Zürich, naïve, ε ≤ σ₀") == r"Z\"{u}rich, na\"{i}ve, $\varepsilon$ $\le$ $\sigma$$_{0}$"
    assert escaped("東") == r"\texttt{U+6771}"
    assert escaped("--help ``x''") == "-{}-help `{}`x'{}'"


def test_a_value_and_half_of_its_interval_are_one_cell() -> None:
    lines = cells_of(latex_of(table(("rage", 0.9, 0.0123, 2.0), ("krum", 0.5, None, 2.0)), DOUBLE) or "")
    assert lines == [["name", r"share (\%)", "time (s)"], ["rage", r"90.0 $\pm$ 1.2", "2"], ["krum", "50.0", "2"]]


def test_one_column_of_a_paper_has_what_matters_most() -> None:
    narrow = latex_of(table(("rage", 0.9, 0.01, 2.0))) or ""
    assert [len(line) for line in cells_of(narrow)] == [2, 2]
    assert r"\begin{table}" in narrow
    assert r"\begin{table*}" in (latex_of(table(("rage", 0.9, 0.01, 2.0)), DOUBLE) or "")


def test_rows_that_are_left_out_are_counted() -> None:
    found = latex_of(replace(table(*((str(row), 0.5, None, 1.0) for row in range(9))), shown=2)) or ""
    assert len(cells_of(found)) == 3
    assert "The first 2 of 9 rows" in found


def test_maps_of_numbers_are_tables_with_the_best_in_bold() -> None:
    panel = HeatMap(
        key="m", title="Every attack", note="Accuracy in percent", rows=("rage", "[mean]"), columns=("a_1", "none"),
        values=((0.5, None), (0.25, 0.9)), widths=((0.05, None), (None, None)), strong=((0, 0), (1, 1)),
        row_title="rule", column_title="attack", value_title="accuracy", unit=Unit.PERCENT, written=True,
    )  # fmt: skip
    wide, narrow = (cells_of(latex_of(panel, style) or "") for style in (DOUBLE, FigureStyle()))
    assert wide == [["rule", r"a\_1", "none"], ["rage", r"\textbf{50.0} $\pm$ 5.0", "--"],
                    ["{}[mean]", "25.0", r"\textbf{90.0}"]]  # fmt: skip
    assert narrow[1] == ["rage", r"\textbf{50.0}", "--"]
    assert r"\caption{Every attack. Accuracy in percent.}" in (latex_of(panel) or "")
    assert latex_of(replace(panel, written=False)) is None


def test_words_are_no_table_and_millimetres_no_width_of_one() -> None:
    assert latex_of(Text(key="t", title="t", paragraphs=("words",))) is None
    with pytest.raises(ParameterError, match="a table is single or double"):
        latex_of(table(("a", None, None, None)), FigureStyle(width=90))


def test_a_whole_report_is_a_folder_of_tables(tmp_path: Path) -> None:
    files = write_latex(nasty_report(), tmp_path)
    assert files
    for file in files:
        check(file.read_text(encoding="ascii"))


def test_a_negative_value_with_half_of_its_interval_opens_no_formula_inside_a_formula() -> None:
    found = latex_of(table(("rage", -0.9, 0.0123, 2.0), ("krum", None, 0.1, 2.0)), DOUBLE) or ""
    assert [line[1] for line in cells_of(found)[1:]] == [r"$-$90.0 $\pm$ 1.2", r"-- $\pm$ 10.0"]
    check(found)
