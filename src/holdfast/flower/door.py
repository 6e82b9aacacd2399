"""Whose reply is this: replies are matched to the messages they answer, whatever they say of themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from flwr.app import Message

from holdfast.errors import ReplyError
from holdfast.flower.faults import Fault
from holdfast.flower.receiving import Unreadable
from holdfast.flower.sampling import Member, Roster
from holdfast.records.round import Client, DroppedReply

DETAIL = 300
"""Most characters of what a client says that are written down."""


@final
class Door:
    """The clients that were asked in a round, and what became of their replies."""

    def __init__(self, asked: Sequence[Member], messages: Sequence[Message], roster: Roster) -> None:
        self.asked = tuple(asked)
        self.drops: list[DroppedReply] = []
        """Everything that was wrong, in the order it was found."""
        self._messages, self._roster = tuple(messages), roster
        self._answered: set[int] = set()

    def place(self, reply: Message | Unreadable) -> int | None:
        """Return which of the asked clients a reply is from; None if it is from none, or its second, which is noted.

        A reply belongs to the message it answers. The node id in it must be that of the node which was asked, except
        in errors, which the SuperLink reports in place of a node that is gone.
        """
        message_id = reply.message_id if isinstance(reply, Unreadable) else reply.metadata.reply_to_message_id
        sender = reply.node_id if isinstance(reply, Unreadable) else reply.metadata.src_node_id
        place = self._by_message().get(message_id)
        if place is None:
            self._note(self._roster.name(sender), Fault.NOT_ASKED, f"it answers the message {message_id[:16]!r}")
            return None
        client, excused = self.asked[place], isinstance(reply, Unreadable) or reply.has_error()
        if sender != client.node_id and not excused:
            detail = f"it answers the message to node {client.node_id}"
            self._note(self._roster.name(sender), Fault.NOT_ASKED, detail)
            return None
        if place in self._answered:
            self._note(client.name, Fault.REPEATED, "the first reply counts")
            return None
        self._answered.add(place)
        return place

    def drop(self, place: int, error: ReplyError) -> None:
        """Note that the reply of an asked client cannot be used."""
        self._note(self.asked[place].name, error.fault, str(error))

    def silent(self) -> list[int]:
        """Return which of the asked clients have not answered, and note it."""
        missing = [place for place in range(len(self.asked)) if place not in self._answered]
        for place in missing:
            self._note(self.asked[place].name, Fault.SILENT, "no reply within the time allowed")
            self._answered.add(place)
        return missing

    def _by_message(self) -> dict[str, int]:
        """Return the place of every message; its id is known only after it was sent."""
        return {message.metadata.message_id: place for place, message in enumerate(self._messages)}

    def _note(self, client: Client, fault: str, detail: str) -> None:
        shown = detail if len(detail) <= DETAIL else f"{detail[:DETAIL]}…"
        self.drops.append(DroppedReply(client=client, fault=str(fault), detail=shown))


def checked(reply: Message | Unreadable) -> Message:
    """Return a reply that has content; `ReplyError` says why there is none."""
    if isinstance(reply, Unreadable):
        raise ReplyError(reply.fault, reply.detail)
    if reply.has_error():
        error = reply.error
        raise ReplyError(Fault.ERROR, f"code {error.code}: {error.reason or 'no reason given'}")
    if not reply.has_content():
        raise ReplyError(Fault.KEYS, "the reply has no content")
    return reply
