"""A round in progress: replies become rows of the K × d matrix as they come, and then one update."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, final, runtime_checkable

import torch
from flwr.app import Message, RecordDict
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from holdfast.aggregators import Aggregation, Aggregator, ServerView
from holdfast.errors import InputError, ReplyError
from holdfast.flower.door import Door
from holdfast.flower.faults import Fault
from holdfast.flower.gate import Gate
from holdfast.flower.metrics import scalars_of
from holdfast.flower.receiving import Unreadable
from holdfast.server.record import Client, DroppedReply


@runtime_checkable
class Tampering(Protocol):
    """Somebody who changes rows after all were read: a drill against an adversary that sees everything."""

    def tamper(
        self,
        updates: Float[Tensor, "n d"],
        clients: list[Client],
        rule: Aggregator,
        view: ServerView,
    ) -> None:
        """Change rows in place."""


@final
@dataclass(frozen=True, eq=False)
class Start:
    """What the clients of a round start from."""

    round: int
    """The number of the round, from 0."""
    lr: float
    """η of the round."""
    model: Float[Tensor, " d"]
    """x."""


@final
@dataclass(frozen=True, eq=False)
class Received:
    """What came back: the rows in the order in which the clients were asked, whenever they came."""

    updates: Float[Tensor, "n d"]
    """(x − x_r)/η of everyone who claimed something; NaN throughout where the claim is no model."""
    clients: tuple[Client, ...]
    """Whose rows these are."""
    malformed: int
    """How many of them are NaN because the reply was no model."""
    buffers: tuple[Mapping[str, NDArray[Any]], ...]
    """The buffers of those whose reply was a model."""


@final
class TrainingRound:
    """Fills the matrix, one reply at a time; a reply's own memory can be freed as soon as it was taken.

    Rows stand in the order of the cohort, so the outcome does not depend on who was quick. Nothing that a reply holds
    raises: what is wrong with it is noted in `drops`.
    """

    def __init__(self, start: Start, door: Door, gate: Gate, *, keep_metrics: bool = False) -> None:
        self.start, self.door = start, door
        self._gate, self._keep_metrics = gate, keep_metrics
        self._matrix = torch.empty(0)
        self._buffers: dict[int, Mapping[str, NDArray[Any]]] = {}
        self._malformed: set[int] = set()
        self.reports: list[dict[str, float]] = []
        """What each client whose reply was a model says of itself: finite numbers."""
        self.metric_records: list[RecordDict] = []
        """The same as they came, if they are to be kept."""

    @property
    def drops(self) -> tuple[DroppedReply, ...]:
        """What was wrong with replies, so far."""
        return tuple(self.door.drops)

    def take(self, replies: Iterable[Message | Unreadable]) -> None:
        """Read replies into the matrix; each is let go of before the next one is asked for."""
        for reply in replies:
            self._take(reply)
            if isinstance(reply, Message) and reply.has_content():
                reply.content = RecordDict()  # or a list of replies, or the last one, would hold everything twice

    def _take(self, reply: Message | Unreadable) -> None:
        place = self.door.place(reply)
        if place is None:
            return
        row = self._row(place)
        try:
            content = self.door.content(place, reply)
            self._buffers[place] = self._gate.admit(content, row.numpy())
        except ReplyError as error:
            self.door.drop(place, error)
            if not Fault(error.fault).erases:
                self._malformed.add(place)
                row.fill_(torch.nan)
            return
        torch.sub(self.start.model, row, out=row).div_(self.start.lr)
        self.reports.append(scalars_of(content))
        if self._keep_metrics:
            self.metric_records.append(RecordDict(dict(content.metric_records)))

    def _row(self, place: int) -> Float[Tensor, " d"]:
        if not self._matrix.numel():
            model = self.start.model
            self._matrix = torch.empty((len(self.door.asked), len(model)), dtype=model.dtype)
        return self._matrix[place]

    def received(self) -> Received:
        """Note who was silent, and return the rows without gaps; they are moved up in place."""
        self.door.close()
        places = sorted({*self._buffers, *self._malformed})
        for target, place in enumerate(places):
            if target != place:
                self._matrix[target] = self._matrix[place]
        return Received(
            self._matrix[: len(places)],
            tuple(self.door.asked[place].name for place in places),
            len(self._malformed),
            tuple(self._buffers[place] for place in places if place in self._buffers),
        )


def aggregated(
    received: Received, rule: Aggregator, view: ServerView, tampering: Tampering | None = None
) -> Aggregation | str:
    """Return what the rule makes of the rows, or why the model is to stay as it is.

    It stays if nobody answered, if more replies are no models than clients are assumed to be Byzantine (the assumption
    is refuted, and whatever the rule promises rests on it), if the rows that are left are too few for what is assumed,
    or if the update is not finite.
    """
    if not received.clients:
        return "no client sent an update"
    if tampering is not None:
        tampering.tamper(received.updates, list(received.clients), rule, view)
    assumed = rule.assumed_of(len(received.clients), view.cohort_size)
    if received.malformed > assumed > 0:
        return f"{received.malformed} replies were no models, more than the {assumed} clients assumed to be Byzantine"
    sound, left = len(received.clients) - received.malformed, max(0, assumed - received.malformed)
    if sound < rule.smallest_cohort(left):
        return f"{sound} replies are models, {left} of them may be Byzantine: too few, {rule!r} needs more"
    try:
        outcome = rule(received.updates, replace(view, clients=received.clients))
    except InputError as error:
        return str(error)
    if not bool(torch.isfinite(outcome.update).all()):
        return "the update is not finite"
    return outcome


def erased(door: Door, clients: Sequence[Client]) -> tuple[Client, ...]:
    """Return those of the asked clients that claimed nothing."""
    present = set(clients)
    return tuple(member.name for member in door.asked if member.name not in present)
