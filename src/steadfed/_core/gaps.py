"""Gaps between synchronisations: numbers of local steps, one per round and from the beginning after the last."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, islice
from typing import Any

import numpy as np

from steadfed._core.arrays import Indices, Vector
from steadfed._core.ranges import check_not_negative, check_whole
from steadfed.errors import ParameterError

Gaps = int | Sequence[int]
"""H of every round, or the steps of the first round, of the second, …, and from the beginning after the last."""


def check_gaps(local_steps: Any) -> tuple[int, ...]:
    """Return the numbers of steps as a tuple, one of them if all rounds are alike.

    >>> check_gaps(5), check_gaps([1, 4, 2])
    ((5,), (1, 4, 2))
    """
    if not isinstance(local_steps, Iterable) or isinstance(local_steps, (str, bytes)):
        return (check_whole("local_steps", local_steps),)
    found = _each_checked(local_steps, int, lambda each: check_whole("local_steps", each))
    if not found:
        raise ParameterError(
            f"local_steps must be a whole number of at least 1, or a list of one or more of them, got {local_steps!r}"
        )
    return found


def steps_taken(gaps: Sequence[int], rounds: int) -> int:
    """Return how many steps so many rounds take, exactly.

    >>> steps_taken((1, 4, 2), 4)
    8
    """
    whole, part = divmod(rounds, len(gaps))
    return whole * sum(gaps) + sum(gaps[:part])


def steps_after(gaps: Sequence[int], rounds: Vector) -> Vector:
    """Return the same for many numbers of rounds, as floating-point numbers.

    >>> steps_after((1, 4, 2), np.arange(5.0))
    array([0., 1., 5., 7., 8.])
    """
    if len(gaps) == 1:
        return rounds * gaps[0]
    whole, part = repetitions(gaps, rounds)
    return whole * sum(gaps) + sums_before(gaps)[part]


def repetitions(gaps: Sequence[int], rounds: Vector) -> tuple[Vector, Indices]:
    """Return how often all gaps are in so many rounds, and how many of the next are."""
    whole = np.floor(rounds / len(gaps))
    return whole, (rounds - whole * len(gaps)).astype(np.int64)


def sums_before(values: Sequence[float]) -> Vector:
    """Return 0, the first value, the sum of the first two, …, the sum of all."""
    return np.concatenate([[0.0], np.cumsum(np.asarray(values, dtype=np.float64))])


def rounds_taking(gaps: Sequence[int], total: int) -> int | None:
    """Return how many rounds take so many steps; None if no whole number of rounds does.

    >>> [rounds_taking((1, 4, 2), total) for total in (0, 5, 6, 14)]
    [0, 2, None, 6]
    """
    whole, left = divmod(total, sum(gaps))
    ends = list(accumulate(gaps, initial=0))
    return whole * len(gaps) + ends.index(left) if left in ends else None


def first_ends(gaps: Sequence[int]) -> str:
    """Return where the first rounds end, in words.

    >>> first_ends((1, 4, 2))
    '1, 5, 7, 8, …'
    """
    return ", ".join(map(str, islice(accumulate(tuple(gaps) * 4), 4))) + ", …"


def check_synchronised(total_steps: Any, local_steps: Any) -> tuple[int, int]:
    """Return T and how many rounds take T steps, of which there must be a whole number.

    >>> check_synchronised(50, 5), check_synchronised(0, 5), check_synchronised(12, [1, 4, 2])
    ((50, 10), (0, 0), (12, 5))
    """
    gaps = check_gaps(local_steps)
    total = check_whole("total_steps", total_steps, least=0)
    rounds = rounds_taking(gaps, total)
    if rounds is None:
        allowed = (
            f"a multiple of local_steps = {gaps[0]}" if len(gaps) == 1 else f"where a round ends: {first_ends(gaps)}"
        )
        raise ParameterError(f"total_steps must be {allowed}, got {total_steps!r}")
    return total, rounds


def check_gaps_and_errors(local_steps: Any, error: Any) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Return as many errors as gaps; one error stands for all."""
    gaps = check_gaps(local_steps)
    given = list(error) if isinstance(error, Iterable) else [error] * len(gaps)
    if len(given) != len(gaps):
        raise ParameterError(f"error must be one number, or one for each of the {len(gaps)} gaps, got {len(given)}")
    return gaps, _each_checked(given, float, lambda each: check_not_negative("error", each))


def _each_checked(values: Iterable[Any], plain: type, check: Callable[[Any], Any]) -> tuple[Any, ...]:
    """Return what a check makes of every value; of many plain numbers, which it returns as they are, equals once.

    Tens of thousands of gaps were drawn from a few numbers, and a plan is asked for their bounds again and again.
    """
    found = tuple(values)
    if set(map(type, found)) != {plain}:
        return tuple(check(each) for each in found)
    for each in set(found):
        check(each)
    return found
