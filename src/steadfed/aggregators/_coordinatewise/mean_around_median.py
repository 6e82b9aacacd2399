"""The mean around the coordinate-wise median."""

from __future__ import annotations

from typing import ClassVar, final

from steadfed._linalg.columns import Columns
from steadfed._linalg.gram import all_or_usable
from steadfed.aggregators._base import BoundedAggregator, Claim, usable_bound
from steadfed.aggregators._coordinatewise.blocks import coordinatewise
from steadfed.aggregators._coordinatewise.windows import around_median
from steadfed.aggregators._evidence import Aggregation
from steadfed.aggregators._registry import RULES
from steadfed.aggregators._view import ServerView


@RULES.register("meamed")
@final
class MeanAroundMedian(BoundedAggregator):
    """The mean of the n − f values nearest to the median, in every coordinate (Xie, Koyejo, Gupta 2018, MeaMed).

    The n − f nearest values are consecutive once sorted, so one sort of every coordinate finds them. It needs n > 2f:
    then the median lies among the honest values, and as n − f values are honest, every value averaged is no farther
    from the median than the farthest honest one. The error over all coordinates together grows with the dimension. A
    client's weight is its share of the values averaged over all coordinates, equal values at either end dividing their
    places evenly; its score is the share of coordinates in which it was left out. The update is not linear in the rows.

    Deviations from the paper, which leaves both open: the median of an even number of values is the mean of the middle
    two, and of two values equally near the smaller one is taken. Unusable rows are dropped and counted against f.

    >>> import torch
    >>> MeanAroundMedian(num_byzantine=1)(torch.tensor([[1.0], [2.0], [4.0], [600.0]])).update
    tensor([2.3333])
    """

    citation: ClassVar[str] = "Xie, Koyejo, Gupta 2018, mean around median"

    def breaks(self) -> frozenset[Claim]:
        """Return that the update is no weighted sum of rows, and depends on the axes."""
        return frozenset({Claim.LINEARITY, Claim.ROTATION})

    def aggregate(self, columns: Columns, num_byzantine: int, view: ServerView) -> Aggregation:
        """Sort every coordinate once and average the window around the median."""
        usable = all_or_usable(columns)
        dropped = usable_bound(num_byzantine, usable)
        return coordinatewise(
            columns, lambda n: around_median(max(1, n - dropped)), num_byzantine=num_byzantine, among=usable
        )
