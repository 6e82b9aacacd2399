"""Krum and Multi-Krum, from the Gram matrix."""

from __future__ import annotations

from typing import Annotated, ClassVar, final

import numpy as np
from pydantic import BeforeValidator, Field

from steadfed._core.arrays import Matrix, Vector
from steadfed._core.values import whole_number
from steadfed._linalg.columns import Columns
from steadfed._linalg.gram import pivoted_gram
from steadfed.aggregators._base import BoundedAggregator, GramAggregator, aggregation_of, usable_bound
from steadfed.aggregators._evidence import Aggregation, Stop
from steadfed.aggregators._registry import RULES
from steadfed.aggregators._selection.subsets import lowest, pair_distances
from steadfed.aggregators._view import ServerView


@RULES.register("krum")
@final
class Krum(BoundedAggregator, GramAggregator):
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
        scores = krum_scores(pair_distances(gram.matrix), usable_bound(num_byzantine, gram.usable))
        chosen = lowest(scores, 1)
        return aggregation_of(columns, gram, chosen, scores=scores, stop=Stop.SELECTED, num_byzantine=num_byzantine)


@RULES.register("multi-krum")
@final
class MultiKrum(BoundedAggregator, GramAggregator):
    """The average of the rows with the smallest Krum scores (Blanchard et al. 2017, Multi-Krum).

    All scores are computed once, on all usable rows; with one row selected it is Krum, with n the mean. Of equal scores
    the first rows are selected. It needs 2f + 2 < n, as Krum does.

    Args:
        byzantine_fraction: ε, the assumed share of Byzantine rows; f = ⌈ε K⌉ of the K rows received.
        num_byzantine: f itself. Exactly one of the two is given.
        num_selected: how many rows are averaged; n − f of the n usable ones if left out, and n if there are fewer.

    Deviations from the paper: the number selected has a default, the number of honest rows; unusable rows are dropped
    and counted against f.

    >>> import torch
    >>> MultiKrum(num_byzantine=1)(torch.tensor([[1.0], [1.1], [1.3], [0.8], [90.0]])).update
    tensor([1.0500])
    """

    citation: ClassVar[str] = "Blanchard et al. 2017, Multi-Krum"

    num_selected: Annotated[int, Field(ge=1), BeforeValidator(whole_number)] | None = None
    """How many updates of the smallest scores are averaged; n − f if left out."""

    def smallest_cohort(self, num_byzantine: int) -> int:
        """Return 2f + 3, or 1 if no row is Byzantine, and at least the number selected."""
        return max(2 * num_byzantine + 3 if num_byzantine else 1, self.num_selected or 1)

    def aggregate(self, columns: Columns, num_byzantine: int, view: ServerView) -> Aggregation:
        """Score every usable row and average the best."""
        gram = pivoted_gram(columns)
        bound = usable_bound(num_byzantine, gram.usable)
        scores = krum_scores(pair_distances(gram.matrix), bound)
        number = min(len(scores), self.num_selected or max(1, len(scores) - bound))
        chosen = lowest(scores, number)
        return aggregation_of(columns, gram, chosen, scores=scores, stop=Stop.SUBSET, num_byzantine=num_byzantine)


def krum_scores(squared: Matrix, num_byzantine: int) -> Vector:
    """Return the sum of squared distances to the n − f − 2 nearest other rows, at least one where there is one."""
    nearest = np.sort(squared, axis=1)[:, 1 : num_neighbours(len(squared), num_byzantine) + 1]
    return np.asarray(nearest.sum(axis=1))


def num_neighbours(num_rows: int, num_byzantine: int) -> int:
    """Return n − f − 2, at least one, and at most all other rows."""
    return min(num_rows - 1, max(1, num_rows - num_byzantine - 2))
