"""Less of everything: long curves and wide heat maps at a size that a page can draw, with nothing loud left out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
Places = NDArray[np.int64]


@final
@dataclass(frozen=True, kw_only=True)
class PanelLimits:
    """How much there may be to see."""

    points: int = 2_000
    """Of a curve."""
    cells: int = 60_000
    """Of a heat map."""
    rows: int = 200
    """Clients in a heat map."""
    columns: int = 600
    """Rounds, or bins of rounds, in a heat map."""
    bars: int = 60
    """Clients whose data are shown."""


REPORT = PanelLimits()
"""For a page that is written once."""
FULL = PanelLimits(points=10**9, cells=2_000_000, rows=10**6, columns=10**6, bars=10**6)
"""For other programs, which want every number; only the largest heat maps are thinned."""
LIVE = PanelLimits(points=600, cells=20_000, rows=100, columns=300)
"""For a page that is sent again and again."""


def kept_places(y: Numbers, most: int) -> Places:
    """Return at most so many places of a curve: the first, the last, and the extremes of every bucket.

    A bucket with a gap (NaN) keeps one of its gaps as well, so a curve that breaks off is seen to.

    >>> kept_places(np.array([0.0, 5.0, 1.0, 1.0, 1.0, -3.0, 1.0, 2.0, 2.0]), most=8).tolist()
    [0, 1, 5, 7, 8]
    """
    number = len(y)
    if number <= most:
        return np.arange(number, dtype=np.int64)
    buckets = max(1, (most - 2) // 3)
    starts = np.linspace(0, number, buckets + 1).astype(np.int64)[:-1]
    finite = np.isfinite(y)
    lowest = _first_best(np.where(finite, y, np.inf), starts)
    highest = _first_best(np.where(finite, -y, np.inf), starts)
    gaps = _first_best(finite.astype(np.float64), starts)
    chosen = np.zeros(number, dtype=np.bool_)
    chosen[[0, -1]] = True
    chosen[lowest[finite[lowest]]] = True
    chosen[highest[finite[highest]]] = True
    chosen[gaps[~finite[gaps]]] = True
    return np.flatnonzero(chosen)


def _first_best(values: Numbers, starts: Places) -> Places:
    """Return of every bucket the place of its smallest value, the first of equal ones."""
    ends = np.append(starts[1:], len(values))
    least = np.repeat(np.minimum.reduceat(values, starts), ends - starts)
    hits = np.flatnonzero(values == least)
    return hits[np.searchsorted(hits, starts)]


@final
@dataclass(frozen=True, kw_only=True)
class Bins:
    """Rounds 0, 1, … in columns of equally many; the last may hold fewer."""

    rounds: int
    width: int

    @classmethod
    def of(cls, rounds: int, most: int) -> Bins:
        """Return the narrowest bins of which at most so many are needed."""
        return cls(rounds=rounds, width=max(1, -(-rounds // max(1, most))))

    @property
    def number(self) -> int:
        """How many columns there are."""
        return -(-self.rounds // self.width)

    def labels(self) -> tuple[str, ...]:
        """Return the rounds of every column.

        >>> Bins.of(5, most=3).labels()
        ('0–1', '2–3', '4')
        """
        firsts = range(0, self.rounds, self.width)
        lasts = [min(first + self.width, self.rounds) - 1 for first in firsts]
        return tuple(
            f"{first}" if first == last else f"{first}–{last}" for first, last in zip(firsts, lasts, strict=True)
        )


def grid_means(rows: Places, columns: Places, values: Numbers, shape: tuple[int, int]) -> Numbers:
    """Return the mean of the values that are finite in every cell; NaN in cells without any.

    >>> grid_means(np.array([0, 0]), np.array([1, 1]), np.array([1.0, 2.0]), (1, 2))
    array([[nan, 1.5]])
    """
    known = np.isfinite(values)
    cells = (rows * shape[1] + columns)[known]
    size = shape[0] * shape[1]
    sums, counts = np.bincount(cells, values[known], minlength=size), np.bincount(cells, minlength=size)
    means = np.full(size, np.nan)
    np.divide(sums, counts, out=means, where=counts > 0)
    return means.reshape(shape)


def grid_largest(rows: Places, columns: Places, values: Places, shape: tuple[int, int]) -> Places:
    """Return the largest value in every cell; -1 in cells without any."""
    largest = np.full(shape, -1, dtype=np.int64)
    np.maximum.at(largest, (rows, columns), values)
    return largest
