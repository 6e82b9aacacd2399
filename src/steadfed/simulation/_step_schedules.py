"""Numbers of local steps that change from round to round: the gaps between synchronisation indices.

All clients of a round take the same number of steps. `RunConfig.local_steps` is a whole number, the same in every
round; or a list, one number per round; or a table that names one of the schedules here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Self, final

import numpy as np
from pydantic import BeforeValidator, Field, InstanceOf, model_validator

from steadfed._core.arrays import Indices
from steadfed._core.gaps import first_ends, rounds_taking, steps_taken
from steadfed._core.naming import Registry
from steadfed._core.ranges import check_whole
from steadfed._core.rng import stream_keys, stream_words
from steadfed._core.values import ValueObject, whole_number
from steadfed.errors import ParameterError

MOST_STEPS = 1_000_000_000
"""More local steps in one round are refused."""
_MOST_ROUNDS = 1_000_000
"""Longest list, and most rounds for which steps are drawn: plans and certificates look at every one of them."""
_BLOCK = 4096
"""Rounds whose drawn steps are added up together, and remembered."""

Steps = Annotated[int, Field(ge=1, le=MOST_STEPS), BeforeValidator(whole_number)]


def _read_list(values: Any) -> tuple[int, ...]:
    """Return a list of numbers of steps; a `ParameterError` shows the first that is none."""
    if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
        raise ParameterError(f"input should be a list of whole numbers, one per round, got {values!r}")
    steps = tuple(check_whole(f"the steps of round {k}", each, most=MOST_STEPS) for k, each in enumerate(values))
    if not 1 <= len(steps) <= _MOST_ROUNDS:
        shown = f"{len(steps):,}" if steps else "[]"
        raise ParameterError(f"a list must have 1 to {_MOST_ROUNDS:,} numbers of steps, got {shown}")
    return steps


class StepSchedule(ValueObject, ABC):
    """A number of local steps for every round, which is the same for all of its clients."""

    citation: ClassVar[str]
    """Where it is used."""

    @property
    @abstractmethod
    def fewest(self) -> int:
        """The smallest number of steps that a round may have."""

    @property
    @abstractmethod
    def most(self) -> int:
        """H, the largest number of steps that a round may have."""

    @property
    @abstractmethod
    def period(self) -> int | None:
        """After how many rounds the numbers repeat; None if they do not."""

    @abstractmethod
    def gaps(self, first: int, number: int, seed: int) -> Indices:
        """Return the steps of so many rounds, from round `first` on, counted from 0."""

    @abstractmethod
    def taken(self, rounds: int, seed: int) -> int:
        """Return how many steps the first rounds take together."""

    @abstractmethod
    def rounds_taking(self, total: int) -> int | None:
        """Return how many rounds take T steps together; None if there is no such number, or it depends on draws."""

    @abstractmethod
    def why_not(self, total_steps: object) -> str:
        """Say what T may be, if no number of rounds takes the T that was given."""

    def check(self, rounds: int) -> None:
        """Raise `ParameterError` if it is not for a run of so many rounds."""

    @property
    def words(self) -> str:
        """The range in words.

        >>> ConstantSteps(steps=5).words, UniformSteps(lowest=1, highest=8).words
        ('5', '1 to 8')
        """
        return f"{self.most}" if self.fewest == self.most else f"{self.fewest} to {self.most}"


STEP_SCHEDULES = Registry("schedule of local steps", StepSchedule)
"""Every schedule of local steps by name."""


@STEP_SCHEDULES.register("constant")
@final
class ConstantSteps(StepSchedule):
    """The same number in every round; a configuration has the bare number for it.

    >>> ConstantSteps(steps=5).gaps(0, 3, seed=0)
    array([5, 5, 5])
    """

    citation: ClassVar[str] = "Data, Diggavi 2020, Theorems 1 and 2: H steps between two synchronisations"

    steps: Annotated[Steps, Field(examples=[5])]
    """H."""

    @property
    def fewest(self) -> int:
        """H."""
        return self.steps

    @property
    def most(self) -> int:
        """H."""
        return self.steps

    @property
    def period(self) -> int:
        """1."""
        return 1

    def gaps(self, first: int, number: int, seed: int) -> Indices:
        """Return the number again and again."""
        return np.full(number, self.steps, dtype=np.int64)

    def taken(self, rounds: int, seed: int) -> int:
        """Return the product."""
        return rounds * self.steps

    def rounds_taking(self, total: int) -> int | None:
        """Return the quotient."""
        return total // self.steps if total > 0 and total % self.steps == 0 else None

    def why_not(self, total_steps: object) -> str:
        """Say that T is a multiple."""
        return _no_multiple(total_steps, self.steps)


@STEP_SCHEDULES.register("listed")
@final
class ListedSteps(StepSchedule):
    """Numbers that somebody wrote down, one per round, and from the beginning after the last, as for listed cohorts.

    So a short list is a pattern, and a run may be made longer. A list with more numbers than rounds is refused: some
    would never be used.

    >>> ListedSteps(steps=(1, 4, 2)).gaps(1, 4, seed=0)
    array([4, 2, 1, 4])
    """

    citation: ClassVar[str] = "Data, Diggavi 2020, gaps |t_{k+1} − t_k| ≤ H; the user's list"

    steps: Annotated[tuple[int, ...], BeforeValidator(_read_list), Field(examples=[(1, 4, 2)])]
    """The steps of the first round, of the second, …"""

    @property
    def fewest(self) -> int:
        """The smallest of them."""
        return min(self.steps)

    @property
    def most(self) -> int:
        """The largest of them."""
        return max(self.steps)

    @property
    def period(self) -> int:
        """The length of the list."""
        return len(self.steps)

    def gaps(self, first: int, number: int, seed: int) -> Indices:
        """Look them up."""
        return np.array(self.steps, dtype=np.int64)[(first + np.arange(number)) % len(self.steps)]

    def taken(self, rounds: int, seed: int) -> int:
        """Add up whole lists and the beginning of one."""
        return steps_taken(self.steps, rounds)

    def rounds_taking(self, total: int) -> int | None:
        """Return where the list, written down again and again, adds up to T."""
        return rounds_taking(self.steps, total) if total > 0 else None

    def why_not(self, total_steps: object) -> str:
        """Say where the first rounds end."""
        return f"total_steps must be where a round ends: {first_ends(self.steps)}, got {total_steps!r}"

    def check(self, rounds: int) -> None:
        """Refuse a list of which some numbers would never be used."""
        if len(self.steps) > rounds:
            raise ParameterError(
                f"local_steps must have at most one number per round, got {len(self.steps):,} for {rounds:,} "
                f"{'round' if rounds == 1 else 'rounds'}"
            )


@STEP_SCHEDULES.register("uniform")
@final
class UniformSteps(StepSchedule):
    """A number from `lowest` to `highest`, drawn for every round from a stream of the run's seed, each equally likely.

    The draw of a round depends on the seed and the round alone; it has a bias below (highest − lowest + 1) / 2³².

    >>> UniformSteps(lowest=1, highest=8).gaps(0, 6, seed=0)
    array([1, 2, 3, 5, 4, 6])
    """

    citation: ClassVar[str] = "Data, Diggavi 2020, gaps |t_{k+1} − t_k| ≤ H; drawn before any batch"

    lowest: Steps = 1
    """The smallest number."""
    highest: Annotated[Steps, Field(examples=[8])]
    """H, the largest number."""

    @model_validator(mode="after")
    def _is_a_range(self) -> Self:
        if self.lowest > self.highest:
            raise ValueError(f"lowest must be at most highest = {self.highest}, got {self.lowest}")
        return self

    @property
    def fewest(self) -> int:
        """The smallest number."""
        return self.lowest

    @property
    def most(self) -> int:
        """The largest number."""
        return self.highest

    @property
    def period(self) -> None:
        """None."""
        return

    def gaps(self, first: int, number: int, seed: int) -> Indices:
        """Draw them."""
        keys = stream_keys(seed, "local-steps", ids=first + np.arange(number))
        words = stream_words(keys, 1)[:, 0] >> np.uint64(32)
        return self.lowest + (words * np.uint64(self.highest - self.lowest + 1) >> np.uint64(32)).astype(np.int64)

    def taken(self, rounds: int, seed: int) -> int:
        """Add up the draws, whole blocks of them once."""
        blocks, part = divmod(rounds, _BLOCK)
        whole = sum(_block_sum(self, block, seed) for block in range(blocks))
        return whole + int(self.gaps(blocks * _BLOCK, part, seed).sum())

    def rounds_taking(self, total: int) -> int | None:
        """Return nothing: it depends on the draws."""
        return None

    def why_not(self, total_steps: object) -> str:
        """Say that T is what comes of the draws."""
        return f"total_steps cannot be given for local_steps that are drawn, give rounds; got {total_steps!r}"

    def check(self, rounds: int) -> None:
        """Refuse more rounds than can be looked at one by one."""
        if rounds > _MOST_ROUNDS:
            raise ParameterError(f"steps are drawn for at most {_MOST_ROUNDS:,} rounds, got rounds = {rounds:,}")


@lru_cache(maxsize=2 * _MOST_ROUNDS // _BLOCK)
def _block_sum(schedule: UniformSteps, block: int, seed: int) -> int:
    return int(schedule.gaps(block * _BLOCK, _BLOCK, seed).sum())


def step_schedule(local_steps: int | StepSchedule) -> StepSchedule:
    """Return the schedule that a value of `RunConfig.local_steps` stands for."""
    return local_steps if isinstance(local_steps, StepSchedule) else ConstantSteps(steps=local_steps)


def read_local_steps(value: Any) -> int | StepSchedule:
    """Return what a configuration holds for a number, a list, a table or a schedule.

    >>> read_local_steps(5), read_local_steps([1, 4, 2]), read_local_steps({"name": "uniform", "highest": 8})
    (5, ListedSteps(steps=(1, 4, 2)), UniformSteps(highest=8))
    >>> read_local_steps(ConstantSteps(steps=5))
    5
    """
    if isinstance(value, Mapping) and "name" in value:
        value = STEP_SCHEDULES.from_table(value)
    if isinstance(value, ConstantSteps):
        return value.steps
    if isinstance(value, StepSchedule):
        return value
    if isinstance(value, np.ndarray) and value.ndim:
        value = value.tolist()
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return ListedSteps(steps=tuple(value))
    try:
        number = int(whole_number(value))
    except ValueError:
        number = 0
    if not 1 <= number <= MOST_STEPS:
        raise ValueError(
            f"input should be a whole number from 1 to {MOST_STEPS:,}, a list of such numbers, one per round, or a "
            'table such as { name = "uniform", lowest = 1, highest = 8 }'
        )
    return number


StepsOfRounds = Annotated[int | InstanceOf[StepSchedule], BeforeValidator(read_local_steps)]
"""What a configuration says of local steps."""


def plain_local_steps(schedule: StepSchedule) -> list[int] | dict[str, Any]:
    """Return what `read_local_steps` reads, as plain values."""
    if isinstance(schedule, ListedSteps):
        return list(schedule.steps)
    return STEP_SCHEDULES.to_table(schedule, complete=True)


def rounds_of_total(total_steps: Any, local_steps: Any) -> int:
    """Return how many rounds take T steps in all.

    Raises:
        ValueError: no whole number of rounds does, or their steps are drawn.
    """
    try:
        total = int(whole_number(total_steps))
    except ValueError:
        total = 0
    try:
        schedule = step_schedule(read_local_steps(local_steps))
    except ParameterError:
        raise
    except ValueError:
        raise ValueError(_no_multiple(total_steps, local_steps)) from None
    rounds = schedule.rounds_taking(total)
    if rounds is None:
        raise ValueError(schedule.why_not(total_steps))
    return rounds


def _no_multiple(total_steps: Any, local_steps: Any) -> str:
    return f"total_steps must be a positive multiple of local_steps = {local_steps!r}, got {total_steps!r}"
