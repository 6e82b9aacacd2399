"""A guarantee as an object: what is bounded, under which conditions, how closely, and how surely."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from operator import ge, gt, le, lt
from typing import Any, Literal, final

import numpy as np

from steadfed._core.arrays import Vector

Relation = Literal["≤", "<", "≥", ">"]
_HOLDS: Mapping[Relation, Callable[[float, float], bool]] = {"≤": le, "<": lt, "≥": ge, ">": gt}
_OTHERWISE: Mapping[Relation, str] = {"≤": ">", "<": "≥", "≥": "<", ">": "≤"}


@final
@dataclass(frozen=True, kw_only=True)
class Condition:
    """One thing that a theorem asks for, and whether it is so.

    >>> condition = Condition(name="step size", requirement="η ≤ 1/(8HL)", value=0.1, limit=0.025)
    >>> condition.passed, condition.margin
    (False, 0.25)
    >>> str(condition)
    'η ≤ 1/(8HL): 0.1 > 0.025, too large by a factor of 4'
    """

    name: str
    requirement: str
    value: float
    """A number; or 1 for yes and 0 for no, if there is no limit."""
    limit: float = math.nan
    relation: Relation = "≤"
    """How the value must stand to the limit."""

    @property
    def passed(self) -> bool:
        """Whether it is so; the last bit of rounding is forgiven where the limit itself is allowed."""
        if math.isnan(self.limit):
            return bool(self.value)
        rounding = {"≤": 1e-12, "≥": -1e-12}.get(self.relation, 0.0) * abs(self.limit)
        return _HOLDS[self.relation](self.value, self.limit + rounding)

    @property
    def margin(self) -> float | None:
        """By which factor the value keeps to the limit, below 1 if it does not; None if a factor says nothing."""
        if not (0.0 < self.value < math.inf and 0.0 < self.limit < math.inf):
            return None
        return self.limit / self.value if self.relation in {"≤", "<"} else self.value / self.limit

    def __str__(self) -> str:
        """Return the requirement with its numbers."""
        if math.isnan(self.limit):
            return f"{self.requirement}: {'yes' if self.passed else 'no'}"
        sign = self.relation if self.passed else _OTHERWISE[self.relation]
        shown = f"{self.requirement}: {self.value:.4g} {sign} {self.limit:.4g}"
        if self.margin is None:
            return shown
        if self.passed:
            return shown if self.margin < 1.0005 else f"{shown}, with a factor of {self.margin:.3g} to spare"
        return (
            f"{shown}, too {'large' if self.relation in {'≤', '<'} else 'small'} by a factor of {1 / self.margin:.3g}"
        )


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class Guarantee:
    """What a theorem guarantees of a run.

    `bound` is infinite while a condition fails on which the formula itself rests, such as the step size.
    """

    source: str
    """The paper, or steadfed's own proof."""
    theorem: str
    quantity: str
    """What is bounded."""
    reading: str
    """In which sense: in expectation, or with a probability."""
    conditions: tuple[Condition, ...]
    sigma0: float
    """σ₀, the honest spread of accumulated gradients that the theorem reckons with; that of the largest gap."""
    sigma0_of: Callable[[int], float] = field(repr=False)
    """σ₀ in a round of so many local steps: its own if the rule adapts, else the one of all rounds."""
    filter_error: float
    """Υ, what the filter may add to the error of a round."""
    lr_limit: float
    """The largest η that the theorem allows."""
    floor: float
    """What is left of the bound after any number of rounds, with gaps that go on as they are: its upper limit."""
    floors: Mapping[str, float] = field(default_factory=dict)
    """What would be left without one of the causes of error."""
    failures: Mapping[str, float] = field(default_factory=dict)
    """What may go wrong during the run, and a bound of its probability."""
    rests_on: str = ""
    """What is not proved and yet needed, beside the conditions."""
    rounds: int
    """How many rounds the run has."""
    period: int = 1
    """After how many rounds the numbers of local steps repeat."""
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
        """Whether it guarantees nothing: a condition fails, the floor is infinite, or the failure probability is 1."""
        return not self.holds or not math.isfinite(self.floor) or self.failure >= 1.0

    def bound(self, rounds: Any) -> Vector:
        """Return the bound after each of the given numbers of rounds."""
        return self.curve(np.asarray(rounds, dtype=np.float64))

    def rows(self) -> list[tuple[str, str]]:
        """Return the guarantee as a table of two columns."""
        rows = [("bounds", f"{self.quantity}, {self.reading}")]
        rows += [(f"{'✓' if each.passed else '✗'} {each.name}", str(each)) for each in self.conditions]
        rows.append(("step size at most", f"{self.lr_limit:.4g}"))
        if math.isfinite(self.sigma0):
            rows.append(("honest spread σ₀, filter's error Υ", f"{self.sigma0:.4g}, {self.filter_error:.4g}"))
        if self.rests_on:
            rows.append(("rests on", self.rests_on))
        if not math.isfinite(self.floor):
            return [*rows, ("floor", "none: a condition above fails, and nothing is guaranteed")]
        rows.append((f"bound after {self.rounds:,} rounds", f"{float(self.bound(self.rounds)):.4g}"))
        without = "; ".join(f"{value:.4g} {cause}" for cause, value in self.floors.items())
        rows.append(("floor", f"{self.floor:.4g}" + (f" ({without})" if without else "")))
        chances = "; ".join(f"{cause}: {min(1.0, value):.3g}" for cause, value in self.failures.items())
        rows.append(("may fail with probability", f"{self.failure:.3g}" + (f" ({chances})" if chances else "")))
        return rows

    def __str__(self) -> str:
        """Return the table as text."""
        rows = self.rows()
        width = max(len(heading) for heading, _ in rows)
        return "\n".join(
            [f"{self.source}: {self.theorem}", *(f"  {heading:{width}}  {text}" for heading, text in rows)]
        )
