"""Replies become rows of the K × d matrix as they come."""

from __future__ import annotations

from collections.abc import Iterable
from typing import final

from flwr.app import Message, RecordDict
from jaxtyping import Float
from torch import Tensor

from steadfed.errors import ReplyError
from steadfed.flower._coordinates import AskedFor
from steadfed.flower._metrics import scalars_of
from steadfed.flower._replies.matcher import ReplyMatcher
from steadfed.flower._replies.stream import Unreadable
from steadfed.flower._replies.validator import ReplyValidator
from steadfed.server._round import Received
from steadfed.states._faults import Fault
from steadfed.states._matrix import UpdateMatrix


@final
class ReplyMatrix:
    """Fills the matrix, one reply at a time; a reply's own memory can be freed as soon as it was taken.

    Rows stand in the order of the cohort, so the outcome does not depend on who was quick. Nothing that a reply holds
    raises: what is wrong with it is noted in `matcher.drops`.

    Args:
        start: x, what the clients of the round start from.
        lr: η, what updates are divided by.
        matcher: who was asked.
        validator: what a model looks like.
        keep_metrics: whether the metrics are kept as they came.
        wanted: which coordinates of the model the clients were asked for; all if left out.
    """

    def __init__(
        self,
        start: Float[Tensor, " d"],
        lr: float,
        matcher: ReplyMatcher,
        validator: ReplyValidator,
        *,
        keep_metrics: bool = False,
        wanted: AskedFor | None = None,
    ) -> None:
        self.lr, self.matcher = lr, matcher
        self.coordinates = None if wanted is None else wanted.coordinates
        """How the coordinates are drawn that the round is about; None for all."""
        places = None if wanted is None else wanted.places
        self._validator, self._keep_metrics = validator, keep_metrics
        self._updates = UpdateMatrix(start, number=len(matcher.asked), lr=lr, places=places)
        self._digests: dict[int, str] = {}
        self.reports: list[dict[str, float]] = []
        """What each client whose reply was a model says of itself: finite numbers."""
        self.metric_records: list[RecordDict] = []
        """The same as they came, if they are to be kept."""

    @property
    def reply_bytes(self) -> int:
        """How many bytes the numbers of a reply take."""
        return self._validator.layout.nbytes

    def take(self, replies: Iterable[Message | Unreadable]) -> None:
        """Read replies into the matrix; each is let go of before the next one is asked for."""
        for reply in replies:
            self._take(reply)
            if isinstance(reply, Message) and reply.has_content():
                reply.content = RecordDict()  # or a list of replies, or the last one, would hold everything twice

    def _take(self, reply: Message | Unreadable) -> None:
        place = self.matcher.place(reply)
        if place is None:
            return
        row = self._updates.row(place)
        try:
            content = self.matcher.content(place, reply)
            buffers = self._validator.admit(content, row.numpy())
            self._digests[place] = self._validator.digest(content)
        except ReplyError as error:
            self.matcher.drop(place, error)
            if not Fault(error.fault).means_absent:
                self._updates.spoil(place)
            return
        self._updates.admit(place, buffers)
        self.reports.append(scalars_of(content))
        if self._keep_metrics:
            self.metric_records.append(RecordDict(dict(content.metric_records)))

    @property
    def digests(self) -> tuple[str | None, ...]:
        """What each client whose row is there sent, as `arrays_digest` names it; None for what was no model."""
        return tuple(self._digests.get(place) for place in self._updates.places)

    def received(self) -> Received:
        """Note who was silent, and return the rows without gaps; they are moved up in place.

        The row of a reply that is no model is NaN throughout, and it has no buffers.
        """
        self.matcher.close()
        return self._updates.received(self._validator.layout, [member.name for member in self.matcher.asked])
