"""A certification as a picture: the run's curve under the theorem's curve, the filter's error under its certificate."""

from __future__ import annotations

import math
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from holdfast.certification.certify import Certification
from holdfast.certification.rounds import RoundFacts
from holdfast.errors import ParameterError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLACK, ORANGE, SKY, GREEN, BLUE, VERMILION = "#000000", "#E69F00", "#56B4E9", "#009E73", "#0072B2", "#D55E00"
"""Of the palette of Okabe and Ito, whose colours all people can tell apart."""
KINDS = (".svg", ".png")
"""What a plot may be written as."""
_SETTINGS: Any = {
    "font.size": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10.5,
    "axes.titlelocation": "left",
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "svg.hashsalt": "holdfast",
    "svg.fonttype": "path",
}
_CURVE_POINTS = 400
_DEEPEST = 1e-3
"""The error of a round without Byzantine rows is rounding; it does not set the scale."""
_WORDS = 62
"""How many letters a line of the note under the plot has at most."""


def draw(certification: Certification, path: Path) -> None:
    """Write the plot of a certification; the same certification gives the same bytes.

    Raises:
        ParameterError: the file is neither SVG nor PNG, or cannot be written.
        ImportError: matplotlib is not installed.
    """
    check_kind(path)
    import matplotlib as mpl

    with mpl.rc_context({**mpl.rcParamsDefault, **_SETTINGS}):
        figure = _figure(certification)
        kind = path.suffix.lower()[1:]
        about = {"Date": None} if kind == "svg" else {"Software": None}
        try:
            figure.savefig(path, format=kind, metadata=about, dpi=160)
        except OSError as error:
            raise ParameterError(f"cannot write the plot {str(path)!r}: {error.strerror}") from None


def check_kind(path: Path) -> None:
    """Raise `ParameterError` if a plot cannot be written as such a file."""
    if path.suffix.lower() not in KINDS:
        raise ParameterError(f"a plot is written as {' or '.join(KINDS)}, got {str(path)!r}")


def _figure(certification: Certification) -> Figure:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.5, 4.9), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    figure.suptitle(certification.path.resolve().name, x=0.01, ha="left", fontsize=12, fontweight="bold")
    _draw_curve(left, certification)
    _draw_filter(right, certification)
    return figure


def _draw_curve(axes: Axes, certification: Certification) -> None:
    """Draw what the theorems bound: measured, the bounds, and their floors dotted."""
    numbers, values = certification.curve
    convex = certification.is_convex
    name = "‖x$_k$ − x*‖²" if convex else "mean of ‖∇F(x$_k$)‖² so far"
    proved = "what is proved" if certification.everywhere else "bounds from local constants"
    axes.set_title(f"{name} against {proved}" if certification.applicable else name)
    axes.set_xlabel("rounds")
    if len(numbers):
        axes.plot(numbers, values, color=BLACK, marker="o", markersize=3, linewidth=1.2, label="measured", zorder=5)
    for guarantee, colour, style in zip(
        certification.guarantees, (VERMILION, BLUE, GREEN), ("--", "-", "-."), strict=False
    ):
        if guarantee in certification.applicable:
            where = np.linspace(0 if convex else 1, max(certification.played, 1), _CURVE_POINTS)
            label = f"{guarantee.source}: {_short(guarantee.reading)}"
            axes.plot(where, guarantee.bound(where), color=colour, linestyle=style, linewidth=1.8, label=label)
            axes.axhline(guarantee.floor, color=colour, linestyle=":", linewidth=1.0)
    if certification.applicable:
        axes.plot([], [], color=BLACK, linestyle=":", linewidth=1.0, label="floor of a bound")
    _finish(axes, _why_empty(certification, len(numbers)))


def _draw_filter(axes: Axes, certification: Certification) -> None:
    """Draw the filter's true error, its certificate, and the certificate at the true spread."""
    axes.set_title("‖ĝ − mean of the honest rows‖ against its certificate")
    axes.set_xlabel("round")
    facts = certification.facts
    _line(
        axes,
        facts,
        "certificate",
        color=SKY,
        marker=".",
        markersize=3,
        linewidth=1.2,
        label="certificate, σ₀ as the rule found it",
    )
    _line(
        axes,
        facts,
        "honest_bound",
        color=ORANGE,
        marker="s",
        markersize=3.5,
        linewidth=0.0,
        label="certificate at the true σ₀",
    )
    _line(axes, facts, "error", color=BLACK, linewidth=1.0, label="true error")
    broken = [each for each in facts if not each.promise_kept and each.error]
    if broken:
        axes.plot(
            [each.round for each in broken],
            [each.error or math.nan for each in broken],
            color=VERMILION,
            marker="x",
            linewidth=0.0,
            label="too many Byzantine rows",
        )
    _finish(axes, "" if facts else "No round was played.", deepest=_DEEPEST)


def _line(axes: Axes, facts: tuple[RoundFacts, ...], name: str, **style: Any) -> None:
    """Draw one number of every round, with gaps where there is none that a logarithmic axis can show."""
    values = [getattr(each, name) or math.nan for each in facts]
    if any(map(math.isfinite, values)):
        axes.plot([each.round for each in facts], values, **style)


def _finish(axes: Axes, note: str = "", *, deepest: float = 0.0) -> None:
    """Set the scale, the grid and the legend, and say why something is not there.

    `deepest` is the smallest value shown, as a part of the largest.
    """
    values = [float(value) for line in axes.get_lines() for value in np.asarray(line.get_ydata(), dtype=np.float64)]
    positive = [value for value in values if value > 0.0 and math.isfinite(value)]
    if positive:
        axes.set_yscale("log")
        low, high = max(min(positive) / 2.0, max(positive) * deepest), max(positive) * 3.0
        axes.set_ylim(low / math.sqrt(high / low) if note else low, high)  # a note needs room below the curve
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2, columnspacing=1.2)
    axes.grid(visible=True, which="major", color="#DDDDDD", linewidth=0.6)
    axes.set_axisbelow(True)
    if note:
        where: Any = {"transform": axes.transAxes, "fontsize": 8.5, "color": "#444444", "va": "bottom"}
        axes.text(0.02, 0.02, "\n".join(textwrap.wrap(note, _WORDS)), **where).set_in_layout(False)


def _why_empty(certification: Certification, measured: int) -> str:
    """Say what is missing in the picture: no theorem speaks of the run, or nothing was measured."""
    if not measured:
        return "The run kept no models, so nothing can be compared."
    if certification.applicable:
        return ""
    reasons = [each.because for each in certification.verdicts if each.subject == "guarantee"]
    return f"No bound is drawn, because no theorem applies: {reasons[-1] if reasons else ''}"


def _short(reading: str) -> str:
    """Return how sure a guarantee is, in few words."""
    return reading.replace("in every round at once, with", "with").replace(" over the batches", "")
