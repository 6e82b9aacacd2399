"""The SuperLink's side of Flower's own HTTP grid, without a network: what it would answer to each request."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import final

import httpx
from flwr.app import Message
from flwr.app.message import remove_content_from_message
from flwr.common.serde import message_to_proto
from flwr.proto.message_pb2 import (
    ConfirmMessageReceivedResponse,
    Message as ProtoMessage,
    ObjectTree,
    PullObjectRequest,
    PullObjectResponse,
)
from flwr.proto.runtime_pb2 import (
    GetNodesResponse,
    PullAppMessagesRequest,
    PullAppMessagesResponse,
    PushAppMessagesRequest,
    PushAppMessagesResponse,
)
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_id
from flwr.supercore.run import Run
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.superlink.grid.http_grid import HttpGrid
from tests.flower.grids import identify


@final
class _Body(httpx.SyncByteStream):
    """What arrives of an answer: all of it, or most of it and then the end of the connection."""

    def __init__(self, content: bytes, *, broken: bool = False) -> None:
        self._content, self._broken = content, broken

    def __iter__(self) -> Iterator[bytes]:
        if not self._broken:
            yield self._content
            return
        yield self._content[:-2]
        raise httpx.ReadError("the connection was cut")


@final
class Upload:
    """What a client uploads as its reply: objects by id, the id of the topmost, and what it says about itself."""

    def __init__(self, reply: Message) -> None:
        objects = get_all_nested_objects(reply)
        self.contents = {object_id: each.deflate() for object_id, each in objects.items()}
        self.top = reply.object_id
        self.envelope: ProtoMessage = message_to_proto(remove_content_from_message(reply))

    def replace(self, content: bytes, new: bytes) -> None:
        """Put another content in the place of one, and change every object above accordingly."""
        old_id, new_id = get_object_id(content), get_object_id(new)
        parents = [each for each in self.contents.values() if old_id.encode() in each]
        del self.contents[old_id]
        self.contents[new_id] = new
        self.top = new_id if self.top == old_id else self.top
        for parent in parents:
            self.replace(parent, parent.replace(old_id.encode(), new_id.encode()))

    def content_of(self, kind: str) -> bytes:
        """Return the content of the first object of a class."""
        return next(content for content in self.contents.values() if content.startswith(f"{kind} ".encode()))

    @property
    def tree(self) -> ObjectTree:
        children = [ObjectTree(object_id=object_id) for object_id in self.contents if object_id != self.top]
        return ObjectTree(object_id=self.top, children=children)


@final
class SuperLink:
    """Replies that clients have uploaded, by the id of the message that they answer."""

    def __init__(self) -> None:
        identify()
        self.uploads: dict[str, Upload] = {}
        self.strays: list[Upload] = []
        self.absent: set[str] = set()
        self.failing: set[str] = set()
        self.failures: list[str] = []
        self.confirmed: list[str] = []
        self.down: Exception | None = None
        self.instead: dict[str, Callable[[], httpx.Response]] = {}
        """What is answered to a kind of request in place of what is asked for."""
        self.broken = 0
        """How many answers with objects break off in the middle."""

    def grid(self) -> HttpGrid:
        """Return Flower's grid, connected to this."""
        client = RuntimeHttpClient("http://superlink")
        client._client = httpx.Client(transport=httpx.MockTransport(self._answer))  # noqa: SLF001
        grid = HttpGrid(token="token")  # noqa: S106
        grid.set_run(Run.create_empty(1))
        grid._client = client  # noqa: SLF001
        return grid

    def _answer(self, request: httpx.Request) -> httpx.Response:
        if self.down is not None:
            raise self.down
        body, name = request.content, request.url.path.rsplit("/", 1)[1]
        if name in self.instead:
            return self.instead[name]()
        if name == "push-messages":
            sent = PushAppMessagesRequest.FromString(body).messages_list
            answer = PushAppMessagesResponse(message_ids=[message.metadata.message_id for message in sent])
        elif name == "pull-messages" and (
            found := self.failing & {*PullAppMessagesRequest.FromString(body).message_ids}
        ):
            self.failures += found
            return httpx.Response(500, request=request)
        elif name == "pull-messages":
            answer = self._replies(list(PullAppMessagesRequest.FromString(body).message_ids))
        elif name == "pull-object":
            answer = self._object(PullObjectRequest.FromString(body).object_id)
            if self.broken:
                self.broken -= 1
                return httpx.Response(200, stream=_Body(answer.SerializeToString(), broken=True))
        elif name == "get-nodes":
            answer = GetNodesResponse()
        else:
            self.confirmed.append(name)
            answer = ConfirmMessageReceivedResponse()
        return httpx.Response(200, stream=_Body(answer.SerializeToString()))

    def _replies(self, message_ids: list[str]) -> PullAppMessagesResponse:
        found = [self.uploads[each] for each in message_ids if each in self.uploads] + self.strays
        for upload in found:
            upload.envelope.metadata.message_id = upload.top
        return PullAppMessagesResponse(
            messages_list=[upload.envelope for upload in found], message_object_trees=[upload.tree for upload in found]
        )

    def _object(self, object_id: str) -> PullObjectResponse:
        for upload in [*self.uploads.values(), *self.strays]:
            if object_id in upload.contents:
                content = b"" if object_id in self.absent else upload.contents[object_id]
                return PullObjectResponse(object_found=True, object_available=bool(content), object_content=content)
        return PullObjectResponse(object_found=False)
