"""Models that are kept on the way: read as they were written, or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.server.toy import toy_run

from steadfed.errors import CorruptRunError, ParameterError, RunError
from steadfed.server._folder import RunFolder
from steadfed.server._snapshots import Snapshot, drop_beyond, numbers
from steadfed.server._tensors import to_bytes


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder.create(tmp_path / "run", "name = 'toy'\n")


def snapshot(rounds: int, *, dim: int = 5, buffers: int = 2) -> Snapshot:
    return Snapshot(round=rounds, model=torch.arange(float(dim)) + rounds, buffers=torch.ones(buffers))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("buffers", [0, 3])
def test_a_snapshot_is_read_as_it_was_written(folder: RunFolder, dtype: torch.dtype, buffers: int) -> None:
    model = torch.tensor([1.0, float("nan"), -0.0, float("inf"), 1e-40], dtype=dtype)
    folder.save_snapshot(Snapshot(round=7, model=model, buffers=torch.full((buffers,), 0.1, dtype=dtype)))
    found = folder.snapshot(7)
    assert found.round == 7
    assert found.model.dtype == found.buffers.dtype == dtype
    assert found.model.numpy().tobytes() == model.numpy().tobytes()
    assert found.buffers.tolist() == torch.full((buffers,), 0.1, dtype=dtype).tolist()


def test_snapshots_are_listed_by_number_and_other_files_are_left_alone(folder: RunFolder) -> None:
    assert folder.snapshots() == []
    for rounds in (1_000_000, 3, 0, 999_999):
        folder.save_snapshot(snapshot(rounds))
    (folder.path / "snapshots" / "notes.txt").write_text("mine")
    (folder.path / "snapshots" / "000009.safetensors.unfinished").write_text("torn")
    assert folder.snapshots() == [0, 3, 999_999, 1_000_000]
    drop_beyond(folder.path / "snapshots", 3)
    assert folder.snapshots() == [0, 3]
    names = {path.name for path in (folder.path / "snapshots").iterdir()}
    assert names == {"000000.safetensors", "000003.safetensors", "notes.txt"}


def test_equal_models_give_equal_bytes_and_a_second_one_takes_the_place_of_the_first(folder: RunFolder) -> None:
    file = folder.path / "snapshots" / "000002.safetensors"
    folder.save_snapshot(snapshot(2))
    before = file.read_bytes()
    folder.save_snapshot(snapshot(2))
    assert file.read_bytes() == before
    folder.save_snapshot(snapshot(2, dim=6))
    assert len(folder.snapshot(2).model) == 6


def test_every_byte_that_is_changed_and_every_cut_is_noticed(folder: RunFolder) -> None:
    folder.save_snapshot(snapshot(4))
    file = folder.path / "snapshots" / "000004.safetensors"
    content = file.read_bytes()
    damaged = [content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :] for place in range(len(content))]
    damaged += [content[:length] for length in range(0, len(content), 9)] + [content + b" "]
    for spoiled in damaged:
        file.write_bytes(spoiled)
        try:
            found = folder.snapshot(4)
        except CorruptRunError as error:
            assert str(file) in str(error)  # noqa: PT017  what is not noticed must be harmless
            continue
        assert torch.equal(found.model, snapshot(4).model)
        assert torch.equal(found.buffers, snapshot(4).buffers)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "no safetensors file"),
        (b"cos\nsystem\n(S'true'\ntR.", "no safetensors file"),
        (to_bytes({"model": torch.ones(3)}), "must hold the rows model, buffers and sha256"),
        (to_bytes({"model": torch.ones(2, 2), "buffers": torch.ones(0), "sha256": torch.ones(32)}), "must hold"),
        (to_bytes({"model": torch.ones(2), "buffers": torch.ones(0), "sha256": torch.ones(32)}), "SHA-256"),
        (to_bytes({"model": torch.ones(2), "buffers": torch.ones(0), "sha256": -torch.ones(3)}), "SHA-256"),
        (None, "cannot be read"),
    ],
)
def test_a_damaged_snapshot_is_an_error_that_names_it_and_says_what_to_do(
    folder: RunFolder, content: bytes | None, complaint: str
) -> None:
    folder.save_snapshot(snapshot(4))
    file = folder.path / "snapshots" / "000004.safetensors"
    file.unlink()
    file.mkdir() if content is None else file.write_bytes(content)
    with pytest.raises(CorruptRunError, match=rf"000004\.safetensors is damaged: .*{complaint}.*steadfed run .*toml"):
        folder.snapshot(4)


def test_a_model_that_was_not_kept_is_an_error_that_lists_those_that_were(folder: RunFolder) -> None:
    with pytest.raises(ParameterError, match="holds snapshots after no rounds, got 3"):
        folder.snapshot(3)
    folder.save_snapshot(snapshot(4))
    with pytest.raises(ParameterError, match=r"after \[4\] rounds, got 3"):
        folder.snapshot(3)


def test_a_folder_without_snapshots_is_read_and_rewound_as_ever(tmp_path: Path) -> None:
    folder = toy_run(tmp_path / "run", 3)
    for path in (folder.path / "snapshots").iterdir():
        path.unlink()
    (folder.path / "snapshots").rmdir()
    assert folder.snapshots() == numbers(tmp_path / "nowhere") == []
    folder.rewind(2)
    assert folder.num_rounds() == 2
    assert not (folder.path / "snapshots").exists()


def test_a_folder_with_snapshots_holds_a_run(folder: RunFolder) -> None:
    folder.save_snapshot(snapshot(0))
    (folder.path / "config.toml").unlink()
    with pytest.raises(RunError, match=r"holds a run already \(snapshots\)"):
        RunFolder.create(folder.path, "")


def test_a_snapshot_that_cannot_be_written_is_an_error_that_says_what_is_safe(folder: RunFolder) -> None:
    (folder.path / "snapshots").write_text("in the way")
    with pytest.raises(RunError, match=r"cannot write the snapshot after 2 rounds .*0 rounds are safe"):
        folder.save_snapshot(snapshot(2))
