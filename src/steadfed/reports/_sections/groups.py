"""False positives by groups of clients: a rule that removes a kind of client removes its data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from steadfed.reports._sections.metrics import title_of
from steadfed.reports._sections.served import unit_of
from steadfed.reports.panels import Column, Table, Unit, Value, tabulate
from steadfed.server._history import RunHistory

if TYPE_CHECKING:
    from steadfed.data import Dataset
    from steadfed.partitions import Shares

_MOST_OWNERS = 40
"""Owners that are shown one by one; more are no groups but clients."""
_SIZES = ("smallest quarter", "second quarter", "third quarter", "largest quarter")
_UNLIKE = 1.5
"""Sizes that differ by less are no groups."""
_MANY = 0.5


@final
@dataclass(frozen=True, kw_only=True)
class _Group:
    kind: str
    name: str
    clients: int
    judged: int
    removed: int
    score: float | None

    @property
    def rate(self) -> float:
        return self.removed / self.judged


def false_positives_by_group(
    history: RunHistory, dataset: Dataset, shares: Shares, key: str, whose: str
) -> Table | None:
    """Return how often honest updates were removed, by kind of client; None if there are no two kinds to compare.

    Kinds are: the natural owner of its points, if there are few; the class that most of its points have; how many
    points it holds, in quarters.
    """
    if history.deployed:
        return None
    kinds = [[*_groups(history, kind, names)] for kind, names in _kinds(dataset, shares)]
    groups = [group for kind in kinds if len(kind) > 1 for group in kind]
    if not groups:
        return None
    columns: dict[Column, Callable[[_Group], Value]] = {
        Column("clients by"): lambda group: group.kind,
        Column("group"): lambda group: group.name,
        Column("clients", Unit.NUMBER, "with honest updates that were judged"): lambda group: group.clients,
        Column("honest updates", Unit.NUMBER, "that were judged"): lambda group: group.judged,
        Column("removed", Unit.NUMBER): lambda group: group.removed,
        Column("share", Unit.PERCENT, "of the honest updates of the group"): lambda group: group.rate,
    }
    scores = history.rounds.client_scores
    if scores is not None:
        unit, what = unit_of(scores), title_of(scores.metric)
        columns[Column(what, unit, "mean over its clients that were scored")] = lambda group: group.score
    return tabulate(
        groups,
        columns,
        key=key,
        title=f"{whose}False positives by group of clients",
        caption="A rule that removes all clients of a kind keeps what they know out of the model. Marked are groups "
        "that lost more than half of their honest updates.",
        flag=lambda group: group.rate > _MANY,
    )


def _kinds(dataset: Dataset, shares: Shares) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield ways to group clients: what it is called, and the group of every client."""
    first = shares.order[shares.offsets[:-1]]
    if dataset.groups is not None and (owners := _sole_owners(dataset, shares)) is not None:
        names = dataset.group_names
        if len(np.unique(owners)) <= _MOST_OWNERS:
            yield "owner", [names[owner] if names else f"owner {owner}" for owner in owners.tolist()]
    if dataset.num_classes is not None and dataset.labels.ndim == 1 and len(first):
        labels = dataset.labels.cpu().numpy()
        held = np.repeat(np.arange(shares.num_clients), shares.sizes)
        counts = np.zeros((shares.num_clients, dataset.num_classes), dtype=np.int64)
        np.add.at(counts, (held, labels[shares.order]), 1)
        yield "most frequent class", [f"class {label}" for label in counts.argmax(axis=1).tolist()]
    if shares.sizes.max() >= _UNLIKE * shares.sizes.min():
        quarters = np.searchsorted(np.quantile(shares.sizes, [0.25, 0.5, 0.75]), shares.sizes, side="left")
        yield "number of points", [_SIZES[quarter] for quarter in quarters.tolist()]


def _sole_owners(dataset: Dataset, shares: Shares) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]] | None:
    """Return the owner of every client's points; None if some client holds points of several."""
    if dataset.groups is None:
        return None
    owners = dataset.groups[shares.order]
    first = owners[shares.offsets[:-1]]
    return first if np.array_equal(owners, np.repeat(first, shares.sizes)) else None


def _groups(history: RunHistory, kind: str, names: Sequence[str]) -> Iterator[_Group]:
    """Yield the groups that have honest updates, in the order of their names or sizes."""
    scores = {} if history.rounds.client_scores is None else history.rounds.client_scores.by_client
    found: dict[str, list[tuple[int, int, float | None]]] = {}
    for line in history.rounds.clients:
        if isinstance(line.client, int) and 0 <= line.client < len(names) and line.honest_judged:
            row = (line.honest_judged, line.honest_against, scores.get(line.client))
            found.setdefault(names[line.client], []).append(row)
    ordered = [name for name in (_SIZES if kind == "number of points" else dict.fromkeys(names)) if name in found]
    for name in sorted(ordered, key=_natural) if kind == "most frequent class" else ordered:
        rows = found[name]
        known = [score for _, _, score in rows if score is not None]
        yield _Group(
            kind=kind,
            name=name,
            clients=len(rows),
            judged=sum(judged for judged, _, _ in rows),
            removed=sum(removed for _, removed, _ in rows),
            score=float(np.mean(known)) if known else None,
        )


def _natural(name: str) -> tuple[int, str]:
    """Return what sorts "class 2" before "class 10"."""
    return len(name), name
