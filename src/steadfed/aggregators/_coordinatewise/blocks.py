"""One pass of a coordinate-wise rule over the columns, in sorted blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from steadfed._core.arrays import Vector
from steadfed._linalg.blocks import Range
from steadfed._linalg.columns import Columns
from steadfed._linalg.gram import all_or_usable
from steadfed.aggregators._base import stop_or_too_many
from steadfed.aggregators._evidence import Aggregation, Stop

Block = NDArray[Any]
Part = tuple[Block, Vector, Vector]
"""The update in a block of columns, each row's share in it (in columns), and its number of strange coordinates."""
Kernel = Callable[[Block], Part]
"""What a rule does to a block: usable rows x columns → part."""


def coordinatewise(
    columns: Columns, kernel: Callable[[int], Kernel], *, num_byzantine: int, among: NDArray[np.bool_] | None = None
) -> Aggregation:
    """Apply `kernel(number of usable rows)` to every block of the usable rows, or of those `among` them.

    A client's weight is its share over all coordinates; its score the share of coordinates in which it is strange.
    """
    usable = all_or_usable(columns) if among is None else among
    work_on = kernel(int(usable.sum()))
    update = columns.zero_row()
    shares, strange = np.zeros(columns.num_rows), np.zeros(columns.num_rows)
    found: dict[Range, Part] = {}

    def work(span: Range, block: Tensor, _: Tensor) -> None:
        rows = block.cpu().numpy()
        found[span] = work_on(rows if usable.all() else rows[usable])

    def consume(span: Range, _: Tensor) -> None:
        values, share, far = found.pop(span)
        update[slice(*span)] = torch.from_numpy(values).to(update)
        shares[usable] += share
        strange[usable] += far

    columns.scan(None, work, consume, ())
    number = float(columns.total(np.array([columns.num_columns], dtype=float))[0])
    weights = columns.total(shares)
    return Aggregation(
        update=update,
        weights=torch.from_numpy(weights / weights.sum()),
        kept=torch.from_numpy(weights > 0.0),
        usable=torch.from_numpy(usable),
        scores=torch.from_numpy(np.where(usable, columns.total(strange) / number, np.inf)),
        stop=stop_or_too_many(Stop.COORDINATES, num_byzantine, usable),
        num_byzantine=num_byzantine,
    )


def ordered_columns(block: Block) -> Block:
    """Return the columns as rows, each sorted.

    numpy sorts contiguous memory with SIMD instructions, seven to nine times faster than a selection along the first
    axis.
    """
    return np.asarray(np.sort(np.ascontiguousarray(block.T), axis=1))


def outside(block: Block, ordered: Block) -> Vector:
    """Return in how many columns each row lies outside the middle half."""
    quarter = len(block) // 4
    below, above = ordered[:, quarter].copy(), ordered[:, len(block) - 1 - quarter].copy()
    return np.asarray(np.count_nonzero(block < below, axis=1) + np.count_nonzero(block > above, axis=1), dtype=float)
