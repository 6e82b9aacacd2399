"""Runs in one call."""

from __future__ import annotations

from collections.abc import Generator
from itertools import islice
from pathlib import Path

from tests.simulation.small import classes, config

from steadfed import resume, run
from steadfed.runs import Run


def test_a_run_is_carried_out_to_its_end(tmp_path: Path) -> None:
    finished = run(config(rounds=4), tmp_path / "run", dataset=classes())
    assert [record.round for record in finished.folder.records()] == [0, 1, 2, 3]
    assert finished.folder.summary() is not None


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
