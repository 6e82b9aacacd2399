"""The coordinate-wise trimmed mean."""

from __future__ import annotations

from typing import ClassVar, final

from steadfed._linalg.columns import Columns
from steadfed._linalg.gram import all_or_usable
from steadfed.aggregators._base import BoundedAggregator, Claim, usable_bound
from steadfed.aggregators._coordinatewise.blocks import coordinatewise
from steadfed.aggregators._coordinatewise.windows import trimmed
from steadfed.aggregators._evidence import Aggregation
from steadfed.aggregators._registry import RULES
from steadfed.aggregators._view import ServerView


@RULES.register("trimmed-mean")
@final
class TrimmedMean(BoundedAggregator):
    """The mean of every coordinate without its f smallest and its f largest values (Yin et al. 2018, Definition 2).

    With the sorted values x_(1) ≤ … ≤ x_(n) of a coordinate, update = (x_(f+1) + … + x_(n−f)) / (n − 2f). It needs
    n > 2f. Every value averaged lies between the smallest and the largest honest value of its coordinate: a larger one
    would be among the f largest. The error over all coordinates together grows with the dimension. A client's weight
    is its share of the values averaged over all coordinates, equal values at either end dividing their places evenly;
    its score is the share of coordinates in which it was trimmed. The update is not linear in the rows.

    Deviations from the paper: its β n is f, a whole number; unusable rows are dropped and counted against f.

    >>> import torch
    >>> TrimmedMean(num_byzantine=1)(torch.tensor([[1.0], [2.0], [3.0], [600.0]])).update
    tensor([2.5000])
    """

    citation: ClassVar[str] = "Yin et al. 2018, Definition 2"

    def breaks(self) -> frozenset[Claim]:
        """Return that the update is no weighted sum of rows, and depends on the axes."""
        return frozenset({Claim.LINEARITY, Claim.ROTATION})

    def aggregate(self, columns: Columns, num_byzantine: int, view: ServerView) -> Aggregation:
        """Sort every coordinate once and average what is left."""
        return trimmed_mean(columns, num_byzantine)


def trimmed_mean(columns: Columns, num_byzantine: int) -> Aggregation:
    """Return the trimmed mean of the usable rows; where too few are left, of the middle one or two."""
    usable = all_or_usable(columns)
    dropped = usable_bound(num_byzantine, usable)
    return coordinatewise(
        columns, lambda n: trimmed(min(dropped, (n - 1) // 2)), num_byzantine=num_byzantine, among=usable
    )
