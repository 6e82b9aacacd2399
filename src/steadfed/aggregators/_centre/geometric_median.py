"""The geometric median, from the Gram matrix."""

from __future__ import annotations

from typing import Annotated, ClassVar, final

from pydantic import BeforeValidator, Field

from steadfed._core.values import real_number, whole_number
from steadfed._linalg.columns import Columns
from steadfed._linalg.gram import pivoted_gram
from steadfed._linalg.weiszfeld import (
    MAX_ITERATIONS,
    SMOOTHING,
    TOLERANCE,
    distances_to_combination,
    geometric_median_weights,
)
from steadfed.aggregators._base import GramAggregator, MinorityAggregator, aggregation_of
from steadfed.aggregators._evidence import Aggregation, Stop
from steadfed.aggregators._registry import RULES
from steadfed.aggregators._view import ServerView


@RULES.register("geometric-median")
@final
class GeometricMedian(MinorityAggregator, GramAggregator):
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

    smoothing: Annotated[float, Field(gt=0.0, le=1.0), BeforeValidator(real_number)] = SMOOTHING
    """ν, the length below which a distance counts as this, in typical distances."""
    tolerance: Annotated[float, Field(gt=0.0, lt=1.0), BeforeValidator(real_number)] = TOLERANCE
    """Stop when a step moves the point by less than this, in typical distances."""
    max_iterations: Annotated[int, Field(ge=1), BeforeValidator(whole_number)] = MAX_ITERATIONS
    """Stop after so many steps."""

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
