"""What Flower does to put a reply together, bounded: bytes while they arrive, objects, and what they are joined to."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import httpx
from flwr.app import Array
from flwr.proto.runtime_pb2 import PullAppMessagesRequest, PullAppMessagesResponse
from flwr.supercore.inflatable.inflatable_utils import pull_objects
from flwr.supercore.protobuf.client import ProtobufClient, ProtobufRequestContext
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.superlink.grid import http_grid

from steadfed.errors import ReplyError
from steadfed.states._faults import Fault

OBJECT_HEAD = 4096
"""Bytes that an object of a reply may take besides the numbers in it: its type, its children, its shape."""
CHUNK = b"ArrayChunk "
"""How an object begins that holds numbers of an array."""
MOST_OBJECTS = 10_000
"""Most objects of a reply besides the chunks of its arrays, if nothing is said; each is one call to the SuperLink."""
LONGEST_WAIT = 180.0
"""Seconds that a reply is waited for whose parts have not all come, as long as Flower keeps an unfinished upload."""
LONGEST_LIST = 16 * 2**20
"""Bytes of the answer that lists a reply's objects, and whatever else nodes have left for the server."""
WRAPPER = 32
"""Bytes that an answer takes around the object in it."""
_PULL_OBJECT = "/flwr.proto.Runtime/PullObject"
_PULL_MESSAGES = "/flwr.proto.Runtime/PullMessages"
_ONE_AT_A_TIME = threading.Lock()


@contextmanager
def bounded(limit: int, patience: float = LONGEST_WAIT, objects: int = MOST_OBJECTS) -> Iterator[None]:
    """Bound what Flower does to put a reply together from what a client has uploaded.

    Flower pulls and inflates a reply inside one call, `Grid.pull_messages`, with no limit that could be set, and a
    reply can be far larger than what its sender uploaded. So four functions of Flower are replaced while a reply is
    pulled, here and nowhere else, and put back whatever happens:

    * `Array.inflate` joins the chunks of an array as often as the sender lists them: one chunk of 5 MB listed 10^6
      times is 5 TB. The chunks are counted as they are joined, over all arrays of the reply.
    * `pull_objects` pulls every object that the sender announced before any is looked at, and waits two hours for one
      that never comes. Their number and the waiting are bounded.
    * `ProtobufClient._send` reads an answer to its end before anybody is asked. The bytes of objects are counted as
      they arrive, over the whole reply, and the connection is closed at the first that is too many; what is no part of
      an array has less room, for a list of numbers in a metric takes twenty times the bytes that were sent. So is the
      list of the objects bounded.
    * `RuntimeHttpClient.PullMessages` also brings messages that are no reply to what was asked for: the SuperLink lets
      any node leave messages for the server. These are left out, for nothing in them can be believed.

    One pull runs at a time in a process, for the replacements hold for all of it.
    """
    arriving = _Arriving(limit)
    with _ONE_AT_A_TIME, ExitStack() as stack:
        stack.enter_context(_replace(Array, "inflate", _metered_inflate(_Meter(limit, "the arrays of the reply"))))
        stack.enter_context(_replace(http_grid, "pull_objects", _bounded_pull(limit, patience, objects, arriving)))
        stack.enter_context(_replace(ProtobufClient, "_send", arriving.counted(vars(ProtobufClient)["_send"])))
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
            beyond = self.spent > self.limit
        if beyond:
            self.refuse()

    def check(self, size: int) -> None:
        """Refuse bytes that are announced and will be too many."""
        if self.spent + size > self.limit:
            self.refuse()

    def refund(self, size: int) -> None:
        with self._lock:
            self.spent -= size

    def refuse(self) -> None:
        raise ReplyError(Fault.UNREADABLE, f"{self.what} may take {self.limit} bytes, got more")


class _Arriving:
    """Counts what arrives of one reply, from the SuperLink's HTTP answers."""

    def __init__(self, limit: int) -> None:
        self.numbers = _Meter(limit, "the chunks of the arrays of the reply")
        self.others = _Meter(0, "what the reply holds besides arrays")

    def counted(self, original: Callable[..., httpx.Response]) -> Callable[..., httpx.Response]:
        """Return `ProtobufClient._send`, which hands over answers that were counted as they arrived."""

        def send(client: Any, context: ProtobufRequestContext, *, stream: bool = False) -> httpx.Response:
            if stream or context.rpc_method not in {_PULL_OBJECT, _PULL_MESSAGES}:
                return original(client, context, stream=stream)
            request = context.request
            request.headers["accept-encoding"] = "identity"  # what is counted is what is read
            patience = request.extensions["timeout"]["read"]
            response = original(client, context, stream=True)
            if response.is_error:
                return response  # Flower has read a little of it
            request.extensions["timeout"]["read"] = patience
            objects = context.rpc_method == _PULL_OBJECT
            content = self._read_object(response) if objects else _read_list(response)
            return httpx.Response(response.status_code, headers=response.headers, content=content, request=request)

        return send

    def _read_object(self, response: httpx.Response) -> bytes:
        """Read an answer that holds one object, of which the first bytes say whether it is part of an array."""
        body, meter, counted = bytearray(), self.others, 0
        announced = _announced(response) - WRAPPER
        try:
            for piece in response.iter_raw():
                body += piece
                if not counted:
                    meter = self.numbers if CHUNK in body[: WRAPPER + len(CHUNK)] else self.others
                    meter.check(announced)
                beyond = len(body) - WRAPPER - counted
                if beyond > 0:
                    counted += beyond
                    meter.spend(beyond)
        except httpx.TransportError:
            meter.refund(counted)  # Flower tries again
            raise
        finally:
            response.close()
        return bytes(body)


def _read_list(response: httpx.Response) -> bytes:
    """Read the answer that lists the objects of a reply."""
    meter, body = _Meter(LONGEST_LIST, "the list of the objects of the reply"), bytearray()
    try:
        meter.check(_announced(response))
        for piece in response.iter_raw():
            meter.spend(len(piece))
            body += piece
    finally:
        response.close()
    return bytes(body)


def _announced(response: httpx.Response) -> int:
    """Return how long an answer says it is; 0 if it does not."""
    length = response.headers.get("content-length", "")
    return int(length) if length.isdecimal() and len(length) < 20 else 0


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


def _bounded_pull(limit: int, patience: float, objects: int, arriving: _Arriving) -> Callable[..., dict[str, bytes]]:
    most = objects + limit // 65_536  # one chunk per 5 MB, if nobody changed that; each is one call to the SuperLink

    def bounded_pull(object_ids: list[str], pull_object_fn: Callable[[str], bytes]) -> dict[str, bytes]:
        if len(object_ids) > most:
            raise ReplyError(Fault.UNREADABLE, f"the reply may consist of {most} objects, got {len(object_ids)}")
        arriving.others.limit += OBJECT_HEAD * len(object_ids)
        return pull_objects(object_ids, pull_object_fn, max_time=patience, backoff_cap=1.0)

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
