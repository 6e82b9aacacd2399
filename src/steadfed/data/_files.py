"""Files of known content: read packed or not, never beyond their known size, and always checked."""

from __future__ import annotations

import gzip
import hashlib
import tarfile
import zlib
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast, final

from steadfed.errors import CorruptDataError

GZIP_MAGIC = b"\x1f\x8b"
LARGEST_BYSTANDER = 1 << 20
"""Bytes that a file of an archive may have which is not asked for."""
MOST_MEMBERS = 64
"""Files that are looked at in an archive before it is given up."""
MOST_UNPACKED = 250
"""As many bytes as a file has, that many times more may come out of it; numbers that are mostly zero pack so well."""
ALWAYS_UNPACKED = 64 << 20
"""So many bytes may come out of any file."""


@dataclass(frozen=True, kw_only=True)
class DataFile:
    """One file of a data set and what it holds when unpacked."""

    name: str
    """Its name when unpacked; packed it is called the same with .gz behind."""
    size: int
    """Its bytes when unpacked; no more are ever read."""
    sha256: str
    """The SHA-256 of the unpacked content; packed files of different distributors differ in their headers."""
    url: str
    """Where it can be downloaded, packed or not."""


@dataclass(frozen=True, kw_only=True)
class Archive:
    """A packed folder (.tar.gz) that holds the files of a data set."""

    name: str
    sha256: str
    """The SHA-256 of the archive as it is."""
    url: str


def plausible_size(path: Path) -> int:
    """Return how many bytes may come out of a file of the user, whose content nobody knows: no bomb's."""
    return max(ALWAYS_UNPACKED, MOST_UNPACKED * path.stat().st_size)


def is_file(path: Path) -> bool:
    """Return whether there is a file, as far as this user may know: no folder, no pipe that would be waited for."""
    try:
        return path.is_file()
    except (OSError, ValueError):  # no permission, a name that is too long, one with a NUL
        return False


def unpack(path: Path, limit: int) -> bytes:
    """Return the content of a file, unpacked if it is packed by gzip whatever it is called; at most limit + 1 bytes."""
    try:
        with path.open("rb") as stream:
            packed = stream.read(2) == GZIP_MAGIC
            stream.seek(0)
            return gzip.GzipFile(fileobj=stream).read(limit + 1) if packed else stream.read(limit + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise CorruptDataError(f"{path} cannot be read: {error}") from error


def check_content(content: bytes, file: DataFile, where: Path) -> bytes:
    """Return the content if it is that of the file, by size and checksum."""
    if len(content) != file.size:
        got = f"{len(content):,}" if len(content) < file.size else "more"
        raise CorruptDataError(f"{where} is not {file.name}: expected {file.size:,} bytes unpacked, got {got}")
    digest = hashlib.sha256(content).hexdigest()
    if digest != file.sha256:
        raise CorruptDataError(f"{where} is not {file.name}: expected the SHA-256 {file.sha256} unpacked, got {digest}")
    return content


def read_file(path: Path, file: DataFile) -> bytes:
    """Return the unpacked content of a file that must be `file`."""
    return check_content(unpack(path, file.size), file, path)


def read_archive(path: Path, files: Collection[DataFile]) -> dict[str, bytes]:
    """Return the content of those of `files` that an archive holds, in whatever folder; nothing is written to disk."""
    wanted = {file.name: file for file in files}
    found: dict[str, bytes] = {}
    try:
        with gzip.open(path) as unpacked, _open_archive(unpacked, files) as archive:
            for count, member in enumerate(archive):
                file = wanted.get(Path(member.name).name)
                _refuse_bombs(path, member, file, count)
                stream = archive.extractfile(member) if file and member.isfile() else None
                if file and stream:
                    found[file.name] = check_content(stream.read(file.size + 1), file, path / member.name)
                if len(found) == len(wanted):
                    break
    except CorruptDataError:
        raise
    except (OSError, EOFError, ValueError, OverflowError, RecursionError, zlib.error, tarfile.TarError) as error:
        raise CorruptDataError(f"{path} cannot be read as a packed folder (.tar.gz): {error}") from error
    return found


@final
class _Bounded:
    """A stream that ends with an error after so many bytes: tarfile reads headers of any length at once."""

    def __init__(self, stream: gzip.GzipFile, limit: int) -> None:
        self._stream = stream
        self._left = limit

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes."""
        found = self._stream.read(min(size, self._left + 1) if size >= 0 else self._left + 1)
        self._left -= len(found)
        if self._left < 0:
            raise OSError("more comes out of it than can be in it")
        return found


def _open_archive(stream: gzip.GzipFile, files: Collection[DataFile]) -> tarfile.TarFile:
    """Return an archive that is read once from its beginning, and not beyond what it may hold."""
    limit = sum(file.size for file in files) + MOST_MEMBERS * LARGEST_BYSTANDER
    return tarfile.open(fileobj=cast("IO[bytes]", _Bounded(stream, limit)), mode="r|")


def _refuse_bombs(path: Path, member: tarfile.TarInfo, file: DataFile | None, count: int) -> None:
    largest = file.size if file else LARGEST_BYSTANDER
    if member.size > largest or count >= MOST_MEMBERS:
        raise CorruptDataError(
            f"{path} is not the archive it should be: at most {MOST_MEMBERS} files are expected in it, and at most "
            f"{largest:,} bytes of {member.name!r}, got {member.size:,} in file {count + 1}"
        )
