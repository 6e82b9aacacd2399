"""Replies one at a time: what cannot be read, is too large or comes too slowly is one client's affair."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, final

import httpx
from flwr.app import Array, Message
from flwr.proto.runtime_pb2 import PullAppMessagesRequest, PullAppMessagesResponse
from flwr.serverapp import Grid
from flwr.supercore.inflatable.inflatable_utils import pull_objects
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.superlink.grid import http_grid

from holdfast.errors import ReplyError
from holdfast.flower.faults import Fault
from holdfast.flower.wire import described

OBJECT_HEAD = 4096
"""Bytes that an object of a reply may take besides the numbers in it: its type, its children, its shape."""
LONGEST_WAIT = 180.0
"""Seconds that a reply is waited for whose parts have not all come, as long as Flower keeps an unfinished upload."""

SUPERLINK_ERRORS = (httpx.HTTPError, httpx.StreamError, httpx.InvalidURL, OSError)
"""What says that the SuperLink cannot be reached or refuses to answer; no content of a reply raises these."""


@final
@dataclass(frozen=True)
class Unreadable:
    """A message that brought no reply that could be looked at."""

    message_id: str
    """The message that was sent."""
    node_id: int
    """Whom it was sent to."""
    detail: str
    """What went wrong."""
    fault: Fault = Fault.UNREADABLE
    """`UNREADABLE`, or `UNDELIVERED` if the message itself could not be sent."""


def replies_to(
    grid: Grid, messages: Sequence[Message], *, timeout: float | None, limit: int, poll: float = 1.0
) -> Iterator[Message | Unreadable]:
    """Send the messages and yield the replies as they come, until all have come or the time is over.

    One message id is asked for at a time, so that one reply is in memory however many there are; Flower has no call
    that tells which replies are there without handing them over. A reply that was pulled under the id of one message
    and says that it answers another one of these messages is `Unreadable`: Flower takes these words from the client
    unchecked, so that it could answer for others. A reply to a message that is not among these is yielded as it is.

    `SUPERLINK_ERRORS`, and what is no `Exception` (the run was stopped), pass: the SuperLink is not there, which is
    nobody's reply. Flower retries lost connections itself, without end. Everything else that is raised while a reply
    is put together is caused by what the reply consists of, and the reply is gone from the SuperLink: it becomes
    `Unreadable` and its id is not asked for again.

    Args:
        grid: the way to the clients.
        messages: what to send, one message per client.
        timeout: seconds from now; None waits for all. A round of asking that has begun is finished.
        limit: most bytes of numbers that one reply may hold.
        poll: seconds between two rounds of asking.
    """
    deadline = math.inf if timeout is None else time.monotonic() + timeout
    delivered = {message_id for message_id in grid.push_messages(messages) if message_id}
    asked = {message.metadata.message_id: message.metadata.dst_node_id for message in messages}
    yield from (_undelivered(message_id, node) for message_id, node in asked.items() if message_id not in delivered)
    waiting = [message_id for message_id in asked if message_id in delivered]
    while waiting:
        for message_id in list(waiting):
            # Nobody who withholds parts of a reply can take more than an equal share of the time that is left.
            share = max(0.0, deadline - time.monotonic()) / len(waiting)
            for reply in _pulled(grid, message_id, asked, limit=limit, patience=min(LONGEST_WAIT, share)):
                if message_id in waiting and _settles(reply, message_id):
                    waiting.remove(message_id)
                yield reply
                del reply  # or it would be in memory beside the next one
        left = deadline - time.monotonic()
        if left <= 0:
            return
        if waiting:
            time.sleep(min(poll, left))


def _undelivered(message_id: str, node_id: int) -> Unreadable:
    return Unreadable(message_id, node_id, f"the message to node {node_id} could not be sent", Fault.UNDELIVERED)


def _settles(reply: Message | Unreadable, message_id: str) -> bool:
    """Whether nothing more has to be asked for; after a reply to something else there may still be one."""
    return isinstance(reply, Unreadable) or reply.metadata.reply_to_message_id == message_id


def _pulled(
    grid: Grid, message_id: str, asked: Mapping[str, int], *, limit: int, patience: float
) -> list[Message | Unreadable]:
    """Return what has come in reply to one message: nothing, a reply, or an account of why there is none."""
    try:
        with bounded(limit, patience):
            replies = list(grid.pull_messages([message_id]))
            return [_attributed(reply, message_id, asked) for reply in replies]
    except SUPERLINK_ERRORS:
        raise
    # Whatever the parts of a reply make Flower's own classes raise: no list of types would be complete.
    except Exception as error:  # noqa: BLE001
        detail = f"the reply cannot be put together: {described(error)}"
        return [Unreadable(message_id, asked[message_id], detail)]


def _attributed(reply: Message, message_id: str, asked: Mapping[str, int]) -> Message | Unreadable:
    """Return the reply, unless it claims to be the reply of somebody else who was asked."""
    claimed = reply.metadata.reply_to_message_id
    if claimed != message_id and claimed in asked:
        detail = f"the reply says that it is that of node {asked[claimed]}"
        return Unreadable(message_id, asked[message_id], detail)
    return reply


_ONE_AT_A_TIME = threading.Lock()


@contextmanager
def bounded(limit: int, patience: float = LONGEST_WAIT) -> Iterator[None]:
    """Bound what Flower does to put a reply together from what a client has uploaded.

    Flower pulls and inflates a reply inside one call, `Grid.pull_messages`, with no limit that could be set, and a
    reply can be far larger than what its sender uploaded. So three functions of Flower are replaced while a reply is
    pulled, here and nowhere else, and put back whatever happens:

    * `Array.inflate` joins the chunks of an array as often as the sender lists them: one chunk of 5 MB listed 10^6
      times is 5 TB. The chunks are counted as they are joined, over all arrays of the reply.
    * `pull_objects` pulls every object that the sender announced before any is looked at, and waits two hours for one
      that never comes. Their number, their bytes and the waiting are bounded.
    * `RuntimeHttpClient.PullMessages` also brings messages that are no reply to what was asked for: the SuperLink lets
      any node leave messages for the server. These are left out, for nothing in them can be believed.

    One pull runs at a time in a process, for the replacements hold for all of it.
    """
    inflated = _Meter(limit, "the arrays of the reply")
    with _ONE_AT_A_TIME, ExitStack() as stack:
        stack.enter_context(_replaced(Array, "inflate", _metered_inflate(inflated)))
        stack.enter_context(_replaced(http_grid, "pull_objects", _bounded_pull(limit, patience)))
        stack.enter_context(_replaced(RuntimeHttpClient, "PullMessages", _replies_only(RuntimeHttpClient.PullMessages)))
        yield


@contextmanager
def _replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    before = vars(owner)[name]
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


class _Meter:
    """Counts bytes and refuses those beyond the limit, before they are copied."""

    def __init__(self, limit: int, what: str) -> None:
        self.limit = limit
        self.what = what
        self.spent = 0
        self._lock = threading.Lock()

    def spend(self, size: int) -> None:
        with self._lock:
            self.spent += size
        if self.spent > self.limit:
            msg = f"{self.what} may take {self.limit} bytes, got more"
            raise ReplyError(Fault.UNREADABLE, msg)


class _MeteredChunks(dict[str, Any]):
    """The chunks of an array by id; each look at one is paid with its length."""

    def __init__(self, chunks: Mapping[str, Any], meter: _Meter) -> None:
        super().__init__(chunks)
        self._meter = meter

    def __getitem__(self, key: str) -> Any:
        chunk = super().__getitem__(key)
        self._meter.spend(len(chunk.data))
        return chunk


def _metered_inflate(meter: _Meter) -> Any:
    original = Array.inflate.__func__  # type: ignore[attr-defined]

    def inflate(cls: type[Array], object_content: bytes, children: Mapping[str, Any] | None = None) -> Array:
        array: Array = original(cls, object_content, _MeteredChunks(children or {}, meter))
        return array

    return classmethod(inflate)


def _bounded_pull(limit: int, patience: float) -> Callable[..., dict[str, bytes]]:
    most = 10_000 + limit // 65_536  # two objects per array, one more per 5 MB; each is one call to the SuperLink

    def bounded_pull(object_ids: list[str], pull_object_fn: Callable[[str], bytes]) -> dict[str, bytes]:
        if len(object_ids) > most:
            msg = f"the reply may consist of {most} objects, got {len(object_ids)}"
            raise ReplyError(Fault.UNREADABLE, msg)
        meter = _Meter(limit + OBJECT_HEAD * len(object_ids), "the objects of the reply")

        def pull(object_id: str) -> bytes:
            content = pull_object_fn(object_id)
            meter.spend(len(content))
            return content

        return pull_objects(object_ids, pull, max_time=patience, backoff_cap=1.0)

    return bounded_pull


def _replies_only(original: Callable[..., PullAppMessagesResponse]) -> Callable[..., PullAppMessagesResponse]:
    def pull_messages(client: RuntimeHttpClient, request: PullAppMessagesRequest) -> PullAppMessagesResponse:
        response = original(client, request)
        asked = set(request.message_ids)
        pairs = zip(response.messages_list, response.message_object_trees, strict=True)
        kept = [pair for pair in pairs if pair[0].metadata.reply_to_message_id in asked]
        return PullAppMessagesResponse(
            messages_list=[message for message, _ in kept], message_object_trees=[tree for _, tree in kept]
        )

    return pull_messages
