"""Learning rates that change from round to round: η of a round is lr times what the schedule says."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Annotated, ClassVar, final

from pydantic import BeforeValidator, Field

from steadfed._core.naming import Registry
from steadfed._core.values import ValueObject, real_number, whole_number

Factor = Annotated[float, Field(gt=0.0, le=1.0), BeforeValidator(real_number)]
Rounds = Annotated[int, Field(ge=1), BeforeValidator(whole_number)]


class Schedule(ValueObject, ABC):
    """A factor for every round; constant within a round, as the server divides by η."""

    citation: ClassVar[str]
    """Where it is used."""

    @abstractmethod
    def factor(self, round: int, rounds: int) -> float:
        """Return the factor of a round, counted from 0, of a run of so many rounds."""


SCHEDULES = Registry("schedule", Schedule)
"""Every schedule by name."""


@SCHEDULES.register("constant")
@final
class ConstantSchedule(Schedule):
    """The same step size in every round.

    >>> ConstantSchedule().factor(7, 10)
    1.0
    """

    citation: ClassVar[str] = "Data, Diggavi 2020, Theorems 1 and 2: a constant step size"

    def factor(self, round: int, rounds: int) -> float:
        """Return 1."""
        return 1.0


@SCHEDULES.register("exponential")
@final
class ExponentialSchedule(Schedule):
    """decay ^ ⌊round / every⌋: a constant factor after every so many rounds.

    >>> ExponentialSchedule(decay=0.5, every=2).factor(5, 10)
    0.25
    """

    citation: ClassVar[str] = "step decay, as usual for neural networks"

    decay: Factor = 0.96
    """What the step size is multiplied by."""
    every: Rounds = 1
    """After how many rounds."""

    def factor(self, round: int, rounds: int) -> float:
        """Return the power."""
        return float(self.decay ** (round // self.every))


@SCHEDULES.register("inverse")
@final
class InverseSchedule(Schedule):
    """1 / (1 + round / half_after): half of it after so many rounds, a third after twice as many.

    >>> InverseSchedule(half_after=10).factor(10, 100)
    0.5
    """

    citation: ClassVar[str] = "Robbins, Monro 1951, step sizes that fall like 1/t"

    half_after: Rounds = 100
    """After how many rounds the step size is half of the first."""

    def factor(self, round: int, rounds: int) -> float:
        """Return the quotient."""
        return 1.0 / (1.0 + round / self.half_after)


@SCHEDULES.register("cosine")
@final
class CosineSchedule(Schedule):
    """From 1 to `last` along half a cosine over the whole run.

    >>> [round(CosineSchedule(last=0.1).factor(r, 11), 2) for r in (0, 5, 10)]
    [1.0, 0.55, 0.1]
    """

    citation: ClassVar[str] = "Loshchilov, Hutter 2017, cosine annealing without restarts"

    last: Factor = 0.01
    """The factor of the last round."""

    def factor(self, round: int, rounds: int) -> float:
        """Return the point of the cosine."""
        share = round / (rounds - 1) if rounds > 1 else 0.0
        return self.last + (1.0 - self.last) * 0.5 * (1.0 + math.cos(math.pi * share))
