"""Krum, from the Gram matrix."""

from __future__ import annotations

from typing import ClassVar, final

import numpy as np

from holdfast.aggregators.base import BoundedAggregator, aggregation_of, usable_bound
from holdfast.aggregators.evidence import Aggregation, Stop
from holdfast.aggregators.view import ServerView
from holdfast.linalg.columns import Columns, Matrix, Vector
from holdfast.linalg.gram import pivoted_gram, squared_distances


@final
class Krum(BoundedAggregator):
    """The one row that is closest to its n − f − 2 nearest other rows (Blanchard et al. 2017, section 4).

    score(i) = Σ over the n − f − 2 nearest OTHER rows j of ‖g_i − g_j‖², squared as in the paper; the row with the
    smallest score is the update. It needs 2f + 2 < n (its Proposition 4.2).

    >>> import torch
    >>> Krum(num_byzantine=1)(torch.tensor([[1.0], [1.1], [1.3], [0.8], [90.0]])).update
    tensor([1.1000])
    """

    citation: ClassVar[str] = "Blanchard et al. 2017, section 4"

    def smallest_cohort(self, num_byzantine: int) -> int:
        """Return 2f + 3, or 1 if no row is Byzantine."""
        return 2 * num_byzantine + 3 if num_byzantine else 1

    def aggregate(self, columns: Columns, num_byzantine: int, view: ServerView) -> Aggregation:
        """Score every usable row and select the best."""
        gram = pivoted_gram(columns)
        scores = krum_scores(squared_distances(gram.matrix), usable_bound(num_byzantine, gram.usable))
        chosen = np.zeros(len(scores))
        chosen[int(np.argmin(scores))] = 1.0
        return aggregation_of(columns, gram, chosen, scores=scores, stop=Stop.SELECTED, num_byzantine=num_byzantine)


def krum_scores(squared: Matrix, num_byzantine: int) -> Vector:
    """Return the sum of squared distances to the n − f − 2 nearest other rows, at least one where there is one."""
    n = len(squared)
    neighbours = min(n - 1, max(1, n - num_byzantine - 2))
    return np.asarray(np.sort(squared, axis=1)[:, 1 : neighbours + 1].sum(axis=1))
