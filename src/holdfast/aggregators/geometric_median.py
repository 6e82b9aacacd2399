"""The geometric median, from the Gram matrix."""

from __future__ import annotations

from typing import Annotated, final

import numpy as np
import torch
from pydantic import Field

from holdfast.aggregators.base import Aggregator, scattered, stop_or_too_many
from holdfast.aggregators.evidence import Aggregation, Stop
from holdfast.linalg.columns import Columns, Matrix, Vector
from holdfast.linalg.gram import pivoted_gram, squared_distances


@final
class GeometricMedian(Aggregator):
    r"""The point with the smallest sum of distances to the rows (Chen, Su, Xu 2017; Pillutla et al. 2019, RFA).

    It lies in the affine hull of the rows, so Weiszfeld's iteration w_i ∝ 1 / max(ν, ‖g_i − G w‖) needs only
    ‖g_i − G w‖² = Q_ii − 2 (Q w)_i + wᵀ Q w and costs O(K²) per iteration instead of O(K d). ν is `smoothing` times the
    median distance of the start. It assumes fewer than half Byzantine rows; its error grows with the dimension.

    >>> import torch
    >>> GeometricMedian()(torch.tensor([[0.0], [0.0], [0.0], [70.0]])).update.abs() < 1e-3
    tensor([True])
    """

    smoothing: Annotated[float, Field(gt=0.0, le=1.0)] = 1e-6
    tolerance: Annotated[float, Field(gt=0.0, lt=1.0)] = 1e-8
    max_iterations: Annotated[int, Field(ge=1)] = 1000

    def assumed_byzantine(self, cohort_size: int) -> int:
        """Return the largest number below half of the rows."""
        return (cohort_size - 1) // 2

    def smallest_cohort(self, num_byzantine: int) -> int:
        """Return 2f + 1."""
        return 2 * num_byzantine + 1

    def aggregate(self, columns: Columns) -> Aggregation:
        """Iterate in the Gram matrix, combine once; the score of a row is its distance to the update."""
        assumed = self.assumed_byzantine(columns.num_rows)
        gram = pivoted_gram(columns)
        weights, iterations = self._weiszfeld(gram.matrix)
        distances = distances_to_combination(gram.matrix, weights)
        share = columns.agree(scattered(weights, gram.usable, 0.0).numpy())
        stop = Stop.CONVERGED if iterations < self.max_iterations else Stop.NOT_CONVERGED
        return Aggregation(
            update=columns.combine(share),
            weights=torch.from_numpy(share),
            kept=torch.from_numpy(share > 0.0),
            usable=torch.from_numpy(gram.usable),
            scores=scattered(distances, gram.usable, np.inf),
            stop=stop_or_too_many(stop, assumed, gram.usable),
            num_byzantine=assumed,
            num_steps=iterations,
        )

    def _weiszfeld(self, gram: Matrix) -> tuple[Vector, int]:
        """Return the weights and the number of iterations until no weight changes by more than the tolerance."""
        weights = np.full(len(gram), 1.0 / len(gram))
        typical = float(np.sqrt(np.median(squared_distances(gram), axis=1).min()))
        floor = max(self.smoothing * typical, 1e-100)
        for iteration in range(1, self.max_iterations + 1):
            distances = distances_to_combination(gram, weights)
            if distances.max() == 0.0:
                return weights, iteration
            inverse = 1.0 / np.maximum(distances, floor)
            new = inverse / inverse.sum()
            if np.abs(new - weights).max() <= self.tolerance * weights.max():
                return new, iteration
            weights = new
        return weights, self.max_iterations


def distances_to_combination(gram: Matrix, weights: Vector) -> Vector:
    """Return ‖g_i − Σ_j w_j g_j‖ for every row."""
    to_rows = gram @ weights
    return np.sqrt(np.maximum(gram.diagonal() - 2.0 * to_rows + weights @ to_rows, 0.0))
