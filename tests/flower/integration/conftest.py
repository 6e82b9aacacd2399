"""Federations are played in the background while other tests run; those that look at them come last."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from benchmarks.soak.namespace import alone
from numpy.typing import NDArray
from tests.cli.commands import run
from tests.flower.integration.stage import PLAYS, STAGES
from tests.shared import locked, session_folder

from steadfed.deploy._processes import find_process, wait_until
from steadfed.server._folder import RunFolder
from steadfed.server._record import RoundRecord

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
LONGEST = 3600.0
"""Seconds after which a play that was not written down is given up."""


@dataclass(frozen=True)
class Played:
    """What came of a play."""

    name: str
    folder: Path
    facts: dict[str, Any]

    @property
    def run(self) -> RunFolder:
        return RunFolder.open(self.folder / "run")

    def records(self) -> list[RoundRecord]:
        return list(self.run.records())

    def people(self) -> list[str]:
        """Return what the audit says of people, the worst first."""
        people, _, _ = run("audit", str(self.run.path)).partition("\n\n")
        return people.splitlines()

    def model(self, after: int) -> dict[str, NDArray[Any]]:
        """Return the model after so many rounds."""
        with np.load(self.folder / f"after-{after}.npz") as file:
            return dict(file)

    def report(self) -> dict[str, Any]:
        """Return what the server says of itself."""
        report: dict[str, Any] = json.loads((self.folder / "server.json").read_text(encoding="utf-8"))
        return report


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests of this folder last."""
    items.sort(key=_belongs_here)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Begin to play what the chosen tests look at."""
    if session.config.option.collectonly:
        return
    mine = [item for item in session.items if _belongs_here(item)]
    stages = {_stage_of(item) for item in mine}
    for stage in sorted(stages):
        begin(stage, session.config)


@pytest.fixture(scope="session")
def played(request: pytest.FixtureRequest) -> Callable[[str], Played]:
    """Return a function that waits for a play and returns what came of it."""

    def wait(name: str) -> Played:
        federation = next(key for key, names in PLAYS.items() if name in names)
        stage = next(key for key, names in STAGES.items() if federation in names)
        folder = begin(stage, request.config)
        file = folder / f"{name}.json"
        wait_until(lambda: file.exists() or not _is_played(folder), LONGEST)
        assert file.exists(), f"{name} was not played; {_tail(folder)}"
        outcome = json.loads(file.read_text(encoding="utf-8"))
        assert outcome["error"] is None, f"{outcome['error']}\n{_tail(folder)}"
        return Played(name, folder / name, outcome["facts"])

    return wait


@pytest.fixture(scope="session")
def network(request: pytest.FixtureRequest, played: Callable[[str], Played]) -> dict[str, Any]:
    """Return what the processes of the federations see of the network."""
    played("strangers")
    folder = begin("usual", request.config)
    seen: dict[str, Any] = json.loads((folder / "network.json").read_text(encoding="utf-8"))
    return seen


def begin(stage: str, config: pytest.Config) -> Path:
    """Start to play, unless another worker of this session has; return the folder."""
    factory: pytest.TempPathFactory = config._tmp_path_factory  # type: ignore[attr-defined]  # noqa: SLF001
    base = session_folder(factory)
    folder = base / f"stage-{stage}"
    with locked(base / f"stage-{stage}.lock"):
        if not folder.exists():
            folder.mkdir()
            _spawn(stage, folder, os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else os.getpid())
    return folder


def _spawn(stage: str, folder: Path, owner: int) -> None:
    """Start the process that plays, in a network of its own where that is possible."""
    prefix, created = alone(), psutil.Process(owner).create_time()
    words = [*prefix, sys.executable, str(HERE / "stage.py"), str(folder), str(owner), str(created), stage]
    words.append("alone" if prefix else "among others")
    places = (str(ROOT), os.environ.get("PYTHONPATH", ""))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, places))}
    log = os.open(folder / "stage.log", os.O_WRONLY | os.O_CREAT, 0o600)
    with Path(os.devnull).open("rb") as nothing:
        copies = [(os.POSIX_SPAWN_DUP2, source, target) for target, source in enumerate((nothing.fileno(), log, log))]
        pid = os.posix_spawn(words[0], words, environment, file_actions=copies, setsid=True)
    os.close(log)
    (folder / "process.json").write_text(json.dumps([pid, psutil.Process(pid).create_time()]), encoding="utf-8")


def _is_played(folder: Path) -> bool:
    pid, created = json.loads((folder / "process.json").read_text(encoding="utf-8"))
    return find_process(pid, created) is not None


def _tail(folder: Path) -> str:
    log = (folder / "stage.log").read_text(encoding="utf-8", errors="replace")
    return f"the end of {folder / 'stage.log'}:\n{log[-3000:]}"


def _stage_of(item: pytest.Item) -> str:
    """Return which federations are played for a test."""
    if item.get_closest_marker("slow"):
        return "slow"
    return {"test_siege.py": "siege", "test_proxy.py": "proxy"}.get(item.path.name, "usual")


def _belongs_here(item: pytest.Item) -> bool:
    return item.path.is_relative_to(HERE)
