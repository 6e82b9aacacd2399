"""What is done to the rows before another rule sees them, row by row."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from tests.oracles.coordinatewise import Array, average_row
from tests.oracles.selection import norm, squared_distance

Rule = Callable[[Array], Array]
"""The rule inside, which knows its own number of Byzantine rows."""


def neighbours_of(rows: Array, i: int, number: int) -> list[int]:
    """Return the `number` rows nearest to row i, itself among them; of equally near ones the first."""
    distances = [squared_distance(rows[i], row) for row in rows]
    return sorted(range(len(rows)), key=lambda j: (distances[j], j))[:number]


def mixed(rows: Array, num_byzantine: int) -> Array:
    """Replace every row by the mean of the n − f rows nearest to it (Allouah et al. 2023, NNM)."""
    number = len(rows) - num_byzantine
    return np.array([average_row(rows[j] for j in neighbours_of(rows, i, number)) for i in range(len(rows))])


def nearest_neighbor_mixing(rows: Array, num_byzantine: int, rule: Rule) -> Array:
    """Apply the rule to the mixed rows (Allouah et al. 2023, NNM)."""
    return rule(mixed(rows, num_byzantine))


def buckets(rows: Array, size: int, permutation: Sequence[int]) -> Array:
    """Return the means of ⌈n/s⌉ buckets of the permuted rows, the last of what is left over (Algorithm 1 there)."""
    return np.array(
        [average_row(rows[i] for i in permutation[first : first + size]) for first in range(0, len(rows), size)]
    )


def bucketing(rows: Array, size: int, permutation: Sequence[int], rule: Rule) -> Array:
    """Apply the rule to the buckets' means (Karimireddy, He, Jaggi 2022, Algorithm 1).

    Ambiguous: the last bucket may hold fewer than s rows; it is divided by their number, and counts as a whole bucket.
    """
    return rule(buckets(rows, size, permutation))


def clipped(rows: Array, radius: float) -> Array:
    """Return g_i min(1, C / ‖g_i‖)."""
    return np.array([row * (1.0 if norm(row) <= radius else radius / norm(row)) for row in rows])


def clipping(rows: Array, radius: float, rule: Rule) -> Array:
    """Apply the rule to rows of norm at most `radius` (static clipping, as in Allouah et al. 2024)."""
    return rule(clipped(rows, radius))


def arc_threshold(rows: Array, num_byzantine: int) -> float:
    """Return the (k+1)-th largest norm, k = ⌊2 (f/n) (n − f)⌋ in whole numbers."""
    number = 2 * num_byzantine * (len(rows) - num_byzantine) // len(rows)
    return sorted((norm(row) for row in rows), reverse=True)[number]


def adaptive_clipping(rows: Array, num_byzantine: int, rule: Rule) -> Array:
    """Apply the rule to rows clipped to the (k+1)-th largest norm (Allouah et al. 2024, ARC)."""
    return rule(clipped(rows, arc_threshold(rows, num_byzantine)))
