"""What the soak test rests on, without a federation: the plan of its faults, bad lines, what it calls a loss."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from benchmarks.soak.numbers import distance, initial, liked, trained
from benchmarks.soak.proxy import HOST, Line, LineState
from benchmarks.soak.schedule import (
    AT_THE_SERVER,
    LASTS,
    ON_NODES,
    REST,
    STEADY,
    WARM_UP,
    FaultKind,
    counted,
    drill_of,
    drills,
    schedule,
    siege_of,
)
from benchmarks.soak.watch import FEWEST_SAMPLES, Chain, Vitals, broken, led_away

from steadfed.flower.redteam import DRILLS

HALF_AN_HOUR = 1800.0


def test_faults_follow_from_the_seed_alone() -> None:
    assert schedule(3, seconds=HALF_AN_HOUR, nodes=8) == schedule(3, seconds=HALF_AN_HOUR, nodes=8)
    assert schedule(3, seconds=HALF_AN_HOUR, nodes=8) != schedule(4, seconds=HALF_AN_HOUR, nodes=8)


@pytest.mark.parametrize("seed", range(5))
def test_half_an_hour_has_every_kind_of_fault_between_the_warm_up_and_the_rest(seed: int) -> None:
    faults = schedule(seed, seconds=HALF_AN_HOUR, nodes=8)
    assert min(counted(faults).values()) >= 5
    assert all(WARM_UP <= fault.at < HALF_AN_HOUR - REST for fault in faults)
    assert all(fault.at + fault.lasts <= HALF_AN_HOUR - REST + LASTS[0] for fault in faults)
    assert [fault.at for fault in faults] == sorted(fault.at for fault in faults)


@pytest.mark.parametrize("seed", range(5))
def test_the_processes_whose_memory_is_looked_at_live_for_the_last_third(seed: int) -> None:
    faults = schedule(seed, seconds=HALF_AN_HOUR, nodes=8)
    last = [fault.kind for fault in faults if fault.at >= STEADY * HALF_AN_HOUR]
    assert set(last) == set(FaultKind) - set(AT_THE_SERVER)


@pytest.mark.parametrize("seed", range(5))
def test_the_hostile_node_besieges_the_superlink_one_drill_at_a_time(seed: int) -> None:
    faults = schedule(seed, seconds=HALF_AN_HOUR, nodes=8)
    sieges = [fault for fault in faults if fault.kind is FaultKind.SIEGE]
    assert all(first.at + first.lasts <= second.at for first, second in pairwise(sieges))
    assert {siege_of(seed, fault) for fault in sieges} <= set(DRILLS)
    assert len({siege_of(seed, fault) for fault in sieges}) > 2


@pytest.mark.parametrize("seed", range(5))
def test_the_hostile_node_is_left_to_itself_and_no_node_is_disturbed_twice_at_a_time(seed: int) -> None:
    faults = schedule(seed, seconds=HALF_AN_HOUR, nodes=8)
    assert all((fault.node is not None) == (fault.kind in ON_NODES) for fault in faults)
    nodes = [fault for fault in faults if fault.node is not None]
    assert all(fault.node in range(7) for fault in nodes)
    for fault in nodes:
        same = [each for each in nodes if each is not fault and each.node == fault.node]
        assert not any(each.at <= fault.at <= each.at + each.lasts for each in same)


def test_three_minutes_have_faults_too() -> None:
    assert len(schedule(0, seconds=180.0, nodes=4)) >= 2


def test_the_hostile_node_plays_many_drills_and_the_same_ones_for_the_same_seed() -> None:
    played = [drill_of(0, round) for round in range(60)]
    assert played == [drill_of(0, round) for round in range(60)]
    assert len(set(played)) > 25
    assert {"sign-flip", "stall", "all-nan"} <= set(drills())


def test_honest_nodes_lead_the_model_to_where_they_want_it() -> None:
    model, honest = initial(), 5
    assert distance(model, honest) > 10
    for _ in range(12):
        replies = [trained(model, node) for node in range(honest)]
        model = {name: np.mean([reply[name] for reply in replies], axis=0) for name in model}
    assert distance(model, honest) < 0.05
    assert distance({name: liked(name, 0) for name in model}, honest) <= 1.0
    assert distance({name: values + 1 for name, values in model.items()}, honest) > 5


@pytest.mark.parametrize(
    ("distances", "rounds"),
    [
        ([], 0),
        ([30.5] * 11 + [15.3, 15.3, 7.6, 3.8, 1.9, 1.0, 0.4, 1.4], 0),  # many rounds were skipped on its way
        ([30.5, 15.3, 20.0, 9.0, float("nan"), 9.0], 3),
        ([0.4, 1.6, 0.4], 1),
    ],
)
def test_a_model_is_poisoned_if_a_round_leads_it_away_wherever_it_was(distances: list[float], rounds: int) -> None:
    assert led_away(distances) == rounds


@pytest.fixture
def echo() -> Iterator[int]:
    """The port of somebody who says everything again."""
    with socket.create_server((HOST, 0)) as server:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    client, _ = server.accept()
                    with client:
                        while data := client.recv(1 << 16):
                            client.sendall(data)

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]


def _said_again(port: int, words: bytes) -> bytes:
    with socket.create_connection((HOST, port), timeout=10.0) as client:
        client.sendall(words)
        found = b""
        while len(found) < len(words) and (data := client.recv(1 << 16)):
            found += data
        return found


@pytest.mark.parametrize("state", [LineState.GOOD, LineState.TRICKLES, LineState.SLOW])
def test_a_line_carries_every_byte_however_bad_it_is(
    echo: int, state: LineState, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.soak.proxy.time.sleep", lambda _: None)
    words = bytes(range(256)) * 40
    with Line(echo) as line:
        line.set(state)
        assert _said_again(line.port, words) == words
        assert line.bytes == 2 * len(words)


def test_a_line_that_is_cut_ends_its_connections_and_lets_none_in(echo: int) -> None:
    with Line(echo) as line, socket.create_connection((HOST, line.port), timeout=10.0) as client:
        client.sendall(b"a")
        assert client.recv(1) == b"a"
        line.set(LineState.CUT)
        assert client.recv(1) == b""
        with suppress(ConnectionError):
            assert _said_again(line.port, b"b") == b""
        line.set(LineState.GOOD)
        assert _said_again(line.port, b"c") == b"c"


def test_a_line_that_is_closed_leaves_nothing_behind(echo: int) -> None:
    before = psutil.Process().num_fds()
    with Line(echo) as line:
        assert _said_again(line.port, b"a") == b"a"
    assert (psutil.Process().num_fds(), line.connections) == (before, 0)


def _write(folder: Path, lines: bytes, state: int) -> None:
    (folder / "checkpoints").mkdir(exist_ok=True)
    (folder / "rounds.jsonl").write_bytes(lines)
    (folder / "checkpoints" / f"{state:06d}.json").touch()


def test_rounds_that_grow_are_no_loss_and_neither_is_a_line_without_a_checkpoint_that_is_played_again(
    tmp_path: Path,
) -> None:
    chain = Chain(tmp_path)
    chain.look()
    for lines, state in ((b"a\n", 1), (b"a\nb\nc\n", 2), (b"a\nb\n", 2), (b"a\nb\nC\n", 3), (b"a\nb\nC\nd", 3)):
        _write(tmp_path, lines, state)
        chain.look()
    assert (chain.losses, chain.safe) == ([], 3)


@pytest.mark.parametrize("lines", [b"a\n", b"A\nb\n", b""])
def test_a_safe_round_that_is_gone_or_another_is_a_loss(tmp_path: Path, lines: bytes) -> None:
    chain = Chain(tmp_path)
    _write(tmp_path, b"a\nb\n", 2)
    chain.look()
    _write(tmp_path, lines, 2)
    chain.look()
    assert len(chain.losses) == 1


def _life(*memory: int, files: int = 10) -> list[tuple[int, int]]:
    return [(each << 20, files) for each in memory]


def test_a_process_whose_memory_stays_does_not_grow_and_one_whose_memory_rises_does() -> None:
    flat, rising = [200] * FEWEST_SAMPLES, list(range(100, 100 + 10 * FEWEST_SAMPLES, 10))
    assert Vitals({"SuperLink": {1: _life(50, *flat)}}).growths() == []
    assert "grew from" in Vitals({"SuperLink": {1: _life(*rising)}}).growths()[0]
    assert Vitals({"SuperLink": {1: _life(*rising[:10])}}).growths() == []  # too short a life to tell


def test_a_process_that_opens_more_and_more_files_is_found() -> None:
    life = [(1 << 20, 10 + 5 * number) for number in range(FEWEST_SAMPLES)]
    assert "open files" in Vitals({"server app": {7: life}}).growths()[0]
    assert Vitals({"server app": {7: life}}).report()["server app"]["files_end"] > 80


FOUND: dict[str, Any] = {
    "losses": [],
    "growths": [],
    "errors": [],
    "leaks": {"processes": [], "temporary files": [], "open files": 0},
    "rounds": {
        "rounds": 40,
        "skipped": 2,
        "played": 38,
        "problems": [],
        "poisoned_rounds": 0,
        "distance_at_the_end": 0.5,
    },
}


def test_all_is_well_where_nothing_is_lost() -> None:
    assert broken(FOUND) == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"losses": ["x"]}, "lost"),
        ({"growths": ["x"]}, "grow"),
        ({"leaks": {"processes": [3]}}, "left behind"),
        ({"errors": ["x"]}, "errors"),
        ({"rounds": FOUND["rounds"] | {"poisoned_rounds": 1}}, "poisoned"),
        ({"rounds": FOUND["rounds"] | {"distance_at_the_end": 2.0}}, "away"),
        ({"rounds": FOUND["rounds"] | {"distance_at_the_end": None}}, "away"),
        ({"rounds": FOUND["rounds"] | {"skipped": 40}}, "no round"),
    ],
)
def test_whatever_does_not_hold_is_said(changes: dict[str, Any], words: str) -> None:
    (said,) = broken(FOUND | changes)
    assert words in said
