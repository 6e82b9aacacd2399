"""The door of the SuperLink: what no honest node sends does not come in, and whose it was is logged."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from base64 import b64encode
from collections.abc import Sequence
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from fastapi import FastAPI
from flwr.common.constant import TIMESTAMP_HEADER
from flwr.proto.fleet_pb2 import PullMessagesRequest, PushMessagesRequest
from flwr.proto.message_pb2 import ConfirmMessageReceivedRequest, Message, Metadata, ObjectTree, PushObjectRequest
from flwr.proto.node_pb2 import Node
from flwr.proto.runtime_pb2 import PushAppMessagesRequest
from flwr.server.superlink.linkstate import SqlLinkState
from flwr.supercore.constant import FLEET_HTTP_PUBLIC_KEY_HEADER, FLEET_HTTP_SIGNATURE_HEADER
from flwr.supercore.date import now
from flwr.supercore.primitives.asymmetric import generate_key_pairs, public_key_to_bytes, sign_message
from flwr.supercore.protobuf.constants import PROTOBUF_MEDIA_TYPE
from flwr.superlink import main as flower

from steadfed.errors import RunError
from steadfed.flower import _object_store, superlink
from steadfed.flower._doorkeeper import (
    ENTRY,
    ENVELOPE,
    RECORDS,
    UNKNOWN,
    Doorkeeper,
    DoorLimits,
    RefusalError,
)
from steadfed.flower._object_store import DEEPEST
from steadfed.flower.superlink import guard

PUSH, PULL, OBJECT, CONFIRM = (
    f"/v1/fleet/{name}" for name in ("push-messages", "pull-messages", "push-object", "confirm-message-received")
)
PASSED = 500
"""What Flower's own handler says of a message of a run that does not exist: the door has let it in."""


class Link:
    """Flower's SuperLink behind the door, in this process, and one registered node."""

    def __init__(self, **limits: int) -> None:
        guard(DoorLimits(**limits))
        self.app: FastAPI = flower.create_app(None)
        self.key, public = generate_key_pairs()
        self.public = public_key_to_bytes(public)
        state = self.app.state.linkstate_factory.state()
        self.node = state.create_node("nobody", "nobody", self.public, 0)

    def headers(self, key: ec.EllipticCurvePrivateKey) -> dict[str, str]:
        stamp = now().isoformat()
        return {
            "content-type": PROTOBUF_MEDIA_TYPE,
            TIMESTAMP_HEADER: stamp,
            FLEET_HTTP_PUBLIC_KEY_HEADER: b64encode(self.public).decode(),
            FLEET_HTTP_SIGNATURE_HEADER: b64encode(sign_message(key, stamp.encode())).decode(),
        }

    def post(self, path: str, content: Any, key: ec.EllipticCurvePrivateKey | None = None) -> httpx.Response:
        async def ask() -> httpx.Response:
            transport = httpx.ASGITransport(self.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://superlink") as client:
                return await client.post(path, content=content, headers=self.headers(key or self.key))

        return asyncio.run(ask())

    def reply(
        self, tree: ObjectTree | None = None, *, messages: int = 1, runtimes: Sequence[float] = (0.5,), **said: Any
    ) -> bytes:
        """Return what a node sends to announce a reply; what is said changes the message."""
        tree = tree or listing(10)
        metadata = {
            "message_id": tree.object_id,
            "src_node_id": self.node,
            "dst_node_id": 1,
            "reply_to_message_id": "ab" * 32,
            "message_type": "train",
        }
        message = Message(metadata=Metadata(**(metadata | said)))
        request = PushMessagesRequest(
            node=Node(node_id=self.node),
            messages_list=[message] * messages,
            message_object_trees=[tree] * messages,
            clientapp_runtime_list=runtimes,
        )
        return bytes(request.SerializeToString())


pytestmark = pytest.mark.usefixtures("flowers_own_superlink")


@pytest.fixture
def link() -> Link:
    return Link()


def name(number: int) -> str:
    return f"{number:064x}"


def listing(number: int) -> ObjectTree:
    """Return a flat tree of so many objects."""
    return ObjectTree(object_id=name(0), children=[ObjectTree(object_id=name(each)) for each in range(1, number)])


def chain(levels: int) -> ObjectTree:
    tree = ObjectTree(object_id=name(levels))
    for level in reversed(range(levels - 1)):
        tree = ObjectTree(object_id=name(level + 1), children=[tree])
    return tree


def test_what_an_honest_node_sends_comes_in(link: Link) -> None:
    assert link.post(PUSH, link.reply()).status_code == PASSED
    assert link.post(PUSH, link.reply(chain(5))).status_code == PASSED
    pull = PullMessagesRequest(node=Node(node_id=link.node)).SerializeToString()
    assert link.post(PULL, pull).status_code == 200
    brought = PushObjectRequest(node=Node(node_id=link.node), object_content=bytes(5 * 2**20)).SerializeToString()
    assert link.post(OBJECT, brought).status_code not in {413, 422, 503}


def test_the_same_array_in_two_records_is_honest(link: Link) -> None:
    array = ObjectTree(object_id=name(9), children=[ObjectTree(object_id=name(10))])
    records = [ObjectTree(object_id=name(each), children=[array]) for each in (1, 2)]
    assert link.post(PUSH, link.reply(ObjectTree(object_id=name(0), children=records))).status_code == PASSED


def test_what_a_server_app_is_sending_is_not_confirmed_before_it_has_come(link: Link) -> None:
    store = link.app.state.linkstate_factory.state().object_store
    store.preregister(1, listing(2))
    confirm = ConfirmMessageReceivedRequest(node=Node(node_id=link.node), message_object_id=name(0))
    answer = link.post(CONFIRM, confirm.SerializeToString())
    assert (answer.status_code, "have not come yet" in answer.json()["detail"]) == (422, True)
    confirm.message_object_id = name(7)
    assert link.post(CONFIRM, confirm.SerializeToString()).status_code == PASSED


def test_a_reply_does_not_have_the_id_of_a_message_of_the_server(link: Link) -> None:
    link.app.state.linkstate_factory.state().message_ins_store[name(0)] = object()
    answer = link.post(PUSH, link.reply())
    assert (answer.status_code, answer.json()) == (422, {"detail": "the reply has the id of a message of the server's"})


def test_a_database_is_asked_whether_a_message_is_the_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    state = SqlLinkState.__new__(SqlLinkState)
    monkeypatch.setattr(SqlLinkState, "get_valid_message_ins", lambda _, message_id: {"a": {}}.get(message_id))
    request = PushMessagesRequest(messages_list=[Message(metadata=Metadata(message_id="b"))])
    superlink._check_known(state, request)  # noqa: SLF001
    request.messages_list[0].metadata.message_id = "a"
    with pytest.raises(RefusalError, match="the id of a message of the server's"):
        superlink._check_known(state, request)  # noqa: SLF001


def test_what_a_server_app_announces_is_known_to_be_its_word() -> None:
    seen: list[bool] = []

    async def handler(*_: Any) -> None:
        seen.append(_object_store._for_server.get())  # noqa: SLF001

    async def nothing(*_: Any) -> Any:
        return {}

    for request in (PushAppMessagesRequest(), None):
        scope = {"type": "http", "path": "/v1/runtime/push-messages", "state": {"protobuf_request": request}}
        asyncio.run(superlink.ReplyDoor(handler, Doorkeeper(DoorLimits()))(scope, nothing, nothing))
    assert seen == [True, False]


LIES: dict[str, dict[str, Any]] = {
    "another sender": {"src_node_id": 1},
    "for another node": {"dst_node_id": 12345},
    "no reply": {"reply_to_message_id": ""},
    "two messages": {"messages": 2},
    "no message": {"messages": 0},
    "objects of another message": {"message_id": name(7)},
    "written at no time": {"created_at": math.nan},
    "good for ever": {"ttl": math.inf},
    "took for ever": {"runtimes": [math.inf]},
    "took no number of seconds": {"runtimes": [math.nan]},
    "took less than nothing": {"runtimes": [-1.0]},
    "took this and that": {"runtimes": [1.0, 2.0]},
    "deep": {"tree": chain(DEEPEST + 1)},
    "no id": {"tree": ObjectTree(object_id="../../etc/passwd")},
    "the same part twice": {"tree": ObjectTree(object_id=name(0), children=[ObjectTree(object_id=name(1))] * 2)},
    "made-up children": {
        "tree": ObjectTree(
            object_id=name(0),
            children=[
                ObjectTree(object_id=name(1), children=[ObjectTree(object_id=name(2))]),
                ObjectTree(object_id=name(3), children=[ObjectTree(object_id=name(1))]),
            ],
        )
    },
}


@pytest.mark.parametrize("lie", LIES)
def test_what_is_no_reply_of_the_node_to_the_server_does_not_come_in(
    lie: str, link: Link, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "flwr"):
        answer = link.post(PUSH, link.reply(**LIES[lie]))
    assert answer.status_code == 422
    assert f"refused {PUSH} of node {link.node}: {answer.json()['detail']}" in caplog.text


def test_a_list_of_many_objects_is_not_even_parsed(link: Link, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "flwr"):
        answer = link.post(PUSH, link.reply(listing(3 * UNKNOWN)))
    most = ENVELOPE + ENTRY * UNKNOWN
    assert (answer.status_code, answer.json()) == (
        413,
        {"detail": f"a request to {PUSH} may have {most} bytes, got more"},
    )
    assert f"of node {link.node}:" in caplog.text


def test_a_list_that_fits_and_has_too_many_objects_is_refused() -> None:
    link = Link(objects=100)
    answer = link.post(PUSH, link.reply(listing(101)))
    assert (answer.status_code, answer.json()) == (413, {"detail": "a reply may list 100 objects, got more"})
    assert link.post(PUSH, link.reply(listing(100))).status_code == PASSED


def test_how_many_objects_a_reply_may_list_is_learned_from_what_the_server_sends() -> None:
    keeper = Doorkeeper(DoorLimits())
    assert keeper.objects == UNKNOWN
    keeper.learn(PushAppMessagesRequest(message_object_trees=[listing(40), listing(30)]))
    keeper.learn(PushAppMessagesRequest(message_object_trees=[listing(5)]))
    assert keeper.objects == 80 + RECORDS
    assert Doorkeeper(DoorLimits(objects=7)).objects == 7


def test_nothing_is_learned_from_who_is_no_server_app(link: Link) -> None:
    sent = PushAppMessagesRequest(message_object_trees=[listing(2 * UNKNOWN)]).SerializeToString()
    assert link.post("/v1/runtime/push-messages", sent).status_code == 401
    assert link.post(PUSH, link.reply(listing(UNKNOWN + 1))).status_code == 413


@pytest.mark.parametrize(("status", "learned"), [(200, 20 + RECORDS), (401, UNKNOWN)])
def test_it_is_learned_when_flower_has_taken_the_message(status: int, learned: int) -> None:
    keeper, answered = Doorkeeper(DoorLimits()), list[Any]()
    parsed = PushAppMessagesRequest(message_object_trees=[listing(10)])
    scope = {"type": "http", "path": "/v1/runtime/push-messages", "state": {"protobuf_request": parsed}}

    async def handler(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": status})

    async def answer(event: Any) -> None:
        answered.append(event["status"])

    async def nothing() -> dict[str, Any]:
        return {}

    asyncio.run(superlink.ReplyDoor(handler, keeper)(scope, nothing, answer))
    assert (answered, keeper.objects) == ([status], learned)


def test_a_path_writes_no_lines_into_the_log(link: Link, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "flwr"):
        link.post("/v1/fleet/%0A[Door] refused it of node 7: %1B[2J", bytes(10**5))
    (record,) = caplog.records
    assert "/v1/fleet/\\n[Door] refused it of node 7: \\x1b[2J of node" in record.getMessage()
    assert record.getMessage().isprintable()


def test_an_object_may_be_as_large_as_a_chunk() -> None:
    link = Link(object_bytes=10_000)
    small, large = (
        PushObjectRequest(node=Node(node_id=link.node), object_content=bytes(size)) for size in (9000, 10_000)
    )
    assert link.post(OBJECT, small.SerializeToString()).status_code not in {413, 422, 503}
    assert link.post(OBJECT, large.SerializeToString()).status_code == 413


async def trickled(pieces: int) -> Any:
    for _ in range(pieces):
        yield bytes(1000)


def test_bytes_are_counted_while_they_arrive_if_nobody_says_how_many_come(link: Link) -> None:
    assert link.post(PULL, trickled(1000)).status_code == 413


def test_nothing_is_read_of_a_request_that_is_far_too_large(link: Link) -> None:
    read = 0

    async def received() -> dict[str, Any]:
        nonlocal read
        read += 1
        return {"type": "http.request", "body": bytes(1000), "more_body": True}

    sent: list[dict[str, Any]] = []

    async def send(event: Any) -> None:
        sent.append(event)

    headers = [(b"content-length", str(10**9).encode())]
    scope = {"type": "http", "method": "POST", "path": PUSH, "headers": headers, "app": link.app, "query_string": b""}
    asyncio.run(superlink.SizeDoor(link.app, Doorkeeper(DoorLimits()))(scope, received, send))
    assert (sent[0]["status"], read) == (413, 0)


def test_a_size_is_blamed_on_whose_key_has_signed_whatever_the_body_says(
    link: Link, caplog: pytest.LogCaptureFixture
) -> None:
    stranger, _ = generate_key_pairs()
    with caplog.at_level(logging.WARNING, "flwr"):
        link.post(PULL, bytes(10**6), stranger)
    assert "of node unknown (from 127.0.0.1)" in caplog.text


def test_a_node_that_is_not_who_it_says_is_flowers_own_affair(link: Link) -> None:
    stranger, _ = generate_key_pairs()
    assert link.post(PUSH, link.reply(src_node_id=1), stranger).status_code == 401


def test_who_sends_too_much_in_a_minute_is_told_to_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    link = Link(messages=3)
    assert [link.post(PUSH, link.reply()).status_code for _ in range(4)] == [PASSED] * 3 + [503]
    keeper = Doorkeeper(DoorLimits(requests=2))
    monkeypatch.setattr(time, "monotonic", iter([100.0, 101.0, 102.0, 170.0]).__next__)
    keeper.count(1, message=False)
    keeper.count(1, message=False)
    with pytest.raises(RefusalError, match="within a minute"):
        keeper.count(1, message=False)
    keeper.count(1, message=False)


def test_operators_and_server_apps_are_let_through(link: Link) -> None:
    assert link.post("/v1/control/list-runs", b"").status_code not in {413, 422}
    assert link.post("/v1/runtime/push-messages", bytes(10**6)).status_code not in {413, 422}


@pytest.mark.parametrize("attribute", ["_get_middleware", "create_app"])
def test_it_does_not_start_where_flower_has_no_place_for_it(attribute: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(flower, attribute)
    with pytest.raises(RunError, match="no place for the door"):
        guard(DoorLimits())
    with pytest.raises(SystemExit, match="no place for the door"):
        superlink.main()


def test_it_does_not_start_where_flower_has_other_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flower, "_get_middleware", list)
    guard(DoorLimits())
    with pytest.raises(RunError, match="other layers"):
        flower.create_app(None)


@pytest.mark.parametrize("value", ["0", "-1", "many", "", "1" * 30])
def test_a_limit_that_is_no_number_is_refused(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEADFED_DOOR_OBJECTS", value)
    with pytest.raises(SystemExit, match="STEADFED_DOOR_OBJECTS must be a whole number from 1 on"):
        superlink.main()


def test_it_guards_no_other_way_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLWR_INTERNAL_GRPC_FLEET_API", "1")
    with pytest.raises(SystemExit, match="the door guards HTTP"):
        superlink.main()


def test_it_starts_flowers_own_with_the_same_options(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[bool] = []
    monkeypatch.setattr(superlink, "flower_superlink", lambda: started.append(True))
    superlink.main()
    assert started == [True]
    names = [getattr(layer.cls, "__name__", "") for layer in flower._get_middleware()]  # noqa: SLF001
    assert (names[0], names[-1]) == ("SizeDoor", "ReplyDoor")
