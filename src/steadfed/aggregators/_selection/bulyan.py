"""Bulyan: iterated Krum in the Gram matrix, then a mean around the median of the chosen rows."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, final

import numpy as np
import torch
from numpy.typing import NDArray

from steadfed._core.arrays import Matrix
from steadfed._linalg.columns import Columns
from steadfed._linalg.gram import pivoted_gram
from steadfed.aggregators._base import BoundedAggregator, Claim, GramAggregator, stop_or_too_many, usable_bound
from steadfed.aggregators._coordinatewise.blocks import coordinatewise
from steadfed.aggregators._coordinatewise.windows import around_median
from steadfed.aggregators._evidence import Aggregation, Stop
from steadfed.aggregators._registry import RULES
from steadfed.aggregators._selection.krum import num_neighbours
from steadfed.aggregators._selection.subsets import pair_distances
from steadfed.aggregators._view import ServerView

Members = NDArray[np.bool_]


@RULES.register("bulyan")
@final
class Bulyan(BoundedAggregator, GramAggregator):
    """Rows chosen by iterated Krum, averaged around their median (El Mhamdi, Guerraoui, Rouault 2018, section 4).

    θ = n − 2f rows are chosen one after the other: each time the best by Krum among the rows not chosen yet. Then, in
    every coordinate, the β = θ − 2f values nearest to the median of the chosen are averaged. It needs n ≥ 4f + 3:
    then at most f of the θ ≥ 2f + 3 chosen values of a coordinate are Byzantine, so that their median lies among honest
    ones and no value averaged is farther from it than the farthest of these. A client's weight is its share of the
    values averaged over all coordinates; its score the share of coordinates in which it was left out, 1 for rows that
    were not chosen. The update is not linear in the rows.

    Deviations from the paper, which leaves them open: as rows are taken away, the number of neighbours is that of Krum
    on the rows left, at least one; of equal scores the row nearer to all rows left is chosen; the median of an even
    number of values is the mean of the middle two; of two values equally near the smaller one is taken. Unusable rows
    are dropped and counted against f.

    >>> import torch
    >>> rows = torch.tensor([[1.0], [2.0], [2.5], [3.0], [4.0], [5.0], [900.0]])
    >>> Bulyan(num_byzantine=1)(rows).update
    tensor([2.5000])
    """

    citation: ClassVar[str] = "El Mhamdi, Guerraoui, Rouault 2018, section 4"

    def breaks(self) -> frozenset[Claim]:
        """Return that the update is no weighted sum of rows, and depends on the axes."""
        return frozenset({Claim.LINEARITY, Claim.ROTATION})

    def smallest_cohort(self, num_byzantine: int) -> int:
        """Return 4f + 3, or 1 if no row is Byzantine."""
        return 4 * num_byzantine + 3 if num_byzantine else 1

    def aggregate(self, columns: Columns, num_byzantine: int, view: ServerView) -> Aggregation:
        """Choose in the Gram matrix, then read the rows once more."""
        gram = pivoted_gram(columns)
        bound = usable_bound(num_byzantine, gram.usable)
        chosen = np.zeros(columns.num_rows)
        chosen[np.flatnonzero(gram.usable)[iterated_krum(pair_distances(gram.matrix), bound)]] = 1.0
        among: NDArray[np.bool_] = columns.agree(chosen) > 0.0
        inner = coordinatewise(
            columns, lambda theta: around_median(max(1, theta - 2 * bound)), num_byzantine=num_byzantine, among=among
        )
        left_out = np.where(among, inner.scores.numpy(), 1.0)
        return replace(
            inner,
            usable=torch.from_numpy(gram.usable),
            scores=torch.from_numpy(np.where(gram.usable, left_out, np.inf)),
            stop=stop_or_too_many(Stop.SUBSET, num_byzantine, gram.usable),
        )


def iterated_krum(squared: Matrix, num_byzantine: int) -> list[int]:
    """Return the n − 2f rows chosen by Krum among those not chosen yet, at least one, in the order of their choice.

    Distances are sorted once. With every row that is chosen there is one row less and one neighbour less to count, so
    the others' neighbours stay the same but for one: the chosen row if it was among them, or else the farthest of them.
    With one neighbour each, the two rows nearest to each other are equally good; the one nearer to all rows left is
    chosen, so that the order of the rows decides nothing.
    """
    left: Members = np.ones(len(squared), dtype=bool)
    number = num_neighbours(len(squared), num_byzantine)
    near, chosen = _nearest(squared, left, number), []
    for remaining in range(len(squared) - 1, min(len(squared) - 1, 2 * num_byzantine) - 1, -1):
        scores = np.where(left, np.einsum("ij,ij->i", squared, near), np.inf)
        equal = np.flatnonzero(scores == scores.min())
        best = int(equal[np.argmin(squared[equal] @ left)])
        chosen.append(best)
        left[best] = False
        before, number = number, num_neighbours(remaining, num_byzantine)
        near = _one_less(squared, near, best) if number == before - 1 else _nearest(squared, left, number)
    return chosen


def _nearest(squared: Matrix, left: Members, number: int) -> Members:
    """Return which are the `number` nearest other rows of every row, among those left."""
    others = np.where(left, squared, np.inf)
    np.fill_diagonal(others, np.inf)
    near = np.zeros(squared.shape, dtype=bool)
    np.put_along_axis(near, np.argsort(others, axis=1, kind="stable")[:, : max(0, number)], values=True, axis=1)
    return near


def _one_less(squared: Matrix, near: Members, gone: int) -> Members:
    """Return the neighbours without the row that is gone, or without the farthest where it was none of them."""
    farthest = np.where(near, squared, -1.0).argmax(axis=1)
    near[np.arange(len(near)), np.where(near[:, gone], gone, farthest)] = False
    return near
