r"""The capped simplex {0 ≤ w ≤ cap, Σ w = 1}, in which every column of the W of Algorithm 2 lies.

Its vertices put the full cap on ⌊1/cap⌋ rows and the rest on one more; moving weight to a smaller coordinate never
increases ⟨w, p⟩, so the least mean of numbers p is reached at the vertex that fills up the smallest of them.
"""

from __future__ import annotations

import numpy as np

from steadfed._core.arrays import Matrix, Vector

NEWTON_STEPS = 100
"""Steps at the most for a projection; the iteration is finite, and needs about ten, or three from a good start."""


def project_on_capped_simplex(matrix: Matrix, cap: float, start: Vector | None = None) -> tuple[Matrix, Vector]:
    """Return the columns' Euclidean projections, and the shifts to start from when columns nearby are projected next.

    The projection is clip(v − s, 0, cap) with s such that the sum is 1. The sum is piecewise linear and decreasing in
    s; Newton steps, kept inside a bracket, find s in finitely many steps.
    """
    low, high = matrix.min(axis=0) - cap, matrix.max(axis=0)
    shift = (low + high) / 2.0 if start is None else np.clip(start, low, high)
    clipped = np.empty_like(matrix)
    for _ in range(NEWTON_STEPS):
        moved = matrix - shift
        np.clip(moved, 0.0, cap, out=clipped)
        surplus = clipped.sum(axis=0) - 1.0
        found = np.abs(surplus) <= 1e-14
        if found.all():
            break
        low, high = np.where(surplus > 0, shift, low), np.where(surplus > 0, high, shift)
        slope = (clipped == moved).sum(axis=0)
        newton = shift + surplus / np.maximum(slope, 1)
        inside = (slope > 0) & (newton > low) & (newton < high)
        shift = np.where(found, shift, np.where(inside, newton, (low + high) / 2.0))
    return clipped, shift


def smallest_means(ordered: Matrix, cap: float) -> Vector:
    """Return min_w ⟨w, p⟩ for every column p, given in ascending order."""
    return np.asarray(vertex(len(ordered), cap) @ ordered)


def distances_to_means(coordinates: Matrix, cap: float) -> Matrix:
    """Return how far each number of a column is from the nearest mean ⟨w, p⟩ of the column p.

    The means fill the interval from the least to the largest: it is the image of a connected set under a linear map.
    """
    ordered = np.sort(coordinates, axis=0)
    low, high = smallest_means(ordered, cap), -smallest_means(-ordered[::-1], cap)
    return np.asarray(np.maximum(low - coordinates, 0.0) + np.maximum(coordinates - high, 0.0))


def smallest_vertices(prices: Matrix, cap: float) -> Matrix:
    """Return for every row p a vertex w with the least ⟨w, p⟩, as a row."""
    order = np.argsort(prices, axis=1)
    found = np.empty_like(prices)
    np.put_along_axis(found, order, np.broadcast_to(vertex(prices.shape[1], cap), prices.shape), axis=1)
    return found


def vertex(size: int, cap: float) -> Vector:
    """Return the vertex that fills up the first places."""
    full = min(int(np.floor(1.0 / cap + 1e-9)), size)
    weights = np.zeros(size)
    weights[:full] = cap
    if full < size:
        weights[full] = max(0.0, 1.0 - full * cap)
    return np.asarray(weights / weights.sum())
