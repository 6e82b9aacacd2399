"""What a node may send to the SuperLink: how many bytes, how many objects, in whose name, how often."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import NamedTuple, final

from flwr.common.constant import SUPERLINK_NODE_ID
from flwr.proto.fleet_pb2 import PushMessagesRequest
from flwr.proto.message_pb2 import Message, ObjectTree
from flwr.proto.runtime_pb2 import PushAppMessagesRequest
from flwr.supercore.inflatable.inflatable_object import is_valid_sha256_hash

from steadfed.errors import ParameterError
from steadfed.flower._object_store import DEEPEST

FLEET = "/v1/fleet/"
PUSH_MESSAGES, PUSH_OBJECT = FLEET + "push-messages", FLEET + "push-object"
ENVELOPE = 32 * 1024
"""Bytes that a request takes besides the list of objects."""
ENTRY = 70
"""Bytes that an object takes in the list: 64 of its id, and what stands around them."""
RECORDS = 64
"""Objects that a reply may have more than twice those of the message it answers."""
UNKNOWN = 2000
"""Objects that a reply may have before a server app has sent a message."""
MINUTE = 60.0
LONGEST = 1e9
"""Seconds that a node may say that something took, or is good for: thirty years."""
TAKEN, UNKNOWN_KEY, TOO_SLOW, TOO_LARGE, NOT_A_REPLY, TOO_OFTEN = 200, 401, 408, 413, 422, 503


class RefusalError(Exception):
    """A request that is not let in."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


@final
@dataclass(frozen=True)
class DoorLimits:
    """What one node may send."""

    objects: int | None = None
    """Objects of a reply; None to learn it from what server apps send."""
    object_bytes: int = 5 * 2**20 + 2**16
    """Bytes of a request that brings one object."""
    messages: int = 60
    """Replies in a minute."""
    requests: int = 30_000
    """Requests in a minute."""
    uploads: int = 16
    """Requests of more than `ENVELOPE` bytes at the same time."""
    seconds: int = 600
    """How long a request may take to arrive."""

    @classmethod
    def read(cls, variables: Mapping[str, str]) -> DoorLimits:
        """Return what the environment says.

        Raises:
            ParameterError: a variable is no whole number from 1 on.

        >>> DoorLimits.read({"STEADFED_DOOR_OBJECTS": "500"}).objects
        500
        """
        names = {each.name: f"STEADFED_DOOR_{each.name.upper()}" for each in fields(cls)}
        given = {name: variables[key] for name, key in names.items() if key in variables}
        for name, value in given.items():
            if not (value.isdecimal() and len(value) < 16 and int(value) > 0):
                raise ParameterError(f"{names[name]} must be a whole number from 1 on, got {value[:40]!r}")
        return cls(**{name: int(value) for name, value in given.items()})


class Counted(NamedTuple):
    """What a node has sent in this minute."""

    messages: int = 0
    requests: int = 0


@final
class Doorkeeper:
    """Knows what is allowed, and how much of it was used."""

    def __init__(self, limits: DoorLimits) -> None:
        self.limits = limits
        self._sent = 0
        self._minute, self._counts = 0.0, dict[int, Counted]()
        self._arriving = Counter[str]()

    @property
    def objects(self) -> int:
        """How many objects a reply may list."""
        if self.limits.objects is not None:
            return self.limits.objects
        return 2 * self._sent + RECORDS if self._sent else UNKNOWN

    def largest(self, path: str) -> int:
        """Return how many bytes the body of a node's request may have."""
        if path == PUSH_MESSAGES:
            return ENVELOPE + ENTRY * self.objects
        return self.limits.object_bytes if path == PUSH_OBJECT else ENVELOPE

    def learn(self, sent: PushAppMessagesRequest) -> None:
        """Take note of how many objects the messages of a server app have."""
        for tree in sent.message_object_trees:
            self._sent = max(self._sent, sum(1 for _ in walk(tree)))

    def count(self, node_id: int, *, message: bool) -> None:
        """Count a request of a node; `RefusalError` if there are too many."""
        now = time.monotonic()
        if now - self._minute >= MINUTE:
            self._minute = now
            self._counts.clear()
        before = self._counts.get(node_id, Counted())
        counted = Counted(before.messages + message, before.requests + 1)
        self._counts[node_id] = counted
        if counted.messages > self.limits.messages or counted.requests > self.limits.requests:
            raise RefusalError(TOO_OFTEN, "too many requests within a minute")

    @contextmanager
    def upload(self, node: str | None) -> Iterator[None]:
        """Let a large request arrive; `RefusalError` if nobody known sends it, or so many at the same time."""
        if node is None:
            raise RefusalError(UNKNOWN_KEY, f"a request of who is not registered may have {ENVELOPE} bytes, got more")
        if self._arriving[node] >= self.limits.uploads:
            raise RefusalError(TOO_OFTEN, f"{self.limits.uploads} uploads at the same time are allowed, got more")
        self._arriving[node] += 1
        try:
            yield
        finally:
            self._arriving[node] -= 1
            self._arriving += Counter()  # forgets who sends nothing

    def check_reply(self, request: PushMessagesRequest) -> None:
        """Refuse what is no reply of the node that sent it, which Flower has authenticated, to the server."""
        if len(request.messages_list) != 1 or len(request.message_object_trees) != 1:
            number = len(request.messages_list), len(request.message_object_trees)
            raise RefusalError(NOT_A_REPLY, f"one message and its objects are allowed, got {number}")
        _check_addresses(request.messages_list[0], request.node.node_id)
        _check_times(request)
        if request.message_object_trees[0].object_id != request.messages_list[0].metadata.message_id:
            raise RefusalError(NOT_A_REPLY, "the objects are those of another message")
        self._check_objects(request.message_object_trees[0])

    def _check_objects(self, tree: ObjectTree) -> None:
        children: dict[str, list[str]] = {}
        for number, (node, depth) in enumerate(walk(tree), start=1):
            if number > self.objects:
                raise RefusalError(TOO_LARGE, f"a reply may list {self.objects} objects, got more")
            if depth > DEEPEST:
                raise RefusalError(NOT_A_REPLY, f"objects may be nested in {DEEPEST} levels, got more")
            listed = [child.object_id for child in node.children]
            if not is_valid_sha256_hash(node.object_id):
                raise RefusalError(NOT_A_REPLY, f"the id of an object must be a SHA-256, got {node.object_id[:80]!r}")
            if len(set(listed)) != len(listed) or children.setdefault(node.object_id, listed) != listed:
                raise RefusalError(NOT_A_REPLY, f"the object {node.object_id[:16]} has the same part twice")


def _check_addresses(message: Message, node_id: int) -> None:
    said = message.metadata
    if said.src_node_id != node_id:
        raise RefusalError(NOT_A_REPLY, f"the message says that node {said.src_node_id} sent it")
    if said.dst_node_id != SUPERLINK_NODE_ID:
        raise RefusalError(NOT_A_REPLY, f"the message is for node {said.dst_node_id}; nodes write to the server only")
    if not said.reply_to_message_id:
        raise RefusalError(NOT_A_REPLY, "the message is no reply")


def _check_times(request: PushMessagesRequest) -> None:
    """Refuse times that are no times: what took NaN or infinite seconds could not be told of the whole run any more."""
    said, runtimes = request.messages_list[0].metadata, request.clientapp_runtime_list
    told = [said.ttl, *runtimes]
    if len(told) > 2 or not all(0.0 <= each <= LONGEST for each in told):
        raise RefusalError(NOT_A_REPLY, f"a reply says for how long it is good and how long it took, got {told!s:.80}")
    if not math.isfinite(said.created_at):
        raise RefusalError(NOT_A_REPLY, f"the reply says that it was written at {said.created_at}")


def walk(tree: ObjectTree) -> Iterator[tuple[ObjectTree, int]]:
    """Yield every object of a tree and its level, from 1."""
    left = [(tree, 1)]
    while left:
        node, depth = left.pop()
        yield node, depth
        left += [(child, depth + 1) for child in node.children]
