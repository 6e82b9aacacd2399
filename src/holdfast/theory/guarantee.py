"""A guarantee as an object: what is bounded, under which conditions, how closely, and how surely."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]


@final
@dataclass(frozen=True, kw_only=True)
class Condition:
    """One thing that a theorem asks for, and whether it is so.

    >>> Condition(name="step size", requirement="η ≤ 1/(8HL)", value=0.1, limit=0.025).passed
    False
    """

    name: str
    requirement: str
    value: float
    limit: float
    """The largest value that passes."""
    strict: bool = False
    """Whether the limit itself is excluded."""

    @property
    def passed(self) -> bool:
        """Whether the value keeps to the limit; the last bit of rounding is forgiven where the limit is allowed."""
        return self.value < self.limit if self.strict else self.value <= self.limit + 1e-12 * abs(self.limit)

    @property
    def margin(self) -> float:
        """How many times larger the value could be; below 1 if it is too large."""
        if self.value <= 0.0:
            return math.inf if self.passed else 0.0
        return self.limit / self.value


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class Guarantee:
    """What a theorem promises of a run.

    `bound` is infinite while a condition fails on which the formula itself rests, such as the step size.
    """

    source: str
    """The paper, or holdfast's own proof."""
    theorem: str
    quantity: str
    """What is bounded."""
    reading: str
    """In which sense: in expectation, or with a probability."""
    conditions: tuple[Condition, ...]
    sigma0: float
    """σ₀, the honest spread of accumulated gradients that the theorem reckons with."""
    filter_error: float
    """Υ, what the filter may add to the error of a round."""
    lr_limit: float
    """The largest η that the theorem allows."""
    floor: float
    """What is left of the bound after any number of rounds."""
    floors: Mapping[str, float] = field(default_factory=dict)
    """What would be left without one of the causes of error."""
    failures: Mapping[str, float] = field(default_factory=dict)
    """What may go wrong during the run, and a bound of its probability."""
    curve: Callable[[Vector], Vector] = field(repr=False)

    @property
    def holds(self) -> bool:
        """Whether every condition is met."""
        return all(condition.passed for condition in self.conditions)

    @property
    def failure(self) -> float:
        """A bound of the probability that the guarantee fails although its conditions are met; 1 says nothing."""
        return min(1.0, math.fsum(self.failures.values()))

    @property
    def is_vacuous(self) -> bool:
        """Whether it promises nothing: a condition fails, the floor is infinite, or the failure probability is 1."""
        return not self.holds or not math.isfinite(self.floor) or self.failure >= 1.0

    def bound(self, rounds: Any) -> Vector:
        """Return the bound after each of the given numbers of rounds."""
        return self.curve(np.asarray(rounds, dtype=np.float64))

    def rows(self, rounds: int) -> list[tuple[str, str]]:
        """Return the guarantee as a table of two columns, for a run of so many rounds."""
        rows = [("bounds", f"{self.quantity}, {self.reading}")]
        rows += [(f"{_mark(each)} {each.name}", _described(each)) for each in self.conditions]
        rows.append(("step size at most", f"{self.lr_limit:.4g}"))
        rows.append(("honest spread σ₀, filter's error Υ", f"{self.sigma0:.4g}, {self.filter_error:.4g}"))
        rows.append((f"bound after {rounds:,} rounds", f"{float(self.bound(rounds)):.4g}"))
        without = "; ".join(f"{value:.4g} {cause}" for cause, value in self.floors.items())
        rows.append(("floor", f"{self.floor:.4g}" + (f" ({without})" if without else "")))
        chances = "; ".join(f"{cause}: {value:.3g}" for cause, value in self.failures.items())
        rows.append(("may fail with probability", f"{self.failure:.3g}" + (f" ({chances})" if chances else "")))
        return rows


def _mark(condition: Condition) -> str:
    return "✓" if condition.passed else "✗"


def _described(condition: Condition) -> str:
    sign = "<" if condition.strict else "≤"
    shown = f"{condition.requirement}: {condition.value:.4g} {sign if condition.passed else '>'} {condition.limit:.4g}"
    factor = condition.margin
    if math.isinf(factor):
        return shown
    return (
        f"{shown}, {factor:.3g} times"
        if condition.passed
        else f"{shown}, too large by a factor {1 / factor:.3g}"
        if factor
        else shown
    )
