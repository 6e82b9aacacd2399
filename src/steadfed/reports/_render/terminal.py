"""Panels on a terminal: tables, words, lines to copy. Plots are for the page.

Whatever a panel holds is printed as plain text: no letter of it acts, and nothing in it is markup.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import singledispatch
from typing import Literal

from rich import box
from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text as Words

from steadfed._core.wording import NOTHING, duration, harmless, number, percent, prose, size
from steadfed.reports._render.formulas import formulas
from steadfed.reports.panels import Code, Column, Panel, Table, Text, Tone, Unit, Value

WIDTH_OF_FILES = 120
"""Columns of output that goes into a file or a pipe, unless COLUMNS says otherwise."""
_WIDEST_WORD = 24
"""A column of words is no wider than its longest word, or this, if there is no room."""
_FRAME = 3
"""Letters between two columns."""
_SHORT, _NARROWEST, _MUCH = 12, 6, 80
"""Letters of a word that is not wrapped, of the narrowest column of words, and of one that wants no more room."""
_MOST_OF_A_NAME = 0.6
"""A word of a name that is longer than this share of the line is continued below itself."""
_FORMATS: Mapping[Unit, Callable[[float], str]] = {
    Unit.NUMBER: number,
    Unit.PERCENT: percent,
    Unit.SECONDS: duration,
    Unit.BYTES: size,
    Unit.TEXT: str,
}
_STYLES = {Tone.PLAIN: "", Tone.GOOD: "green", Tone.WARNING: "yellow"}


def show(*panels: Panel, console: Console | None = None) -> None:
    """Print panels, on stdout if no console is given."""
    place = output() if console is None else console
    for panel in panels:
        for part in _body(panel, place.width):
            place.print(part, highlight=False, soft_wrap=isinstance(panel, Code))


def output() -> Console:
    """Return stdout; a file or a pipe has room for every column of most tables."""
    console = Console()
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = WIDTH_OF_FILES
    return console


@singledispatch
def _body(panel: Panel, width: int) -> Iterable[RenderableType]:
    """Return what is printed of a panel."""
    raise TypeError(f"a {type(panel).__name__} of {width} columns is not for a terminal; `steadfed report` draws it")


@_body.register
def _(panel: Text, _width: int) -> Iterable[RenderableType]:
    start = "• " if len(panel.paragraphs) > 1 else ""
    yield from _title(panel.title)
    yield from ([Words(f"  {formulas()[panel.formula].text}")] if panel.formula else ())
    yield from (Words(f"{start}{prose(paragraph)}", style=_STYLES[panel.tone]) for paragraph in panel.paragraphs)
    yield from _caption(panel.caption)


@_body.register
def _(panel: Code, _width: int) -> Iterable[RenderableType]:
    yield from _title(panel.title)
    yield from (Words(f"  {prose(line)}") for line in panel.text.splitlines())
    yield from _caption(panel.caption)


@_body.register
def _(panel: Table, width: int) -> Iterable[RenderableType]:
    shown = panel.rows[: panel.shown or None]
    cells = [[_cell(value, column.unit) for value, column in zip(row, panel.columns, strict=True)] for row in shown]
    chosen = _fitting_places(panel.columns, cells, width)
    columns = [panel.columns[place] for place in chosen]
    headed = any(column.title for column in panel.columns)
    grid = Grid(title=Words(harmless(panel.title)), title_justify="left", show_header=headed, box=box.HEAVY_HEAD)
    widths = _widths(columns, [[row[place] for place in chosen] for row in cells], width)
    for column, wide in zip(columns, widths, strict=True):
        side: Literal["left", "right"] = "left" if column.unit is Unit.TEXT else "right"
        grid.add_column(Words(harmless(column.title)), justify=side, overflow="fold", width=wide)
    for row, line in enumerate(cells):
        grid.add_row(*(Words(line[place]) for place in chosen), style="bold" if row in panel.flagged else None)
    yield grid
    yield from _caption("\n".join(_notes(panel, columns, len(shown))))


def _notes(panel: Table, columns: Sequence[Column], shown: int) -> Iterable[str]:
    """Yield how to read a table, what its columns mean, and what is not there."""
    if shown < len(panel.rows):
        yield f"{shown} of {len(panel.rows):,} rows."
    if panel.caption:
        yield panel.caption
    meanings = [f"{column.title}: {column.hint}" for column in columns if column.hint]
    if meanings:
        yield f"{'; '.join(meanings)}."
    missing = [column.title for column in panel.columns if column not in columns]
    if missing:
        yield f"No room for: {', '.join(missing)}."


def _title(text: str) -> Iterable[RenderableType]:
    if text:
        yield Words(harmless(text), style="bold")


def _caption(text: str) -> Iterable[RenderableType]:
    if text:
        yield Padding(Words(prose(text), style="dim"), (0, 0, 0, 1))


def _fitting_places(columns: Sequence[Column], cells: Sequence[Sequence[str]], width: int) -> list[int]:
    """Return the places of the columns that are shown: all, or without the last of the minor ones, until they fit."""
    needed = [_least_width(column, [row[place] for row in cells], width) for place, column in enumerate(columns)]
    chosen = list(range(len(columns)))
    minor = [place for place in chosen if columns[place].minor]
    while minor and sum(needed[place] + _FRAME for place in chosen) + 1 > width:
        chosen.remove(minor.pop())
    return chosen


def _widths(columns: Sequence[Column], cells: Sequence[Sequence[str]], width: int) -> list[int]:
    """Return how wide columns are: as wide as they like, or what there is room for; words give way, numbers do not."""
    lists = [[row[place] for row in cells] for place in range(len(columns))]
    liked = [_longest((column.title, *texts)) for column, texts in zip(columns, lists, strict=True)]
    found = [_least_width(column, texts, width) for column, texts in zip(columns, lists, strict=True)]
    room = width - 1 - _FRAME * len(columns)
    words = [place for place, each in enumerate(columns) if each.unit is Unit.TEXT]
    for giving in ([place for place in words if not columns[place].name], words):  # names give way last
        while sum(found) > room and (wide := [place for place in giving if found[place] > _NARROWEST]):
            found[max(wide, key=lambda place: found[place])] -= 1
    while sum(found) < room and (open_ := [place for place in range(len(found)) if found[place] < liked[place]]):
        found[min(open_, key=lambda place: found[place] / min(liked[place], _MUCH) ** 0.5)] += 1
    return found


def _least_width(column: Column, cells: Sequence[str], width: int) -> int:
    """Return how narrow a column may become: numbers and words of names stay in one piece, other words are wrapped."""
    if column.name:
        words = max(_WIDEST_WORD, _longest(word for text in cells for word in text.split()))
        return max(_longest(column.title.split()), min(_longest(cells), words, int(width * _MOST_OF_A_NAME)))
    if column.unit is not Unit.TEXT:
        return max(_longest(column.title.split()), _longest(cells))
    words = _longest(word for text in (column.title, *cells) for word in text.split())
    return min(max(words, min(_longest(cells), _SHORT)), _WIDEST_WORD)


def _longest(texts: Iterable[str]) -> int:
    return max((cell_len(text) for text in texts), default=1)


def _cell(value: Value, unit: Unit) -> str:
    if value is None:
        return NOTHING
    return harmless(value) if isinstance(value, str) else harmless(_FORMATS[unit](value))
