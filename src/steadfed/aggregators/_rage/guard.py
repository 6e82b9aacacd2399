r"""The guard of mode "auto": are there more Byzantine rows than assumed?

If f is told of the average cohort, a sampled one holds more of them now and then, and f rows too few are removed from
there: the anchor then has Byzantine rows in it, and a spread λ_a that the others do not have. How large may it be? Let
m² be the squared distance to the geometric median that n − F in n of the distinct rows do not exceed. Honest rows that
vary in several directions have m² of the order of the trace of their covariance, and λ_a of the order of its largest
eigenvalue. A cluster of p n further rows at a distance A ≫ m has λ_a ≈ p (1 − p) A², which no m of the others explains.
So λ_a > C m² is an alarm. This is a heuristic: honest rows most of which are nearly equal can raise it, and Byzantine
rows as near as the honest ones do not. What a false alarm costs is proved (docs/theory/filter.md, section 5.4).

Distinct rows are counted, since clients that have nothing to learn send equal ones and would make m² zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from steadfed._core.arrays import Matrix, Vector
from steadfed._linalg.gram import squared_distances
from steadfed._linalg.weiszfeld import distances_to_combination, geometric_median_weights
from steadfed.aggregators._rage.anchor import Guard

DEVIATIONS = 3.0
"""How many standard deviations above its mean the number of Byzantine rows in a sampled cohort may lie."""
LIMIT = 1.0
"""C: the largest share of m² that the anchor's spread may have."""
EQUAL = 1e-12
"""Rows whose squared distance is at most this share of their squared lengths count as one."""


def most_byzantine(num_rows: int, num_byzantine: int) -> int:
    """Return F = f + ⌈3 √(f (1 − f/n))⌉, at most a minority: more than any cohort holds if f is meant for the average.

    >>> most_byzantine(50, 15), most_byzantine(20, 5), most_byzantine(10, 0)
    (24, 9, 0)
    """
    deviation = math.sqrt(num_byzantine * (1.0 - num_byzantine / num_rows))
    return max(num_byzantine, min((num_rows - 1) // 2, num_byzantine + math.ceil(DEVIATIONS * deviation)))


def look_beyond(gram: Matrix, num_byzantine: int, spread_for: Callable[[int], float]) -> Guard | None:
    """Return whether the anchor's spread is explained by the distances of the rows, and from which f on it is.

    None if no cohort holds more than f of them. The f that is needed is found by bisection: the anchor's spread
    falls with f, but for small bumps.
    """
    most = most_byzantine(len(gram), num_byzantine)
    if most == num_byzantine:
        return None
    spread = spread_for(num_byzantine)
    limit = typical_square(gram, most, enough=spread)
    needed: int | None = num_byzantine
    if spread > limit:
        needed = most if spread_for(most) <= limit else None
        low = num_byzantine
        while needed is not None and needed - low > 1:
            middle = (low + needed) // 2
            low, needed = (low, middle) if spread_for(middle) <= limit else (middle, needed)
    return Guard(assumed=num_byzantine, most=most, spread=spread, limit=limit, needed=needed)


def typical_square(gram: Matrix, most: int, *, enough: float = math.inf) -> float:
    """Return C m²: of k distinct rows, the ⌈k (n − F)/n⌉-th smallest squared distance to the geometric median, times C.

    Those rows lie pairwise within 2m of each other, so a quarter of the smallest such squared distance about a row is
    a lower bound of m². Where that is `enough`, it is returned, and no geometric median is looked for.
    """
    squared = squared_distances(gram)
    distinct = _first_of_equals(squared, gram.diagonal())
    rank = max(0, math.ceil(len(distinct) * (len(gram) - most) / len(gram)) - 1)
    about_rows = np.partition(squared[np.ix_(distinct, distinct)], rank, axis=1)[:, rank]
    least = LIMIT * float(about_rows.min()) / 4.0
    if least >= enough:
        return least
    weights, _ = geometric_median_weights(gram)
    return LIMIT * float(np.partition(distances_to_combination(gram, weights)[distinct] ** 2, rank)[rank])


def _first_of_equals(squared: Matrix, lengths: Vector) -> NDArray[np.intp]:
    """Return the rows that equal none before them, up to rounding."""
    same = squared <= EQUAL * (lengths[:, None] + lengths)
    return np.flatnonzero(~np.tril(same, -1).any(axis=1))
