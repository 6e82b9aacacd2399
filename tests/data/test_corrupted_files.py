"""Data files that are damaged or hostile: one error with the name of the file, and no room made beyond its size."""

from __future__ import annotations

import errno
import gzip
import io
import os
import tarfile
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import sklearn.datasets  # noqa: F401  not while memory is counted
from hypothesis import HealthCheck, given, settings, strategies as st
from tests.data.test_places import CONTENT, FILES, MEMBERS, archived, data_file, file_set, packed_folder, put

from steadfed._core.recorded import recorded_array
from steadfed.data import DataSource, Libsvm, Npz, _files
from steadfed.data._files import read_archive
from steadfed.data._places import find_folder, read_files
from steadfed.errors import CorruptDataError, DataError, MissingDataError, ParameterError, SteadfedError

ROOM = 96 << 20
"""Bytes that reading any small file may take, what it always may unpack among them."""
Make = Callable[[Path], object]


@contextmanager
def little_memory() -> Iterator[None]:
    """Refuse what takes more room than any small file may."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < ROOM
    finally:
        tracemalloc.stop()


def refusal(load: Callable[[], object], name: str) -> str:
    """Return the error of the tree that names the file."""
    with little_memory(), pytest.raises(SteadfedError) as caught:
        load()
    assert name in str(caught.value)
    return str(caught.value)


def user_file(kind: str, path: Path) -> DataSource:
    return Npz(path=path) if kind == "npz" else Libsvm(path=path)


@pytest.mark.parametrize("kind", ["npz", "libsvm"])
@pytest.mark.parametrize(
    "make", [os.mkfifo, os.mkdir, lambda path: path.symlink_to("/dev/zero")], ids=["pipe", "dir", "0"]
)
def test_what_is_no_file_is_not_opened(kind: str, make: Make, tmp_path: Path) -> None:
    make(tmp_path / "mine")
    assert "there is no file" in refusal(user_file(kind, tmp_path / "mine").load, "mine")


@pytest.mark.parametrize(
    "make", [os.mkfifo, os.mkdir, lambda path: path.symlink_to("/dev/zero")], ids=["pipe", "dir", "0"]
)
def test_in_a_data_folder_it_is_passed_over(make: Make, empty_machine: Path) -> None:
    make(empty_machine / "points")
    make(empty_machine / "points.gz")
    with pytest.raises(MissingDataError, match="no usable points"):
        read_files(file_set(data_file()), ".")
    put(empty_machine / "toy/points", CONTENT)
    assert find_folder(file_set(data_file()), ".") == Path("toy")


@pytest.mark.parametrize("kind", ["npz", "libsvm"])
@pytest.mark.parametrize("path", ["a" * 300, "a/" * 3_000, "no\0name", "~nobody-is-called-so/x"], ids=len)
def test_paths_that_cannot_be_are_errors_of_the_tree(kind: str, path: str) -> None:
    with pytest.raises(MissingDataError):
        (Npz(path=path) if kind == "npz" else Libsvm(path=path)).load()
    with pytest.raises(MissingDataError):
        read_files(file_set(data_file()), path)


@pytest.mark.parametrize("kind", ["npz", "libsvm"])
def test_files_that_may_not_be_looked_at_are_not_there(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, **_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "stat", refuse)
    with pytest.raises(MissingDataError, match="mine"):
        user_file(kind, tmp_path / "mine").load()
    with pytest.raises(MissingDataError, match="no usable points"):
        read_files(file_set(data_file()), str(tmp_path))


def test_files_that_may_not_be_read_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, *_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    put(tmp_path / "points", CONTENT)
    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(CorruptDataError, match=r"points cannot be read: .*Permission denied"):
        read_files(file_set(data_file()), str(tmp_path))
    with pytest.raises(CorruptDataError, match=r"points cannot be read: .*Permission denied"):
        Libsvm(path=tmp_path / "points").load()


def test_a_bomb_in_an_npz_file_does_not_go_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_files, "ALWAYS_UNPACKED", 1 << 16)
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "|u1", "fortran_order": False, "shape": (1 << 22, 4)})
    with zipfile.ZipFile(tmp_path / "bomb.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        with archive.open("features.npy", "w") as member:
            member.write(header.getvalue())
            for _ in range(1):
                member.write(bytes(1 << 24))
        archive.writestr("labels.npy", _npy(np.zeros(4, dtype=np.int64)))
    assert (tmp_path / "bomb.npz").stat().st_size < 1 << 15
    assert "bytes unpacked" in refusal(Npz(path=tmp_path / "bomb.npz").load, "bomb.npz")


def test_an_npz_file_with_a_password_or_nameless_arrays_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "mine.npz", features=np.eye(2), labels=np.array([0, 1]))
    content = bytearray((tmp_path / "mine.npz").read_bytes())
    for start in (b"PK\x03\x04", b"PK\x01\x02"):  # the bit of the password, in both places
        place = content.index(start) + (6 if start == b"PK\x03\x04" else 8)
        content[place] |= 1
    (tmp_path / "mine.npz").write_bytes(bytes(content))
    assert "password" in refusal(Npz(path=tmp_path / "mine.npz").load, "mine.npz")
    with zipfile.ZipFile(tmp_path / "odd.npz", "w") as archive:
        for name in ("features", "labels"):
            archive.writestr(name, b"")
    assert "got none" in refusal(Npz(path=tmp_path / "odd.npz").load, "odd.npz")


def test_labels_of_any_size_are_no_classes(tmp_path: Path) -> None:
    np.savez(tmp_path / "mine.npz", features=np.eye(2), labels=np.array([0, 10**15]))
    with pytest.raises(DataError, match="at most 1,048,576 are, got 1,000,000,000,000,001"):
        Npz(path=tmp_path / "mine.npz").load()


@pytest.mark.parametrize("text", ["1 99999999:1\n", "1 9223372036854775807:1\n", "1 99999999999999999999999:1\n"])
def test_one_far_feature_makes_no_gigabytes(text: str, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text(text)
    with little_memory(), pytest.raises(DataError):
        Libsvm(path=tmp_path / "mine").load()


def test_a_packed_bomb_is_not_unpacked_for_libsvm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_files, "ALWAYS_UNPACKED", 1 << 16)
    monkeypatch.setattr(_files, "MOST_UNPACKED", 2)
    (tmp_path / "mine.gz").write_bytes(gzip.compress(b"1 1:1\n" * (1 << 14), mtime=0))
    assert "more than 65,536 bytes unpacked" in refusal(Libsvm(path=tmp_path / "mine.gz").load, "mine.gz")


def test_a_header_of_an_archive_is_not_unpacked_beyond_what_the_archive_may_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tarfile reads the long name of a file at once, however long."""
    monkeypatch.setattr(_files, "LARGEST_BYSTANDER", 1 << 10)
    info = tarfile.TarInfo("././@LongLink")
    info.type, info.size = tarfile.GNUTYPE_LONGNAME, 4 << 30
    with gzip.open(tmp_path / "toy.tar.gz", "wb", compresslevel=9) as archive:
        archive.write(info.tobuf(tarfile.GNU_FORMAT))
        archive.write(bytes(1 << 20))
    with pytest.raises(CorruptDataError, match=r"toy\.tar\.gz cannot be read .*more comes out of it than can be in it"):
        read_archive(tmp_path / "toy.tar.gz", FILES)


def test_headers_about_headers_are_refused(tmp_path: Path) -> None:
    info = tarfile.TarInfo("././@LongLink")
    info.type, info.size = tarfile.GNUTYPE_LONGNAME, 4
    with gzip.open(tmp_path / "toy.tar.gz", "wb") as archive:
        archive.write((info.tobuf(tarfile.GNU_FORMAT) + b"name" + bytes(508)) * 5_000)
    assert "cannot be read as a packed folder" in refusal(
        lambda: read_archive(tmp_path / "toy.tar.gz", FILES), "toy.tar.gz"
    )


def _npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def _damaged(content: bytes, damage: list[tuple[int, int]], cut: int) -> bytes:
    changed = bytearray(content)
    for place, value in damage:
        changed[place % len(changed)] = value
    return bytes(changed[: len(changed) - cut % len(changed)])


DAMAGE = st.lists(st.tuples(st.integers(0, 10**4), st.integers(0, 255)), max_size=8)
DAMAGED = settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])


@DAMAGED
@given(DAMAGE, st.one_of(st.just(0), st.integers(0, 10**4)))
def test_any_damage_of_an_npz_file_is_one_error_or_none(
    tmp_path: Path, damage: list[tuple[int, int]], cut: int
) -> None:
    np.savez(tmp_path / "whole.npz", features=np.eye(4, dtype=np.float32), labels=np.array([0, 1, 2, 3]))
    (tmp_path / "mine.npz").write_bytes(_damaged((tmp_path / "whole.npz").read_bytes(), damage, cut))
    _load(Npz(path=tmp_path / "mine.npz").load)


@DAMAGED
@given(DAMAGE, st.one_of(st.just(0), st.integers(0, 10**4)))
def test_any_damage_of_an_archive_is_one_error_or_none(tmp_path: Path, damage: list[tuple[int, int]], cut: int) -> None:
    whole = gzip.decompress(packed_folder(tmp_path / "whole.tar.gz", MEMBERS).read_bytes())
    (tmp_path / "toy.tar.gz").write_bytes(gzip.compress(_damaged(whole, damage, cut), 1, mtime=0))
    _load(lambda: read_archive(tmp_path / "toy.tar.gz", FILES))
    _load(lambda: read_files(archived(), str(tmp_path / "toy.tar.gz")))


@DAMAGED
@given(DAMAGE, st.one_of(st.just(0), st.integers(0, 10**4)), st.booleans())
def test_any_damage_of_a_libsvm_file_is_one_error_or_none(
    tmp_path: Path, damage: list[tuple[int, int]], cut: int, packed: bool
) -> None:
    text = b"".join(b"%d 1:%d 7:0.5\n" % (place % 2, place) for place in range(20))
    (tmp_path / "mine").write_bytes(_damaged(gzip.compress(text, mtime=0) if packed else text, damage, cut))
    _load(Libsvm(path=tmp_path / "mine").load)


@DAMAGED
@given(DAMAGE, st.one_of(st.just(0), st.integers(0, 10**4)))
def test_any_damage_of_recorded_updates_is_one_error_or_none(
    tmp_path: Path, damage: list[tuple[int, int]], cut: int
) -> None:
    (tmp_path / "mine.npy").write_bytes(_damaged(_npy(np.eye(4)), damage, cut))
    _load(lambda: recorded_array(tmp_path / "mine.npy", "matrix"))


def _load(load: Callable[[], object]) -> None:
    with little_memory():
        try:
            load()
        except SteadfedError as error:
            assert str(error)  # noqa: PT017  either is well


@pytest.mark.parametrize(
    "make", [os.mkfifo, os.mkdir, lambda path: path.write_bytes(b"")], ids=["pipe", "dir", "empty"]
)
def test_what_holds_no_recorded_updates_is_one_error(make: Make, tmp_path: Path) -> None:
    make(tmp_path / "mine.npy")
    with pytest.raises(ParameterError, match=r"cannot read .*mine\.npy' as a \.npy matrix"):
        recorded_array(tmp_path / "mine.npy", "matrix")
    with zipfile.ZipFile(tmp_path / "mine.npz", "w") as archive:
        archive.writestr("a.npy", _npy(np.eye(2)))
    with pytest.raises(ParameterError, match=r"cannot read .*mine\.npz' as a \.npy matrix"):
        recorded_array(tmp_path / "mine.npz", "matrix")
