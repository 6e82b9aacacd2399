"""Whole numbers at which a condition begins or ends to hold, found with certainty."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]

_FEW, _MANY = 1 << 12, 1 << 20
"""How many numbers are looked at together, at first and at most."""
_SECTIONS = 1 << 10
_POWERS = 1 << np.arange(62, dtype=np.int64)
"""Numbers are often small compared with the largest that they might be."""


def last_holding(holds: Callable[[int], bool], low: int, high: int) -> int:
    """Return the last number up to `high` for which a condition holds that holds at `low` and ends once: bisection.

    >>> last_holding(lambda number: number**2 <= 200, 0, 200)
    14
    """
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if holds(middle) else (low, middle - 1)
    return low


def first_holding(holds: Callable[[Numbers], Any], low: int, high: int) -> int:
    """Return the first number above `low` for which a condition on arrays holds that begins once, and holds at `high`.

    Many numbers between the two are looked at together, since a call may be costly however few numbers it gets.

    >>> first_holding(lambda numbers: numbers**2 >= 200, 0, 10**6)
    15
    """
    while high - low > 1:
        evenly = np.linspace(low, high, _SECTIONS + 1).astype(np.int64)
        inside = np.unique(np.concatenate([evenly, low + _POWERS[_POWERS < high - low]]))
        inside = inside[(inside > low) & (inside < high)]
        good = np.flatnonzero(holds(inside))
        place = int(good[0]) if good.size else len(inside)
        low, high = int(inside[place - 1]) if place else low, int(inside[place]) if place < len(inside) else high
    return high


def first_in_repetitions(holds: Callable[[Numbers], Any], period: int, most: int) -> int | None:
    """Return the first number from 1 to `most` for which a condition holds, looked for by periods; None if none does.

    The condition may come and go within a period. Asked of the j-th number of one period after the other it must begin
    once, or hold from the first on and end. Then, if it holds nowhere in the first period, the first period in which it
    holds somewhere is followed by such ones only. With periods of one number it must begin once.

    >>> first_in_repetitions(lambda numbers: (numbers % 3 == 2) & (numbers > 10), 3, 100)
    11
    """
    if period == 1:
        return first_holding(holds, 0, most)
    places = np.arange(1, period + 1, dtype=np.int64)

    def found(repetition: int) -> Any:
        numbers = repetition * period + places
        return holds(numbers) & (numbers <= most)

    whole = most // period
    first = 0
    if not found(0).any() and whole > 1 and found(whole - 1).any():
        first = 1 + last_holding(lambda number: not found(number).any(), 0, whole - 1)
    elif not found(0).any():
        first = whole  # whose numbers up to `most` are less than a period, or none
    good = found(first)
    return first * period + int(places[good.argmax()]) if good.any() else None


def first_of_all(holds: Callable[[Numbers], Any], last: int) -> int | None:
    """Return the first number from 1 to `last` for which a condition on arrays holds, all looked at; None if none does.

    >>> first_of_all(lambda numbers: numbers % 7 == 5, 100), first_of_all(lambda numbers: numbers < 0, 100)
    (5, None)
    """
    for numbers in _blocks(last):
        if (good := np.flatnonzero(holds(numbers))).size:
            return int(numbers[good[0]])
    return None


def _blocks(last: int) -> Iterator[Numbers]:
    """Yield the numbers from 1 to `last` in order, few at first."""
    start, length = 1, _FEW
    while start <= last:
        stop = min(start + length, last + 1)
        yield np.arange(start, stop, dtype=np.int64)
        start, length = stop, min(2 * length, _MANY)
