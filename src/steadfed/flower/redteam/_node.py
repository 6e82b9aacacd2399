"""A hostile node: it has a registered key and speaks to the SuperLink itself, past Flower's SuperNode.

What it plays is no reply of a client app, so it cannot be a mod: lists of objects that do not exist, objects of any
size, orders in the server's name. Operators play it against a test federation with the key of a node that is stopped:

    with HostileNode("127.0.0.1:8000", key=Path("keys/node-3"), root_certificates=ca) as node:
        node.play("many-objects", rounds=3)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self, cast, final

import httpx
import numpy as np
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_ssh_private_key
from flwr.app import Array, ArrayRecord, ConfigRecord, Error, Message as FlowerMessage, MetricRecord, RecordDict
from flwr.app.message import remove_content_from_message
from flwr.app.metadata import Metadata as FlowerMetadata
from flwr.common.constant import SUPERLINK_NODE_ID, ErrorCode
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
from flwr.proto.recorddict_pb2 import RecordDict as NoContent
from flwr.supercore.inflatable.inflatable_object import (
    get_all_nested_objects,
    get_object_id,
    get_object_tree,
    iterate_object_tree,
)
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor
from flwr.supercore.primitives.asymmetric import public_key_to_bytes
from flwr.supercore.protobuf.client import ProtobufClientInterceptor
from flwr.supercore.task_identity import TaskIdentity
from flwr.supernode.fleet_http_client import FleetHttpClient
from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor
from numpy.typing import NDArray

from steadfed._core.lookup import find
from steadfed.errors import ParameterError
from steadfed.flower._orders import ORDER
from steadfed.flower.redteam._uploads import Line, interrupted_reply, late_reply, trickled_reply, withheld_reply

MANY = 5000
"""Objects that "many-objects" lists: 341 kB, which kept a SuperLink busy for half a minute."""
LARGE = 64 * 2**20
"""Bytes of the one object of "large-object"; Flower's own nodes send 5 MiB at most."""
POISON = 1000.0
"""How much larger the numbers of poisoned replies are."""
STEPS = 100_000
"""Local steps that forged orders ask for."""
AGE, DAY = 3600.0, 86_400.0
"""Seconds that forged orders are said to be old, as the oldest is delivered first, and are good for from now on."""
POLL, PULLS, INTERVAL = 0.5, 120, 30.0


@final
class HostileNode:
    """A connection to a SuperLink in the name of a registered node."""

    def __init__(
        self, superlink: str, *, key: Path, root_certificates: bytes | None, neighbours: Sequence[int] = ()
    ) -> None:
        """Prepare to be let in.

        Args:
            superlink: its address, such as 127.0.0.1:8000.
            key: the node's private key, as `ssh-keygen` writes it.
            root_certificates: what the SuperLink is known by; None if it speaks plain HTTP.
            neighbours: node ids of whom "orders-to-neighbours" is for, see nodes.json; if left out the node itself, so
                that nobody is harmed.

        Raises:
            ParameterError: the key is of another kind than those of nodes.
        """
        private = load_ssh_private_key(key.read_bytes(), None)
        if not isinstance(private, ec.EllipticCurvePrivateKey):
            raise ParameterError(f"the key of a node lies on a curve, got {type(private).__name__}")
        public = private.public_key()
        self.line = Line()
        """How its requests arrive."""
        interceptors: list[ProtobufClientInterceptor] = [
            RuntimeVersionHttpInterceptor(component_name="SuperNode"),
            NodeAuthHttpInterceptor(private, public),
            self.line,
        ]
        insecure = root_certificates is None
        self._client = FleetHttpClient.from_server_address(superlink, insecure, root_certificates, interceptors)
        self._key = public_key_to_bytes(public)
        self._neighbours = tuple(neighbours)
        self.node = Node()

    @property
    def neighbours(self) -> tuple[int, ...]:
        """Return whom orders are left for."""
        return self._neighbours or (self.node.node_id,)

    def __enter__(self) -> Self:
        """Be let in."""
        request = ActivateNodeRequest(public_key=self._key, heartbeat_interval=INTERVAL)
        try:
            self.node = Node(node_id=self._client.ActivateNode(request).node_id)
        except httpx.HTTPError:
            self._client.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Go; a SuperLink that is away notices by itself."""
        with suppress(httpx.HTTPError), closing(self._client):
            self._client.DeactivateNode(DeactivateNodeRequest(node_id=self.node.node_id))

    def play(self, name: str, *, rounds: int, patience: float = 600.0) -> list[int]:
        """Answer so many messages by a drill, and return the statuses that the SuperLink answered with."""
        drill = find("drill of a hostile node", name, DRILLS)
        found: list[int] = []
        deadline = time.monotonic() + patience
        while len(found) < rounds and time.monotonic() < deadline:
            try:
                asked = self._asked()
            except httpx.TransportError:  # it is busy, with a drill perhaps
                asked = None
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
        asked, failure = self._asked_of(message), Error(ErrorCode.CLIENT_APP_RAISED_EXCEPTION, "a drill is over")
        self.leave(self._named(FlowerMessage(failure, reply_to=asked)))

    def poisoned_reply(self, message: Message, tree: ObjectTree) -> FlowerMessage:
        """Return an answer whose numbers are far from what was sent."""
        told = cast("FlowerMessage", inflate_object_from_contents(tree.object_id, self.contents(message, tree))).content
        asked = self._asked_of(message)
        arrays = {
            key: ArrayRecord({name: Array(_poisoned(array.numpy())) for name, array in record.items()})
            for key, record in told.items()
            if isinstance(record, ArrayRecord)
        }
        content = RecordDict({**arrays, "metrics": MetricRecord({"num-examples": 1})})
        return self._named(FlowerMessage(content, reply_to=asked))

    def _asked_of(self, message: Message) -> FlowerMessage:
        """Return a message as a client app is given it, in whose process its reply is made."""
        asked: FlowerMessage = message_from_proto(message)
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = asked.metadata.run_id, self.node.node_id, 0
        return asked

    @staticmethod
    def _named(reply: FlowerMessage) -> FlowerMessage:
        reply.metadata.__dict__["_message_id"] = reply.object_id
        return reply

    def leave(self, message: FlowerMessage) -> None:
        """Send a message and all that it consists of, whoever it says that it is from, and for."""
        told, session, contents = self.announce(message)
        for content in contents:
            self.push(told, session, content)

    def announce(self, message: FlowerMessage) -> tuple[Message, str, list[bytes]]:
        """Announce a message; return it, the upload's name, and the objects that the SuperLink does not have yet."""
        told = message_to_proto(remove_content_from_message(message) if message.has_content() else message)
        answered = self._announce(told, get_object_tree(message))
        objects = get_all_nested_objects(message)
        return told, answered.session_id, [objects[each].deflate() for each in answered.objects_to_push]

    def answer(self, message: Message, tree: ObjectTree) -> PushMessagesResponse:
        """Announce an answer to a message that consists of these objects."""
        asked = message.metadata
        said = Metadata(
            run_id=asked.run_id,
            message_id=tree.object_id,
            src_node_id=self.node.node_id,
            dst_node_id=SUPERLINK_NODE_ID,
            reply_to_message_id=asked.message_id,
            message_type=asked.message_type,
            created_at=time.time(),
            ttl=max(1.0, asked.created_at + asked.ttl - time.time()),
        )
        return self._announce(Message(metadata=said, content=NoContent()), tree)  # Flower sends objects apart

    def _announce(self, message: Message, tree: ObjectTree) -> PushMessagesResponse:
        return self._client.PushMessages(
            PushMessagesRequest(
                node=self.node,
                messages_list=[message],
                message_object_trees=[tree],
                clientapp_runtime_list=[0.0],
            )
        )

    def contents(self, message: Message, tree: ObjectTree) -> dict[str, bytes]:
        """Return all objects of a message, by their ids."""
        return {each.object_id: self.pull(message, each.object_id) for each in iterate_object_tree(tree)}

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
    contents = node.contents(message, tree).values()
    config = ConfigRecord.inflate(next(each for each in contents if each.startswith(b"ConfigRecord ")))
    following = {name: config[name] + 1 for name in ("round", "server-round") if name in config}  # type: ignore[operator]
    foreseen = ConfigRecord({**config, **following}).object_id
    poisoned = ObjectTree(object_id=foreseen, children=[ObjectTree(object_id=_id("no such part", message))])
    node.answer(message, ObjectTree(object_id=_id("poison", message), children=[poisoned]))


def orders_to_neighbours(node: HostileNode, message: Message, tree: ObjectTree) -> None:
    """Leave orders in the server's name for each neighbour: older than its own, unsigned, of `STEPS` steps.

    Flower believes what a message says of its sender. Clients that take orders of the server only (`receive`,
    `signed_orders_only`) refuse them; each still costs the node that it is for a process.
    """
    told = cast("FlowerMessage", inflate_object_from_contents(tree.object_id, node.contents(message, tree))).content
    for neighbour in node.neighbours:
        node.leave(forged_order(told, message, neighbour))
    node.report_failure(message)


def forged_order(told: RecordDict, message: Message, neighbour: int) -> FlowerMessage:
    """Return an order that holds what the server has told, but for the number of steps and the signature."""
    arrays = {name: record for name, record in told.items() if isinstance(record, ArrayRecord)}
    configs = {
        name: ConfigRecord({key: value for key, value in record.items() if key != ORDER} | {"local-steps": STEPS})
        for name, record in told.items()
        if isinstance(record, ConfigRecord)
    }
    metadata = FlowerMetadata(
        run_id=message.metadata.run_id,
        message_id="",
        src_node_id=SUPERLINK_NODE_ID,
        dst_node_id=neighbour,
        reply_to_message_id="",
        group_id="",
        created_at=time.time() - AGE,
        ttl=AGE + DAY,
        message_type=message.metadata.message_type,
    )
    order: FlowerMessage = FlowerMessage(content=RecordDict({**arrays, **configs}), metadata=metadata)  # type: ignore[call-overload]
    vars(metadata)["_message_id"] = order.object_id
    return order


def _poisoned(values: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(POISON * (1 + values)).astype(values.dtype)


def _id(words: str, message: Message) -> str:
    """Return an id that no object has."""
    return get_object_id(f"{words} {message.metadata.message_id}".encode())


DRILLS: Mapping[str, Callable[[HostileNode, Message, ObjectTree], None]] = MappingProxyType(
    {
        "interrupted-reply": interrupted_reply,
        "large-object": large_object,
        "late-reply": late_reply,
        "many-objects": many_objects,
        "orders-to-neighbours": orders_to_neighbours,
        "preregistered-id": preregistered_id,
        "trickled-reply": trickled_reply,
        "withheld-reply": withheld_reply,
    }
)
"""What a hostile node can play, by name."""
