"""Receiving replies: one at a time, bounded, and no client's reply ends it for the others."""

from __future__ import annotations

import json
import tracemalloc
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, Error, Message, MetricRecord, RecordDict
from flwr.supercore.inflatable.inflatable_object import get_object_id
from flwr.supercore.run import RunNotRunningException
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.superlink.grid import http_grid
from tests.flower.grids import Clock, Node, Reply, ScriptedGrid, identify
from tests.flower.superlinks import SuperLink, Upload

from steadfed.flower._faults import Fault
from steadfed.flower._replies import stream as reply_stream
from steadfed.flower._replies.stream import Unreadable, replies_to

LIMIT = 10_000


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock.instead_of_time(monkeypatch)


@pytest.fixture(autouse=True)
def _flower_is_as_before() -> Iterator[None]:
    functions = (vars(Array)["inflate"], vars(http_grid)["pull_objects"], vars(RuntimeHttpClient)["PullMessages"])
    yield
    after = (vars(Array)["inflate"], vars(http_grid)["pull_objects"], vars(RuntimeHttpClient)["PullMessages"])
    assert after == functions


def content(value: float = 1.0, size: int = 10) -> RecordDict:
    arrays = ArrayRecord([np.full(size, value, np.float32)])
    return RecordDict({"arrays": arrays, "metrics": MetricRecord({"num-examples": 3})})


def messages(*nodes: int) -> list[Message]:
    identify()
    return [Message(content(), node, "train") for node in nodes]


def answering(node: int, message: Message) -> Message:
    return Message(content(node), reply_to=message)


def answering_but(**others: Reply) -> Node:
    """Return nodes of which those named node1, node2, … behave otherwise."""
    return lambda node, message: others.get(f"node{node}", answering(node, message))


def value_of(reply: Message | Unreadable) -> float:
    assert isinstance(reply, Message)
    return float(reply.content["arrays"]["0"].numpy()[0])  # type: ignore[union-attr]


def test_every_reply_comes_and_one_id_is_asked_for_at_a_time(clock: Clock) -> None:
    grid = ScriptedGrid(answering, [1, 2, 3], clock=clock)
    replies = list(replies_to(grid, messages(1, 2, 3), timeout=None, limit=LIMIT))
    assert [value_of(reply) for reply in replies] == [1, 2, 3]
    assert [len(ids) for ids in grid.pulls] == [1, 1, 1]
    assert clock.naps == []


def test_replies_come_as_they_are_ready_and_nobody_sleeps_after_the_last(clock: Clock) -> None:
    grid = ScriptedGrid(answering, [1, 2, 3], delays={1: 5.0, 3: 2.0}, clock=clock)
    replies = [value_of(reply) for reply in replies_to(grid, messages(1, 2, 3), timeout=60.0, limit=LIMIT)]
    assert replies == [2, 3, 1]
    assert clock.naps == [1.0] * 5


def test_it_ends_when_the_time_is_over_after_asking_a_last_time(clock: Clock) -> None:
    grid = ScriptedGrid(answering, [1, 2], delays={1: 2.5, 2: 2.6}, clock=clock)
    replies = [value_of(reply) for reply in replies_to(grid, messages(1, 2), timeout=2.5, limit=LIMIT)]
    assert replies == [1]
    assert clock.naps == [1.0, 1.0, 0.5]


def test_without_any_time_what_is_there_still_comes(clock: Clock) -> None:
    grid = ScriptedGrid(answering_but(node2=None), [1, 2], clock=clock)
    assert [value_of(reply) for reply in replies_to(grid, messages(1, 2), timeout=0.0, limit=LIMIT)] == [1]
    assert clock.naps == []


def test_a_message_that_could_not_be_sent_is_undelivered(clock: Clock) -> None:
    grid = ScriptedGrid(answering, [1, 2], clock=clock, unreachable=[2])
    sent = messages(1, 2)
    first, second = replies_to(grid, sent, timeout=5.0, limit=LIMIT)
    assert isinstance(first, Unreadable)
    assert (first.message_id, first.node_id, first.fault) == (sent[1].metadata.message_id, 2, Fault.UNDELIVERED)
    assert value_of(second) == 1


@pytest.mark.parametrize(
    "error",
    [ValueError("x"), KeyError("x"), TypeError(), MemoryError(), RecursionError(), AssertionError(), IndexError()],
)
def test_a_reply_that_cannot_be_put_together_is_unreadable_and_not_asked_for_again(
    clock: Clock, error: Exception
) -> None:
    grid = ScriptedGrid(answering_but(node1=error), [1, 2], delays={2: 3.0}, clock=clock)
    sent = messages(1, 2)
    first, second = replies_to(grid, sent, timeout=60.0, limit=LIMIT)
    assert isinstance(first, Unreadable)
    assert (first.message_id, first.node_id, first.fault) == (sent[0].metadata.message_id, 1, Fault.UNREADABLE)
    assert type(error).__name__ in first.detail
    assert value_of(second) == 2
    assert sum(ids == [sent[0].metadata.message_id] for ids in grid.pulls) == 1


@pytest.mark.parametrize(
    "error",
    [httpx.ConnectError("x"), httpx.ReadTimeout("x"), ConnectionResetError(), RunNotRunningException()],
)
def test_that_the_superlink_is_gone_is_nobodys_reply(clock: Clock, error: BaseException) -> None:
    grid = ScriptedGrid(answering_but(node1=error), [1, 2], clock=clock)
    with pytest.raises(type(error)):
        list(replies_to(grid, messages(1, 2), timeout=60.0, limit=LIMIT))


def status_error(status: int) -> httpx.HTTPStatusError:
    request = httpx.Request("POST", "http://superlink/pull-messages")
    return httpx.HTTPStatusError("x", request=request, response=httpx.Response(status, request=request))


@pytest.mark.parametrize("status", [400, 403, 404, 501, 503])
def test_a_superlink_that_refuses_to_answer_is_asked_once_and_ends_the_run(clock: Clock, status: int) -> None:
    grid = ScriptedGrid(answering_but(node1=status_error(status)), [1, 2], clock=clock)
    with pytest.raises(httpx.HTTPStatusError) as caught:
        list(replies_to(grid, messages(1, 2), timeout=60.0, limit=LIMIT))
    assert caught.value.response.status_code == status
    assert len(grid.pulls) == 1
    assert clock.naps == []


def test_an_error_reply_is_yielded(clock: Clock) -> None:
    grid = ScriptedGrid(lambda _, message: Message(Error(0, "out of memory"), reply_to=message), [1], clock=clock)
    (reply,) = replies_to(grid, messages(1), timeout=60.0, limit=LIMIT)
    assert isinstance(reply, Message)
    assert reply.has_error()


def test_a_reply_to_something_else_is_that_of_whoever_was_asked_whatever_it_says(clock: Clock) -> None:
    def answer(node: int, message: Message) -> Message:
        reply = answering(node, message)
        if node == 1:
            reply.metadata.__dict__["_reply_to_message_id"] = "f" * 64
            reply.metadata.__dict__["_src_node_id"] = 2
        return reply

    first, second = replies_to(ScriptedGrid(answer, [1, 2], clock=clock), messages(1, 2), timeout=9, limit=LIMIT)
    assert isinstance(first, Unreadable)
    assert (first.node_id, first.fault) == (1, Fault.UNREADABLE)
    assert "'ffffffffffffffff'" in first.detail
    assert value_of(second) == 2


def test_a_repeated_reply_is_yielded_twice(clock: Clock) -> None:
    grid = ScriptedGrid(lambda node, message: [answering(node, message)] * 2, [1], clock=clock)
    assert [value_of(reply) for reply in replies_to(grid, messages(1), timeout=9, limit=LIMIT)] == [1, 1]


def test_nobody_can_answer_for_somebody_else(clock: Clock) -> None:
    sent = messages(1, 2)

    def answer(node: int, message: Message) -> Message:
        reply = answering(node, message)
        if node == 1:
            reply.metadata.__dict__["_reply_to_message_id"] = sent[1].object_id
        return reply

    first, second = replies_to(ScriptedGrid(answer, [1, 2], clock=clock), sent, timeout=9, limit=LIMIT)
    assert isinstance(first, Unreadable)
    assert first.node_id == 1
    assert "answers another message" in first.detail
    assert value_of(second) == 2


def test_a_reply_is_forgotten_before_the_next_is_pulled(clock: Clock) -> None:
    replies = replies_to(ScriptedGrid(answering, [1, 2], clock=clock), messages(1, 2), timeout=9, limit=LIMIT)
    first = weakref.ref(next(replies))
    assert value_of(next(replies)) == 2
    assert first() is None


def test_no_reply_is_waited_for_longer_than_its_share_of_the_time(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    shares: list[float] = []

    @contextmanager
    def noted(limit: int, patience: float, objects: int) -> Iterator[None]:
        shares.append(patience)
        clock.now += patience  # the worst case: everybody withholds something until it is given up
        yield

    monkeypatch.setattr(reply_stream, "bounded", noted)
    grid = ScriptedGrid(answering, [1, 2, 3, 4], clock=clock)
    list(replies_to(grid, messages(1, 2, 3, 4), timeout=100.0, limit=LIMIT))
    assert shares == [25.0] * 4


def test_nothing_is_sent_and_nothing_comes(clock: Clock) -> None:
    assert list(replies_to(ScriptedGrid(answering, [1], clock=clock), [], timeout=None, limit=LIMIT)) == []


# The same with Flower's own grid, from its HTTP client on.


def received(spoil: Upload | None = None, *, limit: int = LIMIT, superlink: SuperLink | None = None) -> list[object]:
    """Return what comes from an honest node 2 and from a node 1 whose upload is given."""
    link = superlink or SuperLink()
    sent = [*messages(1, 2)]
    for message in sent:
        message.metadata.__dict__["_message_id"] = message.object_id
        link.uploads[message.object_id] = Upload(answering(message.metadata.dst_node_id, message))
    if spoil is not None:
        spoil.envelope.metadata.reply_to_message_id = sent[0].object_id
        link.uploads[sent[0].object_id] = spoil
    replies = list(replies_to(link.grid(), sent, timeout=0.0, limit=limit))
    assert value_of(replies[-1]) == 2
    return list(replies[:-1])


def upload(size: int = 10) -> Upload:
    (message,) = messages(1)
    message.metadata.__dict__["_message_id"] = message.object_id
    return Upload(Message(content(1, size), reply_to=message))


def detail_of(replies: list[object]) -> str:
    (reply,) = replies
    assert isinstance(reply, Unreadable)
    assert (reply.node_id, reply.fault) == (1, Fault.UNREADABLE)
    assert len(reply.detail) < 300
    return reply.detail


def test_honest_replies_come_through_flowers_grid() -> None:
    link = SuperLink()
    (reply,) = received(superlink=link)
    assert isinstance(reply, Message)
    assert value_of(reply) == 1
    assert len(link.confirmed) == 2


def with_chunks(indices: list[int], size: int) -> Upload:
    """Return a reply whose array lists its one chunk otherwise than it should."""
    bomb = upload(size)
    array = bomb.content_of("Array")
    head, body = array.split(b"\0", 1)
    new = json.dumps(json.loads(body) | {"arraychunk_ids": indices}).encode()
    kind, children, _ = head.split(b" ")
    bomb.replace(array, b" ".join([kind, children, str(len(new)).encode()]) + b"\0" + new)
    return bomb


def test_a_chunk_that_is_listed_thousands_of_times_is_not_joined() -> None:
    bomb = with_chunks([0] * 5000, 10**5)
    tracemalloc.start()
    detail = detail_of(received(bomb, limit=2 * 10**6))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert "the arrays of the reply may take 2000000 bytes" in detail
    assert peak < 50 * 10**6  # it would be 2 GB


def test_what_is_within_the_limit_is_joined() -> None:
    # What is put together is looked at: it was made as the reply to another message.
    assert "answers another message" in detail_of(received(with_chunks([0, 0], 1000), limit=9000))
    assert "may take" in detail_of(received(with_chunks([0, 0, 0], 1000), limit=9000))


def test_an_upload_that_is_too_large_is_not_pulled_to_its_end() -> None:
    assert "the chunks of the arrays" in detail_of(received(upload(size=100_000)))


def test_what_is_no_array_has_far_less_room_than_arrays() -> None:
    (message,) = messages(1)
    message.metadata.__dict__["_message_id"] = message.object_id
    metrics = RecordDict({"metrics": MetricRecord({"losses": [300] * 20_000})})  # two bytes each, and 36 in Python
    spoil = Upload(Message(metrics, reply_to=message))
    assert "besides arrays may take 12288 bytes" in detail_of(received(spoil, limit=10**9))


def test_an_upload_of_too_many_objects_is_not_pulled() -> None:
    crowd = upload()
    crowd.contents |= {f"{index:064x}": b"" for index in range(20_000)}
    assert "may consist of 10000 objects" in detail_of(received(crowd))


def test_an_upload_of_as_many_objects_as_are_allowed_is_pulled() -> None:
    link, sent = SuperLink(), messages(1)
    grid = link.grid()
    sent[0].metadata.__dict__["_message_id"] = sent[0].object_id
    whole = Upload(answering(1, sent[0]))
    link.uploads[sent[0].object_id] = whole
    number = len(whole.contents)
    (reply,) = replies_to(grid, sent, timeout=0.0, limit=LIMIT, objects=number)
    assert value_of(reply) == 1
    (refused,) = replies_to(grid, sent, timeout=0.0, limit=LIMIT, objects=number - 1)
    assert f"may consist of {number - 1} objects, got {number}" in detail_of([refused])


def test_an_object_that_was_announced_and_never_came_is_an_error_in_no_time() -> None:
    link, withheld = SuperLink(), upload()
    link.absent.add(get_object_id(withheld.content_of("ArrayChunk")))
    (reply,) = received(withheld, superlink=link)
    assert isinstance(reply, Message)
    assert reply.has_error()


def test_messages_that_somebody_left_for_the_server_are_not_taken_for_replies() -> None:
    link, stray = SuperLink(), upload()
    stray.envelope.metadata.reply_to_message_id = ""
    link.strays.append(stray)
    (reply,) = received(superlink=link)
    assert value_of(reply) == 1  # type: ignore[arg-type]


def spoiled(kind: str, new: bytes) -> Upload:
    bad = upload()
    bad.replace(bad.content_of(kind), new)
    return bad


@pytest.mark.parametrize("kind", ["Message", "RecordDict", "ArrayRecord", "Array", "ArrayChunk", "MetricRecord"])
@pytest.mark.parametrize(
    "new",
    [
        b"garbage",
        b"Array  4\0null",
        b"Array  0\0",
        b"RecordDict  2\0[]",
        b"Message  0\0",
        b"MetricRecord  3\0\xff\xff\xff",
        b"Unknown  0\0",
        b"Array " + b"0" * 64 + b" 0\0",
        b"Array  20000\0" + b"[" * 20_000,
        b"ConfigRecord  0\0",
    ],
)
def test_objects_that_are_not_what_they_should_be_concern_their_sender_only(kind: str, new: bytes) -> None:
    (reply,) = received(spoiled(kind, new))
    assert isinstance(reply, (Message, Unreadable))


def test_a_chain_of_objects_without_end_is_unreadable() -> None:
    chain = upload()
    content = b"ArrayRecord  2\0{}"
    for _ in range(3000):
        object_id = get_object_id(content)
        chain.contents[object_id] = content
        content = b"ArrayRecord " + object_id.encode() + b" 2\0{}"
    chain.replace(chain.content_of("RecordDict"), content.replace(b"ArrayRecord", b"RecordDict", 1))
    assert "RecursionError" in detail_of(received(chain))


def test_a_reply_over_which_the_superlink_fails_is_unreadable(clock: Clock) -> None:
    link = SuperLink()
    sent = messages(1, 2)
    for message in sent:
        message.metadata.__dict__["_message_id"] = message.object_id
        link.uploads[message.object_id] = Upload(answering(message.metadata.dst_node_id, message))
    link.failing.add(sent[0].object_id)
    first, second = replies_to(link.grid(), sent, timeout=60.0, limit=LIMIT)
    assert isinstance(first, Unreadable)
    assert (first.node_id, first.fault) == (1, Fault.UNREADABLE)
    assert value_of(second) == 2
    assert len(link.failures) == reply_stream.TRIES
    assert sum(clock.naps) < 60.0


def test_a_lost_connection_is_raised() -> None:
    link = SuperLink()
    grid, sent = link.grid(), messages(1)
    replies = replies_to(grid, sent, timeout=5.0, limit=LIMIT)
    link.down = httpx.ConnectError("nobody is there")
    with pytest.raises(httpx.ConnectError):
        list(replies)
