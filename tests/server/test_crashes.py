"""kill -9, torn files and full disks: whatever a crash leaves, going on ends where an uninterrupted run ends."""

from __future__ import annotations

import hashlib
import json
import resource
import shutil
from functools import partial
from pathlib import Path

import pytest
import torch
from tests.same_results import same_results
from tests.server.toy import go_on, in_child, kill_at_line, toy_round, toy_run, write_round

from steadfed._core.signatures import SigningKey, VerificationKey
from steadfed.errors import RunError
from steadfed.server._checkpoint import Checkpoint
from steadfed.server._folder import RunFolder
from steadfed.server._record import RoundRecord
from steadfed.server._signatures import check_signed

ROUNDS = 4
KEY = SigningKey.generate()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return toy_run(tmp_path_factory.mktemp("whole") / "run", ROUNDS)


def left_by(path: Path) -> tuple[tuple[str, int], ...]:
    """Return the files in a folder with their sizes."""
    return tuple(sorted((str(each.relative_to(path)), each.stat().st_size) for each in path.rglob("*.*")))


@pytest.mark.parametrize("key", [None, KEY], ids=["unsigned", "signed"])
def test_a_round_killed_before_any_line_is_continued_exactly(
    tmp_path: Path, whole: RunFolder, key: SigningKey | None
) -> None:
    start = tmp_path / "start"
    begun = RunFolder.create(start, "name = 'toy'\n", server_key=key.public if key else None)
    go_on(begun, 2, key)
    state = begun.latest_checkpoint()
    assert state is not None
    (start / "snapshots" / "000002.safetensors").unlink()  # left by the end of two rounds, which is none of four
    third = state, *toy_round(state)
    moments, killed, seen, remains = 0, -9, set(), set()
    while killed:
        moments += 1
        path = tmp_path / "run"
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(start, path)
        folder = RunFolder.open(path)
        killed = kill_at_line(moments, partial(write_round, folder, *third, key))
        assert folder.num_rounds() >= 2
        state = folder.latest_checkpoint()
        assert state is not None
        assert state.round >= folder.num_rounds() - 1, "more than the round in progress was lost"
        if key is not None:
            assert check_signed(folder, key.public) >= state.round, "a state is there only if its line is signed"
        seen.add((folder.num_rounds(), state.round))
        if left_by(path) in remains:
            continue
        remains.add(left_by(path))
        go_on(folder, ROUNDS, key)
        assert same_results(folder, whole) == []
        assert not list(path.rglob("*.unfinished"))
        assert folder.snapshots() == [0, 2, 4]
        if key is not None:
            assert check_signed(folder, key.public) == ROUNDS
    assert seen == {(2, 2), (3, 2), (3, 3)}
    assert moments > 60
    # as before; snapshot opened, written, renamed; the line; its signature; tensors opened, written, renamed; JSON
    # opened, written, renamed; old JSON, old tensors gone
    assert len(remains) == 13 + (key is not None)


@pytest.mark.parametrize(("key", "again"), [(None, None), (KEY.public, KEY.public), (KEY.public, None)])
def test_a_start_killed_before_any_line_leaves_no_run_or_a_whole_one(
    tmp_path: Path, whole: RunFolder, key: VerificationKey | None, again: VerificationKey | None
) -> None:
    moments, killed, outcomes = 0, -9, set()
    while killed:
        moments += 1
        path = tmp_path / str(moments)
        killed = kill_at_line(moments, partial(RunFolder.create, path, "name = 'toy'\n", server_key=key))
        try:
            folder = RunFolder.open(path)
            outcomes.add("whole")
        except RunError:
            folder = RunFolder.create(path, "name = 'toy'\n", server_key=again)
            outcomes.add("none")
            assert folder.signatures.exists() == folder.public_key.exists() == (again is not None)
        go_on(folder, 1)
        assert folder.config_text() == whole.config_text()
        assert folder.num_rounds() == 1
    assert outcomes == {"whole", "none"}


def test_a_resumption_killed_before_any_line_is_resumed_itself(tmp_path: Path, whole: RunFolder) -> None:
    """The worst place to start from: a torn line, a broken checkpoint, one of the future, a file half written."""
    start = tmp_path / "start"
    go_on(RunFolder.create(start, "name = 'toy'\n"), 3)
    states = start / "checkpoints"
    with (start / "rounds.jsonl").open("a") as file:
        file.write('{"round":3,"st')
    for ending in ("json", "safetensors"):
        content = (states / f"000003.{ending}").read_bytes()
        (states / f"000009.{ending}").write_bytes(content)
        (states / f"000004.{ending}.unfinished").write_bytes(content[:20])
    for name in ("000004.safetensors", "000009.safetensors", "000002.safetensors.unfinished"):
        (start / "snapshots" / name).write_bytes(b"of the future, or torn")
    (states / "000003.safetensors").write_bytes(b"")
    moments, killed = 0, -9
    while killed:
        moments += 11  # every eleventh moment: the steps of a round are tried one by one above
        path = tmp_path / "run"
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(start, path)
        killed = kill_at_line(moments, lambda: go_on(RunFolder.open(tmp_path / "run"), ROUNDS))
        folder = RunFolder.open(path)
        go_on(folder, ROUNDS)
        assert same_results(folder, whole) == []
    assert moments > 200


def test_a_last_line_torn_after_any_byte_is_continued_exactly(tmp_path: Path, whole: RunFolder) -> None:
    shutil.copytree(whole.path, tmp_path / "run")
    folder = RunFolder.open(tmp_path / "run")
    content = (folder.path / "rounds.jsonl").read_bytes()
    last = content[:-1].rfind(b"\n") + 1
    for length in range(last, len(content), 7):
        (folder.path / "rounds.jsonl").write_bytes(content[:length])
        assert folder.num_rounds() == len(list(folder.records())) == ROUNDS - 1
        go_on(folder, ROUNDS)
        assert same_results(folder, whole) == []


def damages() -> list[tuple[str, str, bytes | None]]:
    return [
        ("safetensors", "SHA-256", b""),
        ("safetensors", "SHA-256", b"garbage"),
        ("safetensors", "cannot be read", None),
        ("json", "not JSON", b""),
        ("json", "not JSON", b'{"format": 1, "rou'),
        ("json", "not JSON", b"\xff\xfe"),
        ("json", "not JSON", b"[" * 100_000),
        ("json", "does not describe", b"[]"),
        ("json", "does not describe", b"{}"),
        ("json", "format must be 2", b'{"round": 4, "sha256": "", "facts": {}}'),
        ("json", "round must be", b'{"format": 2, "round": 3, "sha256": "", "facts": {}}'),
        ("json", "round must be", b'{"format": 1, "round": 3, "sha256": "", "facts": {}}'),
        ("json", "format must be", b'{"format": 7, "round": 4, "sha256": "", "facts": {}}'),
        ("json", "facts must be", b'{"format": 1, "round": 4, "sha256": "", "facts": 5}'),
        ("json", "head must be", b'{"format": 2, "round": 4, "sha256": "", "facts": {}, "config": ""}'),
        (
            "json",
            "seal does not fit",
            b'{"format": 2, "round": 4, "sha256": "", "facts": {}, "config": "", "head": ""}',
        ),
        ("json", "SHA-256", b'{"format": 1, "round": 4, "sha256": "0123", "facts": {}}'),
    ]


@pytest.mark.parametrize(("ending", "complaint", "content"), damages())
def test_a_damaged_checkpoint_is_passed_over_and_named(
    tmp_path: Path, whole: RunFolder, ending: str, complaint: str, content: bytes | None
) -> None:
    shutil.copytree(whole.path, tmp_path / "run")
    folder = RunFolder.open(tmp_path / "run")
    damaged = folder.path / "checkpoints" / f"000004.{ending}"
    damaged.unlink() if content is None else damaged.write_bytes(content)
    state = folder.latest_checkpoint()
    assert state is not None
    assert state.round == 3
    assert len(folder.notes) == 1
    assert complaint in folder.notes[0]
    go_on(folder, ROUNDS)
    assert folder.notes
    assert folder.latest_checkpoint() is not None
    assert folder.notes == []
    assert same_results(folder, whole) == []


def test_a_safetensors_file_with_a_fitting_hash_and_no_sense_is_passed_over(tmp_path: Path, whole: RunFolder) -> None:
    shutil.copytree(whole.path, tmp_path / "run")
    folder = RunFolder.open(tmp_path / "run")
    states = folder.path / "checkpoints"
    (states / "000004.safetensors").write_bytes(b"no tensors")
    described = json.loads((states / "000004.json").read_text())
    described["sha256"] = hashlib.sha256(b"no tensors").hexdigest()
    del described["seal"]
    seal = hashlib.sha256(json.dumps(described).encode()).hexdigest()
    (states / "000004.json").write_text(json.dumps({**described, "seal": seal}, indent=1) + "\n")
    state = folder.latest_checkpoint()
    assert state is not None
    assert state.round == 3
    assert "no safetensors file" in folder.notes[0]


def test_without_any_checkpoint_a_run_starts_again(tmp_path: Path, whole: RunFolder) -> None:
    shutil.copytree(whole.path, tmp_path / "run")
    folder = RunFolder.open(tmp_path / "run")
    shutil.rmtree(folder.path / "checkpoints")
    assert folder.latest_checkpoint() is None
    assert "the 4 rounds written down are computed again" in folder.notes[-1]
    go_on(folder, ROUNDS)
    assert same_results(folder, whole) == []


def test_checkpoints_ahead_of_the_records_are_passed_over(tmp_path: Path, whole: RunFolder) -> None:
    shutil.copytree(whole.path, tmp_path / "run")
    folder = RunFolder.open(tmp_path / "run")
    lines = (folder.path / "rounds.jsonl").read_bytes().splitlines(keepends=True)
    (folder.path / "rounds.jsonl").write_bytes(b"".join(lines[:3]))
    state = folder.latest_checkpoint()
    assert state is not None
    assert state.round == 3
    assert "ahead of the 3 rounds" in folder.notes[0]
    go_on(folder, ROUNDS)
    assert same_results(folder, whole) == []


def filled_up(path: Path, size: int) -> str:
    """Return the error of a run that goes on until its files reach a limit."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
    try:
        go_on(RunFolder.open(path), 100)
    except RunError as error:
        return str(error)
    return "no error"


@pytest.mark.parametrize("size", [0, 100, 1000, 2000])
def test_a_limit_on_the_size_of_files_ends_in_a_run_that_can_go_on(tmp_path: Path, size: int) -> None:
    """The limit strikes as a full disk does: a write that takes only a part, and then none."""
    folder = toy_run(tmp_path / "run", 1)
    code, said = in_child(lambda: filled_up(folder.path, size))
    assert code == 0, said
    assert "cannot" in said
    state = folder.latest_checkpoint()
    assert state is not None
    if size >= 100:  # below, there is not even room for the lock
        assert f"{folder.num_rounds()} rounds are safe on disk, with the state after {state.round}" in said
        assert "steadfed resume" in said
    assert not list(folder.path.rglob("*.unfinished"))
    assert (folder.path / "rounds.jsonl").read_bytes().endswith(b"\n"), "the torn line was cut off"
    go_on(folder, 20)
    assert same_results(folder, toy_run(tmp_path / "whole", 20)) == []


def test_a_checkpoint_too_large_for_the_disk_leaves_the_last_one(tmp_path: Path) -> None:
    folder = toy_run(tmp_path / "run", 2)

    def fill() -> str:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4000, resource.RLIM_INFINITY))
        try:
            folder.save_checkpoint(Checkpoint(round=3, tensors={"model": torch.zeros(100_000)}))
        except RunError as error:
            return str(error)
        return "no error"

    code, said = in_child(fill)
    assert code == 0
    assert "cannot write the checkpoint after 3 rounds" in said
    assert "2 rounds are safe on disk, with the state after 2" in said
    assert sorted(path.name for path in (folder.path / "checkpoints").iterdir()) == [
        "000001.json",
        "000001.safetensors",
        "000002.json",
        "000002.safetensors",
    ]


def test_a_folder_deleted_in_the_middle_is_an_error_of_ones_own(tmp_path: Path) -> None:
    folder = toy_run(tmp_path / "run", 1)
    with folder.locked():
        shutil.rmtree(folder.path)
        with pytest.raises(RunError, match=r"write round 1.*No such file.*is gone"):
            folder.append(RoundRecord(round=1, step=2, lr=0.1, cohort=(1,)))
        with pytest.raises(RunError, match="cannot write the checkpoint"):
            folder.save_checkpoint(Checkpoint(round=2, tensors={}))
        with pytest.raises(RunError, match="cannot write the summary"):
            folder.write_summary({})
        with pytest.raises(RunError, match="cannot be read"):
            list(folder.records())
        with pytest.raises(RunError, match="cannot be read"):
            folder.latest_checkpoint()
    assert not folder.path.exists()
