"""Files that survive a crash: replaced as a whole, appended to line by line, locked by one writer.

Three facts of POSIX carry everything: a rename replaces a file as a whole or not at all; what was written before an
fsync is there after a power failure; a lock of flock ends with the process that holds it, however that ends.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

if sys.platform != "win32":
    import fcntl

UNFINISHED = ".unfinished"
"""How the name of a file ends while it is being written."""


def replace_file(path: Path, content: bytes) -> None:
    """Write a file as a whole: under another name, then renamed; both are on disk when this returns.

    Raises:
        OSError: it could not be written; the file is what it was before.
    """
    unfinished = path.with_name(path.name + UNFINISHED)
    try:
        with unfinished.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)  # noqa: PTH105  tests interrupt the calls of `os`
    except OSError:
        with suppress(OSError):
            unfinished.unlink()
        raise
    sync_folder(path.parent)


def append_lines(path: Path, lines: bytes) -> None:
    """Append whole lines to an existing file; they are on disk when this returns.

    Raises:
        OSError: they could not be written (a full disk, say); the file has its old length again.
    """
    with path.open("r+b", buffering=0) as file:
        length = file.seek(0, os.SEEK_END)
        try:
            rest = memoryview(lines)
            while rest:  # one call, unless the disk takes only a part
                rest = rest[file.write(rest) :]
            os.fsync(file.fileno())
        except OSError:
            with suppress(OSError):  # a torn line that cannot be cut off is passed over by those who read
                file.truncate(length)
                os.fsync(file.fileno())
            raise


def cut_file(path: Path, length: int) -> None:
    """Cut a file to a length, durably; one that is not longer is left as it is."""
    with path.open("r+b", buffering=0) as file:
        if file.seek(0, os.SEEK_END) > length:
            file.truncate(length)
            os.fsync(file.fileno())


def whole_lines(path: Path) -> Iterator[bytes]:
    """Yield the lines of a file with their ends; a last line without an end was torn by a crash and is left out."""
    with path.open("rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                yield line


def drop_torn_line(path: Path) -> None:
    """Cut a last line without its end off a file, so that what is appended starts on a line of its own."""
    cut_file(path, sum(map(len, whole_lines(path))))


def ends_with_a_line(path: Path) -> bool:
    """Return whether the file is empty or its last line has an end."""
    with path.open("rb") as file:
        if not file.seek(0, os.SEEK_END):
            return True
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


def sync_folder(folder: Path) -> None:
    """Bring the names in a folder to disk, where the system can: a rename is durable only after this."""
    if sys.platform == "win32":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def sole_holder(path: Path) -> Iterator[int]:
    """Hold the lock of a file, which is created if need be; yield its descriptor.

    The lock belongs to this process and those it forks, and ends with them; a file that nobody holds is no obstacle.
    Systems without such locks (Windows) let everybody through.

    Raises:
        BlockingIOError: somebody else holds the lock.
        OSError: the file cannot be opened or locked.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        if sys.platform != "win32":
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield descriptor
    finally:
        os.close(descriptor)
