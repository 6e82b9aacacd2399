"""Whether a run that Flower ended is handed over again."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from steadfed.deploy import RunStatus, _attempts as attempts_module
from steadfed.deploy._attempts import OWN_ERROR, Attempts, wait_for_folder

KILLED = RunStatus(status="finished:failed", details="No heartbeat received from the task")
BROKEN = RunStatus(status="finished:failed", details=f"{OWN_ERROR}: division by zero")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return a run folder that can be continued."""
    (tmp_path / "config.toml").touch()
    return tmp_path


def test_a_run_whose_server_app_was_killed_is_submitted_again_as_often_as_allowed(place: Path) -> None:
    attempts = Attempts(3)
    assert attempts.refusal(KILLED, place, new_rounds=2) is None
    assert attempts.refusal(KILLED, place, new_rounds=1) is None
    assert attempts.refusal(KILLED, place, new_rounds=1) == "it was submitted 3 times"


def test_two_failures_in_a_row_without_a_new_round_are_enough(place: Path) -> None:
    attempts = Attempts(9)
    assert attempts.refusal(KILLED, place, new_rounds=0) is None
    assert attempts.refusal(KILLED, place, new_rounds=1) is None
    assert attempts.refusal(KILLED, place, new_rounds=0) is None
    assert attempts.refusal(KILLED, place, new_rounds=0) == "it failed 2 times in a row without a new round"


def test_an_error_of_the_app_itself_is_tried_again_only_after_a_round(place: Path) -> None:
    attempts = Attempts(9)
    assert attempts.refusal(BROKEN, place, new_rounds=1) is None
    refusal = attempts.refusal(BROKEN, place, new_rounds=0)
    assert refusal == "the app itself failed before it finished a round, and would again"


def test_a_run_that_was_stopped_or_has_nothing_to_continue_is_left(tmp_path: Path, place: Path) -> None:
    stopped = RunStatus(status="finished:stopped")
    assert Attempts(9).refusal(stopped, place, new_rounds=3) == "it was stopped"
    for nothing in (None, tmp_path / "nowhere"):
        assert Attempts(9).refusal(KILLED, nothing, new_rounds=0) == "there is no run folder to continue from"
    (place / "summary.json").touch()
    assert Attempts(9).refusal(KILLED, place, new_rounds=0) == "all its rounds are written down"


def test_pauses_grow_and_end_growing(place: Path) -> None:
    attempts, pauses = Attempts(99), []
    for _ in range(6):
        attempts.refusal(KILLED, place, new_rounds=1)
        pauses.append(attempts.pause())
    assert pauses == [5.0, 15.0, 45.0, 60.0, 60.0, 60.0]


def test_a_folder_that_a_server_app_still_holds_is_waited_for_but_not_for_ever(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, held = [0.0], [True]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr(attempts_module, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=sleep))
    monkeypatch.setattr(attempts_module, "is_running", lambda _: held[0])
    wait_for_folder(place, 5.0)
    assert 95.0 <= now[0] <= 96.0
    held[0] = False
    wait_for_folder(place, 5.0)
    assert now[0] <= 101.0
