"""A grid in one process: replies are laid down in Flower's wire format, and read from it by whoever asks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias, cast

from flwr.app import ArrayRecord, Error, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity

FAILED = 0
"""Flower's code for an error of unknown kind."""


@dataclass(frozen=True)
class Deflated:
    """The content of a reply as it travels: bytes by object id."""

    object_id: str
    objects: dict[str, bytes]
    honest: bool = False
    """Whether nothing can go wrong with it, so that it need not be put together anew by everyone."""

    @classmethod
    def of(cls, content: RecordDict, *, honest: bool = False) -> Deflated:
        """Take a content apart."""
        found = get_all_nested_objects(content)
        return cls(content.object_id, {object_id: each.deflate() for object_id, each in found.items()}, honest)

    def read(self) -> RecordDict:
        """Put the content together, as whoever pulls it does."""
        return cast("RecordDict", inflate_object_from_contents(self.object_id, dict(self.objects)))

    @cached_property
    def read_once(self) -> RecordDict | Exception:
        """The same, done once for all who read it Flower's way: what unfolds to 4 GiB does so once."""
        try:
            return self.read()
        except Exception as error:  # noqa: BLE001  it is the finding
            return error


Reply: TypeAlias = "Deflated | Error | None"
"""What a client sends: a content, an error, or nothing."""


def copied(content: RecordDict) -> RecordDict:
    """Return a content of its own, with records of its own, over the same arrays: strategies empty what they read."""
    return RecordDict({key: _copied(record) for key, record in content.items()})


def _copied(record: Any) -> Any:
    fresh = type(record)()
    for name, value in record.items():
        fresh[name] = list(value) if isinstance(value, list) else value
    return fresh


class Loopback(Grid):
    """A grid whose node i sends reply i to whatever it is asked; messages are answered in the order they are pushed."""

    def __init__(self, replies: Sequence[Reply]) -> None:
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1
        self._replies = replies
        self._sent: dict[str, tuple[int, Message]] = {}

    def set_run(self, run: Run) -> None:
        """There is one run only."""

    @property
    def run(self) -> Run:
        """The run."""
        return Run.create_empty(TaskIdentity.run_id)

    def create_message(
        self, content: RecordDict, message_type: str, dst_node_id: int, group_id: str, ttl: float | None = None
    ) -> Message:
        """Make a message."""
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)

    def get_node_ids(self) -> list[int]:
        """Return as many nodes as there are replies."""
        return list(range(1, len(self._replies) + 1))

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        """Give the messages their ids, as the SuperLink does."""
        ids = []
        for place, message in enumerate(messages):
            message_id = f"message-{place}"
            message.metadata.__dict__["_message_id"] = message_id
            self._sent[message_id] = (place, message)
            ids.append(message_id)
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        """Return the replies, put together now."""
        return [reply for message_id in message_ids for reply in self._answers(message_id, once=False)]

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> list[Message]:  # noqa: ARG002
        """Return all replies, as Flower's loop gets them; raises what putting them together raises."""
        return [reply for message_id in self.push_messages(messages) for reply in self._answers(message_id, once=True)]

    def _answers(self, message_id: str, *, once: bool) -> list[Message]:
        place, message = self._sent[message_id]
        reply = self._replies[place]
        if reply is None:
            return []
        if isinstance(reply, Error):
            return [Message(reply, reply_to=message)]
        if not once and not reply.honest:
            return [Message(reply.read(), reply_to=message)]
        content = reply.read_once
        if isinstance(content, Exception):
            raise content
        return [Message(copied(content), reply_to=message)]


def reply_content(arrays: ArrayRecord, num_examples: int, loss: float) -> RecordDict:
    """Return what an honest client sends."""
    metrics = MetricRecord({"train_loss": loss, "num-examples": num_examples})
    return RecordDict({"arrays": arrays, "metrics": metrics})
