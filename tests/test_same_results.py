from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.same_results import same_results
from tests.server.toy import toy_run

from steadfed.server._folder import RunFolder


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return toy_run(tmp_path_factory.mktemp("first") / "run", 4)


def test_two_runs_that_only_took_other_times_are_the_same(run: RunFolder, tmp_path: Path) -> None:
    other = toy_run(tmp_path / "run", 4)
    assert (run.path / "rounds.jsonl").read_bytes() != (other.path / "rounds.jsonl").read_bytes()
    assert same_results(run, other) == []


def edited(name: str, edit: Callable[[bytes], bytes]) -> Callable[[Path], object]:
    return lambda path: (path / name).write_bytes(edit((path / name).read_bytes()))


def flipped(content: bytes) -> bytes:
    return content[:-1] + bytes([content[-1] ^ 1])


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        (edited("config.toml", lambda text: text + b" "), "config.toml differs"),
        (edited("rounds.jsonl", lambda text: text.replace(b'"lr":0.1', b'"lr":0.10', 1)), "round 0 differs in lr"),
        (edited("rounds.jsonl", lambda text: text.replace(b"0.1,", b"0.2,")), "the first of 4 rounds"),
        (edited("rounds.jsonl", lambda text: text.replace(b'"second"', b'"third"', 1)), "in cohort"),
        (edited("rounds.jsonl", lambda text: text.replace(b"{", b"", 1)), "round 0 differs in its form"),
        (edited("rounds.jsonl", lambda text: text[: text[:-1].rfind(b"\n") + 1]), "4 rounds against 3"),
        (edited("model.safetensors", flipped), "model.safetensors differs"),
        (edited("checkpoints/000004.safetensors", flipped), "checkpoints/000004.safetensors differs"),
        (edited("checkpoints/000003.json", lambda text: text.replace(b"3", b"4")), "000003.json differs in round"),
        (edited("summary.json", lambda text: text.replace(b"4", b"5", 1)), "summary.json differs in rounds"),
        (edited("snapshots/000002.safetensors", flipped), "snapshots/000002.safetensors differs"),
        (lambda path: (path / "snapshots/000000.safetensors").unlink(), "snapshots/000000.safetensors is missing in"),
        (lambda path: (path / "snapshots/000004.safetensors").unlink(), "snapshots/000004.safetensors is missing in"),
        (lambda path: (path / "summary.json").unlink(), "summary.json is missing in"),
        (lambda path: shutil.rmtree(path / "checkpoints"), "the newest is after 4 rounds against none"),
    ],
)
def test_every_other_difference_is_named(
    run: RunFolder, tmp_path: Path, change: Callable[[Path], object], difference: str
) -> None:
    shutil.copytree(run.path, tmp_path / "run")
    change(tmp_path / "run")
    found = same_results(run, RunFolder(tmp_path / "run"))
    assert any(difference in sentence for sentence in found), found


def test_an_older_checkpoint_that_only_one_has_does_not_count(run: RunFolder, tmp_path: Path) -> None:
    shutil.copytree(run.path, tmp_path / "run")
    (tmp_path / "run/checkpoints/000003.json").unlink()
    assert same_results(run, RunFolder(tmp_path / "run")) == []


def test_a_snapshot_after_the_last_round_of_an_unfinished_run_does_not_count(run: RunFolder, tmp_path: Path) -> None:
    folders = [RunFolder(tmp_path / name) for name in ("one", "other")]
    for folder in folders:
        shutil.copytree(run.path, folder.path)
        (folder.path / "summary.json").unlink()
    last = folders[1].path / "snapshots/000004.safetensors"
    last.write_bytes(b"")
    assert same_results(*folders) == ["snapshots/000004.safetensors differs"]
    last.unlink()
    assert same_results(*folders) == []


def test_times_inside_tables_do_not_count(run: RunFolder, tmp_path: Path) -> None:
    shutil.copytree(run.path, tmp_path / "run")
    first, second = RunFolder(run.path), RunFolder(tmp_path / "run")
    summary = first.summary()
    assert summary is not None
    (second.path / "summary.json").write_text(json.dumps({**summary, "seconds": {"attack": 3.0}}))
    assert same_results(first, second) == []
