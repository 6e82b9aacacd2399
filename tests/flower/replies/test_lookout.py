"""Who is waited for, told every ten seconds: in the log and in the folder, and never in the way of a round."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from flwr.app import ArrayRecord, Message, RecordDict
from tests.flower.grids import Clock, ScriptedGrid, identify

from steadfed.flower._nodes import NodeDirectory
from steadfed.flower._replies.lookout import Lookout
from steadfed.flower._replies.stream import replies_to
from steadfed.server._waiting import Waiting, read_waiting

NAMES = {1: "Jena", 2: "Erfurt", 3: "Ulm"}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock.instead_of_time(monkeypatch)


def answering(_node: int, message: Message) -> Message:
    return Message(RecordDict(), reply_to=message)


def messages(*nodes: int) -> list[Message]:
    identify()
    return [Message(RecordDict({"arrays": ArrayRecord()}), node, "train") for node in nodes]


def lookout_in(folder: Path | None) -> Lookout:
    lookout = Lookout(NodeDirectory.of(NAMES), folder)
    lookout.turn_to(7)
    return lookout


def test_every_ten_seconds_the_log_says_who_is_waited_for(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    grid = ScriptedGrid(answering, NAMES, delays={2: 1000.0, 3: 15.0}, clock=clock, unreachable=[])
    with caplog.at_level(logging.INFO, "flwr"):
        list(replies_to(grid, messages(1, 2, 3), timeout=35.0, limit=1000, lookout=lookout_in(None)))
    assert [record.getMessage() for record in caplog.records] == [
        "\t> 1 of 3 replied, waiting for Erfurt, Ulm, 25 s left",
        "\t> 2 of 3 replied, waiting for Erfurt, 15 s left",
        "\t> 2 of 3 replied, waiting for Erfurt, 5 s left",
    ]


def test_who_could_not_be_reached_has_not_replied(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    grid = ScriptedGrid(answering, NAMES, delays={2: 12.0}, clock=clock, unreachable=[3])
    with caplog.at_level(logging.INFO, "flwr"):
        list(replies_to(grid, messages(1, 2, 3), timeout=None, limit=1000, lookout=lookout_in(None)))
    assert [record.getMessage() for record in caplog.records] == ["\t> 1 of 3 replied, waiting for Erfurt"]


def test_the_folder_says_so_only_while_somebody_is_waited_for(clock: Clock, tmp_path: Path) -> None:
    grid = ScriptedGrid(answering, NAMES, delays={2: 12.0, 3: 14.0}, clock=clock)
    seen = [
        read_waiting(tmp_path)
        for _ in replies_to(grid, messages(1, 2, 3), timeout=60.0, limit=1000, lookout=lookout_in(tmp_path))
    ]
    waiting = Waiting(round=7, asked=3, replied=1, missing=("Erfurt", "Ulm"), seconds_left=50.0)
    assert seen == [None, waiting, waiting]
    assert not list(tmp_path.iterdir())


def test_a_round_that_is_broken_off_leaves_nothing_behind(clock: Clock, tmp_path: Path) -> None:
    grid = ScriptedGrid(answering, NAMES, delays={2: 12.0, 3: 1000.0}, clock=clock)
    replies = replies_to(grid, messages(1, 2, 3), timeout=60.0, limit=1000, lookout=lookout_in(tmp_path))
    next(replies)
    next(replies)
    assert read_waiting(tmp_path) is not None
    replies.close()  # type: ignore[attr-defined]
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_written_stops_no_round(clock: Clock, tmp_path: Path) -> None:
    grid = ScriptedGrid(answering, NAMES, delays={2: 12.0}, clock=clock)
    lookout = lookout_in(tmp_path / "missing")
    assert len(list(replies_to(grid, messages(1, 2, 3), timeout=60.0, limit=1000, lookout=lookout))) == 3
