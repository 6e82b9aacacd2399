"""FLAME without noise: the smallest majority of one direction, clipped to the median norm."""

from __future__ import annotations

from typing import ClassVar, final

import numpy as np
import torch
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from steadfed._core.arrays import Matrix, Vector
from steadfed._linalg.columns import Columns
from steadfed._linalg.norms import clip_factors, row_norms
from steadfed.aggregators._base import Claim, MinorityAggregator
from steadfed.aggregators._evidence import Aggregation
from steadfed.aggregators._registry import RULES
from steadfed.aggregators._similarity.directions import (
    ROUNDING,
    cosine_distances,
    scaled_aggregation,
)
from steadfed.aggregators._view import ServerView


@RULES.register("flame")
@final
class Flame(MinorityAggregator):
    r"""The rows in the smallest majority of similar directions, clipped and averaged (Nguyen et al. 2022, Algorithm 1).

    Rows are clustered by 1 − cos(g_i, g_j) with HDBSCAN, whose smallest cluster is more than half of the rows; those
    admitted are averaged after clipping, with M the median norm of all rows: update = mean of g_i min(1, M / ‖g_i‖).
    The norm of the update is at most M, which fewer than half of the rows cannot push above every honest norm.

    *Why no HDBSCAN is needed.* With min_cluster_size = m = ⌊n/2⌋ + 1, min_samples = 1 and allow_single_cluster, its
    labels are the smallest single-linkage component with at least m members. (i) The core distance of a row is that to
    its nearest other row, or 0 if the row itself is counted; neither exceeds any distance d_ij, so mutual reachability
    max(core_i, core_j, d_ij) is d_ij. (ii) Two disjoint parts of n rows cannot both have m > n/2. So no split of the
    dendrogram makes two clusters, the condensed tree has only its root, and that is selected. (iii) For a root selected
    alone, labelled are the rows that leave it at the largest density 1/d. Going down the tree, the part with at least m
    members goes on until it splits into two smaller ones, and then all of it leaves: this is the smallest component
    with m members, at the distance that joins it. Rows that leave before do so at larger distances, or at the same one,
    which is why all pairs at equal distances are joined at once.

    **Deviations from the paper.** Deterministic: its Gaussian noise is a defence against backdoors, not against bad
    averages, and is left to whoever applies the update. Cosines are those of the updates; the paper clusters the
    models, which differ by the common starting point. A row of zeros is at distance 1 from the others, 0 from its like.

    >>> import torch
    >>> Flame()(torch.tensor([[4.0, 0.0], [1.0, 0.0], [0.0, 1.0], [2.0, 0.0], [0.0, -3.0]])).update
    tensor([1.6667, 0.0000])
    """

    citation: ClassVar[str] = "Nguyen et al. 2022, Algorithm 1"

    def breaks(self) -> frozenset[Claim]:
        """Return what cannot hold of rows clipped about the origin."""
        return frozenset({Claim.TRANSLATION, Claim.HULL, Claim.LINEARITY})

    def aggregate(self, columns: Columns, num_byzantine: int, view: ServerView) -> Aggregation:
        """Admit, clip, average; the score of a row is the distance at which it joins the admitted ones."""
        norms, usable = row_norms(columns)
        distances = cosine_distances(columns, norms, usable)
        zero = norms == 0.0
        distances[np.ix_(zero, zero)] = 0.0
        admitted, joined_at = smallest_majority(distances, ROUNDING * torch.finfo(columns.dtype).eps)
        return scaled_aggregation(
            columns,
            usable,
            admitted / admitted.sum(),
            clip_factors(norms, float(np.median(norms))),
            scores=joined_at,
            num_byzantine=num_byzantine,
        )


def smallest_majority(distances: Matrix, tolerance: float) -> tuple[NDArray[np.bool_], Vector]:
    """Return the smallest single-linkage component of more than half of the points, and where each point joins it.

    Read off the order in which Prim's algorithm visits the points: the components at threshold t are the maximal runs
    of points that are visited over edges of at most t. For once a component is entered and not yet exhausted, an edge
    of at most t leads on within it, and none leads elsewhere, as every component entered before was exhausted. So the
    threshold is the smallest maximum of ⌊n/2⌋ consecutive edges. Edges that exceed it by the relative `tolerance` at
    most are equally long up to rounding.
    """
    order, edges = visiting_order(distances)
    n, needed = len(order), len(order) // 2
    if n == 1:
        return np.ones(1, dtype=bool), np.zeros(1)
    longest = sliding_window_view(edges, needed).max(axis=1)
    first = int(np.argmin(longest))
    threshold = float(longest[first]) * (1.0 + tolerance)
    before, after = edges[:first][::-1], edges[first + needed :]
    joined = np.full(n, longest[first])
    joined[first + needed + 1 :] = np.maximum(np.maximum.accumulate(after), longest[first])
    joined[:first] = np.maximum(np.maximum.accumulate(before), longest[first])[::-1]
    joined_at = np.empty(n)
    joined_at[order] = joined
    return joined_at <= threshold, joined_at


def visiting_order(distances: Matrix) -> tuple[NDArray[np.intp], Vector]:
    """Return the points in the order of Prim's algorithm, from the first, and the n − 1 edges over which they came."""
    n = len(distances)
    order, edges = np.zeros(n, dtype=np.intp), np.zeros(n - 1)
    nearest, waiting = distances[0].copy(), np.ones(n, dtype=bool)
    waiting[0] = False
    for k in range(1, n):
        order[k] = chosen = int(np.argmin(np.where(waiting, nearest, np.inf)))
        edges[k - 1] = nearest[chosen]
        waiting[chosen] = False
        np.minimum(nearest, distances[chosen], out=nearest)
    return order, edges
