"""A run that is killed again and again ends with the same bytes as one that was left alone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from tests.same_results import same_results

from steadfed._core.durable import sole_holder
from steadfed._core.rng import stream
from steadfed.server._folder import RunFolder

ROOT = Path(__file__).parents[2]
KILLS, ROUNDS, LONGEST_DELAY = 20, 60, 0.05
CONFIG = f"""
rounds = {ROUNDS}
cohort_size = 16
local_steps = {{ name = "uniform", lowest = 10, highest = 30 }}
checkpoint_every = 2
partition = {{ name = "iid", num_clients = 20 }}
model = {{ name = "mlp", hidden = [64, 64] }}
rule = {{ name = "rage", num_byzantine = 5 }}
byzantine = {{ name = "fraction", fraction = 0.2 }}
attack = {{ name = "alie" }}
client = {{ momentum = 0.5 }}
server = {{ momentum = 0.5 }}
"""
"""Everything that a checkpoint must hold is in use."""


class Killer:
    """Runs commands of steadfed and kills them."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def __call__(self, folder: Path, *arguments: str, rounds: int | None = None, seconds: float = 0.0) -> int:
        """Return the exit code of a command that is killed so many seconds after so many rounds are in the folder."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([str(folder), rounds, seconds, *arguments]) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())


@contextmanager
def killer() -> Iterator[Killer]:
    command = [sys.executable, "-m", "tests.runs.killing"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(  # noqa: S603  the project's own program
        command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield Killer(process)


def wait_for_workers(folder: Path) -> None:
    """Wait until nobody holds the lock, which workers inherit: none of them may outlive the process that was killed."""
    last = time.monotonic() + 20.0
    while time.monotonic() < last:
        try:
            with sole_holder(folder / "lock"):
                return
        except BlockingIOError:
            time.sleep(0.001)
    pytest.fail("20 s after the run was killed, a worker of it still holds the lock")


def test_a_run_killed_at_twenty_random_moments_ends_as_if_nothing_had_happened(tmp_path: Path) -> None:
    config, whole, killed = tmp_path / "run.toml", tmp_path / "whole", tmp_path / "killed"
    config.write_text(CONFIG, encoding="utf-8")
    draws = stream(0, "moments")
    moments = zip(np.sort(draws.integers(0, ROUNDS - 10, KILLS)), draws.uniform(0.0, LONGEST_DELAY, KILLS), strict=True)
    with killer() as command:
        assert command(whole, "run", str(config), "--out", str(whole), "--jobs", "2", "-q") == 0
        for rounds, seconds in moments:
            begun = (killed / "config.toml").exists()
            words = ("resume", str(killed)) if begun else ("run", str(config), "--out", str(killed))
            code = command(killed, *words, "--jobs", "2", "-q", rounds=int(rounds), seconds=float(seconds))
            assert code == -signal.SIGKILL
            if (killed / "lock").exists():
                wait_for_workers(killed)
        assert ROUNDS / 2 < RunFolder.open(killed).num_rounds() < ROUNDS
        assert command(killed, "resume", str(killed), "--jobs", "1", "-q") == 0
    assert same_results(RunFolder.open(killed), RunFolder.open(whole)) == []
    assert RunFolder.open(killed).snapshots() == list(range(0, ROUNDS + 1, 6))
