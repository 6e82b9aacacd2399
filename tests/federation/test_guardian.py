"""A federation ends with its owner, and the guardian that sees to it ends with the federation."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.federation.guardian import guard, watched_over
from holdfast.federation.installed import MARKER
from holdfast.federation.places import FederationState, PartState, Place
from holdfast.federation.processes import Process, end, family

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="markers are read from /proc")
GONE = Process(os.getpid(), "the start of another")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path / "federation")
    place.make()
    return place


@pytest.fixture
def part() -> Iterator[subprocess.Popen[bytes]]:
    """Start a process that belongs to a federation."""
    words, variables = [sys.executable, "-c", "import time; time.sleep(60)"], {**os.environ, MARKER: "guarded/node-0"}
    with subprocess.Popen(words, env=variables) as child:  # noqa: S603
        yield child
        child.kill()


def test_what_an_owner_left_is_ended_even_if_its_state_cannot_be_read(
    place: Place, part: subprocess.Popen[bytes]
) -> None:
    place.state_file.write_text("no state", encoding="utf-8")
    guard(GONE, place.path, "guarded")
    assert part.wait() != 0


def test_whoever_takes_the_federation_down_ends_its_guardian(place: Place) -> None:
    guardian = watched_over(place.path, "guarded-by-another")
    assert guardian is not None
    try:
        assert {process.pid for process in family([], "guarded-by-another")} == {guardian.child.pid}
        end([], "guarded-by-another", patience=0.0)
        assert guardian.child.wait() != 0
    finally:
        guardian.dismiss()


def test_a_guardian_leaves_the_next_federation_in_the_folder_alone(place: Place, part: subprocess.Popen[bytes]) -> None:
    process = Process.of(part.pid)
    assert process is not None
    link = PartState(port=20000, pid=part.pid, started=process.started)
    place.save(FederationState(secure=False, marker="guarded", superlink=link, superexec=link, nodes=()))
    guard(GONE, place.path, "the-one-before")
    assert part.poll() is None
    guard(GONE, place.path, "guarded")
    assert part.wait() != 0
