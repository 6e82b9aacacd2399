from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from steadfed._core.durable import append_lines, cut_file, drop_torn_line, replace_file, sole_holder, whole_lines


def test_a_device_that_is_always_full_is_an_error() -> None:
    with pytest.raises(OSError, match="No space left"):
        append_lines(Path("/dev/full"), b"line\n")


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_a_file_that_cannot_be_replaced_stays_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "broken disk")

    path = tmp_path / "file"
    replace_file(path, b"old")
    monkeypatch.setattr(os, failing, fail)
    with pytest.raises(OSError, match="broken disk"):
        replace_file(path, b"new")
    assert path.read_bytes() == b"old"
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


def test_lines_that_do_not_reach_the_disk_are_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def fail(descriptor: int) -> None:
        calls.append(descriptor)
        raise OSError(errno.EIO, "broken disk")

    path = tmp_path / "file"
    path.write_bytes(b"one\n")
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="broken disk"):
        append_lines(path, b"two\n")
    assert path.read_bytes() == b"one\n"
    assert calls


def test_what_is_written_is_brought_to_disk_file_before_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    sync, rename = os.fsync, os.replace

    def fsync(descriptor: int) -> None:
        calls.append("folder" if os.path.isdir(f"/proc/self/fd/{descriptor}") else "file")  # noqa: PTH112
        sync(descriptor)

    def replace(source: Path, target: Path) -> None:
        calls.append("rename")
        rename(source, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", replace)
    replace_file(tmp_path / "file", b"content")
    assert calls == ["file", "rename", "folder"]
    append_lines(tmp_path / "file", b"line\n")
    assert calls[3:] == ["file"]


@pytest.mark.parametrize(
    ("content", "whole"),
    [
        (b"", b""),
        (b"a", b""),
        (b"a\n", b"a\n"),
        (b"a\nb", b"a\n"),
        (b"a\r\x0b\xe2\x80\xa8\n\n", b"a\r\x0b\xe2\x80\xa8\n\n"),
    ],
)
def test_only_the_torn_end_is_cut_off(tmp_path: Path, content: bytes, whole: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    assert b"".join(whole_lines(path)) == whole
    drop_torn_line(path)
    assert path.read_bytes() == whole
    cut_file(path, len(whole) + 5)
    assert path.read_bytes() == whole


def test_a_lock_is_held_once_and_given_back(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with sole_holder(path), pytest.raises(BlockingIOError), sole_holder(path):
        pass
    with sole_holder(path):
        assert path.exists()
