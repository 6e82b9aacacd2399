"""What the SuperLink answers is remembered, so that the same replies can be read twice: Flower's way and steadfed's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, cast

from flwr.app import Message
from flwr.proto.message_pb2 import (
    ConfirmMessageReceivedRequest,
    ConfirmMessageReceivedResponse,
    PullObjectRequest,
    PullObjectResponse,
)
from flwr.proto.runtime_pb2 import PullAppMessagesRequest, PullAppMessagesResponse
from flwr.supercore.runtime import RuntimeHttpClient

from steadfed.flower._grid import ForwardingGrid


class Memory:
    """Answers of the SuperLink: it hands out a reply once, and forgets its parts when the reply was confirmed."""

    def __init__(self) -> None:
        self._replies: dict[str, tuple[Any, Any]] = {}
        self._objects: dict[str, PullObjectResponse] = {}
        self._confirmed: dict[str, ConfirmMessageReceivedResponse] = {}

    def forget(self) -> None:
        """Let go of all of it."""
        self._replies.clear()
        self._objects.clear()
        self._confirmed.clear()

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Stand between Flower's client and the SuperLink while inside."""
        before = {
            name: vars(RuntimeHttpClient)[name] for name in ("PullMessages", "PullObject", "ConfirmMessageReceived")
        }
        changed = {
            "PullMessages": lambda client, request: self._pull(before["PullMessages"], client, request),
            "PullObject": lambda client, request: self._object(before["PullObject"], client, request),
            "ConfirmMessageReceived": lambda client, request: self._confirm(
                before["ConfirmMessageReceived"], client, request
            ),
        }
        for name, method in changed.items():
            setattr(RuntimeHttpClient, name, method)
        try:
            yield
        finally:
            for name, method in before.items():
                setattr(RuntimeHttpClient, name, method)

    def _pull(self, ask: Any, client: RuntimeHttpClient, request: PullAppMessagesRequest) -> PullAppMessagesResponse:
        wanted = list(request.message_ids)
        unknown = [message_id for message_id in wanted if message_id not in self._replies]
        if unknown:
            answer = ask(client, PullAppMessagesRequest(message_ids=unknown))
            for message, tree in zip(answer.messages_list, answer.message_object_trees, strict=True):
                self._replies[message.metadata.reply_to_message_id] = (message, tree)
        known = [self._replies[message_id] for message_id in wanted if message_id in self._replies]
        return PullAppMessagesResponse(
            messages_list=[message for message, _ in known], message_object_trees=[tree for _, tree in known]
        )

    def _object(self, ask: Any, client: RuntimeHttpClient, request: PullObjectRequest) -> PullObjectResponse:
        if request.object_id not in self._objects:
            answer = ask(client, request)
            if not answer.object_available:
                return cast("PullObjectResponse", answer)
            self._objects[request.object_id] = answer
        return self._objects[request.object_id]

    def _confirm(
        self, ask: Any, client: RuntimeHttpClient, request: ConfirmMessageReceivedRequest
    ) -> ConfirmMessageReceivedResponse:
        if request.message_object_id not in self._confirmed:
            self._confirmed[request.message_object_id] = ask(client, request)
        return self._confirmed[request.message_object_id]


class Sent(ForwardingGrid):
    """A grid whose messages have gone out before, and have their ids."""

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Return the ids that the messages have."""
        return [message.metadata.message_id for message in messages]

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:  # noqa: ARG002
        """Fetch the replies, which are there."""
        return self.pull_messages(self.push_messages(messages))
