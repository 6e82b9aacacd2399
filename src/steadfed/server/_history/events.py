"""What happened to whom in which round, one event at a time: the log that an operator reads."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, final

from steadfed._core.wording import plural
from steadfed.server._history.fate import Fate, fate_of_drop, fate_of_fault, fates_of, nearly_removed
from steadfed.server._history.scores import ScoreMeaning, meaning_of
from steadfed.server._history.silence import silence_of
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
    TOO_MANY_SILENT = "too many silent"
    """More clients sent nothing than are assumed to be Byzantine."""
    FEW_REPLIES = "few replies"
    """Silent clients left so few replies that f/n is above 1/4, and a step was taken."""

    @property
    def word(self) -> str:
        """The outcome in words."""
        return self.value


class Shade(StrEnum):
    """What can happen to an update that was kept."""

    NEARLY_REMOVED = "nearly removed"
    """It got less than a tenth of an equal share."""

    @property
    def word(self) -> str:
        """The shade in words."""
        return self.value


@final
@dataclass(frozen=True, kw_only=True)
class Event:
    """One thing that happened."""

    round: int
    what: Fate | RoundOutcome | Shade
    client: Client | None = None
    """Whom it happened to; None if it is about the round."""
    why: str = ""
    """A sentence; parts of it may come from clients, so escape it before it goes to a terminal."""
    fault: str | None = None
    """The fault of a dropped reply, as a word."""
    score: float | None = None
    """The rule's measure of suspicion, of an update that was removed, or nearly."""
    median_score: float | None = None
    """The same of the middle update of the round."""
    weight: float | None = None
    """What the update got."""

    def as_dict(self) -> dict[str, Any]:
        """Return what there is as plain values, ready for JSON."""
        found = {**vars(self), "what": self.what.word}
        return {name: value for name, value in found.items() if value is not None}


def events_of(records: Iterable[RoundRecord], rule: Any = None) -> Iterator[Event]:
    """Yield what happened, round by round: to the round, then dropped replies as they came, then removals by the rule.

    Args:
        records: the rounds.
        rule: the rule as config.toml has it, by which scores are told with their unit.

    >>> from steadfed.server._record import DroppedReply
    >>> drops = (DroppedReply(client="a", fault="shape", detail="'w' has 3 rows, not 4"),)
    >>> both = {"cohort": ("a", "b"), "received": ("a", "b"), "weights": (0.0, 1.0), "kept": ("b",)}
    >>> for event in events_of([RoundRecord(round=0, step=1, lr=0.1, unusable=("a",), drops=drops, **both)]):
    ...     print(event.client, event.what.word, event.why, sep=" | ")
    a | malformed | shape: 'w' has 3 rows, not 4
    """
    meaning = meaning_of(rule)
    for record in records:
        yield from _round_events(record)
        yield from _drop_events(record)
        yield from _absence_events(record)
        yield from _removal_events(record, meaning)


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
    if (silence := silence_of(record)) is not None:
        what = RoundOutcome.TOO_MANY_SILENT if silence.too_many else RoundOutcome.FEW_REPLIES
        yield Event(round=record.round, what=what, why=silence.why)


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


def _removal_events(record: RoundRecord, meaning: ScoreMeaning) -> Iterator[Event]:
    """Yield every usable update that the rule gave no weight or next to none, with what the rule and its proof say."""
    scores = record.by_client(record.scores)
    unscored = meaning.infinite if scores else "no score"
    known = [score for score in record.scores if score is not None]
    middle = statistics.median(known) if known else None
    ground, nearly, weights = _ground(record), nearly_removed(record), record.by_client(record.weights)
    for client, fate in fates_of(record).items():
        if fate is not Fate.REMOVED and client not in nearly:
            continue
        score, share = scores.get(client), nearly.get(client)
        measured = unscored
        if score is not None and middle is not None:
            measured = f"{meaning.told([score])} (the middle one: {meaning.number([middle])})"
        said = [measured, ground] if share is None else [f"{share:.2g} of an equal share", measured, ground]
        yield Event(
            round=record.round,
            what=fate if share is None else Shade.NEARLY_REMOVED,
            client=client,
            why="; ".join(filter(None, said)),
            score=score,
            median_score=None if score is None else middle,
            weight=weights.get(client, 0.0),
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
