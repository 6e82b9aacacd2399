"""What is kept of a sweep: who a trial is, who may write, and lines that survive a crash."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from holdfast.durable import append_lines, drop_torn_line, replace_file, sole_holder, whole_lines
from holdfast.errors import ParameterError, RunError

Row = Mapping[str, Any]
"""A line of JSON."""


def key_of(*parts: Any) -> str:
    """Return the identity of a trial: a hash of all that decides what comes of it."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


@contextmanager
def sole_writer(lock: Path, place: Path) -> Iterator[None]:
    """Hold a lock, so that nobody else writes to a place meanwhile (where the system has such locks).

    Raises:
        RunError: somebody else does, or the lock cannot be made.
    """
    with ExitStack() as stack:
        try:
            stack.enter_context(sole_holder(lock))
        except BlockingIOError:
            raise RunError(
                f"another process is writing to {str(place)!r}; wait until it is done, or choose another --out"
            ) from None
        except OSError as error:
            raise RunError(f"cannot write to {str(place)!r}: {error.strerror}; choose another --out") from None
        yield


def make_folder(path: Path) -> None:
    """Make a folder, if there is none; `RunError` if it cannot be made."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"cannot write to {str(path)!r}: {error.strerror}; choose another --out") from None


def write_file(path: Path, content: bytes) -> None:
    """Replace a file as a whole; `RunError` if it cannot be written, and then it is as it was."""
    try:
        replace_file(path, content)
    except OSError as error:
        raise RunError(
            f"cannot write {str(path)!r}: {error.strerror}; what is done is safe, run the same again to go on"
        ) from None


@contextmanager
def open_lines(path: Path) -> Iterator[None]:
    """Be the only one who appends to a file of lines; what a crash left of a last line is cut off."""
    with sole_writer(path, path):
        drop_torn_line(path)
        yield


def append_rows(path: Path, rows: Iterable[Row]) -> None:
    """Append one line of JSON each; `RunError` if they cannot be written, and then the file is as it was."""
    try:
        append_lines(path, "".join(json.dumps(row) + "\n" for row in rows).encode())
    except OSError as error:
        raise RunError(
            f"cannot append to {str(path)!r}: {error.strerror}; what it holds is whole, so run again to go on from it"
        ) from None


def read_rows(path: Path) -> list[Row]:
    """Return the lines of a file; a last one that was torn by a crash is left out.

    Raises:
        ParameterError: the file cannot be read, or a line is no JSON object.
    """
    try:
        lines = b"".join(whole_lines(path)).decode().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ParameterError(f"cannot read {str(path)!r} as lines of JSON: {error}") from None
    return [_row(line, f"{path}:{number}") for number, line in enumerate(lines, 1)]


def _row(line: str, where: str) -> Row:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise ParameterError(f"{where} is no JSON: {error}") from None
    if not isinstance(row, dict):
        raise ParameterError(f"{where} must be a JSON object, got {line[:80]!r}")
    return row
