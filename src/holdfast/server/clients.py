"""What a run says about each client: how often it took part, how the rule treated it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from holdfast.server.drops import malformed
from holdfast.server.record import Client, RoundRecord
from holdfast.server.suspicion import wilson_lower_bound


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
    malformed: int = 0
    """How often its reply was no model like the one it was sent; such a reply is unusable and gets weight 0."""
    judged: int = 0
    """How often there was something to judge: its update was weighed, or its reply was malformed."""
    accused: int = 0
    """How often that went against it: weight 0, or a malformed reply; both at once count once."""
    faults: Mapping[str, int] = field(default_factory=dict)
    """What was wrong with its replies, or why there were none, and how often; replies nobody asked for among them."""

    @property
    def suspicion(self) -> float | None:
        """The least plausible share of its replies that is worth nothing; None if there was nothing to judge.

        Accused of judged, as Wilson's lower bound with 95 % confidence: 0.27 after one removal in one round, 0.53 after
        three in three, near the plain share after many. It is a bound on how often the rule turns against the client,
        no probability that it lies: a rule that always drops most rows, such as Krum, suspects everybody, so compare
        clients with each other. Absence does not count, nor does a reply nobody asked for, whose sender may be somebody
        else.
        """
        return wilson_lower_bound(self.accused, self.judged) if self.judged else None

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values, ready for JSON."""
        return {**asdict(self), "suspicion": self.suspicion}


def client_table(records: Iterable[RoundRecord]) -> list[ClientSummary]:
    """Return a line for every client that was asked or sent something: numbers first, in order, then names.

    >>> both = {"cohort": (7, 8), "received": (7, 8), "weights": (1.0, 0.0), "scores": (2.0, 5.0)}
    >>> rounds = [RoundRecord(round=n, step=n + 1, lr=0.1, **both) for n in range(3)]
    >>> [(line.client, line.removed, line.mean_weight, line.mean_rank) for line in client_table(rounds)]
    [(7, 0, 2.0, 0.25), (8, 3, 0.0, 0.75)]
    """
    columns = ClientColumns()
    for record in records:
        columns.add(record)
    return columns.table()


def suspects(table: Iterable[ClientSummary]) -> list[ClientSummary]:
    """Return the clients with the most suspicious first; equal ones by how suspicious they looked, then in order.

    >>> both = {"cohort": (7, 8), "received": (7, 8), "weights": (1.0, 0.0), "scores": (2.0, 5.0)}
    >>> rounds = [RoundRecord(round=n, step=n + 1, lr=0.1, **both) for n in range(3)]
    >>> [(line.client, round(line.suspicion, 2)) for line in suspects(client_table(rounds))]
    [(8, 0.53), (7, 0.0)]
    """
    return sorted(table, key=lambda line: (-(line.suspicion or 0.0), -(line.mean_rank or 0.0)))


@final
@dataclass
class ClientColumns:
    """The records turned on their side: long columns of places in `places`, so that numpy does the counting.

    Records are added as they come, and `table` may be asked for at any time.
    """

    places: dict[Client, int] = field(default_factory=dict)
    """Every client that was asked or sent something, in the order in which they turned up."""
    counted: dict[str, list[int]] = field(
        default_factory=lambda: {
            name: [] for name in ("sampled", "received", "erased", "unusable", "byzantine", "malformed")
        }
    )
    judged: list[int] = field(default_factory=list)
    """Malformed replies in rounds that gave no weights; those that did are in `weighed`."""
    faults: dict[int, Counter[str]] = field(default_factory=dict)
    weighed: list[int] = field(default_factory=list)
    weights: list[float] = field(default_factory=list)
    weighed_sizes: list[int] = field(default_factory=list)
    scored: list[int] = field(default_factory=list)
    scores: list[float | None] = field(default_factory=list)
    scored_sizes: list[int] = field(default_factory=list)

    def add(self, record: RoundRecord) -> None:
        """Add a round."""
        received = self._places(record.received)
        self.counted["sampled"] += self._places(record.cohort)
        self.counted["received"] += received
        self.counted["erased"] += self._places(record.erased)
        self.counted["unusable"] += self._places(record.unusable)
        self.counted["byzantine"] += self._places(record.byzantine)
        self._add_drops(record)
        if received and len(record.weights) == len(received):
            self.weighed += received
            self.weights += record.weights
            self.weighed_sizes.append(len(received))
        if received and len(record.scores) == len(received):
            self.scored += received
            self.scores += record.scores
            self.scored_sizes.append(len(received))

    def _add_drops(self, record: RoundRecord) -> None:
        bad = self._places(list(malformed(record)))
        self.counted["malformed"] += bad
        for place, drop in zip(self._places([drop.client for drop in record.drops]), record.drops, strict=True):
            self.faults.setdefault(place, Counter())[drop.fault] += 1
        weighed = set(record.received) if len(record.weights) == len(record.received) else set()
        self.judged += [self.places[client] for client in malformed(record) if client not in weighed]

    def table(self) -> list[ClientSummary]:
        """Return a line for every client: numbers first, in order, then names."""
        counts = {name: self._sums(places) for name, places in self.counted.items()}
        weights = np.array(self.weights, dtype=np.float64)
        shares = weights * np.repeat(self.weighed_sizes, self.weighed_sizes) if self.weighed else weights
        weighed, scored = np.array(self.weighed, dtype=np.int64), np.array(self.scored, dtype=np.int64)
        rounds = np.repeat(np.arange(len(self.scored_sizes)), self.scored_sizes)
        scores = np.array(self.scores, dtype=np.float64)  # None becomes NaN
        known = ~np.isnan(scores)
        ranks = mid_ranks(rounds[known], scores[known])
        removed = self._sums(weighed[weights == 0])
        unweighed = self._sums(self.judged)
        judged, accused = self._sums(weighed) + unweighed, removed + unweighed
        mean_weight = self._means(weighed, shares)
        mean_rank = self._means(scored[known], ranks)
        return [
            ClientSummary(
                client=client,
                **{name: int(count[place]) for name, count in counts.items()},
                removed=int(removed[place]),
                mean_weight=mean_weight[place],
                mean_rank=mean_rank[place],
                judged=int(judged[place]),
                accused=int(accused[place]),
                faults=dict(sorted(self.faults.get(place, {}).items())),
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
