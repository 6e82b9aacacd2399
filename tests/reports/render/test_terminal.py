"""Panels on a terminal: readable when it is narrow, and nothing in them acts."""

from __future__ import annotations

import io

import pytest
from rich.cells import cell_len
from rich.console import Console
from tests.reports.nasty import NASTY

from steadfed.reports._render.terminal import show
from steadfed.reports.panels import Bars, Code, Column, Panel, Table, Text, Tone, Unit, facts_table


def printed(*panels: Panel, width: int = 80) -> str:
    file = io.StringIO()
    show(*panels, console=Console(file=file, width=width, color_system=None))
    return file.getvalue()


def wide_table() -> Table:
    """Return a table that has no room in 80 columns for its minor ones."""
    minor = [Column(title=f"minor {place}", unit=Unit.NUMBER, minor=True) for place in range(8)]
    columns = (Column(title="name", hint="who"), Column(title="share", unit=Unit.PERCENT), *minor)
    return Table(key="k", title="Title", columns=columns, rows=(("a b", 0.5, *[1234.5] * 8), ("c", None, *[None] * 8)))


def test_numbers_are_worded_by_their_units() -> None:
    columns = tuple(Column(title=unit.value, unit=unit) for unit in Unit)
    table = Table(key="k", title="t", columns=columns, rows=((1234.5, 0.25, 2_000_000, 75.0, "x"), (None,) * 5))
    shown = printed(table)
    for words in ("1,234", "25.0 %", "2 MB", "1 min 15 s", "–"):
        assert words in shown


def test_minor_columns_are_left_out_and_named_where_there_is_no_room() -> None:
    narrow, wide = printed(wide_table()), printed(wide_table(), width=200)
    assert max(map(len, narrow.splitlines())) <= 80
    assert "No room for: " in narrow
    assert "minor 7" in narrow.split("No room for: ")[1]
    assert "50.0 %" in narrow
    assert "name: who." in narrow
    assert "No room" not in wide


@pytest.mark.parametrize("width", [20, 40, 80])
def test_long_words_are_folded_and_never_lost(width: int) -> None:
    word = "abcdefghij" * 20
    shown = printed(facts_table("k", "t", [("what", word)]), width=width)
    assert max(map(len, shown.splitlines())) <= width
    assert shown.count("abc") + shown.count("a") >= 20
    assert "…" not in shown


@pytest.mark.parametrize("name", ["Frankfurt am Main", "東京大学医学部附属病院", "a" * 24, "Ålesund sjukehus"])
def test_names_keep_their_line_and_words_give_way(name: str) -> None:
    columns = (
        Column(title="client", name=True),
        *(Column(title=title, unit=Unit.NUMBER) for title in ("weight", "score", "judged")),
        Column(title="asked", unit=Unit.NUMBER, minor=True),
        Column(title="why"),
    )
    why = "its update lay 41 standard deviations from the others along one direction " * 3
    table = Table(
        key="k", title="t", columns=columns, rows=((name, 0.25, 1234.5, 3, 3, why), ("b", 1.0, 1.0, 3, 3, ""))
    )
    shown = printed(table)
    assert max(map(cell_len, shown.splitlines())) <= 80
    assert f"│ {name} " in shown
    assert "…" not in shown


@pytest.mark.parametrize("width", [50, 60, 80])
def test_long_names_go_on_below_between_words(width: int) -> None:
    name = "Universitätsklinikum Hamburg-Eppendorf"
    columns = (Column(title="client", name=True), Column(title="removed", unit=Unit.PERCENT), Column(title="why"))
    shown = printed(Table(key="k", title="t", columns=columns, rows=((name, 0.5, "far " * 40),)), width=width)
    assert max(map(cell_len, shown.splitlines())) <= width
    for word in name.split():
        assert word in shown


def test_a_name_longer_than_the_line_is_folded_and_never_lost() -> None:
    name = "東京" * 60
    columns = (Column(title="client", name=True), Column(title="removed", unit=Unit.PERCENT), Column(title="why"))
    shown = printed(Table(key="k", title="t", columns=columns, rows=((name, 0.5, "far"),)))
    assert max(map(cell_len, shown.splitlines())) <= 80
    assert shown.count("東") == shown.count("京") == 60


def test_rows_that_are_not_shown_are_counted() -> None:
    table = Table(
        key="k", title="t", columns=(Column(title="n"),), rows=tuple((f"row {n}",) for n in range(9)), shown=2
    )
    shown = printed(table)
    assert "row 1" in shown
    assert "row 2" not in shown
    assert "2 of 9 rows." in shown


def test_what_comes_from_clients_is_plain_text() -> None:
    for name in (*NASTY, "[red]x[/red]", "[/]", "[link=file:///etc]x[/link]"):
        table = Table(key="k", title=name, caption=name, columns=(Column(title=name, hint=name),), rows=((name,),))
        shown = printed(table, Text(key="t", title=name, paragraphs=(name,), tone=Tone.WARNING), width=4000)
        assert all(letter.isprintable() for letter in shown.replace("\n", "").replace("\t", ""))
    assert "[red]x[/red]" in printed(Text(key="t", title="", paragraphs=("[red]x[/red]",)))


def test_lines_to_copy_are_not_wrapped() -> None:
    command = "steadfed report " + "x" * 200
    assert f"  {command}\n" in printed(Code(key="c", title="How", text=command))


def test_what_a_terminal_cannot_draw_is_refused() -> None:
    bars = Bars(key="b", title="t", categories=(), parts={}, x_title="x", y_title="y")
    with pytest.raises(TypeError, match="`steadfed report` draws it"):
        printed(bars)
