"""The figures and the tables of docs/theory/study.md; its sentences are written by hand."""

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import numpy as np

from benchmarks.theory.cases import Vector
from benchmarks.theory.figures import draw
from benchmarks.theory.grid import AXES
from benchmarks.theory.measured import Axis, Records, Series, axis, curves, speed_case

DOCUMENT = Path(__file__).parents[2] / "docs" / "theory" / "study.md"
NAMES: Mapping[str, str] = MappingProxyType(
    {"distrust": "ε̃", "batch": "b", "cohort": "K", "dissimilarity": "κ"}
    | {name: "H" for name in AXES if name.startswith("local-steps")}
)
"""What an axis is called in a table."""
UNSLOPED = ("distrust", "dissimilarity")
"""Axes along which floors are no powers, and a slope would mislead."""
SLOPES: Mapping[Series, str] = MappingProxyType(
    {"paper": "the paper's bound", "sharp": "steadfed's bound", "worst": "measured under the worst attack"}
)


def write(records: Records, machines: Sequence[str]) -> None:
    """Draw all figures, and put the tables between the marks that bear their names."""
    everything = list(records)
    draw(everything, DOCUMENT.parent / "figures")
    text = DOCUMENT.read_text(encoding="utf-8")
    for name in AXES:
        text = _put(text, name, floors_table(name, axis(everything, name)))
    text = _put(text, "speed", speed_table(everything))
    text = _put(text, "machine", "\n".join(f"* {machine}" for machine in machines))
    DOCUMENT.write_text(text, encoding="utf-8")


def _put(text: str, name: str, table: str) -> str:
    begin, end = f"<!-- {name} -->", "<!-- end -->"
    pattern = re.compile(re.escape(begin) + r".*?" + re.escape(end), re.DOTALL)
    return pattern.sub(lambda _: f"{begin}\n{table}\n{end}", text)


def floors_table(name: str, found: Axis) -> str:
    """Return the floors along an axis, and the slopes of their logarithms."""
    values, label = _places(name, found), NAMES[name]
    bounds, runs = ("the paper's bound", "steadfed's bound"), ("worst attack", "which", "mean over attacks")
    columns = (label, *bounds, *runs, "worst / steadfed's")
    lines = _head(columns)
    for value, point in zip(values, found.points, strict=True):
        stated = f"{point.paper:.3g}" if math.isfinite(point.paper) else "none"
        lines.append(
            f"| {value:.3g} | {stated} | {point.sharp:.3g} | {point.worst:.3g} | {point.worst_attack} | "
            f"{point.mean:.3g} | {point.worst / point.sharp:.2g} |"
        )
    if name in UNSLOPED:
        return "\n".join(lines)
    slopes = ", ".join(
        f"{words} {round(found.exponent(series, values=values), 2) + 0.0:+.2f}"  # no −0.00, which is the last bit's
        for series, words in SLOPES.items()
        if np.isfinite(found.exponent(series, values=values))
    )
    return "\n".join([*lines, "", f"Slope of the logarithm of the floor against that of {label}: {slopes}."])


def _head(columns: Sequence[str]) -> list[str]:
    return [f"| {' | '.join(columns)} |", "|" + "---|" * len(columns)]


def _places(name: str, found: Axis) -> Vector:
    if name != "dissimilarity":
        return found.values
    kappas = np.array([math.sqrt(point.case.constants.dissimilarity) for point in found.points])
    return np.where(kappas < 1e-12, 0.0, kappas)  # clients that are alike differ by rounding


def speed_table(records: Records) -> str:
    """Return how fast the distance falls in a round, between a hundredth of the start and a hundred times the floor."""
    factors = ("factor a round, measured", "steadfed's (1 − ημ)^(2H)", "the paper's (1 − ημ/2)^H")
    lines = _head(("H", *factors, "rounds to 1 % of the start", "steps to 1 %"))
    for steps, by_attack in curves(records).items():
        case, measured = speed_case(steps), by_attack["alie"]
        falling = np.flatnonzero((measured < measured[0] / 100) & (measured > 100 * measured[-40:].mean()))
        slope = np.polyfit(falling, np.log(measured[falling]), 1)[0]
        shrinking = case.lr * case.constants.strong_convexity
        reached = int(np.flatnonzero(measured < measured[0] / 100)[0])
        lines.append(
            f"| {steps} | {math.exp(slope):.4f} | {(1 - shrinking) ** (2 * steps):.4f} | "
            f"{(1 - shrinking / 2) ** steps:.4f} | {reached} | {reached * steps:,} |"
        )
    return "\n".join(lines)
