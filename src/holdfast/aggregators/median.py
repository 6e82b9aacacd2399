"""The coordinate-wise median."""

from __future__ import annotations

from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from holdfast.aggregators.base import Aggregator, stop_or_too_many
from holdfast.aggregators.evidence import Aggregation, Stop
from holdfast.linalg.columns import Columns, Range
from holdfast.linalg.gram import no_usable_row, squared_norms


@final
class Median(Aggregator):
    """The median of the usable rows in every coordinate (Yin et al. 2018, Definition 1).

    Of an even number of rows, the mean of the two middle values. It assumes that fewer than half of the rows are
    Byzantine; its error grows with the dimension (docs/theory/filter.md has the figures). A client's weight is the
    share of coordinates in which its value is the median, ties divided evenly; the update is not linear in the rows.

    >>> import torch
    >>> Median()(torch.tensor([[1.0], [2.0], [600.0]])).update
    tensor([2.])
    """

    def assumed_byzantine(self, cohort_size: int) -> int:
        """Return the largest number below half of the rows."""
        return (cohort_size - 1) // 2

    def smallest_cohort(self, num_byzantine: int) -> int:
        """Return 2f + 1."""
        return 2 * num_byzantine + 1

    def aggregate(self, columns: Columns) -> Aggregation:
        """Sort every coordinate; the score of a row is its share of coordinates outside the middle half."""
        usable = np.isfinite(squared_norms(columns))
        if not usable.any():
            raise no_usable_row(columns.num_rows, columns.dtype)
        update = torch.empty(columns.num_columns, dtype=columns.dtype, device=columns.device)
        shares, outside = np.zeros(columns.num_rows), np.zeros(columns.num_rows)

        def consume(span: Range, block: Tensor) -> None:
            middle, share, far = _middle(block.cpu().numpy()[usable])
            update[slice(*span)] = torch.from_numpy(middle).to(update.device)
            shares[usable] += share
            outside[usable] += far

        columns.scan(None, lambda *_: None, consume, ())
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


def _middle(block: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.float64], NDArray[np.float64]]:
    """Return the medians of the columns, each row's share in them, and its number of coordinates outside the middle.

    Columns are sorted as rows of the transposed block: numpy sorts contiguous memory with SIMD instructions, seven to
    nine times faster than a selection along the first axis.
    """
    number = len(block)
    ordered = np.sort(np.ascontiguousarray(block.T), axis=1)
    low, high = ordered[:, (number - 1) // 2], ordered[:, number // 2]
    share = np.zeros(number)
    for value in (low, high):
        hits = block == value
        share += (hits / hits.sum(axis=0)).sum(axis=1) / 2.0
    quarter = number // 4
    outside = (block < ordered[:, quarter]) | (block > ordered[:, number - 1 - quarter])
    return low + (high - low) / 2, share, outside.sum(axis=1).astype(float)
