"""What happened to whom in which round, one event at a time: the log that an operator reads."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, final

from holdfast.server.drops import ABSENT, STRAY, malformed
from holdfast.server.record import Client, DroppedReply, RoundRecord


class Happening(StrEnum):
    """What can happen to a round or to a client in it."""

    SKIPPED = "skipped"
    """The round left the model as it was."""
    PROMISE_BROKEN = "promise broken"
    """The updates contradict what was assumed of the clients."""
    MALFORMED = "malformed"
    """The reply was no model like the one sent, or its row held no usable numbers: it got weight 0."""
    ABSENT = "absent"
    """Nothing came from the client."""
    REMOVED = "removed"
    """The rule gave the update weight 0."""
    STRAY = "stray"
    """A reply that nobody had asked for."""


@final
@dataclass(frozen=True, kw_only=True)
class Event:
    """One thing that happened."""

    round: int
    what: Happening
    client: Client | None = None
    """Whom it happened to; None if it is about the round."""
    why: str = ""
    """A sentence; parts of it may come from clients, so escape it before it goes to a terminal."""
    fault: str | None = None
    """The fault of a dropped reply, as a word."""
    score: float | None = None
    """The rule's measure of suspicion, of a row that was removed."""
    median_score: float | None = None
    """The same of the middle row of the round."""
    weight: float | None = None
    """What the row got."""

    def as_dict(self) -> dict[str, Any]:
        """Return what there is as plain values, ready for JSON."""
        return {name: value for name, value in vars(self).items() if value is not None}


def events_of(records: Iterable[RoundRecord]) -> Iterator[Event]:
    """Yield what happened, round by round: to the round, then dropped replies as they came, then removals by the rule.

    >>> drops = (DroppedReply(client="a", fault="shape", detail="'w' has 3 rows, not 4"),)
    >>> both = {"cohort": ("a", "b"), "received": ("a", "b"), "weights": (0.0, 1.0), "kept": ("b",)}
    >>> for event in events_of([RoundRecord(round=0, step=1, lr=0.1, unusable=("a",), drops=drops, **both)]):
    ...     print(event.client, event.what, event.why, sep=" | ")
    a | malformed | shape: 'w' has 3 rows, not 4
    """
    for record in records:
        yield from _of_the_round(record)
        yield from map(_dropped, [record.round] * len(record.drops), record.drops)
        yield from _undocumented(record)
        yield from _removed(record)


def _of_the_round(record: RoundRecord) -> Iterator[Event]:
    reason = record.reason or ""
    if record.skipped:
        yield Event(round=record.round, what=Happening.SKIPPED, why=reason or "the updates could not be aggregated")
    if record.promise_broken:
        assumed = "" if record.num_byzantine is None else f" (assumed: at most {record.num_byzantine} Byzantine rows)"
        yield Event(round=record.round, what=Happening.PROMISE_BROKEN, why=f"{reason}{assumed}".strip())


def _dropped(number: int, drop: DroppedReply) -> Event:
    what = Happening.MALFORMED
    if drop.fault in ABSENT:
        what = Happening.ABSENT
    elif drop.fault in STRAY:
        what = Happening.STRAY
    why = f"{drop.fault}: {drop.detail}" if drop.detail else drop.fault
    return Event(round=number, what=what, client=drop.client, why=why, fault=drop.fault)


def _undocumented(record: RoundRecord) -> Iterator[Event]:
    """Yield those that sent nothing, or nothing usable, and no dropped reply that says why: as in a simulation."""
    told = {drop.client for drop in record.drops if drop.fault not in STRAY}
    for client in record.erased:
        if client not in told:
            yield Event(round=record.round, what=Happening.ABSENT, client=client, why="it sent nothing")
    for client in record.unusable:
        if client not in told:
            why = "its row holds NaN, Inf or numbers whose squares overflow"
            yield Event(round=record.round, what=Happening.MALFORMED, client=client, why=why)


def _removed(record: RoundRecord) -> Iterator[Event]:
    """Yield every usable row that the rule gave no weight, with its score and what the rule and its proof say."""
    removed = set(record.removed) - set(record.unusable) - set(malformed(record))
    if not removed:
        return
    scores: dict[Client, float | None] = {}
    if len(record.scores) == len(record.received):
        scores = dict(zip(record.received, record.scores, strict=True))
    known = [score for score in record.scores if score is not None]
    middle = statistics.median(known) if known else None
    ground = _ground(record)
    for client in (client for client in record.received if client in removed):
        score = scores.get(client)
        told = "no score" if score is None or middle is None else f"score {score:.4g}, median {middle:.4g}"
        yield Event(
            round=record.round,
            what=Happening.REMOVED,
            client=client,
            why=f"{told}; {ground}" if ground else told,
            score=score,
            median_score=None if score is None else middle,
            weight=0.0,
        )


def _ground(record: RoundRecord) -> str:
    """Return in words on what grounds a rule removes rows: why it stopped, what spread is left, what is proved."""
    said = [record.reason] if record.reason else []
    if record.spread is not None and record.sigma0 is not None:
        said.append(f"the kept rows spread {record.spread:.4g} (σ₀² = {record.sigma0**2:.4g})")
    bound = (record.certificate or {}).get("error_bound")
    if bound is not None:
        said.append(f"if honest rows spread no more than that, the error is at most {bound:.4g}")
    return "; ".join(said)
