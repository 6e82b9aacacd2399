"""Means over consecutive sorted values of every column: what trimming, and what lies nearest to the median, come to."""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from steadfed._core.arrays import Vector
from steadfed.aggregators._coordinatewise.blocks import Block, Kernel, Part, ordered_columns

Starts = NDArray[np.intp]
"""Where the window begins in every sorted column."""


def trimmed(dropped: int) -> Kernel:
    """Return the kernel that drops this many of the smallest and of the largest values and averages the others."""
    return partial(_trimmed, dropped)


def around_median(number: int) -> Kernel:
    """Return the kernel that averages this many values, those nearest to the median."""
    return partial(_around_median, number)


def _trimmed(dropped: int, block: Block) -> Part:
    starts = np.full(block.shape[1], dropped, dtype=np.intp)
    return _window_part(block, ordered_columns(block), starts, len(block) - 2 * dropped)


def _around_median(number: int, block: Block) -> Part:
    ordered = ordered_columns(block)
    return _window_part(block, ordered, nearest_window(ordered, number), number)


def nearest_window(ordered: Block, width: int) -> Starts:
    """Return where the `width` values nearest to the median begin in every sorted column, the lower of equal windows.

    The nearest values are consecutive. Moving the window from j to j + 1 gives x_j away for x_{j+width}, which is
    nearer to the median m iff x_{j+width} − m < m − x_j, that is x_j + x_{j+width} < 2m = the sum of the middle two.
    The left side grows with j, so the window begins at the number of j for which this holds. No decision depends on
    rounding: fl(a + b) is monotone in a + b, and where two sums are equal as rounded, what rounding took away from
    each is itself a floating-point number and decides.
    """
    n = ordered.shape[1]
    low, high = ordered[:, (n - 1) // 2, None], ordered[:, n // 2, None]
    left, right = ordered[:, : n - width], ordered[:, width:]
    sums, middle = left + right, low + high
    nearer = sums < middle
    undecided = np.flatnonzero((sums == middle).any(axis=1))
    if len(undecided):
        equal = sums[undecided] == middle[undecided]
        lost = _lost_in_sum(left[undecided], right[undecided]) < _lost_in_sum(low[undecided], high[undecided])
        nearer[undecided] |= equal & lost
    return np.asarray(np.count_nonzero(nearer, axis=1))


def _lost_in_sum(a: Block, b: Block) -> Block:
    """Return a + b − fl(a + b), exactly (Knuth's two-sum)."""
    total = a + b
    of_b = total - a
    return np.asarray((a - (total - of_b)) + (b - of_b))


def _window_part(block: Block, ordered: Block, starts: Starts, width: int) -> Part:
    """Return the means of the windows in float64, each row's share in them, and in how many columns it has none."""
    everywhere = np.arange(len(ordered))
    window = sliding_window_view(ordered, width, axis=1)[everywhere, starts]
    entered = _entered(block, ordered, starts, width)
    means = np.clip(window.mean(axis=1, dtype=np.float64), window[:, 0], window[:, -1])
    return means, entered / width, block.shape[1] - entered


def _entered(block: Block, ordered: Block, starts: Starts, width: int) -> Vector:
    """Return in how many columns each row's value lies in the window; equal values at its ends divide their places."""
    everywhere, n = np.arange(len(ordered)), ordered.shape[1]
    lowest, highest = ordered[everywhere, starts], ordered[everywhere, starts + width - 1]
    entered: Vector = np.count_nonzero((block >= lowest) & (block <= highest), axis=1).astype(float)
    before = ordered[everywhere, np.maximum(starts - 1, 0)]
    after = ordered[everywhere, np.minimum(starts + width, n - 1)]
    tied = ((starts > 0) & (before == lowest)) | ((starts + width < n) & (after == highest))
    if tied.any():
        entered -= _overcounted(block[:, tied], lowest[tied], highest[tied], starts[tied], width)
    return entered


def _overcounted(block: Block, lowest: Block, highest: Block, starts: Starts, width: int) -> Vector:
    """Return how much of each row's count belongs to equal values just outside of the windows.

    Of c copies of the lowest value, the window holds those between its start and the last copy, p of them: each copy
    entered by p/c and was counted as 1. Likewise at the upper end, unless all of the window is one value.
    """
    over = np.zeros(len(block))
    for value, counts in ((lowest, np.ones(len(lowest), dtype=bool)), (highest, highest > lowest)):
        copies = block == value
        first, number = np.count_nonzero(block < value, axis=0), np.count_nonzero(copies, axis=0)
        held = np.minimum(first + number, starts + width) - np.maximum(first, starts)
        over += copies @ np.where(counts, 1.0 - held / number, 0.0)
    return over
