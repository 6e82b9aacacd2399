"""Panels as matplotlib draws them: titles, notes and legends about curves, bars and maps, as wide as they should be."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from steadfed.reports._render.curves import AXIS, draw_bars, draw_lines
from steadfed.reports._render.figure_style import POINT, FigureStyle
from steadfed.reports._render.heat_maps import SquareLayout, draw_heat_map, squares
from steadfed.reports._render.letters import names_along, plain, widest, wrapped
from steadfed.reports.panels import Bars, HeatMap, Lines, Panel, Text

if TYPE_CHECKING:
    from matplotlib.figure import Figure, SubFigure

INCH = 72.0
_LOWEST, _HIGHEST = 42.0 * POINT, 92.0 * POINT
"""Of a plot with the names of its axes, without its title and legend."""
_TALLEST = 230.0 * POINT
"""Of a page."""
_LINE = 1.3
"""From a line of letters to the next."""
_INDENT = 8.0
"""Letters from the left edge to where an axis begins, at most."""
_HANDLE = 4.2
"""Letters that a sign of a legend takes, and the gap to the next name."""


@final
@dataclass(frozen=True, kw_only=True)
class _Words:
    """What stands above and below a plot, in lines."""

    title: list[str]
    note: list[str]
    names: list[str]
    """Of the legend; none if there is but one thing to see."""
    columns: int
    """Of the legend."""

    @classmethod
    def of(cls, panel: Panel, style: FigureStyle, points: float, *, indented: float = 0.0) -> _Words:
        """Return the words of a panel that is some points wide; the note begins so many points from the left."""
        parts = _names(panel)
        wide = widest(parts, style.small) + _HANDLE * style.small
        title = plain(panel.title, limit=200)
        return cls(
            title=wrapped(title, points, style.font_size, bold=True),
            note=wrapped(plain(panel.note, limit=400), points - indented, style.small),
            names=parts,
            columns=max(1, min(len(parts), int(points / wide))),
        )

    def height(self, style: FigureStyle) -> float:
        """Return how many points they take."""
        rows = -(-len(self.names) // self.columns)
        return _LINE * (style.font_size * len(self.title) + style.small * (len(self.note) + rows)) + style.font_size


def figure_of(panels: Sequence[Panel], style: FigureStyle, *, notes: bool = False) -> Figure:
    """Return panels side by side; with notes, what there is to say of each stands in it."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    width = style.millimetres * POINT
    if len(panels) == 1 and isinstance(panels[0], HeatMap) and (cells := squares(panels[0], style)) is not None:
        return _square_figure(panels[0], cells, style)
    part = width / len(panels)
    words = [_Words.of(panel, style, part - style.font_size, indented=_INDENT * style.font_size) for panel in panels]
    height = max(_body(panel, part, style) + each.height(style) for panel, each in zip(panels, words, strict=True))
    gap = 0.25 * style.font_size / INCH
    layout = ConstrainedLayoutEngine(w_pad=gap, h_pad=gap)
    figure = Figure(figsize=(width / INCH, min(_TALLEST, height) / INCH), layout=layout)
    FigureCanvasAgg(figure)
    for place, panel, each in zip(figure.subfigures(1, len(panels), squeeze=False)[0], panels, words, strict=True):
        _fill(place, panel, each, style, part, note=_told(panel) if notes else "")
    return figure


def _fill(part: SubFigure, panel: Panel, words: _Words, style: FigureStyle, points: float, *, note: str) -> None:
    axes = part.subplots()
    if isinstance(panel, Lines):
        draw_lines(axes, panel, style, points)
    elif isinstance(panel, Bars):
        draw_bars(axes, panel, style, points)
    elif isinstance(panel, HeatMap):
        draw_heat_map(part, axes, panel, style, points)
    else:
        axes.set_axis_off()
    part.suptitle("\n".join(words.title), x=0.0, ha="left", fontsize=style.font_size, fontweight="bold")
    if words.note:
        quiet: Any = {"fontsize": style.small, "color": style.colours.quiet, "fontweight": "normal"}
        axes.set_title("\n".join(words.note), loc="left", **quiet)
    if words.names:
        handles, names = axes.get_legend_handles_labels()
        part.legend(handles, names, loc="outside lower left", ncols=words.columns, borderaxespad=0.0, borderpad=0.1)
    if note:
        lines = wrapped(plain(note, limit=2_000), 0.75 * points, style.small)
        where: Any = {"transform": axes.transAxes, "fontsize": style.small, "color": style.colours.quiet}
        axes.text(0.02, 0.02, "\n".join(lines), va="bottom", **where).set_in_layout(False)


def _square_figure(panel: HeatMap, layout: SquareLayout, style: FigureStyle) -> Figure:
    """Return a map whose cells are squares; nothing is left to be arranged."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    gap, width = 0.5 * style.font_size, style.millimetres * POINT
    words = _Words.of(panel, style, width - gap)
    head = words.height(style)
    height = head + layout.tall + layout.below
    figure = Figure(figsize=(width / INCH, height / INCH))
    FigureCanvasAgg(figure)
    left, bottom = layout.left / width, layout.below / height
    axes = figure.add_axes((left, bottom, layout.wide / width, layout.tall / height))
    draw_heat_map(figure, axes, panel, style, layout.wide, layout)
    top = 1.0 - gap / height
    figure.text(0.0, top, "\n".join(words.title), va="top", fontweight="bold", linespacing=_LINE)
    below = top - _LINE * style.font_size * len(words.title) / height
    note: Any = {"fontsize": style.small, "color": style.colours.quiet, "linespacing": _LINE}
    figure.text(0.0, below, "\n".join(words.note), va="top", **note)
    return figure


def _body(panel: Panel, points: float, style: FigureStyle) -> float:
    """Return how many points high a plot is with the names of its axes."""
    usual = min(_HIGHEST, max(_LOWEST, 0.58 * points))
    named = panel.places if isinstance(panel, Lines) else panel.categories if isinstance(panel, Bars) else ()
    if named:
        _, shown, turned = names_along(named, AXIS * points, style.small)
        return usual + widest(shown, style.small) * math.sin(math.radians(turned))
    if isinstance(panel, HeatMap):
        return min(0.95 * points, max(usual, len(panel.rows) * 0.4 * style.font_size + 5.0 * style.font_size))
    return usual


def _names(panel: Panel) -> list[str]:
    """Return what a legend names; nothing if there is only one curve, or none."""
    if isinstance(panel, Lines):
        names = [plain(series.name) for series in panel.series]
    else:
        names = [plain(name, limit=30) for name in panel.parts] if isinstance(panel, Bars) else []
    return names if len(names) > 1 else []


def _told(panel: Panel) -> str:
    return " ".join(panel.paragraphs) if isinstance(panel, Text) else panel.caption
