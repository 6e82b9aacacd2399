"""What is kept of a sweep: who a trial is, who may write, and files that survive a crash.

What cannot be written is a `RunError`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from steadfed._core.durable import append_lines, drop_torn_line, replace_file, sole_holder, whole_lines
from steadfed._core.parsing import parse_json
from steadfed.errors import ParameterError, RunError

Row = Mapping[str, Any]
"""A line of JSON."""
FORMER_NAMES = {"promise_broken": "assumption_violated"}
"""Columns of results that were measured under other names."""


def with_present_names(row: Row) -> dict[str, Any]:
    """Return a line with the names that its columns have now."""
    return {FORMER_NAMES.get(name, name): value for name, value in row.items()}


def key_of(*parts: Any) -> str:
    """Return the identity of a trial: a hash of all that decides what comes of it."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


@contextmanager
def _writing(place: Path) -> Iterator[None]:
    """Turn what the system says while something is written into a `RunError`."""
    try:
        yield
    except BlockingIOError:
        raise RunError(
            f"another process is writing to {str(place)!r}; wait until it is done, or choose another --out"
        ) from None
    except OSError as error:
        raise RunError(
            f"cannot write to {str(place)!r}: {error.strerror}; what it holds is whole: run the same again to go on, "
            f"or choose another --out"
        ) from None


@contextmanager
def sole_writer(lock: Path, place: Path) -> Iterator[None]:
    """Hold a lock, so that nobody else writes to a place meanwhile (where the system has such locks)."""
    with ExitStack() as stack:
        with _writing(place):
            stack.enter_context(sole_holder(lock))
        yield


def make_folder(path: Path) -> None:
    """Make a folder, if there is none."""
    with _writing(path):
        path.mkdir(parents=True, exist_ok=True)


def write_file(path: Path, content: bytes) -> None:
    """Replace a file as a whole; if it cannot be written, it is as it was."""
    with _writing(path):
        replace_file(path, content)


@contextmanager
def open_lines(path: Path) -> Iterator[None]:
    """Be the only one who appends to a file of lines; what a crash left of a last line is cut off."""
    with sole_writer(path, path):
        drop_torn_line(path)
        yield


def append_rows(path: Path, rows: Iterable[Row]) -> None:
    """Append one line of JSON each; if they cannot be written, the file is as it was."""
    with _writing(path):
        append_lines(path, "".join(json.dumps(row) + "\n" for row in rows).encode())


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
        row = parse_json(line)
    except ParameterError as error:
        raise ParameterError(f"{where} is no JSON: {error}") from None
    if not isinstance(row, dict):
        raise ParameterError(f"{where} must be a JSON object, got {line[:80]!r}")
    return with_present_names(row)
