"""The geometric median, from the Gram matrix."""

from __future__ import annotations

from typing import Annotated, ClassVar, final

import numpy as np
from pydantic import Field

from holdfast.aggregators.base import MinorityAggregator, aggregation_of
from holdfast.aggregators.evidence import Aggregation, Stop
from holdfast.aggregators.view import ServerView
from holdfast.linalg.columns import Columns, Matrix, Vector
from holdfast.linalg.gram import pivoted_gram, squared_distances

SMOOTHING = 1e-6
"""Distances below this share of the typical one count as this share."""
TOLERANCE = 1e-8
"""The iteration has converged when the point moves by less than this share of the typical distance."""
MAX_ITERATIONS = 1000


@final
class GeometricMedian(MinorityAggregator):
    r"""The point with the smallest sum of distances to the rows (Chen, Su, Xu 2017; Pillutla et al. 2019, RFA).

    It lies in the affine hull of the rows, so Weiszfeld's iteration w_i ∝ 1 / max(ν, ‖g_i − G w‖) needs only
    ‖g_i − G w‖² = Q_ii − 2 (Q w)_i + wᵀ Q w and costs O(K²) per iteration instead of O(K d). ν is `smoothing` times the
    median distance to the most central row. It assumes fewer than half Byzantine rows unless told a bound; its error
    grows with the dimension.

    >>> import torch
    >>> GeometricMedian()(torch.tensor([[0.0], [0.0], [0.0], [70.0]])).update.abs() < 1e-3
    tensor([True])
    """

    citation: ClassVar[str] = "Chen, Su, Xu 2017; Weiszfeld 1937"

    smoothing: Annotated[float, Field(gt=0.0, le=1.0)] = SMOOTHING
    tolerance: Annotated[float, Field(gt=0.0, lt=1.0)] = TOLERANCE
    max_iterations: Annotated[int, Field(ge=1)] = MAX_ITERATIONS

    def aggregate(self, columns: Columns, num_byzantine: int, view: ServerView) -> Aggregation:
        """Iterate in the Gram matrix, combine once; the score of a row is its distance to the update."""
        gram = pivoted_gram(columns)
        weights, iterations = geometric_median_weights(
            gram.matrix, smoothing=self.smoothing, tolerance=self.tolerance, max_iterations=self.max_iterations
        )
        distances = distances_to_combination(gram.matrix, weights)
        stop = Stop.CONVERGED if iterations < self.max_iterations else Stop.NOT_CONVERGED
        return aggregation_of(
            columns, gram, weights, scores=distances, stop=stop, num_byzantine=num_byzantine, num_steps=iterations
        )


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
