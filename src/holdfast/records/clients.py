"""What a run says about each client: how often it took part, how the rule treated it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import final

import numpy as np
from numpy.typing import NDArray

from holdfast.records.round import Client, RoundRecord


@final
@dataclass(frozen=True, kw_only=True)
class ClientSummary:
    """One client over all rounds."""

    client: Client
    sampled: int
    """In how many rounds it was in the cohort."""
    received: int
    """How often its update arrived."""
    erased: int
    """How often it sent nothing."""
    unusable: int
    """How often its update held NaN, Inf or numbers whose squares overflow."""
    removed: int
    """How often its update arrived and got weight 0 in a round that gave weights."""
    mean_weight: float | None
    """Its weight times the number of rows, on average: 1 is an equal share. None if it was never weighed."""
    mean_rank: float | None
    """Which share of the rows of its round looked less suspicious than its own, on average; equal ones, itself among
    them, count half. 1/2 is nothing special. None if it was never scored."""
    byzantine: int
    """In how many rounds it was Byzantine, as far as the records know."""


def client_table(records: Iterable[RoundRecord]) -> list[ClientSummary]:
    """Return a line for every client that was sampled: those with numbers first, in order, then those with names.

    >>> both = {"cohort": (7, 8), "received": (7, 8), "weights": (1.0, 0.0), "scores": (2.0, 5.0)}
    >>> rounds = [RoundRecord(round=n, step=n + 1, lr=0.1, **both) for n in range(3)]
    >>> [(line.client, line.removed, line.mean_weight, line.mean_rank) for line in client_table(rounds)]
    [(7, 0, 2.0, 0.25), (8, 3, 0.0, 0.75)]
    """
    columns = _Columns()
    for record in records:
        columns.add(record)
    return columns.table()


@dataclass
class _Columns:
    """The records turned on their side: long columns of places in `places`, so that numpy does the counting."""

    places: dict[Client, int] = field(default_factory=dict)
    counted: dict[str, list[int]] = field(
        default_factory=lambda: {name: [] for name in ("sampled", "received", "erased", "unusable", "byzantine")}
    )
    weighed: list[int] = field(default_factory=list)
    weights: list[float] = field(default_factory=list)
    weighed_sizes: list[int] = field(default_factory=list)
    scored: list[int] = field(default_factory=list)
    scores: list[float | None] = field(default_factory=list)
    scored_sizes: list[int] = field(default_factory=list)

    def add(self, record: RoundRecord) -> None:
        received = self._places(record.received)
        self.counted["sampled"] += self._places(record.cohort)
        self.counted["received"] += received
        self.counted["erased"] += self._places(record.erased)
        self.counted["unusable"] += self._places(record.unusable)
        self.counted["byzantine"] += self._places(record.byzantine)
        if received and len(record.weights) == len(received):
            self.weighed += received
            self.weights += record.weights
            self.weighed_sizes.append(len(received))
        if received and len(record.scores) == len(received):
            self.scored += received
            self.scores += record.scores
            self.scored_sizes.append(len(received))

    def table(self) -> list[ClientSummary]:
        counts = {name: self._sums(places) for name, places in self.counted.items()}
        weights = np.array(self.weights, dtype=np.float64)
        shares = weights * np.repeat(self.weighed_sizes, self.weighed_sizes) if self.weighed else weights
        weighed, scored = np.array(self.weighed, dtype=np.int64), np.array(self.scored, dtype=np.int64)
        rounds = np.repeat(np.arange(len(self.scored_sizes)), self.scored_sizes)
        scores = np.array(self.scores, dtype=np.float64)  # None becomes NaN
        known = ~np.isnan(scores)
        ranks = mid_ranks(rounds[known], scores[known])
        removed = self._sums(weighed[weights == 0])
        mean_weight = self._means(weighed, shares)
        mean_rank = self._means(scored[known], ranks)
        return [
            ClientSummary(
                client=client,
                **{name: int(count[place]) for name, count in counts.items()},
                removed=int(removed[place]),
                mean_weight=mean_weight[place],
                mean_rank=mean_rank[place],
            )
            for client, place in sorted(self.places.items(), key=_order)
        ]

    def _places(self, clients: Sequence[Client]) -> list[int]:
        places = self.places
        return [places.setdefault(client, len(places)) for client in clients]

    def _sums(
        self, places: list[int] | NDArray[np.int64], values: NDArray[np.float64] | None = None
    ) -> NDArray[np.float64]:
        return np.bincount(np.asarray(places, dtype=np.int64), values, minlength=len(self.places)).astype(np.float64)

    def _means(self, places: NDArray[np.int64], values: NDArray[np.float64]) -> list[float | None]:
        sums, counts = self._sums(places, values), self._sums(places)
        return [float(total / count) if count else None for total, count in zip(sums, counts, strict=True)]


def mid_ranks(groups: NDArray[np.int64], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return for each value the share of its group that is smaller, equal ones counted half.

    After one sort by (group, value), the values smaller than a run of equal ones are those between the start of the
    group and the start of the run.

    >>> mid_ranks(np.array([0, 0, 0, 0, 1]), np.array([5.0, 1.0, 5.0, 9.0, 7.0]))
    array([0.5  , 0.125, 0.5  , 0.875, 0.5  ])
    """
    order = np.lexsort((values, groups))
    sorted_groups, sorted_values = groups[order], values[order]
    new_group = np.diff(sorted_groups, prepend=-1) != 0
    new_run = new_group | np.concatenate(([True], sorted_values[1:] != sorted_values[:-1]))[: len(values)]
    starts, sizes = _runs(new_run)
    group_starts, group_sizes = _runs(new_group)
    ranks = np.empty(len(values))
    ranks[order] = (starts - group_starts + sizes / 2) / np.maximum(group_sizes, 1)
    return ranks


def _runs(new: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return for each element the start and the size of the run it is in; `new` marks the first of every run."""
    starts = np.flatnonzero(new)
    sizes = np.diff(starts, append=len(new))
    return np.repeat(starts, sizes), np.repeat(sizes, sizes)


def _order(item: tuple[Client, int]) -> tuple[bool, int, str]:
    client = item[0]
    return (True, 0, client) if isinstance(client, str) else (False, client, "")
