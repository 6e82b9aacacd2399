"""A report as pictures for a paper: one PNG or SVG for every plot, the same bytes for the same report."""

from __future__ import annotations

import io
import textwrap
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from steadfed._core.durable import replace_file
from steadfed._core.wording import harmless, percent
from steadfed.errors import ParameterError
from steadfed.reports._render.axis_names import are_numbers, shorten_names
from steadfed.reports._render.plotly import has_lone_point, with_gaps
from steadfed.reports.panels import Bars, HeatMap, Lines, Panel, Report, Series, Style, Text, Unit

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Kind = Literal["png", "svg"]
KINDS: tuple[Kind, ...] = ("png", "svg")
PALETTE = (
    "#0072B2", "#D55E00", "#009E73", "#B8578F", "#D99500", "#3FA3DC", "#6A51A3", "#39424E", "#8C6D31", "#8A94A0",
)  # fmt: skip
"""Colours of Okabe and Ito and some more, in the order of the page's."""
BAD, MIDDLE, FINE = "#D2571A", "#F1EAD9", "#1F6FAE"
"""The scale of heat maps."""
_MARKED = "#C8440B"
_QUIET = "#586474"
_SETTINGS: Any = {
    "font.size": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "svg.hashsalt": "steadfed",
    "svg.fonttype": "path",
}
_DASHES = {Style.LINE: "-", Style.DASHED: "--", Style.DOTTED: ":", Style.POINTS: ""}
_WIDTH, _HEIGHT, _TALLEST = 7.2, 4.0, 9.0
"""Inches."""
_MOST_TICKS, _MOST_SLANTED, _MOST_TURNED = 32, 16, 60
"""Names along an axis: upright, slanted, and turned by a quarter."""
_LINE = 70
"""Letters that stand side by side below an axis."""
_NOTE = 70
"""Letters in a line of a note in a picture."""
_DPI = 200


def write_pictures(report: Report, folder: Path, *, kind: Kind = "png") -> list[Path]:
    """Write a file for every plot of a report, named after its key, and return them; the folder is made if need be.

    Raises:
        ParameterError: pictures are of another kind, or cannot be written.
        ImportError: matplotlib is not installed.
    """
    if kind not in KINDS:
        raise ParameterError(f"pictures are written as {' or '.join(KINDS)}, got {kind!r}")
    panels = [panel for section in report.sections for panel in section.panels]
    drawn = {f"{panel.key}.{kind}": picture for panel in panels if (picture := picture_of(panel, kind)) is not None}
    return write_files(folder, drawn)


def write_files(folder: Path, contents: dict[str, bytes]) -> list[Path]:
    """Write files by name into a folder, which is made if need be.

    Raises:
        ParameterError: they cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in contents.items():
            replace_file(folder / name, content)
    except OSError as error:
        raise ParameterError(
            f"cannot write to {str(folder)!r}: {error.strerror}; choose a folder that can be written"
        ) from None
    return [folder / name for name in contents]


def picture_of(panel: Panel, kind: Kind = "png") -> bytes | None:
    """Return a panel as a picture; None if it is text or a table.

    Raises:
        ImportError: matplotlib is not installed.
    """
    return _picture([panel], kind) if isinstance(panel, (Lines, HeatMap, Bars)) else None


def write_picture(panels: Sequence[Lines | Text], path: Path) -> None:
    """Write curves, and words where there are none, side by side as one picture, .svg or .png.

    Raises:
        ParameterError: the file is neither, or cannot be written.
        ImportError: matplotlib is not installed.
    """
    content = _picture(panels, check_kind(path), notes=True)
    try:
        replace_file(path, content)
    except OSError as error:
        raise ParameterError(f"cannot write the plot {str(path)!r}: {error.strerror}") from None


def figure_of(panels: Sequence[Panel]) -> Figure:
    """Return panels side by side, to be shown or changed.

    Raises:
        ImportError: matplotlib is not installed.
    """
    import matplotlib as mpl

    with mpl.rc_context({**mpl.rcParamsDefault, **_SETTINGS}):
        figure, places = _figure(panels)
        for axes, panel in zip(places, panels, strict=True):
            _draw(panel, figure, axes)
            axes.set_title(_plain(panel.title, limit=100))
    return figure


def check_kind(path: Path) -> Kind:
    """Return what a plot is written as, by the name of its file.

    Raises:
        ParameterError: it is none that a plot can be written as.
    """
    for kind in KINDS:
        if path.suffix.lower() == f".{kind}":
            return kind
    raise ParameterError(f"a plot is written as .{' or .'.join(reversed(KINDS))}, got {str(path)!r}")


def _picture(panels: Sequence[Panel], kind: Kind, *, notes: bool = False) -> bytes:
    """Return panels side by side; with notes, what there is to say of each stands in it."""
    import matplotlib as mpl

    with mpl.rc_context({**mpl.rcParamsDefault, **_SETTINGS}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # names may be in any script
        figure, places = _figure(panels)
        for axes, panel in zip(places, panels, strict=True):
            _draw(panel, figure, axes)
            axes.set_title(_plain(panel.title, limit=100))
            if notes:
                _write_note(axes, " ".join(panel.paragraphs) if isinstance(panel, Text) else panel.caption)
        about = {"Date": None} if kind == "svg" else {"Software": None}
        buffer = io.BytesIO()
        figure.savefig(buffer, format=kind, metadata=about, dpi=_DPI)
    return buffer.getvalue()


def _figure(panels: Sequence[Panel]) -> tuple[Figure, list[Axes]]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows = max(len(panel.rows) if isinstance(panel, HeatMap) else 0 for panel in panels)
    size = (_WIDTH * len(panels), min(_TALLEST, max(_HEIGHT, 1.4 + 0.16 * rows)))
    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    return figure, list(figure.subplots(1, len(panels), squeeze=False)[0])


def _draw(panel: Panel, figure: Figure, axes: Axes) -> None:
    if isinstance(panel, Lines):
        _draw_lines(axes, panel)
    elif isinstance(panel, HeatMap):
        _draw_heat_map(figure, axes, panel)
    elif isinstance(panel, Bars):
        _draw_bars(axes, panel)
    else:
        axes.set_axis_off()


def _write_note(axes: Axes, note: str) -> None:
    """Write a note into the lower left corner."""
    lines = textwrap.wrap(_plain(note, limit=2_000), _NOTE)
    where: Any = {"transform": axes.transAxes, "fontsize": 8, "color": _QUIET, "va": "bottom"}
    axes.text(0.02, 0.02, "\n".join(lines), **where).set_in_layout(False)


def _draw_lines(axes: Axes, panel: Lines) -> None:
    for series in panel.series:
        _draw_series(axes, series, log_y=panel.log_y)
    for mark in panel.marks:
        axes.axvline(mark.at, color=_MARKED, linewidth=1.0, linestyle=(0, (2, 2)), zorder=1)
        axes.annotate(
            _plain(mark.text, limit=40), (mark.at, 1.0), xycoords=("data", "axes fraction"), xytext=(3, -2),
            textcoords="offset points", va="top", fontsize=8, color=_MARKED,
        )  # fmt: skip
    axes.set_xlabel(panel.x_title)
    axes.set_ylabel(_plain(panel.y_title, limit=60))
    if panel.log_y and any(value is not None and value > 0.0 for each in panel.series for value in each.y):
        axes.set_yscale("log")
    _format(axes.yaxis, Unit.NUMBER if panel.log_y else panel.unit)
    _format(axes.xaxis, panel.x_unit)
    axes.grid(visible=True, which="major", color="#E0E5EB", linewidth=0.6)
    axes.set_axisbelow(True)
    if panel.places:
        _name_below(axes, panel.places)
        axes.set_xlim(-0.5, len(panel.places) - 0.5)
    if len(panel.series) > 1 and panel.places:
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    elif len(panel.series) > 1:
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2, columnspacing=1.2)


def _draw_series(axes: Axes, series: Series, *, log_y: bool) -> None:
    drawn = with_gaps(series.y, log_y=log_y)
    values = np.array([np.nan if value is None else value for value in drawn], dtype=np.float64)
    alone = series.style is Style.POINTS or has_lone_point(drawn)
    colour = PALETTE[series.colour % len(PALETTE)]
    for x, band in zip(series.x, series.bands, strict=False):
        if band is not None:
            axes.vlines(x, *band, color=colour, linewidth=1.2)
    axes.plot(
        series.x,
        values,
        color=colour,
        linestyle=_DASHES[series.style],
        linewidth=1.5,
        marker="o" if alone else "",
        markersize=7.0 if series.strong else 3.5,
        label=_plain(series.name, limit=60),
    )


def _draw_heat_map(figure: Figure, axes: Axes, panel: HeatMap) -> None:
    from matplotlib.colors import LinearSegmentedColormap

    order = list(next(iter(panel.orders.values()), range(len(panel.rows))))
    values = np.array([[np.nan if each is None else each for each in panel.values[row]] for row in order], dtype=float)
    ends = (BAD, MIDDLE, FINE) if panel.good_is_high else (FINE, MIDDLE, BAD)
    scale = LinearSegmentedColormap.from_list("steadfed", ends).with_extremes(bad="#FFFFFF")
    image = axes.imshow(
        np.ma.masked_invalid(values.reshape(len(order), len(panel.columns))),
        aspect="auto", interpolation="nearest", cmap=scale, vmin=panel.low, vmax=panel.high,
    )  # fmt: skip
    bar = figure.colorbar(image, ax=axes, pad=0.015, aspect=30)
    bar.set_label(panel.value_title)
    _format(bar.ax.yaxis, panel.unit)
    rows, names = _some(len(order)), shorten_names(panel.rows)
    axes.set_yticks(rows, [_plain(names[order[row]]) for row in rows], fontsize=7)
    for label, row in zip(axes.get_yticklabels(), rows, strict=True):
        if order[row] in panel.flagged:
            label.set(color=_MARKED, fontweight="bold")
    _name_below(axes, panel.columns)
    axes.set_xlabel(panel.column_title)
    axes.set_ylabel(panel.row_title)
    if panel.written:
        _write_values(axes, values, panel.unit, image.to_rgba(values))


def _write_values(axes: Axes, values: Any, unit: Unit, colours: Any) -> None:
    for (row, column), value in np.ndenumerate(values):
        if np.isfinite(value):
            text = percent(value, 0) if unit is Unit.PERCENT else f"{value:.3g}"
            axes.text(column, row, text, ha="center", va="center", fontsize=7, color=_ink(colours[row, column, :3]))


def _ink(colour: Any) -> str:
    """Return black or white, whichever is read better on a colour: at least 4.5 to 1 by its luminance."""
    linear = np.where(colour <= 0.04045, colour / 12.92, ((colour + 0.055) / 1.055) ** 2.4)
    return "black" if linear @ [0.2126, 0.7152, 0.0722] > 0.179 else "white"


def _draw_bars(axes: Axes, panel: Bars) -> None:
    places = np.arange(len(panel.categories))
    below = np.zeros(len(panel.categories))
    for part, (name, values) in enumerate(panel.parts.items()):
        colour, hatch = PALETTE[part % len(PALETTE)], "//" if part >= len(PALETTE) else None
        axes.bar(places, values, bottom=below, width=0.85, color=colour, hatch=hatch, label=_plain(name, limit=30))
        below += np.asarray(values, dtype=np.float64)
    ticks = _name_below(axes, panel.categories)
    for label, tick in zip(axes.get_xticklabels(), ticks, strict=True):
        if tick in panel.flagged:
            label.set(color=_MARKED, fontweight="bold")
    axes.set_xlabel(panel.x_title)
    axes.set_ylabel(panel.y_title)
    _format(axes.yaxis, panel.unit)
    if len(panel.parts) > 1:
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))


def _name_below(axes: Axes, names: Sequence[str]) -> list[int]:
    """Write names below an axis so that none covers another, and return the places of those that are there.

    Of numbers, such as rounds, some are left out until the others fit side by side; words that do not fit are turned.
    """
    short = shorten_names(names)
    longest = max(map(len, short), default=0) + 2
    upright = longest * len(short) <= _LINE
    most = max(2, _LINE // longest) if upright or are_numbers(names) else _MOST_TURNED
    places = _some(len(short), most=most)
    axes.set_xticks(
        places, [_plain(short[place]) for place in places], **({} if most < _MOST_TURNED else _rotation(places))
    )
    return places


def _rotation(places: Sequence[int]) -> dict[str, Any]:
    """Return how names are written that do not fit side by side: slanted if there are few."""
    if len(places) <= _MOST_SLANTED:
        return {"rotation": 35, "ha": "right", "rotation_mode": "anchor", "fontsize": 8.5}
    return {"rotation": 90, "fontsize": 8 if len(places) <= _MOST_TICKS else 6}


def _plain(text: str, *, limit: int = 40) -> str:
    r"""Return text that matplotlib shows as it is: dollar signs begin no formula."""
    return harmless(text, limit=limit).replace("$", r"\$")


def _some(number: int, most: int = _MOST_TICKS) -> list[int]:
    """Return at most so many places of an axis, evenly spread from the first."""
    return list(range(0, number, max(1, -(-number // most))))


def _format(axis: Any, unit: Unit) -> None:
    from matplotlib.ticker import EngFormatter, PercentFormatter

    if unit is Unit.PERCENT:
        axis.set_major_formatter(PercentFormatter(xmax=1.0))
    elif unit is Unit.BYTES:
        axis.set_major_formatter(EngFormatter(unit="B"))
