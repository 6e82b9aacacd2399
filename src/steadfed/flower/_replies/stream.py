"""Replies one at a time: what cannot be read, is too large or comes too slowly is one client's affair."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, final

import httpx
from flwr.app import Array, Message
from flwr.proto.runtime_pb2 import PullAppMessagesRequest, PullAppMessagesResponse
from flwr.serverapp import Grid
from flwr.supercore.inflatable.inflatable_utils import pull_objects
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.superlink.grid import http_grid

from steadfed.errors import ReplyError
from steadfed.flower._faults import Fault
from steadfed.flower._replies.npy import describe_error

OBJECT_HEAD = 4096
"""Bytes that an object of a reply may take besides the numbers in it: its type, its children, its shape."""
CHUNK = b"ArrayChunk "
"""How an object begins that holds numbers of an array."""
MOST_OBJECTS = 10_000
"""Most objects of a reply besides the chunks of its arrays, if nothing is said; each is one call to the SuperLink."""
POLL = 1.0
"""Seconds between two rounds of asking for replies."""
TRIES = 3
"""How often a SuperLink is asked that fails over one reply while it is there for others."""
LONGEST_WAIT = 180.0
"""Seconds that a reply is waited for whose parts have not all come, as long as Flower keeps an unfinished upload."""

SUPERLINK_ERRORS = (httpx.HTTPError, httpx.StreamError, httpx.InvalidURL, OSError)
"""What says that the SuperLink cannot be reached or refuses to answer. One of these a reply can cause: status 500."""


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
    grid: Grid,
    messages: Sequence[Message],
    *,
    timeout: float | None,
    limit: int,
    objects: int = MOST_OBJECTS,
) -> Iterator[Message | Unreadable]:
    """Send the messages and yield the replies as they come, until all have come or the time is over.

    One message id is asked for at a time, so that one reply is in memory however many there are; Flower has no call
    that tells which replies are there without handing them over. A reply that was pulled under the id of one message
    and says that it answers another one is `Unreadable`: Flower takes these words from the client unchecked, so that it
    could answer for others, or be taken for somebody who was not asked.

    `SUPERLINK_ERRORS`, and what is no `Exception` (the run was stopped), pass: the SuperLink is not there, which is
    nobody's reply. Flower retries lost connections itself, without end. Everything else that is raised while a reply
    is put together is caused by what the reply consists of, and the reply is gone from the SuperLink: it becomes
    `Unreadable` and its id is not asked for again. So does a reply over which the SuperLink itself fails, `TRIES`
    times: one that says it was written at the time NaN is stored, and never found again. If the SuperLink fails over
    everything, the round changes nothing, and the next question that is about nobody's reply ends the run.

    Args:
        grid: the way to the clients.
        messages: what to send, one message per client.
        timeout: seconds from now; None waits for all. A round of asking that has begun is finished.
        limit: most bytes of numbers that one reply may hold.
        objects: most objects that one reply may consist of, besides the chunks of its arrays.
    """
    deadline = math.inf if timeout is None else time.monotonic() + timeout
    delivered = {message_id for message_id in grid.push_messages(messages) if message_id}
    asked = {message.metadata.message_id: message.metadata.dst_node_id for message in messages}
    for message_id, node in asked.items():
        if message_id not in delivered:
            yield Unreadable(message_id, node, f"the message to node {node} could not be sent", Fault.UNDELIVERED)
    waiting = [message_id for message_id in asked if message_id in delivered]
    while waiting:
        for message_id in list(waiting):
            # Nobody who withholds parts of a reply can take more than an equal share of the time that is left.
            share = max(0.0, deadline - time.monotonic()) / len(waiting)
            bounds = bounded(limit, min(LONGEST_WAIT, share), objects)
            for reply in _pull(grid, message_id, asked[message_id], bounds):
                if message_id in waiting:
                    waiting.remove(message_id)
                yield reply
                del reply  # or it would be in memory beside the next one
        left = deadline - time.monotonic()
        if left <= 0:
            return
        if waiting:
            time.sleep(min(POLL, left))


def _pull(
    grid: Grid, message_id: str, node_id: int, bounds: AbstractContextManager[None]
) -> list[Message | Unreadable]:
    """Return what has come in reply to one message: nothing, a reply, or an account of why there is none."""
    try:
        with bounds:
            return [_check_attribution(reply, message_id, node_id) for reply in _pull_with_retries(grid, message_id)]
    except SUPERLINK_ERRORS as error:
        if not _fails(error):
            raise
        return [Unreadable(message_id, node_id, "the SuperLink fails over the reply")]
    # Whatever the parts of a reply make Flower's own classes raise: no list of types would be complete.
    except Exception as error:  # noqa: BLE001
        return [Unreadable(message_id, node_id, f"the reply cannot be put together: {describe_error(error)}")]


def _pull_with_retries(grid: Grid, message_id: str) -> list[Message]:
    """Return the replies to one message, asked for again if the SuperLink fails, which may be for another reason."""
    for _ in range(TRIES - 1):
        try:
            return list(grid.pull_messages([message_id]))
        except httpx.HTTPStatusError as error:
            if not _fails(error):
                raise
            time.sleep(1.0)
    return list(grid.pull_messages([message_id]))


def _fails(error: Exception) -> bool:
    """Return whether the SuperLink is there, and something went wrong in it."""
    return isinstance(error, httpx.HTTPStatusError) and error.response.status_code == httpx.codes.INTERNAL_SERVER_ERROR


def _check_attribution(reply: Message, message_id: str, node_id: int) -> Message | Unreadable:
    """Return the reply, unless it claims to be the reply to another message than the one it was left for."""
    claimed = reply.metadata.reply_to_message_id
    if claimed == message_id:
        return reply
    return Unreadable(message_id, node_id, f"the reply says that it answers another message, {claimed[:16]!r}")


_ONE_AT_A_TIME = threading.Lock()


@contextmanager
def bounded(limit: int, patience: float = LONGEST_WAIT, objects: int = MOST_OBJECTS) -> Iterator[None]:
    """Bound what Flower does to put a reply together from what a client has uploaded.

    Flower pulls and inflates a reply inside one call, `Grid.pull_messages`, with no limit that could be set, and a
    reply can be far larger than what its sender uploaded. So three functions of Flower are replaced while a reply is
    pulled, here and nowhere else, and put back whatever happens:

    * `Array.inflate` joins the chunks of an array as often as the sender lists them: one chunk of 5 MB listed 10^6
      times is 5 TB. The chunks are counted as they are joined, over all arrays of the reply.
    * `pull_objects` pulls every object that the sender announced before any is looked at, and waits two hours for one
      that never comes. Their number, their bytes and the waiting are bounded; what is no part of an array more tightly,
      for a list of numbers in a metric takes twenty times the bytes that were sent.
    * `RuntimeHttpClient.PullMessages` also brings messages that are no reply to what was asked for: the SuperLink lets
      any node leave messages for the server. These are left out, for nothing in them can be believed.

    One pull runs at a time in a process, for the replacements hold for all of it.
    """
    inflated = _Meter(limit, "the arrays of the reply")
    with _ONE_AT_A_TIME, ExitStack() as stack:
        stack.enter_context(_replace(Array, "inflate", _metered_inflate(inflated)))
        stack.enter_context(_replace(http_grid, "pull_objects", _bounded_pull(limit, patience, objects)))
        stack.enter_context(_replace(RuntimeHttpClient, "PullMessages", _replies_only(RuntimeHttpClient.PullMessages)))
        yield


@contextmanager
def _replace(owner: Any, name: str, value: Any) -> Iterator[None]:
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
            raise ReplyError(Fault.UNREADABLE, f"{self.what} may take {self.limit} bytes, got more")


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
    original = vars(Array)["inflate"].__func__

    def inflate(cls: type[Array], object_content: bytes, children: Mapping[str, Any] | None = None) -> Array:
        array: Array = original(cls, object_content, _MeteredChunks(children or {}, meter))
        return array

    return classmethod(inflate)


def _bounded_pull(limit: int, patience: float, objects: int) -> Callable[..., dict[str, bytes]]:
    most = objects + limit // 65_536  # one chunk per 5 MB, if nobody changed that; each is one call to the SuperLink

    def bounded_pull(object_ids: list[str], pull_object_fn: Callable[[str], bytes]) -> dict[str, bytes]:
        if len(object_ids) > most:
            raise ReplyError(Fault.UNREADABLE, f"the reply may consist of {most} objects, got {len(object_ids)}")
        numbers = _Meter(limit, "the chunks of the arrays of the reply")
        others = _Meter(OBJECT_HEAD * len(object_ids), "what the reply holds besides arrays")

        def pull(object_id: str) -> bytes:
            content = pull_object_fn(object_id)
            (numbers if content.startswith(CHUNK) else others).spend(len(content))
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
