"""Minimum-diameter averaging, exactly, as a search for vertex covers."""

from __future__ import annotations

from typing import ClassVar, final

import numpy as np
import torch
from numpy.typing import NDArray

from steadfed._core.arrays import Matrix, Vector
from steadfed._linalg.columns import Columns
from steadfed._linalg.gram import Gram, pivoted_gram
from steadfed.aggregators._base import BoundedAggregator, GramAggregator, aggregation_of, usable_bound
from steadfed.aggregators._evidence import Aggregation, Stop
from steadfed.aggregators._registry import RULES
from steadfed.aggregators._selection.subsets import pair_distances
from steadfed.aggregators._selection.vertex_cover import (
    Nodes,
    NodesExhaustedError,
    Partial,
    branches,
    degrees,
    has_cover,
    largest,
    may_hold_a_cover,
)
from steadfed.aggregators._view import ServerView
from steadfed.errors import TooManySubsetsError

MOST_NODES = 100_000
"""Nodes of search trees that are visited to find the smallest diameter, before the rule refuses."""
MOST_TIED_NODES = 20_000
"""Nodes that are visited to find the best among subsets of equal diameter, before the best so far is taken."""
CHEAP_ROWS = 200
"""Rows up to which so many nodes are granted. A node costs the square of the rows, so that of more rows fewer are."""
ROUNDING = 32.0
"""Squared distances are equal if they differ by this many units of rounding of the squared distances to the pivot."""
SAME_SUM = 1e-12
"""Sums of squared distances with a smaller relative difference are equal."""


@RULES.register("mda")
@final
class MinimumDiameter(BoundedAggregator, GramAggregator):
    """The average of the n − f rows with the smallest diameter (Rousseeuw 1985; El Mhamdi et al. 2020, MDA).

    Of all subsets S of n − f rows the one with the smallest max ‖g_i − g_j‖ over i, j ∈ S; of several such subsets
    the one with the smallest Σ ‖g_i − g_j‖². It needs n > 2f. If the honest rows are H, |H| = n − f, with diameter Δ,
    then ‖update − mean of H‖ ≤ 2 Δ f / (n − f): as many rows of S are not in H as of H are not in S, at most f, and a
    row of either kind is within Δ of each of the n − 2f > 0 or more rows that S and H share. The score of a row is its
    distance to the farthest row of S.

    The search is exact and does not try all subsets. Let G(D) be the graph of the pairs of rows farther apart than D.
    A subset has diameter ≤ D iff it holds no edge of G(D), that is, iff the rows left out are a vertex cover of G(D).
    So the smallest diameter is the smallest D for which G(D) has a cover of f vertices. Covers stay covers as D grows
    and edges vanish, so a binary search over the distinct distances finds D, and bounded branching
    (`steadfed.aggregators._selection.vertex_cover`) decides each step. The covers of f vertices of G(D) then are all
    subsets of equal diameter, and branch and bound finds the one with the smallest sum. For 100 rows and f = 10 some
    hundred nodes are visited where there are 10¹³ subsets; the rule refuses above 100,000 nodes, and above
    100,000 (200/n)² for more than 200 rows, so that no rows keep it busy for long.

    Deviations from the papers: they leave open which of several subsets is meant; distances that agree up to the
    rounding of the Gram matrix count as equal there; and if the subsets of smallest diameter are too many to look at
    (above a fifth of as many nodes, which takes many equal distances), the best of those looked at is taken. Unusable
    rows are dropped and counted against f.

    >>> import torch
    >>> MinimumDiameter(num_byzantine=1)(torch.tensor([[1.0], [1.1], [1.3], [0.8], [90.0]])).update
    tensor([1.0500])
    """

    citation: ClassVar[str] = "Rousseeuw 1985; El Mhamdi et al. 2020"

    def aggregate(self, columns: Columns, num_byzantine: int, view: ServerView) -> Aggregation:
        """Search in the Gram matrix and average the subset found."""
        gram = pivoted_gram(columns)
        squared = pair_distances(gram.matrix)
        bound = min(usable_bound(num_byzantine, gram.usable), len(squared) - 1)
        granted = granted_nodes(MOST_NODES, len(squared))
        nodes = Nodes(granted)
        try:
            diameter = smallest_diameter(squared, bound, nodes)
        except NodesExhaustedError:
            raise TooManySubsetsError(_too_many(self, granted, len(squared), bound)) from None
        kept = tightest(squared, _edges(gram, squared, diameter, columns.dtype), bound)
        scores = np.sqrt(squared[:, kept].max(axis=1))
        return aggregation_of(
            columns,
            gram,
            kept / kept.sum(),
            scores=scores,
            stop=Stop.SUBSET,
            num_byzantine=num_byzantine,
            num_steps=granted - nodes.left,
        )


def granted_nodes(number: int, num_rows: int) -> int:
    """Return how many nodes may be visited among so many rows: beyond some rows, as many as cost the same.

    >>> granted_nodes(100_000, 100), granted_nodes(100_000, 1000)
    (100000, 4000)
    """
    return number if num_rows <= CHEAP_ROWS else max(1, number * CHEAP_ROWS**2 // num_rows**2)


def smallest_diameter(squared: Matrix, num_byzantine: int, nodes: Nodes) -> float:
    """Return the smallest squared diameter of n − f rows: the smallest D for which f rows cover all farther pairs."""
    values = np.unique(squared)
    low, high = 0, len(values) - 1  # nothing is farther apart than the last
    while low < high:
        middle = (low + high) // 2
        if has_cover((squared > values[middle]).astype(float), num_byzantine, nodes):
            high = middle
        else:
            low = middle + 1
    return float(values[high])


def tightest(squared: Matrix, edges: Matrix, num_byzantine: int) -> NDArray[np.bool_]:
    """Return the n − f rows without an edge among them whose squared distances have the smallest sum.

    Branch and bound over the covers. If the rows A are left, b of which have yet to go, then for the b rows B that go

        sum over A without B  =  sum over A − Σ_{v∈B} ( r_v − ½ Σ_{u∈B} d²(u, v) ) ,     r_v = Σ_{u∈A} d²(u, v),

    and the inner sum is at least that of the b − 1 smallest squared distances of v to any other row. So the sum over
    A minus the b largest r_v − ½ (b − 1 smallest of v) is a lower bound for all that lies below the node.
    """
    everybody = np.ones(len(squared))
    nearest = np.concatenate([np.zeros((len(squared), 1)), np.cumsum(np.sort(squared, axis=1)[:, 1:], axis=1)], axis=1)
    best, kept, visited = np.inf, everybody, 0
    stack = [Partial(everybody, everybody, num_byzantine)]
    granted = granted_nodes(MOST_TIED_NODES, len(squared))
    while stack and (visited < granted or best == np.inf):
        visited += 1
        node = stack.pop()
        degree = degrees(edges, node)
        if not may_hold_a_cover(node, degree) or node.open.sum() < node.budget:
            continue
        sums = squared @ node.left
        total = float(sums @ node.left) / 2.0
        if node.budget == 0:
            if total < best * (1.0 - SAME_SUM):
                best, kept = total, node.left
            continue
        gains = np.where(node.open > 0.0, sums - nearest[:, node.budget - 1] / 2.0, -np.inf)
        rounding = len(squared) * np.finfo(float).eps * total
        if total - float(largest(gains, node.budget).sum()) - rounding < best * (1.0 - SAME_SUM):
            stack.extend(branches(edges, node, int(np.argmax(degree if degree.any() else gains))))
    return np.asarray(kept > 0.0)


def _edges(gram: Gram, squared: Matrix, diameter: float, dtype: torch.dtype) -> Matrix:
    """Return the graph of the pairs that are farther apart than the diameter by more than rounding."""
    size: Vector = gram.matrix.diagonal()
    room = ROUNDING * torch.finfo(dtype).eps * (size + size[:, None])
    return np.asarray(squared > diameter + room, dtype=float)


def _too_many(rule: MinimumDiameter, visited: int, num_rows: int, num_byzantine: int) -> str:
    return (
        f"{rule!r} visited {visited} nodes without finding the smallest diameter of {num_rows - num_byzantine} of "
        f"{num_rows} usable updates; assume fewer Byzantine ones than {num_byzantine}, aggregate fewer updates, or use "
        f"a rule without a search, such as 'rage' or 'multi-krum'"
    )
