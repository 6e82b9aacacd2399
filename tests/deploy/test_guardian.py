"""A federation ends with its owner, and the guardian that sees to it ends with the federation."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from steadfed.deploy._environment import MARKER
from steadfed.deploy._folder import DeploymentFolder
from steadfed.deploy._guardian import guard, start_guardian
from steadfed.deploy._processes import end_process_tree, process_tree
from steadfed.deploy._state import DeploymentState, ProcessState

GONE = os.getpid()
"""A process that is not the parent of this one."""


@pytest.fixture
def folder(tmp_path: Path) -> DeploymentFolder:
    folder = DeploymentFolder(tmp_path / "federation")
    folder.make()
    return folder


@pytest.fixture
def part() -> Iterator[subprocess.Popen[bytes]]:
    """Start a process that belongs to a federation."""
    words, variables = [sys.executable, "-c", "import time; time.sleep(60)"], {**os.environ, MARKER: "guarded/node-0"}
    with subprocess.Popen(words, env=variables) as child:  # noqa: S603
        yield child
        child.kill()


def test_what_an_owner_left_is_ended_even_if_its_state_cannot_be_read(
    folder: DeploymentFolder, part: subprocess.Popen[bytes]
) -> None:
    folder.state_file.write_text("no state", encoding="utf-8")
    guard(GONE, folder, "guarded")
    assert part.poll() is not None


def test_whoever_takes_the_federation_down_ends_its_guardian(folder: DeploymentFolder) -> None:
    guardian = start_guardian(folder.path, "guarded-by-another")
    try:
        assert {process.pid for process in process_tree([], "guarded-by-another")} == {guardian.pid}
        end_process_tree([], "guarded-by-another", patience=0.0)
        assert guardian.poll() is not None
    finally:
        guardian.kill()


def test_a_guardian_leaves_the_next_federation_in_the_folder_alone(
    folder: DeploymentFolder, part: subprocess.Popen[bytes]
) -> None:
    link = ProcessState(port=20000, pid=part.pid, created=psutil.Process(part.pid).create_time())
    folder.save(DeploymentState(secure=False, marker="guarded", superlink=link, superexec=link, nodes=()))
    guard(GONE, folder, "the-one-before")
    assert part.poll() is None
    guard(GONE, folder, "guarded")
    assert part.poll() is not None
