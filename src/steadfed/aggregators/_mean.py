"""The plain average: not robust, the yardstick of everything else."""

from __future__ import annotations

from typing import ClassVar, final

import numpy as np
import torch

from steadfed._linalg.columns import Columns
from steadfed._linalg.gram import usable_rows
from steadfed.aggregators._base import LooselyBoundedAggregator, stop_or_too_many
from steadfed.aggregators._evidence import Aggregation, Stop
from steadfed.aggregators._rage.weighing import Weighing
from steadfed.aggregators._registry import RULES
from steadfed.aggregators._view import ServerView


@RULES.register("mean")
@final
class Mean(LooselyBoundedAggregator):
    """The average of the usable rows (McMahan et al. 2017, FederatedAveraging with uniform weights).

    With weights of the operator's (`ServerView.weights`) it is their weighted average, as FederatedAveraging with
    trusted sizes.

    One Byzantine row can move it anywhere; it assumes there is none unless told a bound, which then only says how many
    rows may be unusable.

    >>> import torch
    >>> Mean()(torch.tensor([[1.0], [2.0], [6.0]])).update
    tensor([3.])
    """

    citation: ClassVar[str] = "McMahan et al. 2017, FederatedAveraging"
    weighs: ClassVar[bool] = True

    def default_byzantine(self, cohort_size: int) -> int:
        """Return 0."""
        return 0

    def smallest_cohort(self, num_byzantine: int) -> int:
        """Return 1."""
        return 1

    def aggregate(self, columns: Columns, num_byzantine: int, view: ServerView) -> Aggregation:
        """Average the usable rows; the score of a row is its squared norm."""
        given = view.unequal_weights(columns.num_rows)
        share = np.full(columns.num_rows, 1.0 / columns.num_rows) if given is None else given / given.sum()
        update, norms = columns.combine_with_squares(share)
        usable = usable_rows(columns, norms)
        weights = usable / usable.sum() if given is None else np.where(usable, given, 0.0) / given[usable].sum()
        return Aggregation(
            update=update if usable.all() else columns.combine(weights),
            weights=torch.from_numpy(weights),
            kept=torch.from_numpy(usable),
            usable=torch.from_numpy(usable),
            scores=torch.from_numpy(np.where(usable, norms, np.inf)),
            stop=stop_or_too_many(Stop.COMBINED, num_byzantine, usable),
            num_byzantine=num_byzantine,
            weighing=None if given is None else Weighing(weights=given / given.max(), byzantine=0.0),
        )
