"""Replies that are withheld, trickled, broken off or late: what of them comes at the SuperLink, and when."""

from __future__ import annotations

import time
from pathlib import Path
from typing import cast

import httpx
import numpy as np
import pytest
from flwr.app import ArrayRecord, Message as FlowerMessage
from flwr.proto.fleet_pb2 import PushMessagesRequest
from flwr.proto.message_pb2 import Message, ObjectTree
from flwr.supercore.inflatable.inflatable_object import iterate_object_tree
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from tests.flower.redteam.test_node import ASKED, LIAR, FleetApi, asked, node

from steadfed.flower.redteam import DRILLS, HostileNode, _uploads

__all__ = ["node"]  # a fixture

FOREVER = 1e9


class Slowly(httpx.BaseTransport):
    """A SuperLink that sees the pieces of every request, and answers those that have come whole."""

    def __init__(self, api: FleetApi) -> None:
        self.api = api
        self.pieces: list[list[bytes]] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        assert isinstance(request.stream, httpx.SyncByteStream)
        self.pieces.append([])
        for piece in request.stream:
            self.pieces[-1].append(piece)
        whole = httpx.Request(request.method, request.url, headers=request.headers, content=b"".join(self.pieces[-1]))
        return self.api.answer(whole)


class Played:
    """What a SuperLink has seen of a drill."""

    def __init__(self, drill: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: float = FOREVER) -> None:
        self.naps: list[float] = []
        monkeypatch.setattr(time, "sleep", self.naps.append)
        monkeypatch.setattr(_uploads, "_end", lambda _message: time.time() + end)
        self.api = FleetApi()
        self.line = Slowly(self.api)
        hostile, tree = asked(self.api, tmp_path, monkeypatch, self.line)
        DRILLS[drill](hostile, ASKED, tree)
        assert hostile.line.pieces is None

    @property
    def announced(self) -> ObjectTree:
        request = PushMessagesRequest.FromString(b"".join(self.line.pieces[0]))
        tree: ObjectTree = request.message_object_trees[0]
        return tree

    @property
    def missing(self) -> set[str]:
        """Return what has not come of the objects that were announced."""
        return {each.object_id for each in iterate_object_tree(self.announced)} - set(self.api.objects)


pytestmark = pytest.mark.usefixtures("node")


def test_a_late_reply_is_whole_in_the_nodes_own_name_and_poisoned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    played = Played("late-reply", tmp_path, monkeypatch, end=30.0)
    assert played.naps == [pytest.approx(30.0 + _uploads.AFTER, abs=1.0)]
    assert played.missing == set()
    (told,) = played.api.messages
    assert (told.metadata.src_node_id, told.metadata.reply_to_message_id) == (LIAR, ASKED.metadata.message_id)
    reply = cast("FlowerMessage", inflate_object_from_contents(told.metadata.message_id, dict(played.api.objects)))
    arrays = reply.content["arrays"]
    assert isinstance(arrays, ArrayRecord)
    poisoned = arrays["weight"].numpy()
    np.testing.assert_array_equal(poisoned, np.full((2, 2), 1000.0, np.float32))
    assert poisoned.dtype == np.float32


def test_of_a_reply_that_is_withheld_one_object_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    played = Played("withheld-reply", tmp_path, monkeypatch)
    assert len(played.missing) == 1
    assert len(played.api.objects) > 2


def test_of_a_reply_that_trickles_one_object_comes_byte_by_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    played = Played("trickled-reply", tmp_path, monkeypatch)
    last = played.line.pieces[-1]
    assert {len(piece) for piece in last} == {1}
    assert played.naps == [_uploads.PACE] * len(last)
    assert all(len(pieces) == 1 for pieces in played.line.pieces[:-1])
    assert played.missing == set()


def test_what_trickles_is_broken_off_when_nobody_waits_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    played = Played("trickled-reply", tmp_path, monkeypatch, end=-1.0)
    assert played.line.pieces[-1] == []
    assert len(played.missing) == 1


def test_every_object_is_broken_off_in_its_middle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    played = Played("interrupted-reply", tmp_path, monkeypatch)
    assert played.api.objects == {}
    halves = played.line.pieces[1:]
    assert len(halves) == len({each.object_id for each in iterate_object_tree(played.announced)})
    assert all(len(pieces) == 1 and pieces[0] for pieces in halves)


def test_how_long_a_message_is_waited_for_is_what_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    message = Message()
    message.metadata.created_at, message.metadata.ttl = 100.0, 5.0
    assert _uploads._end(message) == 105.0  # noqa: SLF001


def test_a_node_that_is_not_let_in_leaves_no_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hostile, _ = asked(FleetApi(), tmp_path, monkeypatch, httpx.MockTransport(lambda _: httpx.Response(400)))
    with pytest.raises(httpx.HTTPStatusError), hostile:
        pytest.fail("it was let in")
    assert isinstance(hostile, HostileNode)
    assert hostile._client._client.is_closed  # noqa: SLF001
