"""A report as tables for other programs: one CSV for every plot and table, all numbers in full."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from steadfed._core.wording import prose
from steadfed.reports._render.image import write_files
from steadfed.reports.panels import Bars, HeatMap, Lines, Panel, Report, Table, Value

Line = Sequence[Value]
_FORMULAS = ("=", "+", "-", "@", "\t", "\r")
"""What makes a spreadsheet read a text as a formula."""


def write_tables(report: Report, folder: Path) -> list[Path]:
    """Write a file for every plot and table of a report, named after its key, and return them.

    Raises:
        ParameterError: they cannot be written.
    """
    panels = [panel for section in report.sections for panel in section.panels]
    found = {f"{panel.key}.csv": text.encode() for panel in panels if (text := table_of(panel)) is not None}
    return write_files(folder, found)


def table_of(panel: Panel) -> str | None:
    """Return a panel as CSV, long rather than wide: a line for each number; None if it is words.

    >>> from steadfed.reports.panels import Column
    >>> print(table_of(Table(key="k", title="t", columns=(Column(title="a"),), rows=((1.5,), ("=x",)))), end="")
    a
    1.5
    '=x
    """
    if isinstance(panel, Lines):
        ends = ("from", "to") if _has_bands(panel) else ()
        return _write((panel.x_title, "series", panel.y_title, *ends), _points(panel))
    if isinstance(panel, HeatMap):
        titles = (panel.row_title, panel.column_title, panel.value_title, "marked", "what")
        return _write(titles, _cells(panel))
    if isinstance(panel, Bars):
        return _write((panel.x_title, "part", panel.y_title), _bars(panel))
    if isinstance(panel, Table):
        return _write([column.title for column in panel.columns], panel.rows)
    return None


def _points(panel: Lines) -> Iterator[Line]:
    banded = _has_bands(panel)
    for series in panel.series:
        bands = series.bands or (None,) * len(series.x)
        for x, y, band in zip(series.x, series.y, bands, strict=True):
            yield _place(panel, x), series.name, y, *((band or (None, None)) if banded else ())


def _has_bands(panel: Lines) -> bool:
    return any(series.bands for series in panel.series)


def _place(panel: Lines, x: float) -> Value:
    """Return an x as a reader knows it: the name of its place, or a number, whole if it is."""
    if panel.places:
        return panel.places[round(x)]
    return int(x) if x.is_integer() else x


def _cells(panel: HeatMap) -> Iterator[Line]:
    """Yield the cells that hold something."""
    marked = set(panel.flagged)
    for place, (row, values) in enumerate(zip(panel.rows, panel.values, strict=True)):
        words = panel.hover[place] if panel.hover else ("",) * len(values)
        for column, value, what in zip(panel.columns, values, words, strict=True):
            if value is not None or what:
                yield row, column, value, "yes" if place in marked else "no", what


def _bars(panel: Bars) -> Iterator[Line]:
    for part, values in panel.parts.items():
        for category, value in zip(panel.categories, values, strict=True):
            yield category, part, value


def _write(titles: Sequence[str], lines: Iterable[Line]) -> str:
    file = io.StringIO(newline="")
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([_safe(title) for title in titles])
    writer.writerows([_safe(value) for value in line] for line in lines)
    return file.getvalue()


def _safe(value: Value) -> Value:
    """Return a value in one line that no terminal acts on and no spreadsheet takes for a formula, whoever wrote it.

    Numbers stay numbers.
    """
    if not isinstance(value, str):
        return value
    line = prose("; ".join(value.splitlines()))
    return f"'{line}" if value.startswith(_FORMULAS) else line
