"""What happened to whom in which round, one event at a time: the log that an operator reads."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, final

from steadfed._core.wording import plural
from steadfed.server._history.fate import Fate, fate_of_drop, fate_of_fault, fates_of
from steadfed.server._record import Client, RoundRecord

_SILENT = {
    Fate.ABSENT: "it sent nothing",
    Fate.UNUSABLE: "its update holds NaN, Inf or numbers whose squares overflow",
}
"""Why, where nobody says it."""


class RoundOutcome(StrEnum):
    """What can happen to a round as a whole."""

    SKIPPED = "skipped"
    """It left the model as it was."""
    ASSUMPTION_VIOLATED = "assumption violated"
    """Its updates contradict what was assumed of the clients."""

    @property
    def word(self) -> str:
        """The outcome in words."""
        return self.value


@final
@dataclass(frozen=True, kw_only=True)
class Event:
    """One thing that happened."""

    round: int
    what: Fate | RoundOutcome
    client: Client | None = None
    """Whom it happened to; None if it is about the round."""
    why: str = ""
    """A sentence; parts of it may come from clients, so escape it before it goes to a terminal."""
    fault: str | None = None
    """The fault of a dropped reply, as a word."""
    score: float | None = None
    """The rule's measure of suspicion, of an update that was removed."""
    median_score: float | None = None
    """The same of the middle update of the round."""
    weight: float | None = None
    """What the update got."""

    def as_dict(self) -> dict[str, Any]:
        """Return what there is as plain values, ready for JSON."""
        found = {**vars(self), "what": self.what.word}
        return {name: value for name, value in found.items() if value is not None}


def events_of(records: Iterable[RoundRecord]) -> Iterator[Event]:
    """Yield what happened, round by round: to the round, then dropped replies as they came, then removals by the rule.

    >>> from steadfed.server._record import DroppedReply
    >>> drops = (DroppedReply(client="a", fault="shape", detail="'w' has 3 rows, not 4"),)
    >>> both = {"cohort": ("a", "b"), "received": ("a", "b"), "weights": (0.0, 1.0), "kept": ("b",)}
    >>> for event in events_of([RoundRecord(round=0, step=1, lr=0.1, unusable=("a",), drops=drops, **both)]):
    ...     print(event.client, event.what.word, event.why, sep=" | ")
    a | malformed | shape: 'w' has 3 rows, not 4
    """
    for record in records:
        yield from _round_events(record)
        yield from _drop_events(record)
        yield from _absence_events(record)
        yield from _removal_events(record)


def _round_events(record: RoundRecord) -> Iterator[Event]:
    reason = record.reason or ""
    if record.skipped:
        yield Event(round=record.round, what=RoundOutcome.SKIPPED, why=reason or "the updates could not be aggregated")
    if record.assumption_violated:
        number = record.num_byzantine
        assumed = "" if number is None else f"assumed: at most {plural(number, 'Byzantine update')}"
        if record.guard is not None and record.guard.get("alarmed"):
            assumed = record.guard.get("reason") or ""
        why = assumed if record.skipped else f"{reason} ({assumed})" if assumed else reason
        yield Event(round=record.round, what=RoundOutcome.ASSUMPTION_VIOLATED, why=why)


def _drop_events(record: RoundRecord) -> Iterator[Event]:
    asked = set(record.cohort)
    for drop in record.drops:
        what = fate_of_drop(drop, asked)
        yield Event(round=record.round, what=what, client=drop.client, why=drop.why, fault=drop.fault)


def _absence_events(record: RoundRecord) -> Iterator[Event]:
    """Yield those that sent nothing, or nothing usable, and no dropped reply that says why: as in a simulation."""
    documented = {drop.client for drop in record.drops if fate_of_fault(drop.fault) is not Fate.UNASKED}
    fates = fates_of(record)
    for what, why in _SILENT.items():
        for client, fate in fates.items():
            if fate is what and client not in documented:
                yield Event(round=record.round, what=what, client=client, why=why)


def _removal_events(record: RoundRecord) -> Iterator[Event]:
    """Yield every usable update that the rule gave no weight, with its score and what the rule and its proof say."""
    scores = record.by_client(record.scores)
    known = [score for score in record.scores if score is not None]
    middle = statistics.median(known) if known else None
    ground = _ground(record)
    for client, fate in fates_of(record).items():
        if fate is not Fate.REMOVED:
            continue
        score = scores.get(client)
        measured = "no score" if score is None or middle is None else f"score {score:.4g}, median {middle:.4g}"
        yield Event(
            round=record.round,
            what=fate,
            client=client,
            why=f"{measured}; {ground}" if ground else measured,
            score=score,
            median_score=None if score is None else middle,
            weight=0.0,
        )


def _ground(record: RoundRecord) -> str:
    """Return in words on what grounds a rule removes updates: why it stopped, what spread is left, what is proved."""
    said = [record.reason] if record.reason else []
    if record.spread is not None and record.sigma0 is not None:
        said.append(f"the kept updates spread {record.spread:.4g} (σ₀² = {record.sigma0**2:.4g})")
    bound = (record.certificate or {}).get("error_bound")
    if bound is not None:
        said.append(f"if honest updates spread no more than that, the error is at most {bound:.4g}")
    return "; ".join(said)
