"""Whose reply is this: replies are matched to the messages they answer, whatever they say of themselves."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from functools import cached_property
from logging import INFO
from typing import final

from flwr.app import Message, RecordDict
from flwr.common.constant import ErrorCode
from flwr.supercore import log

from steadfed.errors import ReplyError
from steadfed.flower._nodes import Member, NodeDirectory
from steadfed.flower._replies.stream import Unreadable
from steadfed.server._record import Client, DroppedReply
from steadfed.states._faults import Fault

DETAIL = 300
"""Most characters of what a client says that are written down."""
LATE = "no reply within the time allowed"
EXPIRED = frozenset({ErrorCode.MESSAGE_UNAVAILABLE, ErrorCode.REPLY_MESSAGE_UNAVAILABLE})
"""What the SuperLink reports when the time of a message is over, a moment before or after the server's own clock."""


def secret() -> str:
    """Return a word that nobody can guess, for a message: its id is a hash that covers it.

    A SuperLink hands a reply to whoever asks for replies to a message, and does not compare who sent it with who was
    asked; without a secret a node that can compute the id of another's message could answer in its name.
    """
    return secrets.token_hex(16)


@final
class ReplyMatcher:
    """The clients that were asked in a round, and what became of their replies."""

    def __init__(self, asked: Sequence[Member], messages: Sequence[Message], directory: NodeDirectory) -> None:
        self.asked = tuple(asked)
        self.drops: list[DroppedReply] = []
        """Everything that was wrong, in the order it was found."""
        self._messages, self._directory = tuple(messages), directory
        self._answered: set[int] = set()

    def expect(self, messages: Sequence[Message]) -> None:
        """Expect replies to these messages, in the order of those asked, in place of those that were written before."""
        self._messages = tuple(messages)
        vars(self).pop("_by_message", None)

    def place(self, reply: Message | Unreadable) -> int | None:
        """Return which of the asked clients a reply is from; None if it is from none, or its second, which is noted.

        A reply is from whoever was sent the message it answers: nobody else knows the id of that message, as it holds a
        secret. The node id in a reply is the sender's own claim.
        """
        message_id = reply.message_id if isinstance(reply, Unreadable) else reply.metadata.reply_to_message_id
        place = self._by_message.get(message_id)
        if place is None:
            sender = reply.node_id if isinstance(reply, Unreadable) else reply.metadata.src_node_id
            self._note(self._directory.name(sender), Fault.NOT_ASKED, f"it answers the message {message_id[:16]!r}")
            return None
        if place in self._answered:
            self._note(self.asked[place].name, Fault.REPEATED, "the first reply counts")
            return None
        self._answered.add(place)
        return place

    def content(self, place: int, reply: Message | Unreadable) -> RecordDict:
        """Return what the reply of an asked client holds; `ReplyError` says why there is nothing to look at.

        The SuperLink reports errors in its own name in place of a node that is gone.
        """
        if isinstance(reply, Unreadable):
            raise ReplyError(reply.fault, reply.detail)
        if reply.has_error():
            if reply.error.code in EXPIRED:
                raise ReplyError(Fault.SILENT, f"{LATE}, says the SuperLink (code {reply.error.code})")
            raise ReplyError(Fault.ERROR, f"code {reply.error.code}: {reply.error.reason or 'no reason given'}")
        if reply.metadata.src_node_id != self.asked[place].node_id:
            raise ReplyError(Fault.UNREADABLE, f"it claims to come from node {reply.metadata.src_node_id}")
        if not reply.has_content():
            raise ReplyError(Fault.KEYS, "the reply has no content")
        return reply.content

    def metric_records(self, replies: Iterable[Message | Unreadable]) -> list[RecordDict]:
        """Return the metrics of asked clients that report some; who does not is logged."""
        found = []
        for reply in replies:
            place = self.place(reply)
            if place is None:
                continue
            try:
                found.append(RecordDict(dict(self.content(place, reply).metric_records)))
            except ReplyError as error:
                log(INFO, "\t> no evaluation from %r: %s", self.asked[place].name, escape_detail(str(error)))
        return found

    def drop(self, place: int, error: ReplyError) -> None:
        """Note that the reply of an asked client cannot be used."""
        self._note(self.asked[place].name, error.fault, str(error))

    def reply_with(self, place: int, content: RecordDict) -> Message:
        """Return a reply of an asked client with other content."""
        return Message(content, reply_to=self._messages[place])

    def close(self) -> None:
        """Note which of the asked clients have not answered."""
        for place, member in enumerate(self.asked):
            if place not in self._answered:
                self._note(member.name, Fault.SILENT, LATE)
                self._answered.add(place)

    @cached_property
    def _by_message(self) -> dict[str, int]:
        """The place of every message, looked up when a reply has come: an id is known only after it was sent."""
        return {message.metadata.message_id: place for place, message in enumerate(self._messages)}

    def _note(self, client: Client, fault: str, detail: str) -> None:
        self.drops.append(DroppedReply(client=client, fault=str(fault), detail=escape_detail(detail)))


def escape_detail(detail: str) -> str:
    r"""Return what may hold a client's words so that it can be logged and stored: short, on one line, no escapes.

    >>> escape_detail("code 1: \x1b[2J\nall is well")
    'code 1: \\x1b[2J\\nall is well'
    """
    shown = detail if len(detail) <= DETAIL else f"{detail[:DETAIL]}…"
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in shown)
