"""The hostile node: what it plays is what it says, and the door knows it."""

from __future__ import annotations

import asyncio
import time
from base64 import b64decode
from pathlib import Path
from typing import Any, cast

import httpx
import numpy as np
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519
from flwr.app import Array, ArrayRecord, ConfigRecord, Message as FlowerMessage, RecordDict
from flwr.common.constant import TIMESTAMP_HEADER
from flwr.proto.fleet_pb2 import PushMessagesRequest, PushMessagesResponse
from flwr.proto.message_pb2 import Message, Metadata, ObjectTree, PushObjectRequest, PushObjectResponse
from flwr.proto.recorddict_pb2 import RecordDict as NoContent
from flwr.supercore.constant import FLEET_HTTP_PUBLIC_KEY_HEADER, FLEET_HTTP_SIGNATURE_HEADER
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree, iterate_object_tree
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from flwr.supercore.primitives.asymmetric import (
    bytes_to_public_key,
    generate_key_pairs,
    public_key_to_bytes,
    verify_signature,
)
from flwr.superlink import main as flower
from tests.flower.grids import identify
from tests.flower.keys import knowing, trusting

from steadfed.errors import OrderError, ParameterError, UnknownNameError
from steadfed.flower._acceptance import accept
from steadfed.flower.redteam import DRILLS, HostileNode, _node
from steadfed.flower.superlink import DoorLimits, guard


class InProcess(httpx.BaseTransport):
    """Hands requests to an app of this process."""

    def __init__(self, app: Any) -> None:
        self.app = app

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        async def ask() -> httpx.Response:
            async with httpx.AsyncClient(transport=httpx.ASGITransport(self.app)) as client:
                return await client.send(
                    httpx.Request(request.method, request.url, headers=request.headers, content=body)
                )

        body = request.read()
        answer = asyncio.run(ask())
        return httpx.Response(answer.status_code, headers=answer.headers, content=answer.content)


@pytest.fixture
def node(tmp_path: Path, flowers_own_superlink: None) -> HostileNode:
    """Return a registered node before a SuperLink with a door."""
    guard(DoorLimits())
    app = flower.create_app(None)
    private, public = generate_key_pairs()
    formats = (serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption())
    (tmp_path / "key").write_bytes(private.private_bytes(*formats))
    app.state.linkstate_factory.state().create_node("nobody", "nobody", public_key_to_bytes(public), 0)
    hostile = HostileNode("superlink", key=tmp_path / "key", root_certificates=None)
    hostile._client._client = httpx.Client(transport=InProcess(app))  # noqa: SLF001
    return hostile


class FleetApi:
    """What a SuperLink without a door would take from a node."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.messages: list[Message] = []
        self.requests: list[httpx.Request] = []

    def answer(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        if request.url.path == "/v1/fleet/push-object":
            pushed = PushObjectRequest.FromString(request.content)
            self.objects[pushed.object_id] = pushed.object_content
            return httpx.Response(200, content=PushObjectResponse(stored=True).SerializeToString())
        pushes = PushMessagesRequest.FromString(request.content)
        self.messages += pushes.messages_list
        wanted = [tree.object_id for tree in iterate_object_tree(pushes.message_object_trees[0])]
        response = PushMessagesResponse(objects_to_push=wanted, session_id="session")
        return httpx.Response(200, content=response.SerializeToString())


LIAR, NEIGHBOURS, RUN = 9, (7, 8), 1


def asked(
    found: FleetApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, transport: httpx.BaseTransport | None = None
) -> tuple[HostileNode, ObjectTree]:
    """Return a hostile node that this SuperLink has asked, and of what objects its message consists."""
    identify()
    arrays = ArrayRecord({"weight": Array(np.zeros((2, 2), np.float32))})
    config = ConfigRecord({"round": 3, "local-steps": 4, "lr": 0.5, "steadfed-order": "signed by the server"})
    sent = FlowerMessage(RecordDict({"arrays": arrays, "config": config}), LIAR, "train")
    objects = {object_id: each.deflate() for object_id, each in get_all_nested_objects(sent).items()}
    monkeypatch.setattr(HostileNode, "pull", lambda _node, _message, object_id: objects[object_id])
    hostile = HostileNode("superlink", key=tmp_path / "key", root_certificates=None, neighbours=NEIGHBOURS)
    way = transport or httpx.MockTransport(found.answer)
    hostile._client._client = httpx.Client(transport=way)  # noqa: SLF001
    hostile.node.node_id = LIAR
    return hostile, get_object_tree(sent)


@pytest.fixture
def api(tmp_path: Path, node: HostileNode, monkeypatch: pytest.MonkeyPatch) -> FleetApi:
    """Return what was taken from a node that has played "orders-to-neighbours"."""
    found = FleetApi()
    hostile, tree = asked(found, tmp_path, monkeypatch)
    DRILLS["orders-to-neighbours"](hostile, ASKED, tree)
    return found


ASKED = Message(
    metadata=Metadata(
        run_id=RUN, message_id="ab" * 32, dst_node_id=LIAR, message_type="train", ttl=1e9, created_at=1e9
    ),
    content=NoContent(),
)


def test_the_door_refuses_many_objects(node: HostileNode) -> None:
    with node, pytest.raises(httpx.HTTPStatusError) as caught:
        DRILLS["many-objects"](node, ASKED, ObjectTree())
    assert caught.value.response.status_code == 413


def test_the_door_refuses_orders_to_neighbours(node: HostileNode) -> None:
    identify()
    order = _node.forged_order(RecordDict({"config": ConfigRecord()}), ASKED, 7)
    with node, pytest.raises(httpx.HTTPStatusError) as caught:
        node.leave(order)
    assert caught.value.response.status_code == 422


def test_it_signs_its_requests_as_a_node_and_its_orders_are_old_ones_of_the_server(api: FleetApi) -> None:
    for request in api.requests:
        public = bytes_to_public_key(b64decode(request.headers[FLEET_HTTP_PUBLIC_KEY_HEADER]))
        signature = b64decode(request.headers[FLEET_HTTP_SIGNATURE_HEADER])
        assert verify_signature(public, request.headers[TIMESTAMP_HEADER].encode(), signature)
    *orders, failure = (each.metadata for each in api.messages)
    assert [each.dst_node_id for each in orders] == list(NEIGHBOURS)
    for each in orders:
        assert (each.src_node_id, each.run_id, each.message_type) == (1, RUN, "train")
        assert each.created_at == pytest.approx(time.time() - 3600.0, abs=60.0)
    assert (failure.src_node_id, failure.reply_to_message_id) == (LIAR, ASKED.metadata.message_id)


def test_a_client_that_trusts_everybody_would_take_its_orders_and_one_with_the_key_refuses(api: FleetApi) -> None:
    for each in api.messages[:-1]:
        said = each.metadata
        message = cast("FlowerMessage", inflate_object_from_contents(said.message_id, dict(api.objects)))
        assert dict(message.content["config"])["local-steps"] == 100_000
        assert accept(message, trusting(said.dst_node_id)) is None
        with pytest.raises(OrderError, match="no order of the federation's server"):
            accept(message, knowing(said.dst_node_id, run=RUN))


def test_who_knows_no_neighbours_leaves_orders_for_itself(node: HostileNode) -> None:
    with node:
        assert node.neighbours == (node.node.node_id,)


def test_the_key_of_a_node_lies_on_a_curve(tmp_path: Path) -> None:
    key = tmp_path / "key"
    formats = (serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption())
    key.write_bytes(ed25519.Ed25519PrivateKey.generate().private_bytes(*formats))
    with pytest.raises(ParameterError, match="lies on a curve, got Ed25519PrivateKey"):
        HostileNode("superlink", key=key, root_certificates=None)


def test_the_door_refuses_a_large_object(node: HostileNode) -> None:
    with node, pytest.raises(httpx.HTTPStatusError) as caught:
        node.push(ASKED, "session", bytes(6 * 2**20))
    assert caught.value.response.status_code == 413


@pytest.mark.parametrize("secret", ["", "drawn anew"])
def test_a_configuration_can_be_foreseen_only_if_it_holds_no_secret(
    secret: str, node: HostileNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    identify()
    this, following = (ConfigRecord({"round": each, "server-round": each + 1, "lr": 0.5}) for each in (3, 4))
    if secret:
        following["steadfed-secret"] = secret
    announced: list[ObjectTree] = []
    monkeypatch.setattr(HostileNode, "pull", lambda *_: this.deflate())
    monkeypatch.setattr(HostileNode, "answer", lambda _node, _message, tree: announced.append(tree))
    DRILLS["preregistered-id"](node, ASKED, ObjectTree(object_id=this.object_id))
    (poisoned,) = announced[0].children
    assert (poisoned.object_id == following.object_id) == (not secret)
    assert len(poisoned.children) == 1


def test_it_plays_what_it_is_asked_to_and_returns_the_statuses(
    node: HostileNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Message] = []
    monkeypatch.setattr(HostileNode, "report_failure", lambda _node, message: told.append(message))
    asked = iter([None, (ASKED, ObjectTree()), (ASKED, ObjectTree())])
    monkeypatch.setattr(HostileNode, "_asked", lambda _node: next(asked))
    monkeypatch.setattr(_node, "POLL", 0.0)
    with node:
        assert node.play("many-objects", rounds=2) == [413, 413]
    assert told == [ASKED, ASKED]


def test_a_superlink_that_is_too_busy_to_answer_is_asked_again(
    node: HostileNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter([httpx.ReadTimeout("too busy"), (ASKED, ObjectTree())])

    def asked(_node: HostileNode) -> Any:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(HostileNode, "_asked", asked)
    monkeypatch.setattr(HostileNode, "report_failure", lambda *_: None)
    monkeypatch.setattr(_node, "POLL", 0.0)
    with node:
        assert node.play("many-objects", rounds=1) == [413]


def test_an_unknown_drill_is_refused_with_the_nearest_name(node: HostileNode) -> None:
    with pytest.raises(UnknownNameError, match="many-objects"):
        node.play("many-object", rounds=1)
