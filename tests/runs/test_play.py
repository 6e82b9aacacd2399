"""Runs in one call."""

from __future__ import annotations

from collections.abc import Generator
from itertools import islice
from pathlib import Path

import pytest
from tests.simulation.small import classes, config

from steadfed import RunHistory, resume, run
from steadfed.errors import RunError
from steadfed.runs import Run
from steadfed.server._history import RunState


def test_a_run_is_carried_out_to_its_end(tmp_path: Path) -> None:
    finished = run(config(rounds=4), tmp_path / "run", dataset=classes())
    assert isinstance(finished, RunHistory)
    assert finished.state is RunState.COMPLETE
    assert [record.round for record in finished.folder.records()] == [0, 1, 2, 3]
    assert finished.folder.summary() is not None


def test_a_run_without_a_place_gets_the_next_that_is_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = [run(config(rounds=1), dataset=classes()).path for _ in range(2)]
    assert found == [Path("runs/run-1"), Path("runs/run-2")]
    monkeypatch.chdir(tmp_path / "runs/run-1")
    Path("runs").write_text("no folder")
    with pytest.raises(RunError, match="give another place with path"):
        run(config(rounds=1), dataset=classes())


def test_a_run_that_stopped_ends_with_the_same_model(tmp_path: Path) -> None:
    whole = run(config(rounds=4), tmp_path / "whole", dataset=classes())
    interrupted = Run.start(config(rounds=4), tmp_path / "stopped", dataset=classes()).play()
    list(islice(interrupted, 2))
    assert isinstance(interrupted, Generator)
    interrupted.close()
    ended = resume(tmp_path / "stopped", dataset=classes())
    assert len(list(ended.folder.records())) == 4
    for name in ("model.safetensors", "config.toml"):
        assert (ended.folder.path / name).read_bytes() == (whole.folder.path / name).read_bytes()
