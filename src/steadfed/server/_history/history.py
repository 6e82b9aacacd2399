"""A run read as it grows: what sections, the live page, exports and commands look at.

    rounds.jsonl ──► new whole lines ──► RoundRecord ──► Rounds: columns, entries, tally, clients

Every folder gives a history: one that is empty, crashed or damaged tells what can be read, and says what cannot.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from steadfed._core.digests import sha256
from steadfed._core.durable import own_file
from steadfed._core.lookup import nearest
from steadfed._core.wording import plural
from steadfed.errors import CorruptRunError, ParameterError, UnknownNameError
from steadfed.server._chain import Chain
from steadfed.server._folder import RunFolder
from steadfed.server._history.clients import ClientSummary, suspects
from steadfed.server._history.conduct import Conduct, conduct_of
from steadfed.server._history.entries import Entries
from steadfed.server._history.fate import Fate
from steadfed.server._history.files import (
    CHECKPOINTS,
    CONFIG,
    PROVENANCE,
    ROUNDS,
    SUMMARY,
    RunState,
    Stamp,
    is_deployed,
    new_lines,
    raw_table,
    small_text,
    stamp_of,
    state_of,
)
from steadfed.server._history.frames import columns_of, frame_library
from steadfed.server._history.outcome import RunOutcome, outcome_of
from steadfed.server._history.rounds import Rounds
from steadfed.server._history.scores import ScoreMeaning, meaning_of
from steadfed.server._history.summary import summary_of
from steadfed.server._history.tally import Tally
from steadfed.server._reading import LARGEST
from steadfed.server._record import Client, ClientScores
from steadfed.server._results import HEAD

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    from matplotlib.figure import Figure

_REMEMBERED = 4096
"""Bytes at the end of the last line by which a file is known again."""


def open_run(path: str | os.PathLike[str]) -> RunHistory:
    """Return the history of a run in a folder, which may be complete, running, or interrupted.

    Raises:
        CorruptRunError: there is no run in it, or something in it cannot be read: the message says what.
            `RunHistory(path)` reads what can be read.
    """
    RunFolder.open(path)
    history = RunHistory(path)
    if history.problems:
        raise CorruptRunError(history.problems[0])
    return history


@final
class RunHistory:
    """What is written down about one run; `refresh` reads on.

    >>> history = RunHistory("/nowhere/run-1")
    >>> history
    <RunHistory '/nowhere/run-1': damaged, 0 rounds>
    >>> history.problems
    ["'/nowhere/run-1' does not exist; expected the folder of a run"]
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.name = self.path.resolve().name
        """Of the folder."""
        self.config_stamp: Stamp | None = None
        """By which config.toml is known again."""
        self.config_text: str | None = None
        """What config.toml holds; None if it cannot be read."""
        self._start_anew()
        self.refresh()

    def _start_anew(self) -> None:
        self._offset = 0
        self._last_line = b""
        self._damage: str | None = None
        self._unreadable: str | None = None
        self.state = RunState.EMPTY
        self.raw: dict[str, Any] = {}
        """The tables of config.toml as they stand there; empty if they cannot be read."""
        self._read_config()
        text = self.config_text
        self._chain = Chain(self.path / ROUNDS, None if text is None else sha256(text.encode()))
        self.rounds = Rounds(deployed=is_deployed(self.raw))
        """All rounds that can be read, as columns."""

    def refresh(self) -> bool:
        """Read what is new; tell whether anything is.

        Only whole new lines are read. If the file was cut or written anew (a run that was resumed), or the
        configuration is another, all is read again.
        """
        before = (self.rounds_played, self.state, self._damage, self.config_stamp)
        stamp = stamp_of(self.path / CONFIG)
        if stamp != self.config_stamp or self.config_text is None or not self._continues():
            self.config_stamp = stamp
            self._start_anew()
        self._read_rounds()
        self.state = state_of(
            self.path,
            played=self.rounds_played,
            planned=self.rounds_planned,
            damaged=self._damage is not None or not self.raw,
        )
        return before != (self.rounds_played, self.state, self._damage, self.config_stamp)

    def __repr__(self) -> str:
        return f"<RunHistory {str(self.path)!r}: {self.state}, {plural(self.rounds_played, 'round')}>"

    @property
    def folder(self) -> RunFolder:
        """The folder as it is: records one by one, models, checkpoints.

        Raises:
            CorruptRunError: there is no run in it.
        """
        return RunFolder.open(self.path)

    @property
    def rounds_planned(self) -> int | None:
        """How many rounds there are to be; None if the configuration cannot be read."""
        planned = self.raw.get("rounds")
        return planned if isinstance(planned, int) else None

    @property
    def rounds_played(self) -> int:
        """How many rounds can be read."""
        return len(self.rounds)

    @property
    def deployed(self) -> bool:
        """Whether a server app ran it, so that nobody knows who is Byzantine."""
        return self.rounds.deployed

    @property
    def provenance(self) -> dict[str, str]:
        """What the run was made with: versions and checksums."""
        found = self.raw.get(PROVENANCE, {})
        return {key: str(value) for key, value in found.items()} if isinstance(found, dict) else {}

    @property
    def problems(self) -> list[str]:
        """Why something cannot be read, a sentence each; nothing for a run that is as it should be."""
        try:
            RunFolder.open(self.path)
        except CorruptRunError as error:
            return [str(error)]
        found = (self._unreadable, self._damage, self._missing() or self._other_end())
        return [problem for problem in found if problem is not None]

    def __getitem__(self, name: str) -> NDArray[np.float64]:
        """Return a figure of every round, NaN where there is none: see `columns`.

        Raises:
            UnknownNameError: there is no such column; the nearest name is in the message.
        """
        return self.rounds[name]

    @property
    def columns(self) -> list[str]:
        """The names of all columns: the numbers of a `RoundRecord`, the counts of a `Tally`, "seconds.x" and so on."""
        return self.rounds.columns

    @property
    def tally(self) -> Tally:
        """What came of the updates, counted."""
        return self.rounds.tally

    @property
    def outcome(self) -> RunOutcome:
        """Whether the rounds so far are a success, and if not, why and who was missing."""
        return outcome_of(self.rounds)

    @property
    def conduct(self) -> list[Conduct]:
        """What can be said of clients, the worst first; those whose updates were always kept are left out."""
        return conduct_of(self.rounds)

    @property
    def client_scores(self) -> ClientScores | None:
        """How good the model was for single clients when that was looked at last; None unless it was asked for."""
        return self.rounds.client_scores

    @property
    def score_meaning(self) -> ScoreMeaning:
        """What the scores of its rule say."""
        return meaning_of(self.raw.get("rule"))

    @property
    def summary(self) -> dict[str, Any]:
        """What came of the rounds that can be read: the content of summary.json."""
        return summary_of(self.rounds)

    @property
    def entries(self) -> Entries:
        """What became of every client of every cohort, as columns."""
        return self.rounds.entries

    @property
    def client_ids(self) -> list[Client]:
        """Every client that was asked or sent something; `entries.client` holds places in this list."""
        return list(self.rounds.places)

    @property
    def clients(self) -> list[ClientSummary]:
        """How the rule treated each client, the most suspicious first."""
        return suspects(self.rounds.clients)

    @property
    def byzantine(self) -> frozenset[int]:
        """Places of the clients that were Byzantine in some round; nobody in a deployment, which does not know."""
        return frozenset() if self.deployed else frozenset(self.rounds.byzantine)

    def fate(self, *, client: Client, round: int) -> Fate | None:
        """Return what became of a client in a round; None if it had no part in it.

        Raises:
            UnknownNameError: no round has this client.
            ParameterError: there is no such round yet.
        """
        place = self.rounds.places.get(client)
        if place is None:
            known = [str(each) for each in self.rounds.places]
            raise UnknownNameError(f"no client {client!r} in {str(self.path)!r}{nearest(client, known)}")
        if not 0 <= round < self.rounds_played:
            raise ParameterError(f"round must be from 0 to {self.rounds_played - 1}, got {round!r}")
        entries = self.entries
        found = np.flatnonzero((entries.round == round) & (entries.client == place))
        if len(found):
            return Fate(int(entries.fate[found[0]]))
        return Fate.UNASKED if (round, place) in self.rounds.drop_reasons else None

    def to_pandas(self) -> pd.DataFrame:
        """Return the columns of all rounds as a data frame of pandas.

        Raises:
            RunError: pandas is not installed; the message says how to get it.
        """
        found: pd.DataFrame = frame_library("pandas").DataFrame(columns_of(self.rounds))
        return found

    def to_polars(self) -> pl.DataFrame:
        """Return the columns of all rounds as a data frame of Polars.

        Raises:
            RunError: Polars is not installed; the message says how to get it.
        """
        found: pl.DataFrame = frame_library("polars").DataFrame(columns_of(self.rounds))
        return found

    def plot(self, *names: str) -> Figure:
        """Return plots of the run's report, side by side: a figure of matplotlib, which a notebook shows.

        Args:
            names: which ones, such as "accuracy", "weights", "certificate", "seconds"; the accuracy if left out.

        Raises:
            RunError: matplotlib is not installed, or no round has been played.
            UnknownNameError: the run has no plot of that name; the message names all.
        """
        from steadfed.reports._notebook import figure_of_run

        return figure_of_run(self, names)

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the facts of `steadfed show`, and the accuracy."""
        from steadfed.reports._notebook import page_of_run

        return page_of_run(self)

    def _missing(self) -> str | None:
        """Say that rounds are gone from a run that was complete."""
        planned, played = self.rounds_planned, self.rounds_played
        if self._damage is not None or planned is None or played >= planned or not (self.path / SUMMARY).is_file():
            return None
        return (
            f"{str(self.path)!r} is complete by its {SUMMARY}, and its {ROUNDS} holds {played:,} of {planned:,} "
            f"rounds; restore that file, or delete {SUMMARY} and resume the run"
        )

    def _other_end(self) -> str | None:
        """Say that the last line is not the one after which the summary or the newest checkpoint was written."""
        after = (self.path / SUMMARY, self.path / CHECKPOINTS / f"{self.rounds_played:06d}.json")
        for path in after if self._damage is None and self.rounds_played else ():
            head = _head_in(path)
            if head not in {None, self._chain.head} and self._continues():
                return (
                    f"line {self.rounds_played} of {self.path / ROUNDS}, the last, is not the one after which "
                    f"{path.relative_to(self.path)} was written: either was changed. The {self.rounds_played - 1} "
                    f"lines before it are whole; restore the files from a copy, or resume the run, which passes over "
                    f"what does not fit"
                )
        return None

    def _continues(self) -> bool:
        """Tell whether the line that was read last is still where it was."""
        if not self._offset:
            return True
        try:
            with own_file(self.path / ROUNDS) as file:
                file.seek(self._offset - len(self._last_line))
                return file.read(len(self._last_line)) == self._last_line
        except OSError:
            return False

    def _read_config(self) -> None:
        self.config_text = small_text(self.path / CONFIG)
        if self.config_text is None:
            self._unreadable = f"{self.path / CONFIG} is no text of at most {LARGEST >> 20} MB, as a run writes"
            return
        try:
            self.raw = raw_table(self.config_text)
        except CorruptRunError as error:
            self._unreadable = f"{self.path / CONFIG} cannot be read: {error}"

    def _read_rounds(self) -> None:
        self._damage = None
        try:
            for line in new_lines(self.path / ROUNDS, self._offset, self.rounds_played):
                self.rounds.add(self._chain.follow(line))
                self._offset += len(line)
                self._last_line = line[-_REMEMBERED:]
        except CorruptRunError as error:
            self._damage = str(error)
        except FileNotFoundError:
            pass  # `problems` say what is missing
        except OSError as error:
            self._damage = f"{self.path / ROUNDS} cannot be read: {error.strerror}"


def _head_in(path: Path) -> str | None:
    """Return after which line a summary or the JSON of a checkpoint says that it was written; None if it does not."""
    try:
        head = json.loads(small_text(path) or "")[HEAD]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return head if isinstance(head, str) else None
