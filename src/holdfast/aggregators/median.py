"""The coordinate-wise median."""

from __future__ import annotations

from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from holdfast.aggregators.base import MinorityAggregator, stop_or_too_many
from holdfast.aggregators.evidence import Aggregation, Stop
from holdfast.linalg.columns import Columns, Range, Vector
from holdfast.linalg.gram import squared_norms, usable_rows

_Middle = tuple[NDArray[Any], Vector, Vector]


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

    def aggregate(self, columns: Columns) -> Aggregation:
        """Sort every coordinate; the score of a row is its share of coordinates outside the middle half."""
        usable = usable_rows(columns, squared_norms(columns))
        update = columns.zero_row()
        shares, outside = np.zeros(columns.num_rows), np.zeros(columns.num_rows)

        found: dict[Range, _Middle] = {}

        def work(span: Range, block: Tensor, _: Tensor) -> None:
            rows = block.cpu().numpy()
            found[span] = _middle(rows if usable.all() else rows[usable])

        def consume(span: Range, _: Tensor) -> None:
            middle, share, far = found.pop(span)
            update[slice(*span)] = torch.from_numpy(middle).to(update.device)
            shares[usable] += share
            outside[usable] += far

        columns.scan(None, work, consume, ())
        number = float(columns.total(np.array([columns.num_columns], dtype=float))[0])
        weights = columns.total(shares) / number
        assumed = self.assumed_byzantine(columns.num_rows)
        return Aggregation(
            update=update,
            weights=torch.from_numpy(weights / weights.sum()),
            kept=torch.from_numpy(weights > 0.0),
            usable=torch.from_numpy(usable),
            scores=torch.from_numpy(np.where(usable, columns.total(outside) / number, np.inf)),
            stop=stop_or_too_many(Stop.COMBINED, assumed, usable),
            num_byzantine=assumed,
        )


def _middle(block: NDArray[Any]) -> _Middle:
    """Return the medians of the columns, each row's share in them, and its number of coordinates outside the middle.

    Columns are sorted as rows of the transposed block: numpy sorts contiguous memory with SIMD instructions, seven to
    nine times faster than a selection along the first axis.
    """
    number = len(block)
    ordered = np.sort(np.ascontiguousarray(block.T), axis=1)
    low, high = ordered[:, (number - 1) // 2].copy(), ordered[:, number // 2].copy()
    share = _shares(block, low)
    if number % 2 == 0:
        share = (share + _shares(block, high)) / 2.0
    quarter = number // 4
    below, above = ordered[:, quarter].copy(), ordered[:, number - 1 - quarter].copy()
    outside = np.count_nonzero(block < below, axis=1) + np.count_nonzero(block > above, axis=1)
    return low + (high - low) / 2, share, outside.astype(float)


def _shares(block: NDArray[Any], values: NDArray[Any]) -> Vector:
    """Return in how many columns each row has the given value, ties divided evenly."""
    hits = block == values
    share: Vector = np.count_nonzero(hits, axis=1).astype(float)
    counts = np.count_nonzero(hits, axis=0)
    tied = counts > 1
    if tied.any():
        share += (hits[:, tied] * (1.0 / counts[tied] - 1.0)).sum(axis=1)
    return share
