"""Kernels that deal points out: equal cuts, proportional counts, points moved to clients that have too few."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from steadfed._core.arrays import Indices


def equal_offsets(total: int, parts: int) -> Indices:
    """Return the parts + 1 offsets of parts whose sizes differ by at most 1: ⌊r · total / parts⌋.

    >>> equal_offsets(10, 4)
    array([ 0,  2,  5,  7, 10])
    """
    return np.arange(parts + 1, dtype=np.int64) * total // parts


def apportion(total: int, weights: NDArray[np.float64] | Indices) -> Indices:
    """Return whole numbers that sum to `total`, each within 1 of total · weight / Σ weights.

    The largest remainders are rounded up (Hamilton's method), so none is above its quota rounded up: if the weights
    are whole numbers that sum to at least `total`, no number exceeds its weight.

    >>> apportion(7, np.array([1, 2, 2]))
    array([1, 3, 3])
    """
    quotas = weights * (total / weights.sum()) if total else np.zeros(len(weights))
    counts = np.floor(quotas).astype(np.int64)
    missing = total - int(counts.sum())
    if missing > 0:
        counts[np.argsort(counts - quotas, kind="stable")[:missing]] += 1
    return counts


def ranks(owners: Indices, num_clients: int) -> Indices:
    """Return for each point how many earlier points have the same owner.

    >>> ranks(np.array([1, 0, 1, 1]), 2)
    array([0, 0, 1, 2])
    """
    order = np.argsort(owners, kind="stable")
    starts = np.cumsum(np.bincount(owners, minlength=num_clients))
    found = np.empty(len(owners), dtype=np.int64)
    found[order] = np.arange(len(owners)) - np.concatenate([[0], starts])[owners[order]]
    return found


def with_at_least(owners: Indices, num_clients: int, min_points: int, generator: np.random.Generator) -> Indices:
    """Return owners among whom every one has at least `min_points` points, if there are enough for all.

    Owners with s points above the minimum give in proportion to s, and the points they give are dealt at random to
    those below it. What is given is at most s, because what is missing is at most Σ s; so nobody falls below the
    minimum by giving, and one pass is enough. Nothing changes if nobody has too few.
    """
    counts = np.bincount(owners, minlength=num_clients)
    missing = np.maximum(min_points - counts, 0)
    if not missing.any():
        return owners
    given = apportion(int(missing.sum()), np.maximum(counts - min_points, 0))
    moved = np.flatnonzero(ranks(owners, num_clients) < given[owners])
    repaired = owners.copy()
    repaired[generator.permutation(moved)] = np.repeat(np.arange(num_clients), missing)
    return repaired
