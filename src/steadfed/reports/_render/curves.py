"""Curves, points and bars of pictures: a colour and a sign for each, bands about what is a mean."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from steadfed.reports._render.figure_style import MARKERS, FigureStyle
from steadfed.reports._render.letters import plain
from steadfed.reports._render.plotly import has_lone_point, with_gaps
from steadfed.reports._render.ticks import format_axis, logarithmic, name_below
from steadfed.reports.panels import Bars, Lines, Series, Style, Unit

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_DASHES = {Style.LINE: "-", Style.DASHED: (0, (4, 1.6)), Style.DOTTED: (0, (1.2, 1.4)), Style.POINTS: ""}
_MARKED = 8
"""Signs along a curve, about."""
_BAND = 0.2
"""How much of what lies below it a band hides."""
AXIS = 0.82
"""The share of a picture's width that its axis takes, about."""


def draw_lines(axes: Axes, panel: Lines, style: FigureStyle, points: float) -> None:
    """Draw curves over a common axis, with their marks."""
    for place, series in enumerate(panel.series):
        _draw_series(axes, series, style, place, log_y=panel.log_y, several=len(panel.series) > 1)
    flag = style.colours.flag
    for mark in panel.marks:
        axes.axvline(mark.at, color=flag, linewidth=0.8, linestyle=(0, (2, 2)), zorder=1)
        axes.annotate(
            plain(mark.text, limit=40), (mark.at, 1.0), xycoords=("data", "axes fraction"), xytext=(2, -1),
            textcoords="offset points", va="top", fontsize=style.small, color=flag,
        )  # fmt: skip
    axes.set_xlabel(plain(panel.x_title))
    axes.set_ylabel(plain(panel.y_title))
    seen = [value for each in panel.series for value in each.y if value is not None and 0.0 < value < np.inf]
    format_axis(axes.yaxis, Unit.NUMBER if panel.log_y else panel.unit)
    format_axis(axes.xaxis, panel.x_unit)
    if panel.log_y and seen:
        axes.set_yscale("log")
        logarithmic(axes.yaxis, seen)
    axes.grid(visible=True, which="major", color=style.colours.grid, linewidth=0.5)
    if panel.places:
        name_below(axes, panel.places, AXIS * points, style.small)
        axes.set_xlim(-0.5, len(panel.places) - 0.5)


def _draw_series(axes: Axes, series: Series, style: FigureStyle, place: int, *, log_y: bool, several: bool) -> None:
    drawn = with_gaps(series.y, log_y=log_y)
    x = np.array(series.x, dtype=np.float64)
    values = np.array([np.nan if value is None else value for value in drawn], dtype=np.float64)
    colours = style.colours.series
    colour, marker = colours[series.colour % len(colours)], MARKERS[series.colour % len(MARKERS)]
    single = series.style is Style.POINTS
    if series.bands and single:
        for at, band in zip(series.x, series.bands, strict=True):
            if band is not None:
                axes.vlines(at, *band, color=colour, linewidth=1.0)
    elif series.bands:
        low, high = np.array([band or (np.nan, np.nan) for band in series.bands], dtype=np.float64).T
        axes.fill_between(x, low, high, color=colour, alpha=_BAND, linewidth=0.0)
    alone = single or has_lone_point(drawn)
    rare = max(1, len(x) // _MARKED)
    axes.plot(
        x,
        values,
        color=colour,
        linestyle=_DASHES[series.style],
        linewidth=1.1,
        marker=marker if alone or several else "",
        markevery=None if alone else (place * rare // 10 % rare, rare),
        markersize=(0.62 if series.strong else 0.42) * style.font_size,
        markeredgewidth=0.0,
        label=plain(series.name),
    )


def draw_bars(axes: Axes, panel: Bars, style: FigureStyle, points: float) -> None:
    """Draw stacked bars; parts beyond the colours are hatched."""
    places = np.arange(len(panel.categories))
    below = np.zeros(len(panel.categories))
    colours = style.colours.series
    for part, (name, values) in enumerate(panel.parts.items()):
        colour, hatch = colours[part % len(colours)], "///" if part >= len(colours) else None
        axes.bar(
            places, values, bottom=below, width=0.85, color=colour, hatch=hatch, edgecolor=style.colours.paper,
            linewidth=0.0, label=plain(name, limit=30),
        )  # fmt: skip
        below += np.asarray(values, dtype=np.float64)
    ticks = name_below(axes, panel.categories, AXIS * points, style.small)
    for label, tick in zip(axes.get_xticklabels(), ticks, strict=True):
        if tick in panel.flagged:
            label.set(color=style.colours.flag, fontweight="bold")
    axes.set_xlabel(plain(panel.x_title))
    axes.set_ylabel(plain(panel.y_title))
    format_axis(axes.yaxis, panel.unit)
