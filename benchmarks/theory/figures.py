"""The figures of docs/theory/study.md: measured floors and curves under what is proved, the same bytes every time."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator, ScalarFormatter

from benchmarks.theory.cases import Vector
from benchmarks.theory.measured import Axis, Records, Series, axis, curves, speed_case

BLACK, ORANGE, SKY, GREEN, BLUE, VERMILION, PURPLE = (
    "#000000",
    "#E69F00",
    "#56B4E9",
    "#009E73",
    "#0072B2",
    "#D55E00",
    "#CC79A7",
)
"""Of the palette of Okabe and Ito, whose colours all people can tell apart."""
SETTINGS: Any = {
    "font.size": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10.5,
    "axes.titlelocation": "left",
    "axes.grid": True,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "svg.hashsalt": "steadfed",
    "svg.fonttype": "path",
}
LINES: Mapping[Series, tuple[str, dict[str, Any]]] = MappingProxyType(
    {
        "paper": ("the paper's bound", {"color": VERMILION, "linestyle": "--", "marker": "s"}),
        "sharp": ("steadfed's bound", {"color": BLUE, "linestyle": "-", "marker": "D"}),
        "worst": ("measured, worst attack", {"color": BLACK, "linestyle": "-", "marker": "o"}),
        "mean": ("measured, mean over attacks", {"color": SKY, "linestyle": "-", "marker": "o"}),
    }
)
FLOOR = "floor of ‖x$_k$ − x*‖²"
STEPS = "local steps H"


def draw(records: Records, folder: Path, kind: str = "svg", names: Iterable[str] | None = None) -> None:
    """Write all figures, or those of some names."""
    everything = list(records)
    folder.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context({**mpl.rcParamsDefault, **SETTINGS}):
        for name in FIGURES if names is None else names:
            figure = FIGURES[name](everything)
            FigureCanvasAgg(figure)
            about = {"Date": None} if kind == "svg" else {"Software": None}
            figure.savefig(folder / f"{name}.{kind}", format=kind, metadata=about, dpi=110)


def _panels(number: int, *, share: bool = True) -> tuple[Figure, list[Axes]]:
    figure = Figure(figsize=(max(5.6, 4.2 * number), 4.3), layout="constrained")
    return figure, list(figure.subplots(1, number, sharey=share, squeeze=False)[0])


def _finish(figure: Figure, panels: list[Axes], ylabel: str, *, columns: int = 4) -> Figure:
    """Put the label on the left, and one legend under all panels."""
    panels[0].set_ylabel(ylabel)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=columns if len(panels) > 1 else 2)
    return figure


def _floors(panel: Axes, found: Axis, xlabel: str, *, values: Vector | None = None) -> None:
    """Draw the bounds and what was measured along an axis."""
    x = found.values if values is None else values
    for name, (label, style) in LINES.items():
        y = found.series(name)
        seen = np.isfinite(y) & (y > 0)
        panel.plot(x[seen], y[seen], label=label, markersize=4, linewidth=1.6, clip_on=False, **style)
    panel.set_yscale("log")
    panel.set_xlabel(xlabel)


def _log_ticks(panel: Axes, values: Vector) -> None:
    """Show the values themselves on a logarithmic axis."""
    panel.set_xscale("log")
    panel.xaxis.set_major_locator(FixedLocator(list(values)))
    panel.xaxis.set_major_formatter(ScalarFormatter())
    panel.xaxis.set_minor_locator(NullLocator())


def _by_local_steps(**titles: str) -> Callable[[Records], Figure]:
    """Return how to draw floors against H, a panel for every axis of the grid; its title under its name."""

    def build(records: Records) -> Figure:
        figure, panels = _panels(len(titles))
        for panel, (name, title) in zip(panels, titles.items(), strict=True):
            found = axis(records, name.replace("_", "-"))
            _floors(panel, found, STEPS)
            _log_ticks(panel, found.values)
            panel.set_title(title)
        return _finish(figure, panels, FLOOR)

    return build


def _single(name: str, xlabel: str, *, log: bool = True) -> Callable[[Records], Figure]:
    def build(records: Records) -> Figure:
        figure, panels = _panels(1)
        found = axis(records, name)
        _floors(panels[0], found, xlabel)
        if log:
            _log_ticks(panels[0], found.values)
        else:
            panels[0].set_xlim(left=0)
        return _finish(figure, panels, FLOOR)

    return build


def _by_dissimilarity(records: Records) -> Figure:
    figure, panels = _panels(1)
    found = axis(records, "dissimilarity")
    kappas = np.array([point.case.constants.dissimilarity**0.5 for point in found.points])
    _floors(panels[0], found, "dissimilarity κ", values=kappas)
    panels[0].set_xscale("symlog", linthresh=0.09)
    panels[0].set_xticks([0.0, 0.1, 1.0, 10.0], ["0", "0.1", "1", "10"])
    panels[0].set_xlim(left=0)
    panels[0].xaxis.set_minor_locator(NullLocator())
    return _finish(figure, panels, FLOOR)


def _speed(records: Records) -> Figure:
    """Draw the same runs against steps and against rounds."""
    figure, panels = _panels(2)
    colours = (VERMILION, ORANGE, GREEN, SKY, BLUE, PURPLE)
    for (steps, by_attack), colour in zip(curves(records).items(), colours, strict=True):
        measured = by_attack["alie"]
        rounds = np.arange(len(measured))
        bound = speed_case(steps).guarantees[1].bound(rounds)
        for panel, where in zip(panels, (rounds * steps, rounds), strict=True):
            panel.plot(where, measured, color=colour, linewidth=1.6, label=f"H = {steps}")
            panel.plot(where, bound, color=colour, linewidth=1.2, linestyle="--")
    panels[0].set_title("against all local steps T")
    panels[1].set_title("against rounds T/H")
    panels[0].set_xscale("log")
    panels[0].set_xlim(1, 20_000)
    panels[1].set_xlim(0, 400)
    panels[0].set_xlabel("T")
    panels[1].set_xlabel("T/H")
    for panel in panels:
        panel.set_yscale("log")
    panels[0].plot([], [], color=BLACK, linewidth=1.2, linestyle="--", label="steadfed's bound")
    return _finish(figure, panels, "‖x$_k$ − x*‖²", columns=7)


FIGURES: Mapping[str, Callable[[Records], Figure]] = MappingProxyType(
    {
        "floor-local-steps": _by_local_steps(
            local_steps="clients differ, mini-batches",
            local_steps_full="clients differ, full batches",
            local_steps_alike="clients alike, mini-batches",
        ),
        "floor-local-steps-otherwise": _by_local_steps(
            local_steps_logistic="logistic regression, η = 1/(8HL)",
            local_steps_fixed="quadratic, η = 1/(8L) for every H",
        ),
        "floor-distrust": _single("distrust", "distrusted share ε̃ = f/K of a cohort", log=False),
        "floor-batch": _single("batch", "batch size b, of 32 points"),
        "floor-cohort": _single("cohort", "cohort size K"),
        "floor-dissimilarity": _by_dissimilarity,
        "speed": _speed,
    }
)
