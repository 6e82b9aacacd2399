"""Processes are known by number and start time; families are ended as a whole."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from holdfast.errors import RunError
from holdfast.federation import processes
from holdfast.federation.installed import MARKER, environment
from holdfast.federation.processes import Process, end, family, launch, printed, until

LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="markers are read from /proc")
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


def parent_and_child(marker: str) -> tuple[subprocess.Popen[bytes], Process]:
    """Start a process and one that it starts in another session."""
    variables = {**os.environ, MARKER: marker}
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, env=variables)  # noqa: S603
    assert parent.stdout is not None
    child = Process.of(int(parent.stdout.readline()))
    parent.stdout.close()
    assert child is not None
    return parent, child


def test_a_process_is_known_by_its_number_and_start(sleeper: subprocess.Popen[bytes]) -> None:
    process = Process.of(sleeper.pid)
    assert process is not None
    assert process.is_running
    assert process.send(signal.SIGKILL)
    sleeper.wait()
    assert not process.is_running
    assert Process.of(sleeper.pid) is None


def test_a_number_that_belongs_to_another_process_now_is_never_signalled(sleeper: subprocess.Popen[bytes]) -> None:
    recycled = Process(sleeper.pid, "the start of another")
    assert not recycled.is_running
    assert not recycled.send(signal.SIGKILL)
    end([recycled], "no-such-marker", patience=0.2)
    assert sleeper.poll() is None


def test_a_process_that_ended_and_was_not_reaped_does_not_run(sleeper: subprocess.Popen[bytes]) -> None:
    process = Process.of(sleeper.pid)
    assert process is not None
    os.kill(sleeper.pid, signal.SIGKILL)
    assert until(lambda: not process.is_running, 5.0)


def test_ending_a_process_ends_what_it_started_in_other_sessions() -> None:
    parent, child = parent_and_child("ending")
    root = Process.of(parent.pid)
    assert root is not None
    assert child in family([root], "no-such-marker")
    end([root], "no-such-marker", reap=parent.poll)
    assert not child.is_running
    assert parent.returncode == -signal.SIGTERM


@LINUX
def test_orphans_are_found_by_their_marker() -> None:
    parent, child = parent_and_child("orphans/superlink")
    parent.kill()
    parent.wait()
    assert child.is_running
    try:
        assert family([], "orphans") == {child} == family([], "orphans/superlink")
        assert family([], "orphans/node-1") == family([], "orph") == set()
        end([], "orphans", patience=0.1)
        assert not child.is_running
    finally:
        with suppress(ProcessLookupError):
            os.kill(child.pid, signal.SIGKILL)


@LINUX
def test_what_cannot_be_ended_is_told_by_its_number(
    sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(pid: int, number: int) -> None:
        raise PermissionError(pid, number)

    process = Process.of(sleeper.pid)
    assert process is not None
    monkeypatch.setattr(processes, "until", lambda _condition, _seconds: False)
    with monkeypatch.context() as others:
        others.setattr(os, "kill", forbidden)
        with pytest.raises(RunError, match=rf"cannot end the processes {sleeper.pid} of the federation"):
            end([process], "no-such-marker")
    assert process.is_running


def test_what_a_process_prints_goes_to_its_log(tmp_path: Path) -> None:
    log = tmp_path / "part.log"
    for word in ("one", "two"):
        launch([sys.executable, "-c", f"print({word!r})"], log, os.environ, tmp_path).wait()
    assert log.read_text(encoding="utf-8").split() == ["one", "two"]


def test_a_log_is_shown_from_a_place_on_and_without_colours(tmp_path: Path) -> None:
    log = tmp_path / "part.log"
    log.write_bytes(b"before\x1b[31mred\x1b[0m \xff")
    assert printed(log, len("before")) == "red \N{REPLACEMENT CHARACTER}"
    assert not printed(tmp_path / "none.log")


def test_children_do_not_reach_the_outside_and_find_flower(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLWR_TELEMETRY_ENABLED", "1")
    monkeypatch.setenv("PATH", "/nowhere")
    variables = environment(tmp_path, "mark")
    assert variables["FLWR_TELEMETRY_ENABLED"] == "0"
    assert variables["FLWR_DISABLE_UPDATE_CHECK"] == "1"
    assert variables["FLWR_HOME"] == str(tmp_path)
    assert variables["PATH"].split(os.pathsep) == [str(Path(sys.executable).parent), "/nowhere"]
