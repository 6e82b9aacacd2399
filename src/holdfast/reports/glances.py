"""A run at a glance: how far it is and how well it does, cheap enough for a list of a thousand runs.

Only the raw config.toml, summary.json and new bytes of rounds.jsonl are looked at; nothing here loads torch.
"""

from __future__ import annotations

import json
import math
import os
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, final

from holdfast.errors import CorruptRunError

if sys.platform != "win32":
    import fcntl

CONFIG, ROUNDS, SUMMARY, LOCK = "config.toml", "rounds.jsonl", "summary.json", "lock"
"""The files of a run: see `holdfast.server.folder`."""
DEPLOYED = "flwr"
"""The key of [provenance] that only a deployment has: `holdfast.runs.deployments.MARK`, which loads torch."""
_ACCURACY = re.compile(rb'"test_accuracy":(-?[0-9.]+(?:[eE][-+]?[0-9]+)?)')
_LOSS = re.compile(rb'"test_loss":(-?[0-9.]+(?:[eE][-+]?[0-9]+)?)')
_WORDS = 120
"""How many letters of a rule or an attack are shown."""
LARGEST = 4 << 20
"""Bytes of a configuration or a summary; what is larger, no run has written."""
LONGEST = 64 << 20
"""Bytes of a round; a line that is longer is damage."""
_DEEPEST = 32
"""Tables in tables of a configuration."""
_CHAIN = re.compile(
    rf"""(?<![\w-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){{{_DEEPEST}}}""",
)
"""A key of so many parts that Python's parser takes the square of their number to read it."""
_WHOLE = 2**63
"""Beyond this TOML has no whole numbers, although Python reads some."""


class State(StrEnum):
    """How far a run is."""

    EMPTY = "not begun"
    """There is a configuration, and no round."""
    RUNNING = "being played"
    """A process holds its lock."""
    INTERRUPTED = "interrupted"
    """Rounds are missing, and nobody plays them."""
    COMPLETE = "complete"
    DAMAGED = "damaged"
    """Its configuration or a line of its rounds cannot be read."""


@final
@dataclass(frozen=True, kw_only=True)
class Glance:
    """What a list says of a run."""

    path: Path
    name: str
    """Of the folder."""
    state: State
    rounds_played: int
    rounds_planned: int | None
    last_accuracy: float | None
    """On the test points, of the last round that was evaluated."""
    best_accuracy: float | None
    last_loss: float | None
    rule: str
    """In words: its name, with the parameters that were written down."""
    attack: str
    """In words; empty for a deployment, which does not know."""
    data: str
    deployed: bool
    changed: float
    """When a round was last written, in seconds since 1970."""


@final
class Glances:
    """Glances at many runs; what has not changed since the last look is not read again.

    >>> Glances().at(Path("/nowhere")).state
    <State.DAMAGED: 'damaged'>
    """

    def __init__(self) -> None:
        self._seen: dict[Path, _Seen] = {}

    def at(self, path: str | os.PathLike[str]) -> Glance:
        """Return what there is to say of a run now."""
        place = Path(path)
        seen = self._seen.setdefault(place, _Seen())
        seen.look(place)
        return seen.glance(place)

    def forget(self, path: str | os.PathLike[str]) -> None:
        """Drop what is known of a run that is gone."""
        self._seen.pop(Path(path), None)


def raw_table(text: str) -> dict[str, Any] | None:
    """Return the table of a configuration without building anything from it; None if it is none that a run writes.

    >>> raw_table("rounds = 5"), raw_table("rounds"), raw_table("a = " + "[" * 10_000), raw_table("a = 0x" + "f" * 99)
    ({'rounds': 5}, None, None, None)
    """
    if is_tangled(text):
        return None
    try:
        table = tomllib.loads(text)
    except (ValueError, RecursionError):
        return None
    return table if _is_plain(table, _DEEPEST) else None


def is_tangled(text: str) -> bool:
    """Tell whether a configuration would take for ever to parse.

    >>> is_tangled("a.b.c = 1"), is_tangled("a" + ".a" * 100_000 + " = 1")
    (False, True)
    """
    return _CHAIN.search(text) is not None


def _is_plain(value: Any, depth: int) -> bool:
    """Tell whether tables are not too deep to be walked through, and whole numbers not too large to be written."""
    if isinstance(value, Mapping | list):
        inside = value.values() if isinstance(value, Mapping) else value
        return depth > 0 and all(_is_plain(each, depth - 1) for each in inside)
    return not isinstance(value, int) or abs(value) < _WHOLE


def small_text(path: Path) -> str | None:
    """Return what a file holds; None if it cannot be read, is no text, or is larger than a run writes."""
    try:
        with path.open("rb") as file:
            found = file.read(LARGEST + 1)
        return found.decode() if len(found) <= LARGEST else None
    except (OSError, UnicodeDecodeError):
        return None


def whole_lines(path: Path, offset: int) -> Iterator[bytes]:
    """Yield the lines of a file after its first bytes, without one at the end that is still being written.

    Raises:
        CorruptRunError: a line is longer than any round.
    """
    with path.open("rb") as file:
        file.seek(offset)
        while (line := file.readline(LONGEST)).endswith(b"\n"):
            yield line
    if len(line) == LONGEST:
        raise CorruptRunError(f"it is longer than {LONGEST >> 20} MB")


def is_deployed(table: Mapping[str, Any]) -> bool:
    """Tell whether a server app wrote the configuration."""
    provenance = table.get("provenance")
    return isinstance(provenance, Mapping) and DEPLOYED in provenance


def in_words(value: Any) -> str:
    """Return a named object of a configuration as a person would write it.

    >>> in_words({"name": "nnm", "rule": {"name": "krum", "num_byzantine": 4}})
    'nnm(rule=krum(num_byzantine=4))'
    """
    if not isinstance(value, Mapping):
        return str(value)
    listed = ", ".join(f"{key}={in_words(each)}" for key, each in value.items() if key != "name")
    name = str(value.get("name", "?"))
    return f"{name}({listed})" if listed else name


def at_work(path: Path) -> bool:
    """Tell whether a process plays the run in a folder, without standing in the way of one that is about to.

    The lock is only tried if the process that held it last is alive, and then as a reader.
    """
    lock = path / LOCK
    try:
        with lock.open("rb") as file:
            holder = int(file.read(32))
        if not _alive(holder):
            return False
        descriptor = os.open(lock, os.O_RDONLY)
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


def state_of(path: Path, *, played: int, planned: int | None, damaged: bool) -> State:
    """Return how far the run in a folder is."""
    if damaged:
        return State.DAMAGED
    if (path / SUMMARY).is_file() and (planned is None or played >= planned):
        return State.COMPLETE
    if at_work(path):
        return State.RUNNING
    return State.INTERRUPTED if played else State.EMPTY


def stamp_of(path: Path) -> tuple[int, int] | None:
    """Return when a file was changed and how long it is; None if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


class _Seen:
    """What was read of a run so far, and how far."""

    def __init__(self) -> None:
        self._config: tuple[int, int] | None = None
        self._rounds: tuple[int, int] | None = None
        self._table: dict[str, Any] | None = None
        self._words: dict[str, str] = {}
        self._start_anew()

    def _start_anew(self) -> None:
        self._offset = 0
        self._played = 0
        self._accuracy: float | None = None
        self._best: float | None = None
        self._loss: float | None = None
        self._damaged = False

    def look(self, path: Path) -> None:
        config, rounds = stamp_of(path / CONFIG), stamp_of(path / ROUNDS)
        if config != self._config:
            self._config, self._table = config, _table(path / CONFIG)
            self._words = {key: _shortened(self._table or {}, key) for key in ("rule", "attack", "data")}
            self._start_anew()
            self._rounds = None
        if rounds != self._rounds:
            self._rounds = rounds
            if rounds is None or rounds[1] < self._offset:
                self._start_anew()
            if not self._from_summary(path):
                self._from_rounds(path / ROUNDS)

    def _from_summary(self, path: Path) -> bool:
        """Take the figures of a run that is done from its summary; False if there is none."""
        try:
            summary = json.loads(small_text(path / SUMMARY) or "")
            last, best, played = summary["last"], summary["best"], summary["rounds"]
            found = last.get("test_accuracy"), last.get("test_loss"), best.get("test_accuracy")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return False
        if not isinstance(played, int) or not 0 <= played < _WHOLE:
            return False
        self._played = played
        self._accuracy, self._loss, self._best = map(_figure, found)
        return True

    def _from_rounds(self, path: Path) -> None:
        """Read the whole lines that are new."""
        try:
            for line in whole_lines(path, self._offset):
                self._offset += len(line)
                self._played += 1
                accuracy, loss = _number(_ACCURACY, line), _number(_LOSS, line)
                self._loss = self._loss if loss is None else loss
                if accuracy is not None:
                    self._accuracy = accuracy
                    self._best = accuracy if self._best is None else max(accuracy, self._best)
        except CorruptRunError:
            self._damaged = True
        except OSError:
            return

    def glance(self, path: Path) -> Glance:
        table = self._table or {}
        planned = table.get("rounds")
        planned = planned if isinstance(planned, int) else None
        deployed = is_deployed(table)
        broken = self._table is None or self._rounds is None or self._damaged
        return Glance(
            path=path,
            name=path.name or path.resolve().name,
            state=state_of(path, played=self._played, planned=planned, damaged=broken),
            rounds_played=self._played,
            rounds_planned=planned,
            last_accuracy=self._accuracy,
            best_accuracy=self._best,
            last_loss=self._loss,
            rule=self._words.get("rule", ""),
            attack="" if deployed else self._words.get("attack", ""),
            data=self._words.get("data", ""),
            deployed=deployed,
            changed=(self._rounds or self._config or (0, 0))[0] / 1e9,
        )


def _table(path: Path) -> dict[str, Any] | None:
    text = small_text(path)
    return None if text is None else raw_table(text)


def _shortened(table: Mapping[str, Any], key: str) -> str:
    words = in_words(table[key]) if key in table else ""
    return words if len(words) <= _WORDS else f"{words[: _WORDS - 1]}…"


def _number(pattern: re.Pattern[bytes], line: bytes) -> float | None:
    """Return a number of a round; None if it has none."""
    found = pattern.search(line)
    try:
        return None if found is None else _figure(float(found[1]))
    except ValueError:  # such as 1.2.3
        return None


def _figure(value: Any) -> float | None:
    """Return what can be shown as a number, and None for everything else that a file may hold."""
    return float(value) if isinstance(value, int | float) and abs(value) < _WHOLE and math.isfinite(value) else None


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
