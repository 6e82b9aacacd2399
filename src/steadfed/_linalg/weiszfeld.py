"""Weiszfeld's iteration for the geometric median, in the Gram matrix."""

from __future__ import annotations

import numpy as np

from steadfed._core.arrays import Matrix, Vector
from steadfed._linalg.gram import squared_distances

SMOOTHING = 1e-6
"""Distances below this share of the typical one count as this share."""
TOLERANCE = 1e-8
"""The iteration has converged when the point moves by less than this share of the typical distance."""
MAX_ITERATIONS = 1000


def geometric_median_weights(
    gram: Matrix, *, smoothing: float = SMOOTHING, tolerance: float = TOLERANCE, max_iterations: int = MAX_ITERATIONS
) -> tuple[Vector, int]:
    """Return the weights, and the iterations until the point moves by less than the tolerance.

    The start is the mean of the half of the rows nearest to the most central one, the unit of length the median
    distance to that row: both stay honest under a minority of outliers however far, as does the stop.
    """
    squared = squared_distances(gram)
    centre = int(np.argmin(np.median(squared, axis=1)))
    typical = float(np.sqrt(np.median(squared[centre])))
    near = squared[centre] <= np.median(squared[centre])
    weights = near / near.sum()
    floor = max(smoothing * typical, 1e-100)
    for iteration in range(1, max_iterations + 1):
        new = weiszfeld_step(gram, weights, floor)
        step = new - weights
        weights = new
        if step @ (gram @ step) <= (tolerance * typical) ** 2:
            return weights, iteration
    return weights, max_iterations


def weiszfeld_step(gram: Matrix, weights: Vector, floor: float) -> Vector:
    """Return w_i ∝ 1 / max(ν, ‖g_i − v‖) for the point v = Σ_j w_j g_j and the floor ν."""
    inverse = 1.0 / np.maximum(distances_to_combination(gram, weights), floor)
    return np.asarray(inverse / inverse.sum())


def distances_to_combination(gram: Matrix, weights: Vector) -> Vector:
    """Return ‖g_i − Σ_j w_j g_j‖ for every row."""
    to_rows = gram @ weights
    return np.sqrt(np.maximum(gram.diagonal() - 2.0 * to_rows + weights @ to_rows, 0.0))
