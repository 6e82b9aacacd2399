from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from steadfed._core import durable
from steadfed._core.durable import (
    UNFINISHED,
    append_lines,
    cut_file,
    drop_torn_line,
    is_own_file,
    last_line,
    own_file,
    replace_file,
    sole_holder,
    whole_lines,
)


def odd_file(kind: str, path: Path) -> Path:
    """Return a path at which there is no regular file of its own."""
    mine = path.with_name("mine")
    mine.write_bytes(b"mine\n")
    match kind:
        case "symbolic link":
            path.symlink_to(mine)
        case "link to nowhere":
            path.symlink_to(path.with_name("nowhere"))
        case "hard links":
            path.hardlink_to(mine)
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "device":
            return Path("/dev/full")
    return path


ODD = {
    "symbolic link": "it is a symbolic link",
    "link to nowhere": "it is a symbolic link",
    "hard links": "2 names",
    "pipe": "no regular file|No such device",
    "folder": "no regular file|[Ii]s a directory",
    "device": "no regular file",
}


@pytest.mark.parametrize("kind", ODD)
def test_what_is_no_file_of_its_own_is_neither_written_nor_locked(tmp_path: Path, kind: str) -> None:
    path = odd_file(kind, tmp_path / "file")
    with pytest.raises(OSError, match=ODD[kind]):
        append_lines(path, b"line\n")
    with pytest.raises(OSError, match=ODD[kind]):
        cut_file(path, 0)
    with pytest.raises(OSError, match=ODD[kind]), sole_holder(path):
        pass
    assert (tmp_path / "mine").read_bytes() == b"mine\n"
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("kind", ODD)
def test_what_is_no_file_of_its_own_is_not_read_and_a_pipe_is_not_waited_for(tmp_path: Path, kind: str) -> None:
    path = odd_file(kind, tmp_path / "file")
    if kind == "hard links":
        assert list(whole_lines(path)) == [b"mine\n"], "reading changes nothing under the other name"
        return
    assert not is_own_file(path)
    for read in (lambda: list(whole_lines(path)), lambda: last_line(path), lambda: own_file(path).close()):
        with pytest.raises(OSError, match=ODD[kind]):
            read()


@pytest.mark.parametrize("kind", ["symbolic link", "link to nowhere", "hard links", "pipe"])
def test_a_file_is_replaced_over_whatever_lies_under_its_name_or_the_unfinished_one(tmp_path: Path, kind: str) -> None:
    for name in ("file", f"file{UNFINISHED}"):
        path = odd_file(kind, tmp_path / name)
        replace_file(tmp_path / "file", b"new")
        assert (tmp_path / "file").read_bytes() == b"new"
        assert is_own_file(tmp_path / "file")
        assert (tmp_path / "mine").read_bytes() == b"mine\n"
        assert not (tmp_path / "nowhere").exists()
        path.unlink(missing_ok=True)


def test_a_name_that_appears_at_the_last_moment_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, unfinished = tmp_path / "mine", tmp_path / f"file{UNFINISHED}"
    mine.write_bytes(b"mine")
    opened = os.open

    def lay_a_link(path: Path, *arguments: int) -> int:
        if not unfinished.is_symlink():
            unfinished.symlink_to(mine)
        return opened(path, *arguments)

    monkeypatch.setattr(os, "open", lay_a_link)
    with pytest.raises(OSError, match="symbolic link"):
        replace_file(tmp_path / "file", b"new")
    assert mine.read_bytes() == b"mine"


@pytest.mark.parametrize("length", [0, 1, 100, (1 << 16) - 1, 1 << 16, (1 << 16) + 1, 200_000])
@pytest.mark.parametrize("before", [b"", b"\n", b"first\n", b"first\n\n"])
def test_the_last_line_is_found_from_the_end_however_long_it_is(tmp_path: Path, before: bytes, length: int) -> None:
    path = tmp_path / "file"
    for end in (b"\n", b""):
        last = b"x" * length + end
        path.write_bytes(before + last)
        assert last_line(path) == (last or before[before.rfind(b"\n", 0, -1) + 1 :])


def test_a_line_without_an_end_is_not_read_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durable, "LONGEST_LINE", 100_000)
    path = tmp_path / "file"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    for read in (lambda: list(whole_lines(path)), lambda: last_line(path)):
        with pytest.raises(OSError, match="longer than"):
            read()


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
