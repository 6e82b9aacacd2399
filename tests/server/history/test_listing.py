"""Summaries of many runs: cheap, cached, and right."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from tests import deployments
from tests.reports.made import folder, four

from steadfed.errors import RunError
from steadfed.server._history import Rounds, RunState, RunSummaries, open_run, summary_of
from steadfed.server._history.files import is_running


def test_a_summary_tells_how_far_a_run_is_and_how_well_it_does(tmp_path: Path) -> None:
    records = [four(0, test_accuracy=0.5), four(1, test_accuracy=0.25), four(2, test_accuracy=None)]
    folder(tmp_path / "run", records)
    summary = RunSummaries().summarize(tmp_path / "run")
    assert (summary.state, summary.rounds_played, summary.rounds_planned) == (RunState.INTERRUPTED, 3, 4)
    assert (summary.last_accuracy, summary.best_accuracy) == (None, 0.5)
    assert summary.last_loss == records[-1].test_loss
    assert summary.attack.startswith("sign-flip")
    assert "rage" in summary.rule


def test_a_run_that_is_done_is_read_from_its_summary(tmp_path: Path) -> None:
    records = [four(number) for number in range(4)]
    made = folder(tmp_path / "run", records)
    summaries = RunSummaries()
    before = summaries.summarize(tmp_path / "run")
    made.write_summary(summary_of(Rounds.of(records)))
    after, fresh = summaries.summarize(tmp_path / "run"), RunSummaries().summarize(tmp_path / "run")
    assert (before.state, after.state, fresh.state) == (RunState.INTERRUPTED, RunState.COMPLETE, RunState.COMPLETE)
    assert before.best_accuracy == after.best_accuracy == fresh.best_accuracy == 0.8
    assert fresh.rounds_played == 4


def test_new_rounds_are_seen_and_torn_lines_are_not(tmp_path: Path) -> None:
    made = folder(tmp_path / "run", [four(0)])
    summaries = RunSummaries()
    assert summaries.summarize(made.path).rounds_played == 1
    made.append(four(1))
    with (made.path / "rounds.jsonl").open("a") as file:
        file.write('{"round":2,"test_accuracy":0.99')
    seen = summaries.summarize(made.path)
    assert (seen.rounds_played, seen.last_accuracy) == (2, 0.4)
    made.rewind(1)
    assert summaries.summarize(made.path).rounds_played == 1


def test_a_deployment_has_no_attack(tmp_path: Path) -> None:
    deployments.deployment(tmp_path / "run")
    summary = RunSummaries().summarize(tmp_path / "run")
    assert (summary.deployed, summary.attack, summary.state) == (True, "", RunState.COMPLETE)
    assert summary.last_accuracy is None


def test_a_broken_configuration_is_damage(tmp_path: Path) -> None:
    made = folder(tmp_path / "run", [four(0)])
    (made.path / "config.toml").write_text("rounds = ")
    assert RunSummaries().summarize(made.path).state is RunState.DAMAGED


def test_looking_for_a_process_makes_no_lock_file_and_finds_the_holder(tmp_path: Path) -> None:
    assert not is_running(tmp_path)
    assert not list(tmp_path.iterdir())
    made = folder(tmp_path / "run")
    with made.locked():
        assert is_running(made.path)
    assert not is_running(made.path)


def test_a_pipe_in_the_place_of_the_lock_keeps_nobody_waiting(tmp_path: Path) -> None:
    made = folder(tmp_path / "run", [four(0)])
    (made.path / "lock").unlink()
    os.mkfifo(made.path / "lock")
    assert not is_running(made.path)
    assert RunSummaries().summarize(made.path).state is RunState.INTERRUPTED
    with pytest.raises(RunError, match="no regular file"), made.locked():
        pass


@pytest.mark.parametrize(
    "last",
    [
        {},
        {"test_accuracy": None, "test_loss": None},
        {"test_accuracy": None, "test_loss": None, "train_loss": 0.5},
        {"test_loss": float("nan"), "test_accuracy": 0.1},
        {"test_loss": 1.5e300, "test_accuracy": 1.0},
        {"test_accuracy": None, "test_loss": None, "metrics": {"test_accuracy": 0.99, "test_loss": 9.0}},
        {"reason": '"test_accuracy":0.99', "test_accuracy": 0.3},
        {"skipped": True, "kept": (), "weights": ()},
    ],
)
def test_a_summary_of_a_list_says_what_the_history_says(tmp_path: Path, last: dict[str, Any]) -> None:
    made = folder(tmp_path / "run", [four(0, test_accuracy=0.5), four(1, test_accuracy=0.25), four(2, **last)])
    whole = open_run(made.path)
    found = RunSummaries().summarize(made.path)
    scores = whole.summary["last"]
    assert (found.last_accuracy, found.last_loss) == (scores["test_accuracy"], scores["test_loss"])
    assert found.best_accuracy == whole.summary["best"]["test_accuracy"]
    assert (found.rounds_played, found.rounds_planned, found.state) == (3, 4, whole.state)
