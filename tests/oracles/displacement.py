"""Mode "auto" with explicit covariances, means and distances in R^d, one exact eigenvector per step."""

from __future__ import annotations

import math

import numpy as np
from tests.oracles.filtering import filter_until
from tests.oracles.rules import geometric_median
from tests.oracles.saddle import Array


def filter_by_displacement(
    rows: Array, num_byzantine: int, *, rho: float, rejection: float, kappa: float, sampled: bool
) -> tuple[Array, int, bool]:
    """Return the shares of the rows, the f that was used, and whether the guard was alarmed.

    docs/theory/filter.md, section 5.3: the path to mass n − 2f, the state with the smallest spread on it as the anchor,
    the first state with at most κ λ_a whose displacement f rows account for up to ρ √(λ_a f/n), or up to `rejection`
    times that and then cut; and section 5.4: the guard.
    """
    number = len(rows)
    weights, spreads = path(rows, num_byzantine)
    anchor = int(np.argmin(spreads))
    most = largest_number(number, num_byzantine) if sampled else num_byzantine
    if most > num_byzantine and spreads[anchor] > (limit := typical_square(rows, most)):
        used = needed(rows, num_byzantine, most, limit)
        weights, spreads = path(rows, used)
        safest = weights[int(np.argmin(spreads))]
        return safest / safest.sum(), used, True
    at_anchor = weights[anchor] / weights[anchor].sum()
    reach = rho * math.sqrt(spreads[anchor] * num_byzantine / number)
    for each, spread in zip(weights[:anchor], spreads[:anchor], strict=True):
        by_few = accounted_for(rows, each, weights[anchor], num_byzantine)
        if spread <= kappa * spreads[anchor] and by_few <= rejection * reach:
            share = 1.0 if by_few <= reach else reach / by_few
            return share * each / each.sum() + (1.0 - share) * at_anchor, num_byzantine, False
    return at_anchor, num_byzantine, False


def accounted_for(rows: Array, weights: Array, anchor: Array, number: int) -> float:
    """Return how much of the displacement of a weighted mean from the anchor's so many rows account for, at most.

    Row by row: what its change of share does along the displacement.
    """
    centre = mean_of(rows, anchor)
    moved = mean_of(rows, weights) - centre
    length = float(np.linalg.norm(moved))
    if length == 0.0:
        return 0.0
    parts = []
    for row, before, after in zip(rows, weights / weights.sum(), anchor / anchor.sum(), strict=True):
        if before > 0.0 or after > 0.0:
            parts.append((before - after) * float((row - centre) @ moved) / length)
    return min(length, float(sum(sorted(parts, reverse=True)[:number])))


def path(rows: Array, num_byzantine: int) -> tuple[list[Array], list[float]]:
    """Return the weights and the spread of every state down to mass n − 2f."""
    trail = filter_until(rows, len(rows) - 2.0 * num_byzantine, 0.0, 0.0)
    return trail.weights, trail.spreads


def mean_of(rows: Array, weights: Array) -> Array:
    """Return the weighted mean; rows without weight are not looked at."""
    kept = weights > 0.0
    return np.asarray(weights[kept] @ rows[kept] / weights[kept].sum())


def largest_number(number: int, num_byzantine: int) -> int:
    """Return F = min(⌊(n−1)/2⌋, f + ⌈3 √(f(1 − f/n))⌉), and f if that is more."""
    above = math.ceil(3.0 * math.sqrt(num_byzantine * (1.0 - num_byzantine / number)))
    return max(num_byzantine, min((number - 1) // 2, num_byzantine + above))


def typical_square(rows: Array, most: int) -> float:
    """Return m²: of k distinct rows, the ⌈k(n − F)/n⌉-th smallest squared distance to the geometric median."""
    distinct = np.unique(rows, axis=0)
    centre = geometric_median(rows)
    squares = sorted(float((row - centre) @ (row - centre)) for row in distinct)
    return squares[math.ceil(len(distinct) * (len(rows) - most) / len(rows)) - 1]


def needed(rows: Array, num_byzantine: int, most: int, limit: float) -> int:
    """Return by bisection the smallest f up to F whose anchor's spread is within the limit; f if there is none."""

    def within(assumed: int) -> bool:
        return min(path(rows, assumed)[1]) <= limit

    if not within(most):
        return num_byzantine
    low, high = num_byzantine, most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if within(middle) else (middle, high)
    return high
