"""Panels: what there is to see, before anybody decides how to draw it.

    histories ──► sections of panels ──► render: html (a page, the live page), terminal, image (PDF, SVG, PNG),
                                                 latex, csv

A panel holds plain numbers and plain text. Text may come from clients: whoever draws a panel escapes it.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeVar, final

__all__ = [
    "Bars",
    "Code",
    "Column",
    "Headline",
    "HeatMap",
    "Lines",
    "Mark",
    "Panel",
    "Report",
    "Section",
    "Series",
    "Style",
    "Table",
    "Text",
    "Tone",
    "Unit",
    "Value",
    "facts_table",
    "tabulate",
]


def __dir__() -> list[str]:
    return __all__


Item = TypeVar("Item")
Value = float | int | str | None
"""A cell of a table; None is drawn as a dash."""


class Style(Enum):
    """How a series is drawn."""

    LINE = "line"
    DASHED = "dashed"
    DOTTED = "dotted"
    POINTS = "points"


class Tone(Enum):
    """How a text is meant."""

    PLAIN = "plain"
    GOOD = "good"
    WARNING = "warning"


class Unit(Enum):
    """What numbers are, for those who format them."""

    NUMBER = "number"
    PERCENT = "percent"
    BYTES = "bytes"
    SECONDS = "seconds"
    TEXT = "text"


@final
@dataclass(frozen=True, kw_only=True)
class Series:
    """One curve: y over x, with gaps where y is None or not finite."""

    name: str
    x: tuple[float, ...]
    y: tuple[float | None, ...]
    colour: int
    """The place of its colour in the palette; series that belong together share one."""
    style: Style = Style.LINE
    bands: tuple[tuple[float, float] | None, ...] = ()
    """From where to where each y may be, such as the smallest and the largest of what it is the mean of: drawn as an
    area about a line, and as a bar through a point."""
    strong: bool = False
    """Whether its points stand out, as what the others are compared with."""


@final
@dataclass(frozen=True, kw_only=True)
class Mark:
    """A vertical line at some x, such as the start of an attack."""

    at: float
    text: str


@dataclass(frozen=True, kw_only=True)
class Panel(ABC):
    """One thing to look at."""

    key: str
    """A short name, unique in a report: letters, digits and hyphens; of an anchor, a file, a column."""
    title: str
    caption: str = ""
    """How to read it, in a sentence or two."""
    note: str = ""
    """What must stand in a picture itself, whose caption is somebody else's: of how many seeds it is the mean."""
    fold: str = ""
    """What a page folds it away under, with the panels beside it that have the same; nothing if it is always open."""


@final
@dataclass(frozen=True, kw_only=True)
class Lines(Panel):
    """Curves over a common axis."""

    series: tuple[Series, ...]
    x_title: str = "round"
    y_title: str
    unit: Unit = Unit.NUMBER
    """Of y."""
    x_unit: Unit = Unit.NUMBER
    log_y: bool = False
    marks: tuple[Mark, ...] = ()
    places: tuple[str, ...] = ()
    """Names of 0, 1, … along x, where x is no number; values of x belong to the nearest of them."""


@final
@dataclass(frozen=True, kw_only=True)
class HeatMap(Panel):
    """A value for each of some rows at each of some columns; None where there is none."""

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: tuple[tuple[float | None, ...], ...]
    """One tuple per row."""
    row_title: str
    column_title: str
    value_title: str
    unit: Unit = Unit.NUMBER
    low: float | None = None
    high: float | None = None
    """Ends of the scale of colours; those of the values if None."""
    good_is_high: bool = True
    hover: tuple[tuple[str, ...], ...] = ()
    """What to say of each cell besides row, column and value."""
    flagged: tuple[int, ...] = ()
    """Places of rows that are marked: truly Byzantine clients."""
    orders: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Ways to sort the rows: name to places, top first. The first one is shown first; without any, as they come."""
    written: bool = False
    """Whether values are written into the cells, which are squares then; for few cells only."""
    widths: tuple[tuple[float | None, ...], ...] = ()
    """Half of the interval of each value, as far as there is one."""
    strong: tuple[tuple[int, int], ...] = ()
    """Places, row and column, of the values that stand out: the best of a column, and what cannot be told from it."""


@final
@dataclass(frozen=True, kw_only=True)
class Bars(Panel):
    """Stacked bars: for each category, a value of each of some parts."""

    categories: tuple[str, ...]
    parts: Mapping[str, tuple[float, ...]]
    """Name of a part to its value in every category."""
    x_title: str
    y_title: str
    unit: Unit = Unit.NUMBER
    flagged: tuple[int, ...] = ()


@final
@dataclass(frozen=True)
class Column:
    """A column of a table."""

    title: str
    unit: Unit = Unit.TEXT
    hint: str = ""
    """What it means, in a few words."""
    name: bool = field(default=False, kw_only=True)
    """Whether it says who a row is about: the last to be wrapped where there is little room, and never cut."""
    minor: bool = field(default=False, kw_only=True)
    """Whether it is left out where there is no room for all columns, as on a narrow terminal."""
    half_width: bool = field(default=False, kw_only=True)
    """Whether it holds half of the interval of the column before it: value ± half, where the two are written as one."""


@final
@dataclass(frozen=True, kw_only=True)
class Table(Panel):
    """Rows of values that a reader may sort by any column."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Value, ...], ...]
    flagged: tuple[int, ...] = ()
    """Places of rows that stand out: truly Byzantine clients, what differs between runs, …"""
    shown: int = 0
    """How many rows to show before a reader asks for the others; 0 for all."""


def tabulate(
    items: Iterable[Item],
    columns: Mapping[Column, Callable[[Item], Value]],
    *,
    key: str,
    title: str,
    caption: str = "",
    flag: Callable[[Item], bool] = lambda _: False,
    shown: int = 0,
) -> Table:
    """Return a table with a row for every item; a column is what it shows and how that is read off an item."""
    items = tuple(items)
    return Table(
        key=key,
        title=title,
        caption=caption,
        columns=tuple(columns),
        rows=tuple(tuple(value(item) for value in columns.values()) for item in items),
        flagged=tuple(place for place, item in enumerate(items) if flag(item)),
        shown=shown,
    )


def facts_table(key: str, title: str, facts: Iterable[tuple[str, str]], *, caption: str = "") -> Table:
    """Return a table of facts: what is told, and what is told of it, without headings."""
    columns = (Column(title=""), Column(title=""))
    return Table(key=key, title=title, caption=caption, columns=columns, rows=tuple(facts))


@final
@dataclass(frozen=True, kw_only=True)
class Text(Panel):
    """Words: a verdict, a warning, why something is not there. Paragraphs of plain text."""

    paragraphs: tuple[str, ...]
    tone: Tone = Tone.PLAIN
    formula: str = ""
    """The name of a formula above the words, of those in _render/page/formulas.json."""


@final
@dataclass(frozen=True, kw_only=True)
class Code(Panel):
    """Lines to copy: commands, a configuration."""

    text: str
    language: str = "console"


@final
@dataclass(frozen=True, kw_only=True)
class Section:
    """Panels under one heading."""

    key: str
    title: str
    panels: tuple[Panel, ...]
    intro: str = ""


@final
@dataclass(frozen=True, kw_only=True)
class Headline:
    """A number that one should see first."""

    title: str
    value: str
    note: str = ""
    tone: Tone = Tone.PLAIN


@final
@dataclass(frozen=True, kw_only=True)
class Report:
    """Everything that a page shows."""

    title: str
    subtitle: str
    sections: tuple[Section, ...]
    headlines: tuple[Headline, ...] = ()
    made_with: Mapping[str, str] = field(default_factory=dict)
    """Versions of what made the report."""
