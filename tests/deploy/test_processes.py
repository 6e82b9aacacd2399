"""Processes are known by number and creation time; families are ended as a whole."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from steadfed.deploy import _processes as processes
from steadfed.deploy._environment import MARKER, environment
from steadfed.deploy._processes import (
    end_process_tree,
    find_process,
    is_alive,
    launch,
    process_tree,
    read_log,
    wait_until,
)
from steadfed.deploy._state import ProcessState
from steadfed.errors import RunError

PARENT = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
print(child.pid, flush=True)
time.sleep(60)
"""


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as child:
        yield child
        child.kill()


def parent_and_child(marker: str) -> tuple[subprocess.Popen[bytes], psutil.Process]:
    """Start a process and one that it starts in another session."""
    variables = {**os.environ, MARKER: marker}
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, env=variables)  # noqa: S603
    assert parent.stdout is not None
    child = psutil.Process(int(parent.stdout.readline()))
    parent.stdout.close()
    return parent, child


def test_a_process_is_known_by_its_number_and_creation(sleeper: subprocess.Popen[bytes]) -> None:
    created = psutil.Process(sleeper.pid).create_time()
    process = find_process(sleeper.pid, created)
    assert process is not None
    assert is_alive(process)
    process.kill()
    sleeper.wait()
    assert not is_alive(process)
    assert find_process(sleeper.pid, created) is None


def test_a_clock_that_was_corrected_a_little_changes_nothing(sleeper: subprocess.Popen[bytes]) -> None:
    process = psutil.Process(sleeper.pid)
    assert find_process(sleeper.pid, process.create_time() + 1.0) == process


def test_a_number_that_belongs_to_another_process_now_is_nobodys(sleeper: subprocess.Popen[bytes]) -> None:
    created = psutil.Process(sleeper.pid).create_time()
    assert find_process(sleeper.pid, created - 60.0) is None
    assert not ProcessState(port=20000, pid=sleeper.pid, created=created - 60.0).find()


def test_a_process_that_ended_and_was_not_reaped_does_not_run(sleeper: subprocess.Popen[bytes]) -> None:
    process = psutil.Process(sleeper.pid)
    process.kill()
    assert wait_until(lambda: not is_alive(process), 5.0)
    assert find_process(sleeper.pid, process.create_time()) is None


def test_ending_a_process_ends_what_it_started_in_other_sessions() -> None:
    parent, child = parent_and_child("ending")
    root = psutil.Process(parent.pid)
    assert process_tree([root], "no-such-marker") == {root, child}
    end_process_tree([root], "no-such-marker")
    assert not is_alive(child)
    assert not is_alive(root)
    assert parent.poll() is not None


def test_orphans_are_found_by_their_marker() -> None:
    parent, child = parent_and_child("orphans/superlink")
    parent.kill()
    parent.wait()
    try:
        assert process_tree([], "orphans") == {child} == process_tree([], "orphans/superlink")
        assert process_tree([], "orphans/node-1") == process_tree([], "orph") == set()
        end_process_tree([], "orphans", patience=0.1)
        assert not is_alive(child)
    finally:
        with suppress(psutil.NoSuchProcess):
            child.kill()


def test_what_cannot_be_ended_is_told_by_its_number(
    sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(self: psutil.Process) -> None:
        raise psutil.AccessDenied(self.pid)

    process = psutil.Process(sleeper.pid)
    monkeypatch.setattr(processes, "wait_until", lambda _condition, _seconds: False)
    with monkeypatch.context() as others:
        others.setattr(psutil.Process, "terminate", forbidden)
        others.setattr(psutil.Process, "kill", forbidden)
        with pytest.raises(RunError, match=rf"cannot end the processes {sleeper.pid} of the federation"):
            end_process_tree([process], "no-such-marker")
    assert is_alive(process)


def test_what_a_process_prints_goes_to_its_log(tmp_path: Path) -> None:
    log = tmp_path / "part.log"
    for word in ("one", "two"):
        launch([sys.executable, "-c", f"print({word!r})"], log, os.environ, tmp_path).wait()
    assert log.read_text(encoding="utf-8").split() == ["one", "two"]


def test_a_log_is_shown_from_a_place_on_and_without_colours(tmp_path: Path) -> None:
    log = tmp_path / "part.log"
    log.write_bytes(b"before\x1b[31mred\x1b[0m \xff")
    assert read_log(log, len("before")) == "red \N{REPLACEMENT CHARACTER}"
    assert not read_log(tmp_path / "none.log")


def test_children_do_not_reach_the_outside_and_find_flower(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLWR_TELEMETRY_ENABLED", "1")
    monkeypatch.setenv("PATH", "/nowhere")
    variables = environment(tmp_path, "mark")
    assert variables["FLWR_TELEMETRY_ENABLED"] == "0"
    assert variables["FLWR_DISABLE_UPDATE_CHECK"] == "1"
    assert variables["FLWR_HOME"] == str(tmp_path)
    assert variables["PATH"].split(os.pathsep) == [str(Path(sys.executable).parent), "/nowhere"]
