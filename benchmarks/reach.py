"""What a larger reach gains and loses: the picture of benchmarks/README.md, drawn from the results of the grid.

Run it with ``python -m benchmarks.reach``; ``make bench-compare`` does, after playing benchmarks/reach.toml (needs
$STEADFED_DATA). It writes docs/images/reach.png; ``--show`` prints the figures of every choice instead.

A choice is (ρ, rejection, κ) as the cells were configured; labels of the grid are not read. Accuracies are those of the
results, means of the last five looks at the test set; of them the mean over the seeds.
"""

import argparse
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

from benchmarks.theory.figures import BLACK, BLUE, GREEN, ORANGE, PURPLE, SETTINGS, VERMILION
from steadfed.aggregators._rage.constants import KAPPA, REJECTION, RHO
from steadfed.sweeps.runs import Result, read_results

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "reach" / "results.parquet"
PICTURE = ROOT / "docs" / "images" / "reach.png"
GREY = "#777777"
A, B5, M1 = "A: one class", "B5: adaptive", "M1: MNIST"
NONE = "none"


class Choice(NamedTuple):
    """What may be chosen of mode "auto"."""

    rho: float
    rejection: float
    kappa: float


class Case(NamedTuple):
    """A setting and an attack."""

    setting: str
    attack: str


@dataclass(frozen=True)
class Accuracy:
    """Of the seeds of a case, in per cent."""

    mean: float
    lowest: float
    highest: float


Figures = Mapping[Case, Mapping[Choice, Accuracy]]
DEFAULT = Choice(RHO, REJECTION, KAPPA["auto"])
TUNED = (A, B5, M1)
"""The settings of the grid that the default was tuned on; the others judge."""
CASES: Mapping[Case, tuple[str, str, str]] = MappingProxyType(
    {
        Case(A, NONE): ("A, without attack", BLACK, "o"),
        Case(A, "alie-1.5"): ("A, ALIE 1.5", VERMILION, "s"),
        Case(B5, "optimal-cluster-mean"): ("B5, adaptive", BLUE, "D"),
        Case(M1, "sign-flip"): ("M1, sign-flip", ORANGE, "^"),
        Case(M1, "alie-1.5"): ("M1, ALIE 1.5", GREEN, "v"),
    }
)
"""The lines of the picture: label, colour, marker."""
BESIDE: Mapping[tuple[float, float], tuple[float, float]] = MappingProxyType(
    {
        (0.0, 1.0): (11.0, -4.0),
        (0.5, 1.0): (0.0, 7.0),
        (0.75, 1.0): (-8.0, -14.0),
        (1.0, 1.0): (0.0, 7.0),
        (1.25, 1.0): (17.0, 1.0),
        (1.5, 1.0): (-14.0, -4.0),
        (1.75, 1.0): (-16.0, -4.0),
        (0.5, REJECTION): (0.0, 7.0),
        (0.75, REJECTION): (-3.0, -15.0),
        (1.0, REJECTION): (12.0, -10.0),
    }
)
"""Where in the last panel the names of points (ρ, rejection) are, in points from them: no line crosses them."""


def choice_of(result: Result) -> Choice | None:
    """Return what the rule of a cell was told; None for the oracle."""
    rule: dict[str, Any] = tomllib.loads(result.config)["rule"]
    if rule["name"] != "rage":
        return None
    return Choice(rule.get("rho", RHO), rule.get("rejection", REJECTION), rule.get("kappa", KAPPA["auto"]))


def figures_of(results: Iterable[Result]) -> Figures:
    """Return the accuracies of every choice in every case."""
    seeds: dict[Case, dict[Choice, list[float]]] = defaultdict(lambda: defaultdict(list))
    for result in results:
        choice = choice_of(result)
        if choice is not None and result.figures is not None and result.figures.accuracy is not None:
            case = Case(str(result.settings["setting"]), str(result.settings["attack"]))
            seeds[case][choice].append(100.0 * result.figures.accuracy)
    return {
        case: {choice: Accuracy(float(np.mean(found)), min(found), max(found)) for choice, found in by_choice.items()}
        for case, by_choice in seeds.items()
    }


def along(axis: Literal["rho", "rejection"], choices: Iterable[Choice], fixed: float) -> list[Choice]:
    """Return the choices that differ in ρ with a rejection, or in the rejection with a ρ, from small to large."""
    other = "rejection" if axis == "rho" else "rho"
    return sorted(each for each in choices if each.kappa == DEFAULT.kappa and getattr(each, other) == fixed)


def worst_of(figures: Figures, choice: Choice, settings: Sequence[str]) -> float:
    """Return the lowest accuracy of a choice under an attack in some settings."""
    attacked = [case for case in figures if case.setting in settings and case.attack != NONE]
    return min(figures[case][choice].mean for case in attacked)


def draw(figures: Figures, path: Path) -> None:
    """Write the picture."""
    with mpl.rc_context({**mpl.rcParamsDefault, **SETTINGS}):
        figure = Figure(figsize=(13.0, 4.9), layout="constrained")
        left, middle, right = figure.subplots(1, 3, width_ratios=(1.15, 0.95, 1.0))
        _over(left, figures, "rho", {1.0: "--", REJECTION: "-"})
        _over(middle, figures, "rejection", {RHO: "-"})
        _trade(right, figures)
        left.set_title("ρ: dashed, pure threshold; solid, cut")
        left.set_xlabel("ρ")
        left.set_ylabel("accuracy, %")
        middle.set_title("rejection, with ρ = 1")
        middle.set_xlabel("rejection (1: nothing is cut)")
        middle.sharey(left)
        handles, labels = left.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
        FigureCanvasAgg(figure)
        figure.savefig(path, metadata={"Software": None}, dpi=110)


def _over(panel: Axes, figures: Figures, axis: Literal["rho", "rejection"], styles: Mapping[float, str]) -> None:
    """Draw a line for every case, over the choices with each of some values of what is not the axis."""
    for case, (label, colour, marker) in CASES.items():
        for fixed, line in styles.items():
            choices = along(axis, figures[case], fixed)
            found = [figures[case][choice] for choice in choices]
            panel.plot(
                [getattr(choice, axis) for choice in choices],
                [accuracy.mean for accuracy in found],
                color=colour,
                linestyle=line,
                marker=marker,
                markersize=4.5,
                linewidth=1.6,
                markerfacecolor="white" if line == "--" else colour,
                label=label if line == "-" else None,
            )
    panel.axvline(getattr(DEFAULT, axis), color=GREY, linewidth=6.0, alpha=0.3, zorder=0, label="the default")


def _trade(panel: Axes, figures: Figures) -> None:
    """Draw what a choice reaches without attack against its worst attacked case."""
    peaceful = figures[Case(A, NONE)]
    for rejection, line, colour, marker, label in (
        (1.0, "--", GREY, "s", "pure threshold"),
        (REJECTION, "-", BLACK, "o", f"cut, rejection = {REJECTION:g}"),
    ):
        choices = along("rho", peaceful, rejection)
        xs = [peaceful[choice].mean for choice in choices]
        ys = [worst_of(figures, choice, TUNED) for choice in choices]
        panel.plot(xs, ys, color=colour, linestyle=line, marker=marker, markersize=5, linewidth=1.6, label=label)
        for choice, *point in zip(choices, xs, ys, strict=True):
            offset = BESIDE.get(choice[:2], (16.0, -4.0))
            name = f"{choice.rho:g}"
            panel.annotate(
                name, (point[0], point[1]), offset, textcoords="offset points", ha="center", color=colour, fontsize=9
            )
    panel.plot(
        peaceful[DEFAULT].mean,
        worst_of(figures, DEFAULT, TUNED),
        linestyle="",
        marker="*",
        markersize=15,
        color=PURPLE,
        zorder=5,
        label="the default",
    )
    panel.set_title("the trade; numbers are ρ")
    panel.set_xlabel("accuracy in A without attack, %")
    panel.set_ylabel("worst attacked case of A, B5 and M1, %")
    panel.margins(x=0.1)
    panel.set_ylim(bottom=0)
    panel.legend(loc="lower left")


def table_of(figures: Figures) -> Table:
    """Return the accuracies of every choice, the lowest and highest seed after the mean."""
    names = [f"{case.setting.partition(':')[0]} {case.attack}" for case in figures]
    table = Table("ρ", "rejection", "κ", *names)
    for choice in sorted({choice for by_choice in figures.values() for choice in by_choice}):
        cells = [by_choice.get(choice) for by_choice in figures.values()]
        table.add_row(*(f"{value:g}" for value in choice), *(_text(cell) for cell in cells))
    return table


def _text(cell: Accuracy | None) -> str:
    return "–" if cell is None else f"{cell.mean:.1f} ({cell.lowest:.0f}..{cell.highest:.0f})"


def main() -> None:
    """Draw, or print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--show", action="store_true", help="print the figures; draw nothing")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--picture", type=Path, default=PICTURE)
    options = parser.parse_args()
    figures = figures_of(read_results(options.results))
    if options.show:
        Console(width=260).print(table_of(figures))
    else:
        draw(figures, options.picture)


if __name__ == "__main__":
    main()
