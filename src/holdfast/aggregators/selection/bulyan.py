"""Bulyan: iterated Krum in the Gram matrix, then a mean around the median of the chosen rows."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, final

import numpy as np
import torch
from numpy.typing import NDArray

from holdfast.aggregators.base import BoundedAggregator, Claim, stop_or_too_many, usable_bound
from holdfast.aggregators.coordinatewise.blocks import coordinatewise
from holdfast.aggregators.coordinatewise.windows import around_median
from holdfast.aggregators.evidence import Aggregation, Stop
from holdfast.aggregators.selection.krum import num_neighbours
from holdfast.aggregators.view import ServerView
from holdfast.linalg.columns import Columns, Matrix
from holdfast.linalg.gram import pivoted_gram, squared_distances


@final
class Bulyan(BoundedAggregator):
    """Rows chosen by iterated Krum, averaged around their median (El Mhamdi, Guerraoui, Rouault 2018, section 4).

    θ = n − 2f rows are chosen one after the other: each time the best by Krum among the rows not chosen yet. Then, in
    every coordinate, the β = θ − 2f values nearest to the median of the chosen are averaged. It needs n ≥ 4f + 3:
    then at most f of the θ ≥ 2f + 3 chosen values of a coordinate are Byzantine, so that their median lies among honest
    ones and no value averaged is farther from it than the farthest of these. A client's weight is its share of the
    values averaged over all coordinates; its score the share of coordinates in which it was left out, 1 for rows that
    were not chosen. The update is not linear in the rows.

    Deviations from the paper, which leaves them open: as rows are taken away, the number of neighbours is that of Krum
    on the rows left, at least one; the median of an even number of values is the mean of the middle two; of two values
    equally near the smaller one is taken. Unusable rows are dropped and counted against f.

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
        chosen[np.flatnonzero(gram.usable)[iterated_krum(squared_distances(gram.matrix), bound)]] = 1.0
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

    Every row's distances are sorted once; what is chosen is taken out of every list, so that a round costs O(n²) and
    sums the same numbers as Krum on the rows left.
    """
    order = np.argsort(squared - np.eye(len(squared)), axis=1, kind="stable")[:, 1:]  # itself first, and left out
    near = np.take_along_axis(squared, order, axis=1)
    left, chosen = np.arange(len(squared)), []
    for _ in range(max(1, len(squared) - 2 * num_byzantine)):
        scores = near[:, : num_neighbours(len(left), num_byzantine)].sum(axis=1)
        best = int(np.argmin(scores))
        chosen.append(int(left[best]))
        others = np.arange(len(left)) != best
        stays = order[others] != left[best]
        shape = (len(left) - 1, max(0, len(left) - 2))
        order, near = order[others][stays].reshape(shape), near[others][stays].reshape(shape)
        left = left[others]
    return chosen
