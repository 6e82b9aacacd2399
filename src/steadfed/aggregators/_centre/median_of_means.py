"""The geometric median of the means of random groups."""

from __future__ import annotations

from typing import Annotated, ClassVar, final

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field, model_validator

from steadfed._core.rng import stream
from steadfed._core.values import whole_number
from steadfed._linalg.columns import Columns
from steadfed._linalg.gram import pivoted_gram
from steadfed._linalg.mixtures import averages
from steadfed._linalg.weiszfeld import MAX_ITERATIONS, distances_to_combination, geometric_median_weights
from steadfed.aggregators._base import BoundedAggregator, Claim, GramAggregator, aggregation_of, usable_bound
from steadfed.aggregators._evidence import Aggregation, Stop
from steadfed.aggregators._registry import RULES
from steadfed.aggregators._view import ServerView


@RULES.register("geometric-median-of-means")
@final
class MedianOfMeans(BoundedAggregator, GramAggregator):
    r"""The geometric median of the means of k random groups of clients (Chen, Su, Xu 2017, Algorithm 2).

    Groups are drawn anew in every round, and their sizes differ by at most one. The Gram matrix of the means is
    A Q Aᵀ for the k x n matrix A of shares, so the rows are read once for Q and once for the update. With k > 2f
    groups fewer than half of them hold a Byzantine row, and the geometric median stands any minority; averaging
    first brings the honest points nearer to each other.

    Deviations: the paper's groups are of one size and fixed in advance; a smaller group counts here as much as any
    other. Unusable rows are dropped before the groups are drawn.

    >>> import torch
    >>> MedianOfMeans(num_byzantine=1)(torch.tensor([[0.0], [0.0], [0.0], [3.0], [3.0], [3.0], [900.0]])).weights.sum()
    tensor(1., dtype=torch.float64)
    """

    citation: ClassVar[str] = "Chen, Su, Xu 2017, Algorithm 2"

    num_groups: Annotated[int, Field(ge=1), BeforeValidator(whole_number)] | None = None
    """k, at most n; 2f + 1 if left out, the fewest of which a majority is honest."""
    seed: Annotated[int, Field(ge=0), BeforeValidator(whole_number)] = 0
    """The root seed of the groups, which are drawn anew in every round."""

    @model_validator(mode="after")
    def _a_majority_of_honest_groups(self) -> MedianOfMeans:
        if self.num_groups is not None and self.num_byzantine is not None and self.num_groups <= 2 * self.num_byzantine:
            raise ValueError(
                f"num_groups must be at least 2 * num_byzantine + 1 = {2 * self.num_byzantine + 1}, or most groups may "
                f"hold a Byzantine update; got num_groups={self.num_groups}"
            )
        return self

    def breaks(self) -> frozenset[Claim]:
        """Return that who shares a group depends on the order of the rows."""
        return frozenset({Claim.PERMUTATION})

    def aggregate(self, columns: Columns, num_byzantine: int, view: ServerView) -> Aggregation:
        """Iterate in the groups' Gram matrix; the score of a row is the distance of its group's mean to the update."""
        gram = pivoted_gram(columns)
        groups = self._groups(len(gram.matrix), usable_bound(num_byzantine, gram.usable), view.round)
        means = averages(groups)
        among = means @ gram.matrix @ means.T
        weights, iterations = geometric_median_weights(among)
        return aggregation_of(
            columns,
            gram,
            weights @ means,
            scores=distances_to_combination(among, weights)[groups],
            stop=Stop.CONVERGED if iterations < MAX_ITERATIONS else Stop.NOT_CONVERGED,
            num_byzantine=num_byzantine,
            num_steps=iterations,
        )

    def _groups(self, num_rows: int, num_byzantine: int, round_number: int) -> NDArray[np.intp]:
        """Return the group of every row: a random permutation, dealt out in turn."""
        number = min(num_rows, 2 * num_byzantine + 1 if self.num_groups is None else self.num_groups)
        groups: NDArray[np.intp] = np.empty(num_rows, dtype=np.intp)
        groups[stream(self.seed, "groups", round_number).permutation(num_rows)] = np.arange(num_rows) % number
        return groups
