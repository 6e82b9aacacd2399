"""A hostile node: it has a registered key and speaks to the SuperLink itself, past Flower's SuperNode.

What it plays is no reply of a client app, so it cannot be a mod: lists of objects that do not exist, objects of any
size, messages in another's name. Operators play it against a test federation with the key of a node that is stopped:

    with HostileNode("127.0.0.1:8000", key=Path("keys/node-3"), root_certificates=ca) as node:
        node.play("many-objects", rounds=3)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Self, cast, final

import httpx
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_ssh_private_key
from flwr.app import ConfigRecord, Error, Message as FlowerMessage
from flwr.common.constant import ErrorCode
from flwr.common.serde import message_from_proto, message_to_proto
from flwr.proto.fleet_pb2 import (
    ActivateNodeRequest,
    DeactivateNodeRequest,
    PullMessagesRequest,
    PushMessagesRequest,
    PushMessagesResponse,
)
from flwr.proto.heartbeat_pb2 import SendNodeHeartbeatRequest
from flwr.proto.message_pb2 import (
    Message,
    Metadata,
    ObjectTree,
    PullObjectRequest,
    PushObjectRequest,
)
from flwr.proto.node_pb2 import Node
from flwr.proto.recorddict_pb2 import RecordDict
from flwr.supercore.inflatable.inflatable_object import get_object_id, get_object_tree, iterate_object_tree
from flwr.supercore.primitives.asymmetric import public_key_to_bytes
from flwr.supercore.task_identity import TaskIdentity
from flwr.supernode.fleet_http_client import FleetHttpClient
from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

from steadfed._core.lookup import find

SUPERLINK = 1
"""The SuperLink's own node id."""
MANY = 5000
"""Objects that "many-objects" lists: 341 kB, which kept a SuperLink busy for half a minute."""
LARGE = 64 * 2**20
"""Bytes of the one object of "large-object"; Flower's own nodes send 5 MiB at most."""
POLL, PULLS, INTERVAL = 0.5, 120, 30.0


@final
class HostileNode:
    """A connection to a SuperLink in the name of a registered node."""

    def __init__(self, superlink: str, *, key: Path, root_certificates: bytes | None) -> None:
        private = cast("ec.EllipticCurvePrivateKey", load_ssh_private_key(key.read_bytes(), None))
        public = private.public_key()
        auth = NodeAuthHttpInterceptor(private, public)
        insecure = root_certificates is None
        self._client = FleetHttpClient.from_server_address(superlink, insecure, root_certificates, [auth])
        self._key = public_key_to_bytes(public)
        self.node = Node()

    def __enter__(self) -> Self:
        """Be let in."""
        request = ActivateNodeRequest(public_key=self._key, heartbeat_interval=INTERVAL)
        self.node = Node(node_id=self._client.ActivateNode(request).node_id)
        return self

    def __exit__(self, *_: object) -> None:
        """Go."""
        self._client.DeactivateNode(DeactivateNodeRequest(node_id=self.node.node_id))
        self._client.close()

    def play(self, name: str, *, rounds: int, patience: float = 600.0) -> list[int]:
        """Answer so many messages by a drill, and return the statuses that the SuperLink answered with."""
        drill = find("drill of a hostile node", name, DRILLS)
        found: list[int] = []
        deadline = time.monotonic() + patience
        while len(found) < rounds and time.monotonic() < deadline:
            asked = self._asked()
            if asked is None:
                time.sleep(POLL)
                continue
            try:
                drill(self, *asked)
                found.append(httpx.codes.OK)
            except httpx.HTTPStatusError as error:
                found.append(error.response.status_code)
                self.report_failure(asked[0])
        return found

    def report_failure(self, message: Message) -> None:
        """Answer a message as a node does whose client app has failed, so that nobody waits for it any longer."""
        asked = message_from_proto(message)
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = asked.metadata.run_id, self.node.node_id, 0
        reply = FlowerMessage(Error(ErrorCode.CLIENT_APP_RAISED_EXCEPTION, "a drill was refused"), reply_to=asked)
        reply.metadata.__dict__["_message_id"] = reply.object_id
        request = PushMessagesRequest(
            node=self.node,
            messages_list=[message_to_proto(reply)],
            message_object_trees=[get_object_tree(reply)],
            clientapp_runtime_list=[0.0],
        )
        self.push(message, self._client.PushMessages(request).session_id, reply.deflate())

    def answer(
        self, message: Message, tree: ObjectTree, *, to: int = SUPERLINK, reply: bool = True
    ) -> PushMessagesResponse:
        """Announce an answer to a message: these objects, or a message of one's own to somebody."""
        asked = message.metadata
        said = Metadata(
            run_id=asked.run_id,
            message_id=tree.object_id,
            src_node_id=self.node.node_id if reply else SUPERLINK,
            dst_node_id=to,
            reply_to_message_id=asked.message_id if reply else "",
            message_type=asked.message_type,
            created_at=time.time(),
            ttl=max(1.0, asked.created_at + asked.ttl - time.time()),
        )
        request = PushMessagesRequest(
            node=self.node,
            messages_list=[
                Message(metadata=said, content=RecordDict())
            ],  # which holds nothing: Flower sends objects apart
            message_object_trees=[tree],
            clientapp_runtime_list=[0.0],
        )
        return self._client.PushMessages(request)

    def pull(self, message: Message, object_id: str) -> bytes:
        """Return an object of a message, which may come a while after the message; nothing if it does not."""
        request = PullObjectRequest(node=self.node, run_id=message.metadata.run_id, object_id=object_id)
        for _ in range(PULLS):
            answered = self._client.PullObject(request)
            if answered.object_available:
                return bytes(answered.object_content)
            time.sleep(POLL)
        return b""

    def push(self, message: Message, session: str, content: bytes) -> None:
        """Upload an object that was announced."""
        request = PushObjectRequest(
            node=self.node,
            run_id=message.metadata.run_id,
            object_id=get_object_id(content),
            object_content=content,
            session_id=session,
        )
        self._client.PushObject(request)

    def _asked(self) -> tuple[Message, ObjectTree] | None:
        """Return a message of the server to this node."""
        self._client.SendNodeHeartbeat(SendNodeHeartbeatRequest(node=self.node, heartbeat_interval=INTERVAL))
        response = self._client.PullMessages(PullMessagesRequest(node=self.node))
        if not response.messages_list:
            return None
        return response.messages_list[0], response.message_object_trees[0]


def many_objects(node: HostileNode, message: Message, _tree: ObjectTree) -> None:
    """List `MANY` objects that do not exist."""
    made_up = [ObjectTree(object_id=_id(f"object {each}", message)) for each in range(MANY)]
    node.answer(message, ObjectTree(object_id=_id("many", message), children=made_up))


def large_object(node: HostileNode, message: Message, _tree: ObjectTree) -> None:
    """Announce one object, and upload `LARGE` bytes as it."""
    content = b"ArrayChunk  %d\0" % LARGE + bytes(LARGE)
    answered = node.answer(message, ObjectTree(object_id=get_object_id(content)))
    node.push(message, answered.session_id, content)


def preregistered_id(node: HostileNode, message: Message, tree: ObjectTree) -> None:
    """Announce the ConfigRecord of the next round, as far as it can be foreseen, with a part that it does not have.

    From then on Flower's object store answers 500 to the server, which announces it without that part.
    """
    contents = (node.pull(message, each.object_id) for each in iterate_object_tree(tree))
    config = ConfigRecord.inflate(next(each for each in contents if each.startswith(b"ConfigRecord ")))
    following = {name: config[name] + 1 for name in ("round", "server-round") if name in config}  # type: ignore[operator]
    foreseen = ConfigRecord({**config, **following}).object_id
    poisoned = ObjectTree(object_id=foreseen, children=[ObjectTree(object_id=_id("no such part", message))])
    node.answer(message, ObjectTree(object_id=_id("poison", message), children=[poisoned]))


def orders_to_neighbours(node: HostileNode, message: Message, _tree: ObjectTree) -> None:
    """Leave a message in the server's name for a node; here for this one, so that nobody is harmed."""
    tree = ObjectTree(object_id=_id("order", message))
    node.answer(message, tree, to=node.node.node_id, reply=False)


def _id(words: str, message: Message) -> str:
    """Return an id that no object has."""
    return get_object_id(f"{words} {message.metadata.message_id}".encode())


DRILLS: Mapping[str, Callable[[HostileNode, Message, ObjectTree], None]] = MappingProxyType(
    {
        "large-object": large_object,
        "many-objects": many_objects,
        "orders-to-neighbours": orders_to_neighbours,
        "preregistered-id": preregistered_id,
    }
)
"""What a hostile node can play, by name."""
