"""The coordinate-wise median."""

from __future__ import annotations

from typing import ClassVar, final

import numpy as np

from steadfed._core.arrays import Vector
from steadfed._linalg.columns import Columns
from steadfed.aggregators._base import Claim, MinorityAggregator
from steadfed.aggregators._coordinatewise.blocks import Block, Part, coordinatewise, ordered_columns, outside
from steadfed.aggregators._evidence import Aggregation
from steadfed.aggregators._registry import RULES
from steadfed.aggregators._view import ServerView


@RULES.register("median")
@final
class Median(MinorityAggregator):
    """The median of the usable rows in every coordinate (Yin et al. 2018, Definition 1).

    Of an even number of rows, the mean of the two middle values. It assumes that fewer than half of the rows are
    Byzantine unless told a bound; its error grows with the dimension (docs/theory/filter.md has figures). A client's
    weight is the share of coordinates in which its value is the median, ties divided evenly; the update is not linear
    in the rows.

    >>> import torch
    >>> Median()(torch.tensor([[1.0], [2.0], [600.0]])).update
    tensor([2.])
    """

    citation: ClassVar[str] = "Yin et al. 2018, Definition 1"

    def breaks(self) -> frozenset[Claim]:
        """Return that the update is no weighted sum of rows, and depends on the axes."""
        return frozenset({Claim.LINEARITY, Claim.ROTATION})

    def aggregate(self, columns: Columns, num_byzantine: int, view: ServerView) -> Aggregation:
        """Sort every coordinate; the score of a row is its share of coordinates outside the middle half."""
        return coordinatewise(columns, lambda _: _middle, num_byzantine=num_byzantine)


def _middle(block: Block) -> Part:
    """Return the medians of the columns, each row's share in them, and its number of coordinates outside the middle."""
    number = len(block)
    ordered = ordered_columns(block)
    low, high = ordered[:, (number - 1) // 2].copy(), ordered[:, number // 2].copy()
    share = _shares(block, low)
    if number % 2 == 0:
        share = (share + _shares(block, high)) / 2.0
    return low + (high - low) / 2, share, outside(block, ordered)


def _shares(block: Block, values: Block) -> Vector:
    """Return in how many columns each row has the given value, ties divided evenly."""
    hits = block == values
    share: Vector = np.count_nonzero(hits, axis=1).astype(float)
    counts = np.count_nonzero(hits, axis=0)
    tied = counts > 1
    if tied.any():
        share += (hits[:, tied] * (1.0 / counts[tied] - 1.0)).sum(axis=1)
    return share
