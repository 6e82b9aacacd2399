"""The hostile node: what it plays is what it says, and the door knows it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives import serialization
from flwr.app import ConfigRecord
from flwr.proto.message_pb2 import Message, Metadata, ObjectTree
from flwr.supercore.primitives.asymmetric import generate_key_pairs, public_key_to_bytes
from flwr.superlink import main as flower
from tests.flower.grids import identify

from steadfed.errors import UnknownNameError
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


ASKED = Message(metadata=Metadata(run_id=1, message_id="ab" * 32, message_type="train", ttl=60.0, created_at=1e9))


@pytest.mark.parametrize(("name", "status"), [("many-objects", 413), ("orders-to-neighbours", 422)])
def test_the_door_refuses_what_it_plays(name: str, status: int, node: HostileNode) -> None:
    with node, pytest.raises(httpx.HTTPStatusError) as caught:
        DRILLS[name](node, ASKED, ObjectTree())
    assert caught.value.response.status_code == status


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
        assert node.play("orders-to-neighbours", rounds=2) == [422, 422]
    assert told == [ASKED, ASKED]


def test_an_unknown_drill_is_refused_with_the_nearest_name(node: HostileNode) -> None:
    with pytest.raises(UnknownNameError, match="many-objects"):
        node.play("many-object", rounds=1)
