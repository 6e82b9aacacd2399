"""The norm filter, also known as comparative gradient elimination."""

from __future__ import annotations

from typing import ClassVar, final

import numpy as np

from steadfed._linalg.columns import Columns
from steadfed._linalg.gram import squared_norms, usable_rows
from steadfed.aggregators._base import BoundedAggregator, Claim, usable_bound
from steadfed.aggregators._evidence import Aggregation
from steadfed.aggregators._registry import RULES
from steadfed.aggregators._selection.subsets import average_of, lowest
from steadfed.aggregators._view import ServerView


@RULES.register("norm-filter")
@final
class NormFilter(BoundedAggregator):
    """The average of the n − f rows with the smallest norms (Ghosh et al. 2020; Gupta, Liu, Vaidya 2020, CGE).

    A Byzantine row that stays is no longer than the longest honest row, as otherwise it were among the f longest; its
    direction is free. No Gram matrix is formed: one pass over the rows finds their norms, which are the scores. Of
    equal norms the first rows stay.

    Deviations from the papers: the average, as in Ghosh et al., where Gupta et al. take the sum, which the step size
    absorbs; unusable rows are dropped and counted against f.

    >>> import torch
    >>> NormFilter(num_byzantine=1)(torch.tensor([[1.0, 0.0], [0.0, 1.0], [-9.0, 9.0]])).update
    tensor([0.5000, 0.5000])
    """

    citation: ClassVar[str] = "Ghosh et al. 2020; Gupta, Liu, Vaidya 2020"

    def breaks(self) -> frozenset[Claim]:
        """Return that norms are measured from the origin."""
        return frozenset({Claim.TRANSLATION})

    def aggregate(self, columns: Columns, num_byzantine: int, view: ServerView) -> Aggregation:
        """Drop the longest rows and average the rest."""
        squares = squared_norms(columns)
        usable = usable_rows(columns, squares)
        norms = np.sqrt(squares[usable])
        weights = lowest(norms, max(1, len(norms) - usable_bound(num_byzantine, usable)))
        return average_of(columns, usable, weights, scores=norms, num_byzantine=num_byzantine)
