"""What stands before the SuperLink: requests of nodes, as Flower's wire has them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.fuzz.harness import Harness, Reader, promise

from steadfed.errors import ReplyError

_NODE, _SERVER, _OBJECTS = 7, 1, 12


def _requests() -> Iterator[bytes]:
    from flwr.proto.fleet_pb2 import PushMessagesRequest
    from flwr.proto.message_pb2 import Message, Metadata, ObjectTree
    from flwr.proto.node_pb2 import Node

    leaves = [ObjectTree(object_id=f"{number:064x}") for number in range(3)]
    middle = ObjectTree(object_id="b" * 64, children=leaves)
    tree = ObjectTree(object_id="a" * 64, children=[middle])
    deep = tree
    for number in range(12):
        deep = ObjectTree(object_id=f"{number + 100:064x}", children=[deep])
    honest: dict[str, Any] = {
        "message_id": tree.object_id,
        "src_node_id": _NODE,
        "dst_node_id": _SERVER,
        "reply_to_message_id": "c" * 64,
    }
    lies: list[dict[str, Any]] = [{}, {"src_node_id": 8}, {"dst_node_id": 8}, {"reply_to_message_id": ""}]
    lies.append({"message_id": deep.object_id})
    for changes in lies:
        said = Message(metadata=Metadata(**(honest | changes)))
        for trees in ([tree], [deep], [tree, tree], []):
            request = PushMessagesRequest(node=Node(node_id=_NODE), messages_list=[said], message_object_trees=trees)
            yield request.SerializeToString()


def _read_requests() -> Reader:
    from flwr.proto.fleet_pb2 import PushMessagesRequest
    from google.protobuf.message import DecodeError

    from steadfed.flower._doorkeeper import Doorkeeper, DoorLimits, RefusalError, walk
    from steadfed.flower._object_store import DEEPEST
    from steadfed.states._faults import Fault

    keeper = Doorkeeper(DoorLimits(objects=_OBJECTS))

    def read(data: bytes) -> None:
        try:
            request = PushMessagesRequest.FromString(data)
            keeper.check_reply(request)
        except (DecodeError, RefusalError) as error:  # Flower answers the first itself
            raise ReplyError(Fault.UNREADABLE, str(error)) from None
        (said,), (tree,) = request.messages_list, request.message_object_trees
        promise(said.metadata.src_node_id == request.node.node_id, "in another's name")
        promise(said.metadata.dst_node_id == _SERVER and bool(said.metadata.reply_to_message_id), "no reply")
        listed = list(walk(tree))
        promise(tree.object_id == said.metadata.message_id, "the objects of another message")
        promise(len(listed) <= _OBJECTS and max(depth for _, depth in listed) <= DEEPEST, "too many objects")
        promise(all(len(node.object_id) == 64 for node, _ in listed), "an id that is no hash")

    return read


DOOR = (Harness(name="door", reader=_read_requests, seeds=_requests, refusals=(ReplyError,), longest=8192),)
