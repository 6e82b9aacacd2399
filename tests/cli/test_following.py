"""A run on a federation as it is followed: the names, the number of times, and who is waited for."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console
from tests.deployments import AWAY, BROKEN, LIAR, deployment

from steadfed._cli import following
from steadfed._cli.following import Following
from steadfed._cli.progress import ProgressLines
from steadfed.server._waiting import Waiting, forget_waiting, write_waiting


def followed(place: Path, script: list[Callable[[], object]], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return what is printed while a run does one thing of a script after the other."""
    screen = io.StringIO()
    console = Console(file=screen, width=300)
    monkeypatch.setattr(following, "progress_display", lambda runs, **_: ProgressLines(runs, console))

    def wait(_timeout: float | None, *, look: Any) -> Any:
        look()
        for step in script:
            step()
            look()
        return SimpleNamespace(completed=True)

    submitted = SimpleNamespace(run_id=7, wait=wait, stop=lambda: None)
    federation: Any = SimpleNamespace(submit=lambda *_: submitted)
    Following(federation, Path("app"), {}, place, 5, quiet=False).to_the_end(tries=1, timeout=None)
    return screen.getvalue().splitlines()


def test_people_are_named_with_how_often_and_whom_a_round_waits_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "run"
    waiting = Waiting(round=0, asked=8, replied=7, missing=(AWAY,), seconds_left=31.0)
    place.mkdir()

    def played() -> None:
        forget_waiting(place)
        (place / "made").rename(tmp_path / "made")
        for file in (tmp_path / "made").iterdir():
            file.rename(place / file.name)

    def stale() -> None:
        write_waiting(place, waiting)  # of round 0, which is over

    deployment(place / "made", rounds=1)
    shown = followed(place, [lambda: write_waiting(place, waiting), played, stale], monkeypatch)
    assert shown[0] == f"round 0: 7 of 8 replied, waiting for {AWAY}, 31 s left"
    assert f"round 0: removed: {LIAR} (" in shown[1]
    assert f"standard deviations); malformed: {BROKEN} (shape); silent: {AWAY}" in shown[1]
    assert len(shown) == 2


def test_rounds_of_before_count_and_a_folder_in_the_making_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = deployment(tmp_path / "whole", rounds=2)
    lines = whole.rounds.read_bytes().splitlines(keepends=True)
    whole.rounds.write_bytes(lines[0])

    def another() -> None:
        whole.rounds.write_bytes(b"".join(lines))

    shown = followed(whole.path, [another], monkeypatch)
    assert f"round 1: removed: {LIAR} (" in shown[0]
    assert f"deviations, 2nd time); malformed: {BROKEN} (shape, 2nd time); silent: {AWAY} (2nd time)" in shown[0]

    (tmp_path / "begun").mkdir()
    (tmp_path / "begun" / "rounds.jsonl").write_bytes(b"")
    assert followed(tmp_path / "begun", [], monkeypatch) == []
