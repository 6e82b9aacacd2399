"""A run that is followed: to its end, or until the SuperLink is given up."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from steadfed.deploy import SubmittedRun, _submission as submission
from steadfed.deploy._flower_commands import Flwr
from steadfed.deploy._folder import DeploymentFolder
from steadfed.errors import RunError


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SubmittedRun:
    """Return a run whose log ends at once."""
    folder = DeploymentFolder(tmp_path / "federation")
    folder.make()
    monkeypatch.setattr(Flwr, "words", lambda self, *words: [sys.executable, "-c", ""])
    monkeypatch.setattr(submission, "LOOK", 0.01)
    return SubmittedRun(Flwr(folder, "mark"), 7)


def answering(monkeypatch: pytest.MonkeyPatch, *answers: str | None) -> None:
    """Let the SuperLink say so about the run, the last thing again and again; None is no answer."""
    left = list(answers)

    def call(self: Flwr, *words: str) -> dict[str, Any]:
        said = left.pop(0) if len(left) > 1 else left[0]
        if said is None:
            raise RunError("connection refused")
        return {"runs": [{"status": said}]}

    monkeypatch.setattr(Flwr, "__call__", call)


def test_a_superlink_that_comes_back_is_waited_for(run: SubmittedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, "running", None, None, "running", "finished:completed")
    assert run.wait().completed


def test_a_superlink_that_stays_away_is_given_up(run: SubmittedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submission, "LONGEST_SILENCE", 0.1)
    answering(monkeypatch, "running", None)
    with pytest.raises(RunError, match=r"said nothing about run 7 for .* s \(connection refused\)"):
        run.wait()


def test_silence_is_counted_from_the_last_answer(run: SubmittedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]

    def pause(seconds: float) -> None:
        now[0] += max(seconds, 200.0)

    monkeypatch.setattr(submission, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=pause))
    answering(monkeypatch, None, None, "running", None, None, "finished:completed")
    assert run.wait().completed


def test_a_log_that_says_nothing_for_long_is_not_waited_for(run: SubmittedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Flwr, "words", lambda self, *words: [sys.executable, "-c", "import time; time.sleep(600)"])
    monkeypatch.setattr(submission, "LONGEST_PAUSE", 0.1)
    monkeypatch.setattr(submission, "LONGEST_SILENCE", 0.1)
    answering(monkeypatch, "running", None)
    with pytest.raises(RunError, match="said nothing about run 7"):
        run.wait()
