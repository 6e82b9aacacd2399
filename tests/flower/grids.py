"""A grid in one process: nodes are functions, messages take Flower's own wire format, time is a number."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias, cast, final

import pytest
from flwr.app import Error, Message, RecordDict
from flwr.proto.node_pb2 import NodeInfo
from flwr.serverapp import Grid
from flwr.supercore.inflatable.inflatable_object import InflatableObject, get_all_nested_objects
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity

from steadfed.flower import _link as link
from steadfed.flower._replies import stream as reply_stream

Reply: TypeAlias = "Message | BaseException | Sequence[Message] | None"
Node: TypeAlias = Callable[[int, Message], Reply]

MESSAGE_UNAVAILABLE = 3


def identify(*, run_id: int = 1, node_id: int = 1, task_id: int = 1) -> None:
    """Say who builds messages in this process; without it none can be built."""
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = run_id, node_id, task_id


@final
class Clock:
    """Time that passes only when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0
        self.naps: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.naps.append(seconds)
        self.now += seconds

    @classmethod
    def instead_of_time(cls, monkeypatch: pytest.MonkeyPatch) -> Clock:
        """Return a clock that the receiving of replies uses for the rest of the test."""
        clock = cls()
        monkeypatch.setattr(reply_stream, "time", clock)
        monkeypatch.setattr(link, "time", clock)
        return clock


@final
class ScriptedGrid(Grid):
    """A grid whose nodes answer by a function of node id and message.

    The function returns the reply, several replies, None (never answers) or an exception, which pulling raises. A reply
    is there `delays[node]` seconds (of `clock`) after its message was pushed. As in Flower, pushing gives a message its
    id, a reply can be pulled once, and asking again brings an error. `wired` sends through deflate and inflate. What is
    put into `failures` under the name of a method is raised by its next calls, one after the other (None: by none); a
    single exception in place of a list is raised by all. `watch` sees messages before they are sent, and may raise.
    """

    def __init__(
        self,
        answer: Node,
        nodes: Iterable[int],
        *,
        delays: Mapping[int, float] | None = None,
        clock: Clock | None = None,
        unreachable: Iterable[int] = (),
        wired: bool = True,
    ) -> None:
        identify()
        self.nodes = list(nodes)
        self.unreachable = set(unreachable)
        self.pushed: list[Message] = []
        self.pulls: list[list[str]] = []
        self.failures: dict[str, BaseException | Sequence[BaseException | None]] = {}
        self.watch: Callable[[list[Message]], None] = lambda _messages: None
        self._answer = answer
        self._delays = dict(delays or {})
        self._clock = clock or Clock()
        self._wired = wired
        self._ready: dict[str, tuple[float, Reply]] = {}
        self._sent: dict[str, Message] = {}

    def set_run(self, run: Run) -> None:
        """There is one run only."""

    @property
    def run(self) -> Run:
        return Run.create_empty(TaskIdentity.run_id)

    def create_message(
        self, content: RecordDict, message_type: str, dst_node_id: int, group_id: str, ttl: float | None = None
    ) -> Message:
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)

    def _fail(self, method: str) -> None:
        failing = self.failures.get(method)
        if isinstance(failing, BaseException):
            raise failing
        if failing:
            self.failures[method] = failing[1:]
            if failing[0] is not None:
                raise failing[0]

    def get_node_ids(self) -> list[int]:
        self._fail("get_node_ids")
        return list(self.nodes)

    def get_nodes(self) -> list[NodeInfo]:
        return [NodeInfo(node_id=node) for node in self.nodes]

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        ids, messages = [], list(messages)
        self._fail("push_messages")
        self.watch(messages)
        for message in messages:
            node, message_id = message.metadata.dst_node_id, message.object_id
            message.metadata.__dict__["_message_id"] = message_id
            self.pushed.append(message)
            if node in self.unreachable or node not in self.nodes:
                ids.append("")
                continue
            ids.append(message_id)
            received = self._carried(message)
            self._sent[message_id] = message
            self._ready[message_id] = (self._clock.now + self._delays.get(node, 0.0), self._answer(node, received))
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        ids = list(message_ids)
        self.pulls.append(ids)
        self._fail("pull_messages")
        return [reply for message_id in ids for reply in self._pulled(message_id)]

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> list[Message]:
        """Push, let the time pass, pull once: nobody sleeps."""
        ids = [message_id for message_id in self.push_messages(list(messages)) if message_id]
        self._clock.now += timeout if timeout is not None else max(self._delays.values(), default=0.0)
        return self.pull_messages(ids)

    def _pulled(self, message_id: str) -> list[Message]:
        if message_id not in self._ready:
            error = Error(MESSAGE_UNAVAILABLE, "the message or its reply is gone")
            return [Message(error, reply_to=self._sent[message_id])]
        at, reply = self._ready[message_id]
        if reply is None or self._clock.now < at:
            return []
        del self._ready[message_id]
        if isinstance(reply, BaseException):
            raise reply
        return [self._carried(each) for each in ([reply] if isinstance(reply, Message) else reply)]

    def _carried(self, message: Message) -> Message:
        """Return what arrives: the same for inspection, or a copy that went through Flower's wire format."""
        return carried(message) if self._wired else message


def carried(message: Message) -> Message:
    """Return the message as it comes out at the other end of Flower's wire."""
    objects: dict[str, InflatableObject] = get_all_nested_objects(message)
    contents = {object_id: each.deflate() for object_id, each in objects.items()}
    arrived = cast("Message", inflate_object_from_contents(message.object_id, contents))
    arrived.metadata.__dict__["_message_id"] = message.metadata.message_id or message.object_id
    return arrived
