"""A run at a glance: how far it is and how well it does, cheap enough for a list of a thousand runs.

Only the raw config.toml, summary.json and new bytes of rounds.jsonl are looked at; nothing here loads torch.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from steadfed._core.parsing import parse_json
from steadfed._core.values import LARGEST_WHOLE
from steadfed.errors import CorruptRunError
from steadfed.server._history.files import (
    CONFIG,
    ROUNDS,
    SUMMARY,
    RunState,
    Stamp,
    in_words,
    is_deployed,
    new_lines,
    raw_table,
    small_text,
    stamp_of,
    state_of,
)

_SCORES = re.compile(rb'"((?:train|test)_(?:loss|accuracy))":(-?[0-9.]+(?:[eE][-+]?[0-9]+)?)')
"""The losses and accuracies of a line; text that clients sent has its quotes escaped."""
_METRICS = b',"metrics":{'
"""From here on a line holds what clients say of themselves."""
_WORDS = 120
"""How many letters of a rule or an attack are shown."""


@final
@dataclass(frozen=True, kw_only=True)
class RunSummary:
    """What a list says of a run."""

    path: Path
    name: str
    """Of the folder."""
    state: RunState
    rounds_played: int
    rounds_planned: int | None
    last_accuracy: float | None
    """On the test points, of the last round that was evaluated; None if it has none."""
    best_accuracy: float | None
    last_loss: float | None
    """The same of the loss; None if it was not finite."""
    rule: str
    """In words: its name, with the parameters that were written down."""
    attack: str
    """In words; empty for a deployment, which does not know."""
    data: str
    deployed: bool
    changed: float
    """When a round was last written, in seconds since 1970."""


@final
class RunSummaries:
    """Summaries of many runs; what has not changed since the last look is not read again.

    >>> RunSummaries().summarize(Path("/nowhere")).state
    <RunState.DAMAGED: 'damaged'>
    """

    def __init__(self) -> None:
        self._seen: dict[Path, _Seen] = {}

    def summarize(self, path: str | os.PathLike[str]) -> RunSummary:
        """Return what there is to say of a run now."""
        place = Path(path)
        seen = self._seen.setdefault(place, _Seen())
        seen.look(place)
        return seen.summary(place)

    def forget(self, path: str | os.PathLike[str]) -> None:
        """Drop what is known of a run that is gone."""
        self._seen.pop(Path(path), None)


class _Seen:
    """What was read of a run so far, and how far."""

    def __init__(self) -> None:
        self._config: Stamp | None = None
        self._rounds: Stamp | None = None
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
            self._words = {key: _shorten(self._table or {}, key) for key in ("rule", "attack", "data")}
            self._start_anew()
            self._rounds = None
        if rounds != self._rounds:
            same = rounds is not None and self._rounds is not None and rounds[2] == self._rounds[2]
            self._rounds = rounds
            if rounds is None or not same or rounds[1] < self._offset:
                self._start_anew()
            if not self._from_summary(path):
                self._from_rounds(path / ROUNDS)

    def _from_summary(self, path: Path) -> bool:
        """Take the figures of a run that is done from its summary; False if there is none."""
        try:
            summary = parse_json(small_text(path / SUMMARY) or "")
            last, best, played = summary["last"], summary["best"], summary["rounds"]
            found = last.get("test_accuracy"), last.get("test_loss"), best.get("test_accuracy")
        except (ValueError, KeyError, TypeError, AttributeError):
            return False
        if not isinstance(played, int) or not 0 <= played < LARGEST_WHOLE:
            return False
        self._played = played
        self._accuracy, self._loss, self._best = map(_figure, found)
        return True

    def _from_rounds(self, path: Path) -> None:
        """Read the whole lines that are new."""
        try:
            for line in new_lines(path, self._offset, self._played):
                self._offset += len(line)
                self._played += 1
                scores = dict(_SCORES.findall(line.partition(_METRICS)[0]))
                if scores:
                    self._loss = _number(scores.get(b"test_loss"))
                    self._accuracy = _number(scores.get(b"test_accuracy"))
                    known = [each for each in (self._accuracy, self._best) if each is not None]
                    self._best = max(known, default=None)
        except CorruptRunError:
            self._damaged = True
        except OSError:
            return

    def summary(self, path: Path) -> RunSummary:
        table = self._table or {}
        planned = table.get("rounds")
        planned = planned if isinstance(planned, int) else None
        deployed = is_deployed(table)
        broken = self._table is None or self._rounds is None or self._damaged
        return RunSummary(
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
            changed=(self._rounds or self._config or (0,))[0] / 1e9,
        )


def _table(path: Path) -> dict[str, Any] | None:
    text = small_text(path)
    try:
        return None if text is None else raw_table(text)
    except CorruptRunError:
        return None


def _shorten(table: Mapping[str, Any], key: str) -> str:
    words = in_words(table[key]) if key in table else ""
    return words if len(words) <= _WORDS else f"{words[: _WORDS - 1]}…"


def _number(text: bytes | None) -> float | None:
    """Return a number of a round; None if it has none."""
    try:
        return None if text is None else _figure(float(text))
    except ValueError:  # such as 1.2.3
        return None


def _figure(value: Any) -> float | None:
    """Return what can be shown as a number, and None for everything else that a file may hold."""
    if isinstance(value, int):
        return float(value) if abs(value) < LARGEST_WHOLE else None
    return value if isinstance(value, float) and math.isfinite(value) else None
