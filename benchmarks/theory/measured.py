"""The records of the study as curves: what was measured along an axis, and what the theorems say there."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from benchmarks.theory.cases import Case, Vector
from benchmarks.theory.grid import AXES, cells

Records = Iterable[Mapping[str, Any]]


@dataclass(frozen=True)
class Point:
    """Floors of all runs at one place of an axis, means over the seeds."""

    value: float
    case: Case
    floors: Mapping[str, float]
    """By attack."""

    @property
    def worst_attack(self) -> str:
        """Which attack raised the floor most."""
        return max(self.floors, key=lambda name: self.floors[name])

    @property
    def worst(self) -> float:
        """The largest floor."""
        return self.floors[self.worst_attack]

    @property
    def mean(self) -> float:
        """The mean over the attacks."""
        return float(np.mean(list(self.floors.values())))

    @property
    def sharp(self) -> float:
        """What is proved in expectation, or surely for full batches."""
        return self.case.guarantees[1].floor

    @property
    def likely(self) -> float:
        """What is proved for every round of 99 % of the runs."""
        return self.case.guarantees[-1].floor

    @property
    def paper(self) -> float:
        """What the paper's theorem states; infinite where it does not apply."""
        return self.case.guarantees[0].floor


Series = Literal["worst", "mean", "sharp", "likely", "paper"]


@dataclass(frozen=True)
class Axis:
    """All points of an axis."""

    points: tuple[Point, ...]

    @property
    def values(self) -> Vector:
        """Where the points lie."""
        return np.array([point.value for point in self.points])

    def series(self, name: Series) -> Vector:
        """Return one number of every point."""
        numbers = {
            "worst": lambda point: point.worst,
            "mean": lambda point: point.mean,
            "sharp": lambda point: point.sharp,
            "likely": lambda point: point.likely,
            "paper": lambda point: point.paper,
        }
        return np.array([numbers[name](point) for point in self.points])

    def exponent(self, name: Series, *, values: Vector | None = None) -> float:
        """Return the slope of the line through the logarithms, where both are positive and finite."""
        x, y = self.values if values is None else values, self.series(name)
        usable = (x > 0) & (y > 0) & np.isfinite(y)
        return float(np.polyfit(np.log(x[usable]), np.log(y[usable]), 1)[0]) if usable.sum() > 1 else math.nan


def axis(records: Records, name: str) -> Axis:
    """Return what was measured along an axis."""
    floors: dict[float, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for each in records:
        if each["figure"] == name:
            floors[each["value"]][each["attack"]].append(each["floor"])
    return Axis(
        tuple(
            Point(value, case, {attack: float(np.mean(found)) for attack, found in floors[value].items()})
            for value, case in AXES[name].items()
            if value in floors
        )
    )


def curves(records: Records) -> dict[int, dict[str, Vector]]:
    """Return the distances of the runs that start far away, by H and attack."""
    found: dict[int, dict[str, Vector]] = defaultdict(dict)
    for each in records:
        if each["figure"] == "speed":
            found[int(each["value"])][each["attack"]] = np.array(each["curve"])
    return dict(sorted(found.items()))


def speed_case(local_steps: int) -> Case:
    """Return the run behind a curve."""
    return next(each.case for each in cells() if each.figure == "speed" and each.value == local_steps)
