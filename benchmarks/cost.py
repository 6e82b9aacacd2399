"""What rules cost where nobody attacks, against the mean: the second figure of the README.

Run it with ``python -m benchmarks.cost``; it reads results that are kept, measures nothing, and writes
docs/images/cost.png. Accuracy is that of the grid ``resilience`` without attack, setting by setting; time is that of
``python -m benchmarks.passes``.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from benchmarks.resilience import RESULTS, ROOT, STYLES, by_setting
from benchmarks.theory.figures import BLACK, SETTINGS, VERMILION
from steadfed.sweeps.runs import read_results
from steadfed.sweeps.runs._ranking import Standing

TIMES = ROOT / "benchmarks" / "results" / "passes-2026-11-18-220736.json"
PICTURE = ROOT / "docs" / "images" / "cost.png"
SHAPE = [100, 1_000_000]
NAMES: Mapping[str, str] = {
    "steadfed Mean": "mean",
    "steadfed Krum fast": "krum, sketched",
    "Rage certified": "rage (default)",
    "Rage exact products": "rage, no sketch",
    "torch median(0)": "torch: median",
    "byzfl Krum": "byzfl: Krum",
    "byzfl CAF": "byzfl: CAF",
}
"""What is timed, and what it is called here."""


def accuracy_lost(settings: Mapping[str, Mapping[str, Standing]]) -> dict[str, list[float]]:
    """Return the points that every rule lies below the mean without attack, a number for every setting.

    Settings that differ in their attacks alone are one.
    """
    found: dict[str, list[float]] = {}
    seen: set[tuple[float | None, ...]] = set()
    for standing in settings.values():
        figures = tuple(_peace(standing.get(rule)) for rule in STYLES)
        if figures in seen:
            continue
        seen.add(figures)
        mean = _peace(standing.get("mean"))
        for rule in STYLES:
            own = _peace(standing.get(rule))
            if rule not in {"oracle", "mean"} and None not in {mean, own}:
                found.setdefault(rule, []).append(100 * (float(mean or 0.0) - float(own or 0.0)))
    return found


def times(record: Mapping[str, Any]) -> dict[str, list[float]]:
    """Return CPU times on one thread as multiples of the mean's in the same round, a number for every round."""
    (shape,) = (each for each in record["shapes"] if each["shape"] == SHAPE and each["threads"] == 1)
    rounds = shape["rounds"]["CPU"]
    return {shown: [one[name] / one["torch mean(0)"] for one in rounds if name in one] for name, shown in NAMES.items()}


def draw(lost: Mapping[str, list[float]], taken: Mapping[str, list[float]], machine: Mapping[str, Any]) -> Figure:
    """Return the figure: accuracy on the left, time on the right."""
    figure = Figure(figsize=(10.4, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    for place, (rule, points) in enumerate(lost.items()):
        colour, marker = STYLES[rule]
        left.plot(points, [place] * len(points), color=colour, marker=marker, linestyle="", alpha=0.55, markersize=6)
        left.plot(median(points), place, color=BLACK, marker="|", markersize=17, markeredgewidth=2)
    left.set_title(f"Accuracy below the mean's where nobody attacks\n{len(lost['rage'])} settings; bar: their median")
    _rows(left, list(lost), "percentage points")
    for place, (name, rounds) in enumerate(taken.items()):
        colour = VERMILION if name.startswith("rage") else "#555555"
        right.plot([min(rounds), max(rounds)], [place, place], color=colour, linewidth=2.5, alpha=0.6)
        right.plot(median(rounds), place, color=colour, marker="D" if name.startswith("rage") else "o", markersize=6)
        right.annotate(
            f"{median(rounds):.1f}×" if median(rounds) < 10 else f"{median(rounds):.0f}×",
            (max(rounds), place),
            xytext=(6, -3),
            textcoords="offset points",
        )
    right.set_xscale("log")
    right.set_xticks([1, 3, 10, 30, 100], ["1", "3", "10", "30", "100"])
    right.minorticks_off()
    right.set_xlim(0.6, 300)
    date, cpu = str(machine["date"])[:10], f"{machine['cpu']}, {machine['instructions']}"
    right.set_title(f"Time of 100 updates × 10⁶ parameters\n{cpu}, one thread, {date}")
    _rows(right, list(taken), "CPU time, torch's mean(0) = 1")
    return figure


def _rows(panel: Axes, names: list[str], label: str) -> None:
    panel.set_yticks(range(len(names)), names)
    panel.invert_yaxis()
    panel.set_xlabel(label)
    panel.grid(visible=False, axis="y")


def _peace(standing: Standing | None) -> float | None:
    case = None if standing is None else standing.without_attack
    return None if case is None or case.value is None else case.value.mean


def main(path: Path = PICTURE) -> None:
    record = json.loads(TIMES.read_text(encoding="utf-8"))
    lost, taken = accuracy_lost(by_setting(read_results(RESULTS))), times(record)
    for name, points in lost.items():
        print(f"{name}: median {median(points):.1f}, {min(points):.1f} to {max(points):.1f} points in {len(points)}")
    for name, rounds in taken.items():
        print(f"{name}: {median(rounds):.2f} ({min(rounds):.2f}..{max(rounds):.2f})")
    with mpl.rc_context({**mpl.rcParamsDefault, **SETTINGS}):
        figure = draw(lost, taken, record["machine"])
        FigureCanvasAgg(figure)
        figure.savefig(path, metadata={"Software": None}, dpi=130)


if __name__ == "__main__":
    main()
