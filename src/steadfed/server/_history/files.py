"""The files of a run, read by somebody who trusts nothing in them and waits for nobody; nothing here loads torch."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

from steadfed._core.durable import LONGEST_LINE, open_regular, own_file
from steadfed._core.own_code import IMPORT
from steadfed._core.parsing import parse_toml
from steadfed.errors import CorruptRunError, ParameterError
from steadfed.server._reading import text_of

if sys.platform != "win32":
    import fcntl

CONFIG, ROUNDS, SUMMARY, LOCK = "config.toml", "rounds.jsonl", "summary.json", "lock"
"""The files of a run: see `steadfed.server._folder`."""
CHECKPOINTS = "checkpoints"
"""The folder of its checkpoints."""
PROVENANCE = "provenance"
"""The table of a run's configuration that says what it was made with; it is not part of the configuration."""
DEPLOYED = "flwr"
"""The key of it with the version of Flower: the configuration of a deployment has it, no other."""
Stamp = tuple[int, int, int]
"""When a file was changed, how long it is, and its number on the disk."""


class RunState(StrEnum):
    """How far a run is."""

    EMPTY = "not begun"
    """There is a configuration, and no round."""
    RUNNING = "running"
    """A process holds its lock."""
    INTERRUPTED = "interrupted"
    """Rounds are missing, and no process runs them."""
    COMPLETE = "complete"
    DAMAGED = "damaged"
    """Its configuration or a line of its rounds cannot be read."""


def raw_table(text: str) -> dict[str, Any]:
    """Return the table of a configuration without building anything from it.

    >>> raw_table("rounds = 5")
    {'rounds': 5}

    Raises:
        CorruptRunError: it is none that a run writes, or would take for ever to parse.
    """
    try:
        return parse_toml(text)
    except ParameterError as error:
        raise CorruptRunError(str(error)) from None


def part_of_configuration(text: str) -> str:
    r"""Return what stands in the configuration of a run before the table that says what it was made with.

    >>> part_of_configuration("lr = 0.5\n\n[provenance]\ntorch = '2.0'\n")
    'lr = 0.5\n'
    """
    return text.rpartition(f"\n[{PROVENANCE}]\n")[0]


def small_text(path: Path) -> str | None:
    """Return what a file holds; None if it cannot be read, is no text, or is larger than a run writes."""
    try:
        return text_of(path)
    except CorruptRunError:
        return None


def new_lines(path: Path, offset: int, before: int) -> Iterator[bytes]:
    """Yield the lines of a file after its first bytes, without one at the end that is still being written.

    Args:
        path: the file.
        offset: how many bytes to pass over.
        before: how many lines these are.

    Raises:
        CorruptRunError: a line is longer than any round.
    """
    with own_file(path) as file:
        file.seek(offset)
        while (line := file.readline(LONGEST_LINE)).endswith(b"\n"):
            before += 1
            yield line
    if len(line) == LONGEST_LINE:
        raise CorruptRunError(f"line {before + 1} of {path} is longer than {LONGEST_LINE >> 20} MB, which no round is")


def is_deployed(table: Mapping[str, Any]) -> bool:
    """Tell whether a server app wrote the configuration."""
    provenance = table.get(PROVENANCE)
    return isinstance(provenance, Mapping) and DEPLOYED in provenance


def in_words(value: Any) -> str:
    """Return a named object of a configuration as a person would write it.

    >>> in_words({"name": "nnm", "rule": {"name": "krum", "num_byzantine": 4}})
    'nnm(rule=krum(num_byzantine=4))'
    """
    if not isinstance(value, Mapping):
        return str(value)
    listed = ", ".join(f"{key}={in_words(each)}" for key, each in value.items() if key not in {"name", IMPORT})
    name = str(value.get("name", value.get(IMPORT, "?")))
    return f"{name}({listed})" if listed else name


def is_running(path: Path) -> bool:
    """Tell whether a process runs the run in a folder, without standing in the way of one that is about to.

    The lock is only tried if the process that held it last is alive, and then as a reader.
    """
    lock = path / LOCK
    try:
        with own_file(lock) as file:
            holder = int(file.read(32))
        if not _alive(holder):
            return False
        descriptor = open_regular(lock)
    except (OSError, ValueError):
        return False
    try:
        if sys.platform != "win32":
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return False


def state_of(path: Path, *, played: int, planned: int | None, damaged: bool) -> RunState:
    """Return how far the run in a folder is."""
    if damaged:
        return RunState.DAMAGED
    if (path / SUMMARY).is_file() and (planned is None or played >= planned):
        return RunState.COMPLETE
    if is_running(path):
        return RunState.RUNNING
    return RunState.INTERRUPTED if played else RunState.EMPTY


def stamp_of(path: Path) -> Stamp | None:
    """Return what tells a file from what it was; None if there is none.

    When it was changed and how long it is would not do: clocks are set back, and copies keep their dates. A file that
    is replaced as a whole, as a configuration is, has another number.
    """
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _alive(process: int) -> bool:
    if sys.platform == "win32":  # there this would end it
        return False
    try:
        os.kill(process, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return True
