"""Files that survive a crash: replaced as a whole, appended to line by line, locked by one writer.

Three facts of POSIX carry everything: a rename replaces a file as a whole or not at all; what was written before an
fsync is there after a power failure; a lock of flock ends with the process that holds it, however that ends.

Whoever may write in a folder may lay a link there under the name of a file. No link is followed: what is opened here is
a regular file of its own, or an `OSError` says what it is.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

if sys.platform != "win32":
    import fcntl

UNFINISHED = ".unfinished"
"""How the name of a file ends while it is being written."""
LONGEST_LINE = 64 << 20
"""Bytes that a line may take; a longer one is not read."""
_BLOCK = 1 << 16
_CAREFUL: int = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
"""No link is followed, nobody waits for the other end of a pipe, and bytes stay what they are."""


def open_regular(path: Path, flags: int = os.O_RDONLY) -> int:
    """Open a regular file and return its descriptor; a link is not followed, and a pipe is not waited for.

    A file that has other names (hard links) may be read, and not be written to in place: that would change it under
    those names, too.

    Raises:
        OSError: it cannot be opened, or is no such file; what it is instead is the `strerror`.
    """
    try:
        descriptor = os.open(path, flags | _CAREFUL, 0o666)
    except OSError as error:
        if path.is_symlink():
            raise _odd(path, errno.ELOOP, "it is a symbolic link, and links are not followed here") from None
        raise OSError(error.errno, error.strerror, str(path)) from None
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise _odd(path, errno.EINVAL, "it is no regular file but a folder, a pipe, a socket or a device")
        if found.st_nlink > 1 and flags & (os.O_WRONLY | os.O_RDWR):
            many = f"it has {found.st_nlink} names (hard links), and writing to it would change it under all of them"
            raise _odd(path, errno.EMLINK, f"{many}; put a copy in its place")
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def own_file(path: Path) -> BinaryIO:
    """Open a regular file for reading, see `open_regular`."""
    return os.fdopen(open_regular(path), "rb")


def is_own_file(path: Path) -> bool:
    """Tell whether there is a regular file under a name, not a link to one."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


def check_own_folder(path: Path) -> None:
    """Refuse a link, or anything else that is no folder, where files are about to be written or read.

    Raises:
        OSError: there is something, and it is no folder.
    """
    with suppress(FileNotFoundError):
        if not stat.S_ISDIR(os.lstat(path).st_mode):
            raise _odd(path, errno.ENOTDIR, f"{path.name} is a link or a file where a folder has to be")


def _odd(path: Path, number: int, what: str) -> OSError:
    return OSError(number, what, str(path))


def replace_file(path: Path, content: bytes) -> None:
    """Write a file as a whole: under another name, then renamed; both are on disk when this returns.

    Raises:
        OSError: it could not be written; the file is what it was before.
    """
    unfinished = path.with_name(path.name + UNFINISHED)
    with suppress(FileNotFoundError):  # left by a crash, or laid there: a name is removed, what it leads to is not
        unfinished.unlink()
    descriptor = open_regular(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        with os.fdopen(descriptor, "wb") as file:
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
    with os.fdopen(open_regular(path, os.O_RDWR), "r+b", buffering=0) as file:
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
    with os.fdopen(open_regular(path, os.O_RDWR), "r+b", buffering=0) as file:
        if file.seek(0, os.SEEK_END) > length:
            file.truncate(length)
            os.fsync(file.fileno())


def whole_lines(path: Path) -> Iterator[bytes]:
    """Yield the lines of a file with their ends; a last line without an end was torn by a crash and is left out.

    Raises:
        OSError: the file cannot be read, or a line is longer than `LONGEST_LINE`.
    """
    with own_file(path) as file:
        while (line := file.readline(LONGEST_LINE)).endswith(b"\n"):
            yield line
    if len(line) == LONGEST_LINE:
        raise _too_long(path)


def last_line(path: Path) -> bytes:
    """Return the last line of a file, found from its end; without an end of its own if a crash has torn it.

    Raises:
        OSError: the file cannot be read, or the line is longer than `LONGEST_LINE`.
    """
    with own_file(path) as file:
        size = file.seek(0, os.SEEK_END)
        length = min(size, _BLOCK)
        while True:
            file.seek(size - length)
            found = file.read(length)
            start = found.rfind(b"\n", 0, -1) + 1
            if start or length == size:
                return found[start:]
            if length >= LONGEST_LINE:
                raise _too_long(path)
            length = min(size, 2 * length)


def _too_long(path: Path) -> OSError:
    return _odd(path, errno.EFBIG, f"a line is longer than {LONGEST_LINE >> 20} MB")


def drop_torn_line(path: Path) -> None:
    """Cut a last line without its end off a file, so that what is appended starts on a line of its own."""
    cut_file(path, sum(map(len, whole_lines(path))))


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
    descriptor = open_regular(path, os.O_RDWR | os.O_CREAT)
    try:
        if sys.platform != "win32":
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield descriptor
    finally:
        os.close(descriptor)
