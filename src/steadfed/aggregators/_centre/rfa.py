"""RFA: a few smoothed Weiszfeld steps from the mean."""

from __future__ import annotations

from typing import Annotated, ClassVar, final

import numpy as np
from pydantic import BeforeValidator, Field

from steadfed._core.values import real_number, whole_number
from steadfed._linalg.columns import Columns
from steadfed._linalg.gram import pivoted_gram
from steadfed._linalg.weiszfeld import distances_to_combination, weiszfeld_step
from steadfed.aggregators._base import Claim, GramAggregator, MinorityAggregator, aggregation_of
from steadfed.aggregators._evidence import Aggregation, Stop
from steadfed.aggregators._registry import RULES
from steadfed.aggregators._view import ServerView


@RULES.register("rfa")
@final
class Rfa(MinorityAggregator, GramAggregator):
    r"""The smoothed Weiszfeld iteration, cut off after R steps (Pillutla, Kakade, Harchaoui 2022, Algorithm 2).

    From the mean v of the n rows, R times: β_i = 1 / max(ν, ‖v − g_i‖), v ← Σ β_i g_i / Σ β_i, with equal weights of
    the clients. ν is absolute, in units of the rows. All in the Gram matrix, O(K²) per step.

    In the limit the point is the geometric median, which stands any minority. After R steps it is not there yet: if f
    rows lie at one point at distance D from n − f others at one point, the update is still D x^(R+1) / (1 + x^(R+1))
    away from these, x = f / (n − f). `GeometricMedian` runs to the end. Deviations: the paper leaves the start open
    (here the mean); unusable rows are dropped.

    >>> import torch
    >>> Rfa(num_iterations=1)(torch.tensor([[0.0], [0.0], [3.0]])).update
    tensor([0.6000])
    """

    citation: ClassVar[str] = "Pillutla, Kakade, Harchaoui 2022, Algorithm 2"

    smoothing: Annotated[float, Field(ge=1e-100), BeforeValidator(real_number)] = 1e-6
    """ν, the distance below which rows weigh alike."""
    num_iterations: Annotated[int, Field(ge=1), BeforeValidator(whole_number)] = 3
    """R, the number of steps."""

    def breaks(self) -> frozenset[Claim]:
        """Return that ν does not scale with the rows."""
        return frozenset({Claim.SCALING})

    def aggregate(self, columns: Columns, num_byzantine: int, view: ServerView) -> Aggregation:
        """Iterate in the Gram matrix, combine once; the score of a row is its distance to the update."""
        gram = pivoted_gram(columns)
        weights = np.full(len(gram.matrix), 1.0 / len(gram.matrix))
        for _ in range(self.num_iterations):
            weights = weiszfeld_step(gram.matrix, weights, self.smoothing)
        distances = distances_to_combination(gram.matrix, weights)
        return aggregation_of(
            columns,
            gram,
            weights,
            scores=distances,
            stop=Stop.COMBINED,
            num_byzantine=num_byzantine,
            num_steps=self.num_iterations,
        )
