"""Replies that a hostile node withholds, trickles, breaks off or sends too late.

They are announced as every reply is, and what comes of them is poisoned: taken, they would be seen in the model.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, final

import httpx
from flwr.proto.message_pb2 import Message, ObjectTree
from flwr.supercore.protobuf.client import ProtobufCall, ProtobufRequestContext

if TYPE_CHECKING:
    from steadfed.flower.redteam._node import HostileNode

PACE = 0.2
"""Seconds between two bytes of what trickles."""
AFTER = 2.0
"""Seconds by which a late reply is late."""
Pieces = Callable[[bytes], Iterator[bytes]]


class BrokenOffError(Exception):
    """The node has ended a request in its middle."""


@final
class Line:
    """How requests leave a node: at once, or in pieces."""

    def __init__(self) -> None:
        self.pieces: Pieces | None = None
        """What makes pieces of the body of a request, and may break off; None for all of it at once."""

    def intercept(self, context: ProtobufRequestContext, call_next: ProtobufCall) -> httpx.Response:
        """Send a request so."""
        if self.pieces is not None:
            context.request.stream = _Stream(self.pieces(context.request.read()))
        return call_next(context)


@final
class _Stream(httpx.SyncByteStream):
    """A body in pieces."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces

    def __iter__(self) -> Iterator[bytes]:
        return self._pieces


def withheld_reply(node: HostileNode, message: Message, tree: ObjectTree) -> None:
    """Announce a reply and send all of it but one object: whoever waits for it waits for ever."""
    told, session, contents = node.announce(node.poisoned_reply(message, tree))
    for content in contents[1:]:
        node.push(told, session, content)


def trickled_reply(node: HostileNode, message: Message, tree: ObjectTree) -> None:
    """Send one object of a reply byte by byte, until nobody waits for it any more."""

    def trickle(body: bytes) -> Iterator[bytes]:
        for place in range(len(body)):
            if time.time() > _end(message):
                raise BrokenOffError
            yield body[place : place + 1]
            time.sleep(PACE)

    told, session, (first, *others) = node.announce(node.poisoned_reply(message, tree))
    for content in others:
        node.push(told, session, content)
    _push(node, told, session, first, trickle)


def interrupted_reply(node: HostileNode, message: Message, tree: ObjectTree) -> None:
    """Break the connection off in the middle of every object of a reply."""

    def half(body: bytes) -> Iterator[bytes]:
        yield body[: len(body) // 2]
        raise BrokenOffError

    told, session, contents = node.announce(node.poisoned_reply(message, tree))
    for content in contents:
        _push(node, told, session, content, half)


def late_reply(node: HostileNode, message: Message, tree: ObjectTree) -> None:
    """Send a whole reply when its time is over: the next round may wait for it, and the SuperLink may have it still."""
    reply = node.poisoned_reply(message, tree)
    time.sleep(max(0.0, _end(message) + AFTER - time.time()))
    node.leave(reply)


def _push(node: HostileNode, told: Message, session: str, content: bytes, pieces: Pieces) -> None:
    """Send an object in pieces."""
    node.line.pieces = pieces
    try:
        node.push(told, session, content)
    except BrokenOffError:
        pass
    finally:
        node.line.pieces = None


def _end(message: Message) -> float:
    """Return until when the server waits for an answer to a message, in unix seconds."""
    return float(message.metadata.created_at + message.metadata.ttl)
