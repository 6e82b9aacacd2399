"""A run as columns, read as it grows: what sections, the live page and exports look at.

    rounds.jsonl ──► new whole lines ──► RoundRecord ──► figures (round), entries (client, round), reasons, clients

Every folder gives a story: one that is empty, crashed or damaged tells what can be read, and says what cannot.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import CorruptRunError, HoldfastError
from holdfast.reports.columns import Columns, Entries
from holdfast.reports.glances import (
    CONFIG,
    LARGEST,
    ROUNDS,
    SUMMARY,
    State,
    is_deployed,
    is_tangled,
    raw_table,
    small_text,
    stamp_of,
    state_of,
    whole_lines,
)
from holdfast.server.clients import ClientColumns, ClientSummary, suspects
from holdfast.server.record import Client, RoundRecord

if TYPE_CHECKING:
    from holdfast.simulation import RunConfig


_GROWING = ("entries", "client_lines", "attack_start")
"""What is made anew when there are new rounds."""
_REMEMBERED = 4096
"""Bytes at the end of the last line by which a file is known again."""


@final
class Story:
    """What one run tells; `refresh` reads on.

    >>> story = Story("/nowhere/run-1")
    >>> story.name, story.rounds_played, story.state.value
    ('run-1', 0, 'damaged')
    >>> story.problems
    ["'/nowhere/run-1' does not exist; expected the folder of a run"]
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.name = self.path.resolve().name
        """Of the folder."""
        self._config_stamp: tuple[int, int] | None = None
        self.config_text: str | None = None
        """What config.toml holds; None if it cannot be read."""
        self._start_anew()
        self.refresh()

    def _start_anew(self) -> None:
        self._offset = 0
        self._last_line = b""
        self._damage: str | None = None
        self._columns = Columns()
        self._clients = ClientColumns()
        self.state = State.EMPTY
        self.raw: dict[str, Any] = {}
        """The tables of config.toml as they stand there; empty if they cannot be read."""
        for name in ("config", "_config_problem", *_GROWING):
            self.__dict__.pop(name, None)

    def refresh(self) -> bool:
        """Read what is new; tell whether anything is.

        Only whole new lines are read. If the file was cut or written anew (a run that was resumed), or the
        configuration is another, all is read again.
        """
        before = (self.rounds_played, self.state, self._damage, self._config_stamp)
        stamp = stamp_of(self.path / CONFIG)
        if stamp != self._config_stamp or self.config_text is None or not self._continues():
            self._config_stamp = stamp
            self._start_anew()
            self._read_config()
        self._read_rounds()
        self.state = state_of(
            self.path,
            played=self.rounds_played,
            planned=self.rounds_planned,
            damaged=self._damage is not None or not self.raw,
        )
        return before != (self.rounds_played, self.state, self._damage, self._config_stamp)

    @property
    def rounds_planned(self) -> int | None:
        """How many rounds there are to be; None if the configuration cannot be read."""
        planned = self.raw.get("rounds")
        return planned if isinstance(planned, int) else None

    @property
    def rounds_played(self) -> int:
        """How many rounds can be read."""
        return self._columns.rounds

    @property
    def deployed(self) -> bool:
        """Whether a server app played the run, so that nobody knows who is Byzantine."""
        return is_deployed(self.raw)

    @property
    def provenance(self) -> dict[str, str]:
        """What the run was made with: versions and checksums."""
        found = self.raw.get("provenance", {})
        return {key: str(value) for key, value in found.items()} if isinstance(found, dict) else {}

    @cached_property
    def config(self) -> RunConfig | None:
        """The configuration; None if it cannot be read, see `problems`. Loads torch."""
        from holdfast.runs import config_of
        from holdfast.server.folder import RunFolder

        self._config_problem: str | None = None
        if self._config_stamp is not None and self._config_stamp[1] > LARGEST:
            self._config_problem = f"{self.path / CONFIG} is larger than {LARGEST >> 20} MB, which no run writes"
            return None
        if is_tangled(self.config_text or ""):
            self._config_problem = f"{self.path / CONFIG} has tables in tables that no run writes"
            return None
        try:
            return config_of(RunFolder.open(self.path))
        except HoldfastError as error:
            self._config_problem = str(error)
        except Exception as error:  # noqa: BLE001  a configuration may name code of the user's own, which may fail
            self._config_problem = f"the configuration of {str(self.path)!r} cannot be built: {error}"
        return None

    @property
    def problems(self) -> list[str]:
        """Why something cannot be read, a sentence each; nothing for a run that is as it should be."""
        self.config  # noqa: B018  reading is the check
        found = (self._config_problem, self._damage, self._missing())
        return [problem for problem in found if problem is not None]

    def column(self, name: str) -> NDArray[np.float64]:
        """Return a figure of every round, NaN where there is none.

        Names are those of the numbers of `RoundRecord`, "seconds.x" and "metrics.x" for its tables,
        "certificate.error_bound", and "received", "removed", "unusable", "erased" for how many clients were.
        """
        return self._columns.figure(name)

    def names_below(self, prefix: str) -> list[str]:
        """Return the parts of "seconds" or the names of "metrics" that turned up, in this order."""
        return self._columns.names_below(prefix)

    @cached_property
    def entries(self) -> Entries:
        """What became of every client of every cohort, as columns."""
        return self._columns.entries()

    @property
    def clients(self) -> list[Client]:
        """Every client that was asked or sent something; `entries.client` holds places in this list."""
        return list(self._clients.places)

    @property
    def reasons(self) -> dict[tuple[int, int], str]:
        """Why a reply was dropped, by round and place of the client, as a sentence that may come from the client."""
        return self._columns.reasons

    def said(self, number: int) -> str:
        """Return why the rule stopped in a round, or why the round was skipped; empty if it did not say."""
        return self._columns.said[number]

    @property
    def last_round(self) -> RoundRecord | None:
        """The record of the last round."""
        return self._columns.last

    @cached_property
    def client_lines(self) -> list[ClientSummary]:
        """How the rule treated each client, the most suspicious first."""
        return suspects(self._clients.table())

    @property
    def byzantine(self) -> frozenset[int]:
        """Places of the clients that were Byzantine in some round; nobody in a deployment, which does not know."""
        return frozenset() if self.deployed else frozenset(self._columns.byzantine)

    @cached_property
    def attack_start(self) -> int | None:
        """The first round whose cohort was attacked; None if none was, or nobody knows."""
        if self.config is None or not self.byzantine:
            return None
        entries = self.entries
        return attack_start_of(self.config, np.unique(entries.round[entries.byzantine]).tolist())

    def _missing(self) -> str | None:
        """Say that rounds are gone from a run that was complete."""
        planned, played = self.rounds_planned, self.rounds_played
        if self._damage is not None or planned is None or played >= planned or not (self.path / SUMMARY).is_file():
            return None
        return f"{str(self.path)!r} was complete, and its {ROUNDS} holds only {played:,} of {planned:,} rounds"

    def _continues(self) -> bool:
        """Tell whether the line that was read last is still where it was."""
        if not self._offset:
            return True
        try:
            with (self.path / ROUNDS).open("rb") as file:
                file.seek(self._offset - len(self._last_line))
                return file.read(len(self._last_line)) == self._last_line
        except OSError:
            return False

    def _read_config(self) -> None:
        self.config_text = small_text(self.path / CONFIG)
        self.raw = raw_table(self.config_text or "") or {}

    def _read_rounds(self) -> None:
        self._damage = None
        played = self.rounds_played
        try:
            for line in whole_lines(self.path / ROUNDS, self._offset):
                record = _record(self.rounds_played, line)
                self._clients.add(record)
                self._columns.add(record, self._clients.places)
                self._offset += len(line)
                self._last_line = line[-_REMEMBERED:]
        except CorruptRunError as error:
            before = f"what the {self.rounds_played} rounds before it say is shown"
            self._damage = f"line {self.rounds_played + 1} of {self.path / ROUNDS} is damaged: {error}; {before}"
        except FileNotFoundError:
            pass  # `config` says what is missing
        except OSError as error:
            self._damage = f"{self.path / ROUNDS} cannot be read: {error.strerror}"
        if self.rounds_played != played:
            for name in _GROWING:
                self.__dict__.pop(name, None)


def attack_start_of(config: RunConfig, rounds: Iterable[int]) -> int | None:
    """Return the first of some rounds in which the attack of a configuration acts; None if it does in none of them.

    >>> from holdfast.attacks import SignFlip, Sleeper
    >>> from holdfast.simulation import RunConfig
    >>> config = RunConfig(attack=Sleeper(attack=SignFlip(), start=7))
    >>> attack_start_of(config, range(20)), attack_start_of(config, [3, 9]), attack_start_of(config, range(5))
    (7, 9, None)
    """
    from holdfast.attacks import Honest
    from holdfast.attacks.timing import acting

    return next((number for number in rounds if not isinstance(acting(config.attack, number), Honest)), None)


def _record(number: int, line: bytes) -> RoundRecord:
    """Return the record of a line; the n-th line must hold round n."""
    try:
        record = RoundRecord.from_line(line.decode())
    except UnicodeDecodeError as error:
        raise CorruptRunError(f"it is not UTF-8 ({error})") from None
    if record.round != number:
        raise CorruptRunError(f"it holds round {record.round} in the place of {number}")
    return record
