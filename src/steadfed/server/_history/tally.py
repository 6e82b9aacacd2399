"""What came of the updates of a run, counted: every count and every share is defined here, and nowhere else."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Any, final

from steadfed.server._history.fate import Fate, fate_of_drop, fates_of
from steadfed.server._record import Client, RoundRecord

_HALF = 0.5


@final
@dataclass(frozen=True, kw_only=True)
class Tally:
    """How the rule of a run told updates apart: of one round, or of several, which add up.

    A round that was skipped, or whose rule does not say whose updates it used, judges nobody. *Judged* are the updates
    that were received in the other rounds, and *removed* those of them that got weight 0, for whatever reason:
    malformed replies and updates without usable numbers among them, which are also counted as such. Absent, malformed,
    unusable and unasked replies are counted in every round, a client once per round. Whatever needs to know who was
    Byzantine is None in a deployment: nobody knows.

    >>> lists = {"cohort": (1, 2, 3, 4), "received": (1, 2, 3), "byzantine": (3, 4), "kept": (1, 2)}
    >>> one = Tally.of(RoundRecord(round=0, step=1, lr=0.1, weights=(0.5, 0.5, 0.0), **lists))
    >>> two = one + Tally.of(RoundRecord(round=1, step=2, lr=0.1, skipped=True, cohort=(1, 2), received=(1,)))
    >>> two.judged, two.removed, two.absent, two.skipped, two.recall, two.byzantine_weight
    (3, 1, 2, 1, 1.0, 0.0)
    """

    rounds: int = 0
    skipped: int = 0
    """Rounds that changed nothing."""
    assumption_violated: int = 0
    """Rounds whose updates contradicted what was assumed of the clients."""
    asked: int = 0
    """Clients of the cohorts."""
    received: int = 0
    """Updates that arrived, whatever they were, in rounds that aggregated and in others."""
    absent: int = 0
    """Clients of the cohorts that sent nothing."""
    unusable: int = 0
    """Updates that were models with NaN, Inf or numbers whose squares overflow."""
    malformed: int = 0
    """Replies that were no models like the one sent."""
    unasked: int = 0
    """Replies that nobody had asked for."""
    known_byzantine: int = 0
    """Updates known not to be honest, in rounds that aggregated and in others: Byzantine ones of a simulation,
    malformed and unusable ones of anybody. It is what the assumed number is held against."""
    judged: int = 0
    """Updates received in rounds that judge."""
    removed: int = 0
    """Those of them that got weight 0."""
    byzantine: int | None = 0
    """Those of the judged that were Byzantine."""
    byzantine_removed: int | None = 0
    """Those of the removed that were Byzantine."""
    honest_reduced: int | None = 0
    """Honest updates that were kept, with less than half of an equal share."""
    weighed: int = 0
    """Rounds whose update has weights."""
    byzantine_shares: float | None = 0.0
    """Which share of a round's weight was Byzantine, summed over these rounds."""

    @classmethod
    def of(cls, record: RoundRecord, *, deployed: bool = False) -> Tally:
        """Count one round; a deployed one does not know who was Byzantine."""
        found, asked, known = fates_of(record), set(record.cohort), set(() if deployed else record.byzantine)
        fates = list(found.values())
        faulty = {client for client, fate in found.items() if fate in {Fate.UNUSABLE, Fate.MALFORMED}}
        judged, removed = record.received if record.judges else (), record.removed
        counts = cls(
            rounds=1,
            skipped=int(record.skipped),
            assumption_violated=int(record.assumption_violated),
            asked=len(record.cohort),
            received=len(record.received),
            absent=fates.count(Fate.ABSENT),
            unusable=fates.count(Fate.UNUSABLE),
            malformed=fates.count(Fate.MALFORMED),
            unasked=sum(fate_of_drop(drop, asked) is Fate.UNASKED for drop in record.drops),
            known_byzantine=len(known.intersection(record.received) | faulty),
            judged=len(judged),
            removed=len(removed),
            byzantine=len(known.intersection(judged)),
            byzantine_removed=len(known.intersection(removed)),
            **({} if record.skipped else _weight_counts(record, known)),
        )
        return replace(counts, **_UNKNOWN) if deployed else counts

    def __add__(self, other: Tally) -> Tally:
        """Return the counts of both; what one of them does not know is not known."""
        pairs = {field.name: (getattr(self, field.name), getattr(other, field.name)) for field in fields(Tally)}
        sums: dict[str, Any] = {name: None if None in pair else sum(pair) for name, pair in pairs.items()}
        return Tally(**sums)

    @property
    def kept(self) -> int:
        """Judged updates that got weight."""
        return self.judged - self.removed

    @property
    def byzantine_kept(self) -> int | None:
        """Byzantine ones among the kept."""
        return _less(self.byzantine, self.byzantine_removed)

    @property
    def honest(self) -> int | None:
        """Honest ones among the judged."""
        return _less(self.judged, self.byzantine)

    @property
    def honest_removed(self) -> int | None:
        """Honest ones among the removed: its false positives."""
        return _less(self.removed, self.byzantine_removed)

    @property
    def removed_rate(self) -> float | None:
        """Which share of the judged updates was removed; None if there were none."""
        return _share(self.removed, self.judged)

    @property
    def precision(self) -> float | None:
        """Which share of the removed was Byzantine; None if nothing was removed, or nobody knows."""
        return _share(self.byzantine_removed, self.removed)

    @property
    def recall(self) -> float | None:
        """Which share of the judged Byzantine updates was removed; None if there were none, or nobody knows."""
        return _share(self.byzantine_removed, self.byzantine)

    @property
    def byzantine_kept_rate(self) -> float | None:
        """Which share of the judged Byzantine updates got weight; None if there were none, or nobody knows."""
        return _share(self.byzantine_kept, self.byzantine)

    @property
    def honest_removed_rate(self) -> float | None:
        """Which share of the judged honest updates was removed; None if there were none, or nobody knows."""
        return _share(self.honest_removed, self.honest)

    @property
    def byzantine_weight(self) -> float | None:
        """Which share of a round's weight came from Byzantine clients: the mean over the rounds that gave weights.

        Rounds count alike, however many rows they have, as each moves the model once.
        """
        return _share(self.byzantine_shares, self.weighed)

    def counts(self) -> dict[str, int]:
        """Return every whole number that is known, by name."""
        return {name: count for name, count in self.as_dict().items() if isinstance(count, int)}

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values, ready for JSON; None for what is not known."""
        derived = {name: value for name, value in vars(Tally).items() if isinstance(value, property)}
        found = {**vars(self), **{name: getattr(self, name) for name in derived}}
        del found["byzantine_shares"], found["weighed"]  # `byzantine_weight` says it
        return found


_UNKNOWN: dict[str, Any] = dict.fromkeys(("byzantine", "byzantine_removed", "byzantine_shares", "honest_reduced"))
"""What nobody knows in a deployment."""


def tally_of(records: Iterable[RoundRecord], *, deployed: bool = False) -> Tally:
    """Count some rounds.

    >>> tally_of([], deployed=True).byzantine is None
    True
    """
    nothing = Tally(**_UNKNOWN) if deployed else Tally()
    return sum((Tally.of(record, deployed=deployed) for record in records), start=nothing)


def _weight_counts(record: RoundRecord, known: set[Client]) -> dict[str, Any]:
    """Return what the weights of a round say; nothing if it has none."""
    weights = record.by_client(record.weights)
    total = sum(weights.values())
    if not total:
        return {}
    little = _HALF * total / len(weights)
    return {
        "weighed": 1,
        "honest_reduced": sum(0.0 < weight < little for client, weight in weights.items() if client not in known),
        "byzantine_shares": sum(weight for client, weight in weights.items() if client in known) / total,
    }


def _less(whole: int | None, part: int | None) -> int | None:
    return None if whole is None or part is None else whole - part


def _share(part: float | None, whole: int | None) -> float | None:
    return None if part is None or not whole else part / whole
