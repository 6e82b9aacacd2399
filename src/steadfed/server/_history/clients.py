"""What a run says about each client: how often it took part, how the rule treated it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from steadfed.server._history.entries import Entries
from steadfed.server._history.fate import Fate
from steadfed.server._history.suspicion import wilson_lower_bound
from steadfed.server._record import Client


@final
@dataclass(frozen=True, kw_only=True)
class ClientSummary:
    """One client over all rounds."""

    client: Client
    asked: int
    """In how many rounds it was in the cohort."""
    received: int
    """How often its update arrived."""
    absent: int
    """How often it sent nothing."""
    unusable: int
    """How often its update was a model with NaN, Inf or numbers whose squares overflow."""
    removed: int
    """How often its update arrived and got weight 0 in a round that aggregated."""
    mean_weight: float | None
    """Its weight times the number of updates, on average: 1 is an equal share. None if it was never weighed."""
    mean_rank: float | None
    """Which share of the updates of its round looked less suspicious than its own, on average; equal ones, itself among
    them, count half. 1/2 is nothing special. None if it was never scored."""
    byzantine: int
    """In how many rounds it was Byzantine, as far as the records know."""
    malformed: int = 0
    """How often its reply was no model like the one it was sent; such a reply gets weight 0."""
    judged: int = 0
    """How often there was something to judge: its update arrived in a round that aggregated, or was malformed."""
    against: int = 0
    """How often that went against it: weight 0, or a malformed reply; both at once count once."""
    byzantine_judged: int = 0
    """How often there was something to judge in rounds in which it was Byzantine, as far as the records know."""
    byzantine_against: int = 0
    """How often that went against it."""
    faults: Mapping[str, int] = field(default_factory=dict)
    """What was wrong with its replies, or why there were none, and how often; unusable updates and replies nobody asked
    for among them."""
    layers: Mapping[str, float] = field(default_factory=dict)
    """In which layers of the model its removed updates deviated: each layer's share of the squared distance from the
    update that was made, on average, the largest first; empty where no record says it."""

    @property
    def removed_rate(self) -> float | None:
        """Which share of its judged replies went against it; None if there was nothing to judge."""
        return self.against / self.judged if self.judged else None

    @property
    def honest_judged(self) -> int:
        """How often there was something to judge in rounds in which it was honest, as far as the records know."""
        return self.judged - self.byzantine_judged

    @property
    def honest_against(self) -> int:
        """How often that went against it."""
        return self.against - self.byzantine_against

    @property
    def suspicion(self) -> float | None:
        """The least plausible share of its replies that is worth nothing; None if there was nothing to judge.

        `against` of `judged`, as Wilson's lower bound with 95 % confidence: 0.27 after one removal in one round, 0.53
        after three in three, near the plain share after many. It bounds how often the rule turns against the client,
        no probability that it is Byzantine: a rule that always drops most updates, such as Krum, suspects everybody, so
        compare clients with each other. Absence does not count, nor does a reply nobody asked for, whose sender may be
        somebody else.
        """
        return wilson_lower_bound(self.against, self.judged) if self.judged else None

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values, ready for JSON."""
        return {**asdict(self), "suspicion": self.suspicion}


def client_table(
    entries: Entries,
    places: Mapping[Client, int],
    faults: Mapping[tuple[int, str], int],
    deviations: Mapping[int, Mapping[str, float]],
) -> list[ClientSummary]:
    """Return a line for every client that has a place: numbers first, in order, then names.

    Args:
        entries: what became of whom.
        places: the place of every client in `entries.client`.
        faults: what was wrong with replies: by place of the client and fault, how often.
        deviations: each layer's share of what removed updates deviated by, by place of the client.
    """
    number = len(places)
    malformed = entries.fate == Fate.MALFORMED
    judged, against = entries.judged | malformed, entries.removed | malformed
    counted = {
        "asked": np.ones(len(entries), dtype=np.bool_),
        "received": entries.received,
        "absent": entries.fate == Fate.ABSENT,
        "unusable": entries.fate == Fate.UNUSABLE,
        "malformed": malformed,
        "removed": entries.removed,
        "byzantine": entries.byzantine,
        "judged": judged,
        "against": against,
        "byzantine_judged": judged & entries.byzantine,
        "byzantine_against": against & entries.byzantine,
    }
    counts = {name: np.bincount(entries.client[mask], minlength=number) for name, mask in counted.items()}
    known = ~np.isnan(entries.score)
    ranks = np.full(len(entries), np.nan)
    ranks[known] = mid_ranks(entries.round[known], entries.score[known])
    weight, rank = (_means(entries.client, values, number) for values in (entries.weight, ranks))
    faults_of: dict[int, dict[str, int]] = {}
    for (place, fault), count in sorted(faults.items()):
        faults_of.setdefault(place, {})[fault] = count
    return [
        ClientSummary(
            client=client,
            mean_weight=weight[place],
            mean_rank=rank[place],
            faults=faults_of.get(place, {}),
            layers=deviations.get(place, {}),
            **{name: int(count[place]) for name, count in counts.items()},
        )
        for client, place in sorted(places.items(), key=lambda item: in_order(item[0]))
    ]


def suspects(table: Iterable[ClientSummary]) -> list[ClientSummary]:
    """Return the clients with the most suspicious first; equal ones by how suspicious they looked, then in order."""
    return sorted(table, key=lambda line: (-(line.suspicion or 0.0), -(line.mean_rank or 0.0)))


def in_order(client: Client) -> tuple[bool, int, str]:
    """Return what clients are sorted by: numbers first, then names."""
    return (True, 0, client) if isinstance(client, str) else (False, client, "")


def _means(places: NDArray[np.int64], values: NDArray[np.float64], number: int) -> list[float | None]:
    """Return for each client the mean of its values that are known; None if there are none."""
    known = ~np.isnan(values)
    sums = np.bincount(places[known], values[known], minlength=number)
    counts = np.bincount(places[known], minlength=number)
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
