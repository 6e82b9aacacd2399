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
from flwr.proto.message_pb2 import PullObjectResponse
from flwr.supercore.inflatable.inflatable_object import get_object_id
from flwr.supercore.protobuf.client import ProtobufClient
from flwr.supercore.retry.retry_invoker import RetryInvoker, constant
from flwr.supercore.run import RunNotRunningException
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.superlink.grid import http_grid
from tests.flower.grids import Clock, Node, Reply, ScriptedGrid, identify
from tests.flower.superlinks import SuperLink, Upload

from steadfed.errors import LinkError
from steadfed.flower._link import PAUSES
from steadfed.flower._replies import bounds, stream as reply_stream
from steadfed.flower._replies.stream import Unreadable, replies_to
from steadfed.states._faults import Fault

LIMIT = 10_000


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock.instead_of_time(monkeypatch)


@pytest.fixture(autouse=True)
def _flower_is_as_before() -> Iterator[None]:
    def functions() -> list[object]:
        owners = {
            "inflate": Array,
            "pull_objects": http_grid,
            "_send": ProtobufClient,
            "PullMessages": RuntimeHttpClient,
        }
        return [vars(owner)[name] for name, owner in owners.items()]

    before = functions()
    yield
    assert functions() == before


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


GONE = [httpx.ConnectError("x"), httpx.ReadTimeout("x"), ConnectionResetError()]


@pytest.mark.parametrize("error", GONE)
def test_that_the_superlink_is_gone_is_nobodys_reply(clock: Clock, error: Exception) -> None:
    grid = ScriptedGrid(answering, [1, 2], clock=clock)
    grid.failures = {"pull_messages": error, "get_node_ids": error}
    with pytest.raises(LinkError, match="who is online failed 5 times within 2 minutes"):
        list(replies_to(grid, messages(1, 2), timeout=60.0, limit=LIMIT))
    assert clock.naps == list(PAUSES)


@pytest.mark.parametrize("error", GONE)
def test_a_superlink_that_comes_back_costs_nobody_a_reply(clock: Clock, error: Exception) -> None:
    grid = ScriptedGrid(answering, [1, 2], clock=clock)
    grid.failures = {"pull_messages": [error], "get_node_ids": [error, error]}
    replies = replies_to(grid, messages(1, 2), timeout=60.0, limit=LIMIT)
    assert [value_of(reply) for reply in replies] == [1, 2]


@pytest.mark.parametrize("method", ["push_messages", "pull_messages", "get_node_ids"])
@pytest.mark.parametrize("stop", [RunNotRunningException(), KeyboardInterrupt(), SystemExit()])
def test_what_says_that_the_run_was_stopped_ends_it(clock: Clock, method: str, stop: BaseException) -> None:
    grid = ScriptedGrid(answering, [1, 2], clock=clock)
    grid.failures = {"pull_messages": status_error(500), method: stop}
    with pytest.raises(type(stop)):
        list(replies_to(grid, messages(1, 2), timeout=60.0, limit=LIMIT))


def status_error(status: int) -> httpx.HTTPStatusError:
    request = httpx.Request("POST", "http://superlink/pull-messages")
    return httpx.HTTPStatusError("x", request=request, response=httpx.Response(status, request=request))


@pytest.mark.parametrize("status", [400, 403, 404, 429, 500, 501, 502, 503])
def test_a_reply_that_the_superlink_does_not_hand_over_is_given_up_if_it_answers_others(
    clock: Clock, status: int
) -> None:
    grid = ScriptedGrid(answering, [1, 2], clock=clock)
    grid.failures = {"pull_messages": [status_error(status)] * reply_stream.TRIES}
    first, second = replies_to(grid, messages(1, 2), timeout=60.0, limit=LIMIT)
    assert isinstance(first, Unreadable)
    assert (first.node_id, first.fault, first.detail) == (1, Fault.UNREADABLE, "the SuperLink fails over the reply")
    assert value_of(second) == 2


REFUSALS = [*map(status_error, (400, 404, 413, 500, 503)), ValueError("Invalid message"), *GONE]


@pytest.mark.parametrize("error", REFUSALS)
def test_messages_that_are_not_taken_are_written_again(clock: Clock, error: Exception) -> None:
    grid = ScriptedGrid(answering, [1, 2], clock=clock)
    grid.failures = {"push_messages": [error, error]}
    written = [messages(1, 2), messages(1, 2)]
    replies = replies_to(grid, messages(1, 2), timeout=60.0, limit=LIMIT, write_again=lambda: written.pop(0))
    assert [value_of(reply) for reply in replies] == [1, 2]
    assert written == []
    assert clock.naps == list(PAUSES[:2])


def test_messages_that_are_never_taken_are_given_up_after_minutes(clock: Clock) -> None:
    grid = ScriptedGrid(answering, [1, 2], clock=clock)
    grid.failures = {"push_messages": status_error(500)}
    with pytest.raises(LinkError, match="sending messages to clients failed 5 times"):
        list(replies_to(grid, messages(1, 2), timeout=60.0, limit=LIMIT))
    assert clock.naps == list(PAUSES)


def test_clients_have_all_the_time_from_when_their_messages_were_taken(clock: Clock) -> None:
    grid = ScriptedGrid(answering, [1], delays={1: 59.0}, clock=clock)
    grid.failures = {"push_messages": [status_error(500)] * 4}
    (reply,) = replies_to(grid, messages(1), timeout=60.0, limit=LIMIT)
    assert value_of(reply) == 1


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


def test_a_lost_connection_is_given_up() -> None:
    link = SuperLink()
    grid, sent = link.grid(), messages(1)
    replies = replies_to(grid, sent, timeout=5.0, limit=LIMIT)
    link.down = httpx.ConnectError("nobody is there")
    with pytest.raises(LinkError, match="sending messages to clients failed 5 times"):
        list(replies)


class Endless(httpx.SyncByteStream):
    """An answer that begins well and then goes on for gigabytes; it knows how much of it was read."""

    def __init__(self, start: bytes) -> None:
        self.start, self.read = start, 0

    def __iter__(self) -> Iterator[bytes]:
        yield self.start
        for _ in range(10**5):
            self.read += 2**16
            yield bytes(2**16)


def endless(start: bytes, *, path: str, announced: int | None = None) -> tuple[Unreadable, Endless]:
    """Return what becomes of a reply whose objects, or their list, have no end, and the answer itself."""
    link, sent, stream = SuperLink(), messages(1), Endless(start)
    sent[0].metadata.__dict__["_message_id"] = sent[0].object_id
    link.uploads[sent[0].object_id] = Upload(answering(1, sent[0]))
    headers = {} if announced is None else {"content-length": str(announced)}
    link.instead[path] = lambda: httpx.Response(200, headers=headers, stream=stream)
    (reply,) = replies_to(link.grid(), sent, timeout=0.0, limit=10**6)
    assert isinstance(reply, Unreadable)
    return reply, stream


def object_answer(content: bytes) -> bytes:
    return bytes(
        PullObjectResponse(object_found=True, object_available=True, object_content=content).SerializeToString()
    )


def test_an_object_without_end_is_read_to_the_limit_only() -> None:
    reply, stream = endless(object_answer(b"ArrayChunk  5\0" + bytes(5)), path="pull-object")
    assert "the chunks of the arrays of the reply may take 1000000 bytes" in reply.detail
    assert stream.read <= 5 * 2**20  # several objects are pulled at the same time


def test_what_is_no_array_is_read_to_its_own_limit_only() -> None:
    reply, stream = endless(object_answer(b"MetricRecord  5\0" + bytes(5)), path="pull-object")
    assert "besides arrays may take 24576 bytes" in reply.detail
    assert stream.read <= 2**20


def test_an_object_that_is_announced_as_too_large_is_not_read_at_all() -> None:
    start = object_answer(b"ArrayChunk  5\0" + bytes(5))
    reply, stream = endless(start, path="pull-object", announced=2**40)
    assert "the chunks of the arrays of the reply may take 1000000 bytes" in reply.detail
    assert stream.read == 0


def test_a_list_of_objects_without_end_is_read_to_the_limit_only() -> None:
    reply, stream = endless(b"", path="pull-messages")
    assert "the list of the objects of the reply may take 16777216 bytes" in reply.detail
    assert stream.read <= bounds.LONGEST_LIST + 2**16


def test_what_was_read_before_a_connection_broke_is_not_counted_twice() -> None:
    link, sent = SuperLink(), messages(1)
    sent[0].metadata.__dict__["_message_id"] = sent[0].object_id
    whole = Upload(Message(content(1, 2000), reply_to=sent[0]))
    link.uploads[sent[0].object_id] = whole
    grid = link.grid()
    grid._client._retry_invoker = RetryInvoker(  # type: ignore[union-attr]  # noqa: SLF001  as Flower's, without waiting
        constant, httpx.ReadError, max_tries=None, max_time=None, wait_function=lambda _seconds: None
    )
    link.broken = 20
    (reply,) = replies_to(grid, sent, timeout=0.0, limit=LIMIT)
    assert value_of(reply) == 1
    assert link.broken == 0
