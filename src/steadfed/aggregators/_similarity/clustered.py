"""A rule applied inside clusters of clients."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, final

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field, InstanceOf

from steadfed._core.arrays import Vector
from steadfed._core.values import whole_number
from steadfed._linalg.columns import Columns, RowColumns
from steadfed._linalg.gram import Gram, gram_with_points, pivoted_gram
from steadfed._linalg.mixtures import MixedColumns
from steadfed._linalg.sources import as_columns
from steadfed._linalg.threads import one_blas_thread
from steadfed.aggregators._base import Aggregator, Updates, scatter_usable, stop_or_too_many, usable_bound
from steadfed.aggregators._evidence import Aggregation, Stop
from steadfed.aggregators._registry import RULES
from steadfed.aggregators._similarity.trimmed_k_means import Clusters, trimmed_k_means
from steadfed.aggregators._view import Memory, ServerView

MAX_ITERATIONS = 100


@dataclass(frozen=True)
class _Part:
    """What came out of one cluster."""

    size: int
    found: Aggregation
    """The aggregation of the cluster's rows."""
    weights: Vector
    """K: each client's share in the cluster's update."""


@RULES.register("clustered")
@final
class Clustered(Aggregator):
    r"""The rule inside, applied in each cluster of clients (Ghosh, Hong, Yin, Ramchandran 2019, stages II and III).

    Rows are clustered by trimmed k-means, which ignores the f farthest rows when it moves its centres; then the rule
    aggregates the rows of each cluster, trimmed ones included; update = Σ_c (n_c / n) update_c over the clusters. For
    clients of a few kinds: a robust rule on all rows at once takes a smaller kind for Byzantine. In a cluster the rule
    assumes f Byzantine rows, or as many as it stands among so few. The decisions are taken in the Gram matrix, which
    the rule inside shares (`steadfed._linalg.mixtures`). The score of a row is its distance to the centre of its
    cluster. There is no guarantee beyond that of the rule inside a cluster whose rows are mostly honest.

    Who is in which cluster: `cluster_clients`. The update of one cluster: the rule itself, called with its rows.

    **Deviations from the paper.** It trains one model per cluster and never averages them; the average is for a server
    with one model. It clusters once, the clients' own minimisers; here the updates are clustered in every round. It
    takes for granted that most rows of a cluster are honest; here a cluster has a share in the update only if more than
    f of its rows were not trimmed (or all of them may be Byzantine) and the rule stands as many Byzantine rows as were
    trimmed (a far row joins some cluster, however small); if there is no such cluster, all rows are one. The centres
    start at the most central row and at rows far from it (`starting_rows`), without any randomness.

    >>> import torch
    >>> from steadfed.aggregators import Median
    >>> rows = torch.tensor([[1.0], [2.0], [3.0], [11.0], [12.0], [13.0], [900.0]])
    >>> Clustered(rule=Median(num_byzantine=1))(rows).update
    tensor([8.])
    """

    citation: ClassVar[str] = "Ghosh, Hong, Yin, Ramchandran 2019"

    rule: Annotated[InstanceOf[Aggregator], Field(examples=["median"])]
    """The rule inside; may be a wrapper itself."""
    num_clusters: Annotated[int, Field(ge=1), BeforeValidator(whole_number)] = 2
    """How many clusters of clients are looked for."""
    max_iterations: Annotated[int, Field(ge=1), BeforeValidator(whole_number)] = MAX_ITERATIONS
    """Iterations of the clustering."""

    def assumed_byzantine(self, cohort_size: int) -> int:
        """Return what the rule inside assumes of the clients."""
        return self.rule.assumed_byzantine(cohort_size)

    def sketch_passes(self) -> int:
        """Return 1 if the rule inside wants estimates."""
        return int(self.rule.sketch_passes() == 1)

    def smallest_cohort(self, num_byzantine: int) -> int:
        """Return what the rule inside needs, and at least one row more than f, or everything would be trimmed."""
        return max(num_byzantine + 1, self.rule.smallest_cohort(num_byzantine))

    def aggregate(self, columns: Columns, num_byzantine: int, view: ServerView) -> Aggregation:
        """Cluster the usable rows, aggregate in each cluster, and average by size."""
        gram = pivoted_gram(columns)
        bound = usable_bound(num_byzantine, gram.usable)
        clusters = trimmed_k_means(gram.matrix, self.num_clusters, bound, self.max_iterations)
        parts = self._parts(columns, gram, self._trusted(clusters, bound), bound, view)
        sizes = np.array([part.size for part in parts], dtype=float)
        shares = sizes / sizes.sum()
        weights = shares @ np.stack([part.weights for part in parts])
        weights = weights / (weights.sum() or 1.0)
        return Aggregation(
            update=RowColumns([part.found.update for part in parts]).combine(shares),
            weights=torch.from_numpy(weights),
            kept=torch.from_numpy(weights > 0.0),
            usable=torch.from_numpy(gram.usable),
            scores=scatter_usable(clusters.distances, gram.usable, np.inf),
            stop=stop_or_too_many(_common_stop(parts, clusters), num_byzantine, gram.usable),
            num_byzantine=num_byzantine,
            num_steps=clusters.num_iterations + sum(part.found.num_steps for part in parts),
            num_eigensolves=sum(part.found.num_eigensolves for part in parts),
            memory=_common_memory(parts, view.memory),
        )

    def _parts(
        self, columns: Columns, gram: Gram, members: list[NDArray[np.intp]], bound: int, view: ServerView
    ) -> list[_Part]:
        """Return what the rule makes of each cluster, the smallest cluster first."""
        names = np.array(view.identities(columns.num_rows), dtype=object)[gram.usable]
        with_origin = gram_with_points(columns, gram, [None])
        choice = np.eye(len(gram.matrix), len(gram.matrix) + 1)
        parts = []
        for rows in sorted(members, key=len):
            chosen = MixedColumns(columns, choice[rows], gram, with_origin)
            found = self.rule.aggregate(
                chosen, self._bound_inside(len(rows), bound), replace(view, clients=names[rows].tolist())
            )
            parts.append(_Part(len(rows), found, chosen.shares(found.weights.numpy())))
        return parts

    def _trusted(self, clusters: Clusters, bound: int) -> list[NDArray[np.intp]]:
        """Return the rows of each cluster with more than f that were not trimmed, if the rule stands those that were.

        Rows far from everybody are trimmed. So no cluster has its weight from them alone, and in none do they outnumber
        the others; a cluster that they joined has no share if the rule inside does not stand so many among so few.
        """
        members = [np.flatnonzero(clusters.labels == label) for label in np.unique(clusters.labels)]
        trimmed = [int(clusters.trimmed[rows].sum()) for rows in members]
        trusted = [
            rows
            for rows, number in zip(members, trimmed, strict=True)
            if len(rows) - number > bound and self.rule.smallest_cohort(number) <= len(rows)
        ]
        return trusted or [np.arange(len(clusters.labels))]

    def _bound_inside(self, num_rows: int, bound: int) -> int:
        """Return the largest number of Byzantine rows, at most the bound, that the rule stands among so many."""
        fitting = (number for number in range(bound, 0, -1) if self.rule.smallest_cohort(number) <= num_rows)
        return next(fitting, 0)


def cluster_clients(
    updates: Updates, num_clusters: int, num_byzantine: int, *, max_iterations: int = MAX_ITERATIONS
) -> NDArray[np.intp]:
    """Return the cluster of each client as `Clustered` sees it, −1 for unusable rows.

    A rule called with the rows of one cluster gives the update of that cluster, for a server with a model for each.

    >>> import torch
    >>> cluster_clients(torch.tensor([[1.0], [2.0], [11.0], [12.0], [float("nan")]]), num_clusters=2, num_byzantine=1)
    array([ 0,  0,  1,  1, -1])
    """
    columns = as_columns(updates)
    with torch.no_grad(), one_blas_thread():
        gram = pivoted_gram(columns)
        bound = usable_bound(num_byzantine, gram.usable)
        found = trimmed_k_means(gram.matrix, num_clusters, bound, max_iterations)
    labels = np.full(columns.num_rows, -1)
    labels[gram.usable] = found.labels
    return labels


def _common_stop(parts: list[_Part], clusters: Clusters) -> Stop:
    """Return a violated assumption if any, else the stop of the largest cluster with weight; the clustering's limit."""
    stops = [part.found.stop for part in reversed(parts) if part.weights.any()] or [Stop.NOBODY_TRUSTED]
    broken = [stop for stop in stops if stop.assumption_violated]
    if broken or clusters.converged or stops[0] is Stop.NOBODY_TRUSTED:
        return (broken or stops)[0]
    return Stop.NOT_CONVERGED


def _common_memory(parts: list[_Part], before: Memory) -> Memory:
    """Return what was remembered before and what any cluster changed; of one name, what the largest cluster says."""
    memory = dict(before)
    for part in parts:
        memory.update({name: kept for name, kept in part.found.memory.items() if kept is not before.get(name)})
    return memory
