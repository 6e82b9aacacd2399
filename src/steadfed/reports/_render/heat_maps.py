"""Maps of pictures: of square cells with their numbers where these are few, as wide as the picture where they are many.

Cividis rises from dark to light, so a map is read in print without colours as well.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from steadfed._core.wording import percent
from steadfed.reports._render.axis_names import shorten_names
from steadfed.reports._render.figure_style import POINT, FigureStyle
from steadfed.reports._render.letters import most_letters, names_along, plain, spread, widest
from steadfed.reports._render.ticks import format_axis, name_below
from steadfed.reports.panels import HeatMap, Unit

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

_LARGEST_CELL = 3.8
"""The side of a cell is at most so many letters high: a map of one cell is no poster."""
_TALLEST = 200.0 * POINT
_BETWEEN = 0.5
"""Letters between a name and its cells."""
_SCALE = 6.0
"""Letters that a scale of colours takes beside its cells."""


@final
@dataclass(frozen=True, kw_only=True)
class SquareLayout:
    """Where the cells of a map lie, in points."""

    left: float
    wide: float
    tall: float
    below: float
    numbers: bool
    """Whether they have room in the cells; if not, a scale of the colours stands to the right."""


def squares(panel: HeatMap, style: FigureStyle) -> SquareLayout | None:
    """Return where square cells lie; None if a map is no such map."""
    if not panel.written or not panel.rows or not panel.columns:
        return None
    small, size = style.small, style.font_size
    width = style.millimetres * POINT
    names = widest(_row_names(panel, style), small)
    left = names + _BETWEEN * small + 1.6 * size  # the title of the axis stands beside the names
    texts = [_written(value, panel.unit) for row in panel.values for value in row if value is not None]
    largest = min(_LARGEST_CELL * size, _TALLEST / len(panel.rows))
    right = _BETWEEN * size
    cell = min((width - left - right) / len(panel.columns), largest)
    numbers = cell >= widest(texts, small) + 0.3 * small
    if not numbers:
        right = _SCALE * size
        cell = min((width - left - right) / len(panel.columns), largest)
    _, shown, turned = names_along(panel.columns, cell * len(panel.columns), small)
    longest, slope = widest(shown, small), math.radians(turned)
    reach = widest(shown[:1], small) * math.cos(slope) - 0.5 * cell if turned else 0.0
    left = max(left, reach + _BETWEEN * size)
    cell = min(cell, (width - left - right) / len(panel.columns))
    below = longest * math.sin(slope) + small * math.cos(slope) + _BETWEEN * small + 2.0 * size
    wide, tall = cell * len(panel.columns), cell * len(panel.rows)
    return SquareLayout(left=left, wide=wide, tall=tall, below=below, numbers=numbers)


def draw_heat_map(
    part: Figure | SubFigure,
    axes: Axes,
    panel: HeatMap,
    style: FigureStyle,
    points: float,
    layout: SquareLayout | None = None,
) -> None:
    """Draw a map, of squares if their layout is given; with a scale of colours, unless numbers stand in the cells."""
    import matplotlib as mpl

    order = list(next(iter(panel.orders.values()), range(len(panel.rows))))
    values = np.array([[np.nan if each is None else each for each in panel.values[row]] for row in order], dtype=float)
    values = values.reshape(len(order), len(panel.columns))
    scale = mpl.colormaps["cividis" if panel.good_is_high else "cividis_r"].with_extremes(bad=style.colours.grid)
    known = np.ma.masked_invalid(values)
    image = axes.imshow(known, aspect="auto", interpolation="nearest", cmap=scale, vmin=panel.low, vmax=panel.high)
    square = layout is not None
    rows = range(len(order)) if square else spread(len(order), max(2, int(0.5 * points / (1.25 * style.small))))
    names = _row_names(panel, style)
    axes.set_yticks(list(rows), [names[order[row]] for row in rows])
    for label, row in zip(axes.get_yticklabels(), rows, strict=True):
        if order[row] in panel.flagged:
            label.set(color=style.colours.flag, fontweight="bold")
    name_below(axes, panel.columns, points if square else 0.72 * points, style.small)
    axes.set_xlabel(plain(panel.column_title))
    axes.set_ylabel(plain(panel.row_title))
    axes.tick_params(length=0.0 if square else 2.0)
    if square:
        axes.spines[:].set_visible(False)
    if layout is not None and layout.numbers:
        strong = {(order.index(row), column) for row, column in panel.strong}
        _write_values(axes, values, panel.unit, image.to_rgba(values), style, strong)
    else:
        bar = part.colorbar(
            image, **(_beside(axes, layout, style) if layout else {"ax": axes, "pad": 0.015, "aspect": 30})
        )
        bar.outline.set_visible(False)
        bar.set_label(plain(panel.value_title))
        format_axis(bar.ax.yaxis, panel.unit)


def _beside(axes: Axes, layout: SquareLayout, style: FigureStyle) -> dict[str, Any]:
    """Return where the scale of colours stands that belongs to squares."""
    gap = 0.6 * style.font_size / layout.wide
    return {"cax": axes.inset_axes((1.0 + gap, 0.0, gap, 1.0))}


def _row_names(panel: HeatMap, style: FigureStyle) -> list[str]:
    longest = most_letters(0.6 * style.millimetres * POINT, style.small)
    return [plain(name, limit=80) for name in shorten_names(panel.rows, longest)]


def _write_values(
    axes: Axes, values: Any, unit: Unit, colours: Any, style: FigureStyle, strong: set[tuple[int, int]]
) -> None:
    for (row, column), value in np.ndenumerate(values):
        if np.isfinite(value):
            ink = _ink(colours[row, column, :3])
            weight = "bold" if (row, column) in strong else "normal"
            where: Any = {"ha": "center", "va": "center_baseline", "fontsize": style.small, "fontweight": weight}
            axes.text(column, row, _written(value, unit), color=ink, **where)


def _written(value: float, unit: Unit) -> str:
    """Return a number as it stands in a cell; of a share no sign, since the title says what it is."""
    return percent(value, 0).removesuffix(" %") if unit is Unit.PERCENT else f"{value:.3g}"


def _ink(colour: Any) -> str:
    """Return black or white, whichever is read better on a colour: at least 4.5 to 1 by its luminance."""
    linear = np.where(colour <= 0.04045, colour / 12.92, ((colour + 0.055) / 1.055) ** 2.4)
    return "black" if linear @ [0.2126, 0.7152, 0.0722] > 0.179 else "white"
