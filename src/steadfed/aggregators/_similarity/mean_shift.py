"""Mean shift with a flat kernel, for a few features per client."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from steadfed._core.arrays import Matrix, Vector

TOLERANCE = 1e-3
"""A centre that moves by less than this share of the bandwidth has arrived."""
MAX_ITERATIONS = 300
"""Moves of one centre."""
SLACK = 1.0 + 1e-9
"""A bandwidth that is itself a distance between points reaches these points whatever the rounding."""
DIGITS = 12
"""Decimals to which features of size 1 are compared, so that ties do not depend on the order of a sum."""


def mean_shift(points: Matrix, bandwidth: float) -> tuple[Matrix, NDArray[np.intp]]:
    """Return the centres, largest first, and the centre of each point (Comaniciu and Meer 2002).

    From every point, move to the mean of the points within the bandwidth until the move is small. Of the centres
    reached, those with most points come first, of equal numbers the one whose coordinates are larger; each removes
    the later ones within the bandwidth of it. A point belongs to the nearest centre left, the first of equally near
    ones. This is scikit-learn's `MeanShift(bandwidth=..., bin_seeding=False, cluster_all=True)`; bandwidth 0 puts only
    equal points together.

    >>> centres, labels = mean_shift(np.array([[0.0], [0.5], [5.0], [0.25]]), 1.0)
    >>> centres.tolist(), labels.tolist()
    ([[0.25], [5.0]], [0, 0, 1, 0])
    """
    distinct, counts = np.unique(points, axis=0, return_counts=True)
    reached, sizes = _climb(distinct, counts.astype(float), bandwidth)
    keys = np.round(reached, DIGITS)
    order = np.lexsort((*(-keys.T[::-1]), -sizes))
    centres: list[Vector] = []
    for centre in reached[order]:
        if not centres or float(distances_between(np.array(centres), centre[None]).min()) > bandwidth * SLACK:
            centres.append(centre)
    kept = np.array(centres)
    return kept, np.argmin(np.round(distances_between(points, kept), DIGITS), axis=1)


def _climb(distinct: Matrix, counts: Vector, bandwidth: float) -> tuple[Matrix, Vector]:
    """Return where each point ends up, and how many points were within the bandwidth of it before the last move."""
    centres, sizes = distinct.copy(), np.zeros(len(distinct))
    moving = np.arange(len(distinct))
    for _ in range(MAX_ITERATIONS + 1):
        within = (distances_between(centres[moving], distinct) <= bandwidth * SLACK) * counts
        sizes[moving] = within.sum(axis=1)
        step = (within @ distinct) / sizes[moving, None] - centres[moving]
        centres[moving] += step
        moving = moving[np.sqrt((step**2).sum(axis=1)) > max(TOLERANCE * bandwidth, 10.0**-DIGITS)]
        if not len(moving):
            break
    return centres, sizes


def distances_between(left: Matrix, right: Matrix) -> Matrix:
    """Return ‖left_i − right_j‖, one feature at a time."""
    squared = np.zeros((len(left), len(right)))
    for a, b in zip(left.T, right.T, strict=True):
        squared += (a[:, None] - b) ** 2
    return np.sqrt(squared)


def typical_distance(points: Matrix) -> float:
    """Return the mean distance of a point to its ⌊n/2⌋-th nearest, itself the first.

    It is scikit-learn's `estimate_bandwidth(quantile=0.5)`. Of two tight groups at distance D only the points of the
    smaller one may have that far to go, so it is at most about D/2, and mean shift tells the groups apart. The median
    distance between two points would be D for 3 and 2 points, or 6 and 4.

    >>> typical_distance(np.array([[0.0], [0.0], [0.0], [1.0]]))
    0.25
    """
    place = max(1, len(points) // 2) - 1
    return float(np.partition(distances_between(points, points), place, axis=1)[:, place].mean())
