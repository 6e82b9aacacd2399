from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tests.same_results import timeless
from tests.server.toy import go_on, in_child, toy_record, toy_run

from steadfed.errors import CorruptRunError, ParameterError, RunError
from steadfed.server._checkpoint import Checkpoint
from steadfed.server._folder import RunFolder


def test_a_run_is_read_as_it_was_written(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "deep" / "run", "α = 'ü'\n")
    records = [toy_record(number) for number in range(3)]
    for record in records:
        folder.append(record)
    again = RunFolder.open(str(folder.path))
    assert again.config_text() == "α = 'ü'\n"
    assert timeless(again.records()) == timeless(records)
    assert again.num_rounds() == 3
    assert again.summary() is None


def test_the_results_are_plain_files(tmp_path: Path) -> None:
    folder = toy_run(tmp_path / "run", 2)
    assert set(load_file(folder.path / "model.safetensors")) == {"layer.weight"}
    summary = folder.summary()
    assert summary is not None
    assert (summary["rounds"], summary["loss"]) == (2, None)
    with pytest.raises(ParameterError, match="plain JSON"):
        folder.write_summary({"model": torch.ones(1)})
    assert folder.summary() == summary


def test_the_last_two_checkpoints_are_kept(tmp_path: Path) -> None:
    folder = toy_run(tmp_path / "run", 5)
    (folder.path / "checkpoints" / "notes.txt").write_text("mine")
    folder.save_checkpoint(Checkpoint(round=1_000_000, tensors={}))
    names = sorted(path.name for path in (folder.path / "checkpoints").iterdir())
    assert names == ["000005.json", "000005.safetensors", "1000000.json", "1000000.safetensors", "notes.txt"]


def test_checkpoints_are_ordered_by_number_not_by_name(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run", "")
    (folder.path / "rounds.jsonl").write_text("".join(toy_record(number).to_line() for number in range(3)))
    states = folder.path / "checkpoints"
    for number in (999_999, 1_000_000):
        folder.save_checkpoint(Checkpoint(round=number, tensors={}))
    folder.save_checkpoint(Checkpoint(round=1_000_001, tensors={}))
    assert {path.stem for path in states.iterdir()} == {"1000000", "1000001"}


def test_a_folder_with_a_run_is_not_overwritten(tmp_path: Path) -> None:
    folder = toy_run(tmp_path / "run", 1)
    with pytest.raises(RunError, match=r"holds a run already.*steadfed resume.*another folder"):
        RunFolder.create(folder.path, "other = true\n")
    (folder.path / "config.toml").unlink()
    with pytest.raises(RunError, match=r"holds a run already.*rounds\.jsonl"):
        RunFolder.create(folder.path, "other = true\n")
    assert folder.num_rounds() == 1


def test_a_folder_with_other_files_may_hold_a_run(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    assert toy_run(tmp_path, 1).num_rounds() == 1
    assert (tmp_path / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("place", ["file", "file/run", "dangling"])
def test_a_place_where_no_folder_can_be_is_refused(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "dangling").symlink_to(tmp_path / "file" / "nowhere")
    with pytest.raises(RunError, match=r"cannot make the folder.*choose"):
        RunFolder.create(tmp_path / place, "")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux has a folder where even root cannot write")
def test_a_place_that_cannot_be_written_is_refused() -> None:
    with pytest.raises(RunError, match="cannot make the folder '/proc/steadfed'"):
        RunFolder.create("/proc/steadfed", "")


def test_a_symbolic_link_to_a_folder_is_as_good_as_the_folder(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real", target_is_directory=True)
    toy_run(tmp_path / "link", 2)
    assert RunFolder.open(tmp_path / "real").num_rounds() == 2


@pytest.mark.parametrize("missing", ["config.toml", "rounds.jsonl"])
def test_the_file_that_is_missing_is_named(tmp_path: Path, missing: str) -> None:
    folder = toy_run(tmp_path / "run", 1)
    (folder.path / missing).unlink()
    with pytest.raises(CorruptRunError, match=missing):
        RunFolder.open(folder.path)


def test_what_is_no_folder_holds_no_run(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for name, complaint in (("file", "is not a folder"), ("nothing", "does not exist")):
        with pytest.raises(CorruptRunError, match=complaint):
            RunFolder.open(tmp_path / name)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b"garbage\n", "not a record"),
        (b"\n", "not a record"),
        (b"\x00\x00\n", "not a record"),
        (b"\xff\xfe\n", "decode"),
        (b'{"round":1}\n', "not a record"),
        (b'{"round":7,"step":2,"lr":0.1,"cohort":[]}\n', "round 7 in the place of 1"),
        (b'{"round":1,"step":2,"lr":0.1,"cohort":[],"colour":"red"}\n', "colour"),
    ],
)
def test_garbage_in_the_middle_is_named_by_its_line_and_never_resumed_from(
    tmp_path: Path, line: bytes, complaint: str
) -> None:
    folder = toy_run(tmp_path / "run", 4)
    lines = (folder.path / "rounds.jsonl").read_bytes().splitlines(keepends=True)
    (folder.path / "rounds.jsonl").write_bytes(lines[0] + line + b"".join(lines[2:]))
    reader = folder.records()
    assert next(reader).round == 0
    with pytest.raises(CorruptRunError, match=f"line 2 of .*{complaint}"):
        next(reader)
    with pytest.raises(CorruptRunError, match="line 2"):
        folder.latest_checkpoint()


def test_a_lost_line_in_the_middle_is_noticed(tmp_path: Path) -> None:
    folder = toy_run(tmp_path / "run", 4)
    lines = (folder.path / "rounds.jsonl").read_bytes().splitlines(keepends=True)
    (folder.path / "rounds.jsonl").write_bytes(lines[0] + b"".join(lines[2:]))
    with pytest.raises(CorruptRunError, match=r"line 2 .* round 2 in the place of 1"):
        list(folder.records())


def test_nothing_is_appended_to_a_torn_line(tmp_path: Path) -> None:
    folder = toy_run(tmp_path / "run", 1)
    with (folder.path / "rounds.jsonl").open("a") as file:
        file.write('{"round":1')
    with pytest.raises(RunError, match="rewind"):
        folder.append(toy_record(1))
    folder.rewind(1)
    folder.append(toy_record(1))
    assert [record.round for record in folder.records()] == [0, 1]


def test_rewinding_forgets_what_came_after(tmp_path: Path) -> None:
    folder = toy_run(tmp_path / "run", 4)
    folder.rewind(4)
    assert folder.summary() is not None
    folder.rewind(3)
    assert folder.num_rounds() == 3
    assert {path.stem for path in (folder.path / "checkpoints").iterdir()} == {"000003"}
    assert folder.snapshots() == [0, 2]
    assert folder.summary() is None
    assert not (folder.path / "model.safetensors").exists()
    for rounds in (4, -1):
        with pytest.raises(RunError, match="3 are written down"):
            folder.rewind(rounds)


def test_an_empty_file_of_rounds_is_a_run_that_has_not_begun(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run", "")
    assert list(folder.records()) == []
    assert folder.latest_checkpoint() is None
    assert folder.notes == []


@pytest.mark.parametrize(("content", "complaint"), [(b"{", "not JSON"), (b"[]", "table"), (b"\xff", "UTF-8")])
def test_a_damaged_summary_is_an_error_and_written_again(tmp_path: Path, content: bytes, complaint: str) -> None:
    folder = toy_run(tmp_path / "run", 1)
    (folder.path / "summary.json").write_bytes(content)
    with pytest.raises(CorruptRunError, match=complaint):
        folder.summary()
    (folder.path / "summary.json").unlink()
    go_on(folder, 1)
    assert folder.summary() is not None


def test_a_configuration_that_is_no_text_is_an_error(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run", "")
    (folder.path / "config.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(CorruptRunError, match="UTF-8"):
        folder.config_text()


def test_a_second_writer_is_kept_out_and_told_who_is_first(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run", "")

    def intrude() -> str:
        try:
            with RunFolder.open(tmp_path / "run").locked():
                return "came in"
        except RunError as error:
            return str(error)

    with folder.locked():
        code, said = in_child(intrude)
        assert code == 0
        assert f"process {os.getpid()} is working in" in said
        assert folder.num_rounds() == 0, "readers need no lock"
        with pytest.raises(RunError, match="is working in"), folder.locked():
            pass
    assert in_child(intrude) == (0, "came in")


def test_the_lock_of_a_killed_process_is_no_obstacle(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run", "")

    def die() -> None:
        with folder.locked():
            os.kill(os.getpid(), signal.SIGKILL)

    code, _ = in_child(die)
    assert code == -signal.SIGKILL
    assert (folder.path / "lock").read_text().strip().isdigit()
    with folder.locked():
        assert (folder.path / "lock").read_text() == f"{os.getpid()}\n"


def test_a_holder_that_has_not_given_its_number_is_another_process(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run", "")
    with folder.locked():
        (folder.path / "lock").write_text("")
        with pytest.raises(RunError, match="another process is working"), folder.locked():
            pass


def test_a_folder_that_is_gone_cannot_be_locked(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run", "")
    shutil.rmtree(folder.path)
    with pytest.raises(RunError, match="cannot lock"), folder.locked():
        pass


def test_a_long_run_is_read_line_by_line(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run", "")
    (folder.path / "rounds.jsonl").write_text("".join(toy_record(number).to_line() for number in range(10_000)))
    assert folder.num_rounds() == 10_000
    assert sum(record.round for record in folder.records()) == 9_999 * 5_000


def test_run_folders_are_read_without_torch() -> None:
    code = "import sys, steadfed.server._history; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0  # noqa: S603
