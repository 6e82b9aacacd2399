"""A run on a federation, followed to its end: shown round by round, and submitted again if Flower ended it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from rich.console import Console

from steadfed._cli.progress import RunProgress, progress_display
from steadfed._core.wording import harmless, plural
from steadfed.errors import SteadfedError

if TYPE_CHECKING:
    from steadfed.deploy import LocalDeployment, RunStatus, SubmittedRun
    from steadfed.server._history import Narrator
    from steadfed.server._record import RoundRecord


TRIES = 5
"""How often a run is submitted in all, if nobody says."""
_LONGEST = 200
"""Letters of why Flower says that a run failed."""


@final
@dataclass(frozen=True)
class Following:
    """A run that is submitted, shown, and submitted again if Flower ended it."""

    deployment: LocalDeployment
    application: Path
    settings: dict[str, Any]
    place: Path | None
    rounds: int
    quiet: bool

    def to_the_end(self, tries: int, timeout: float | None) -> tuple[SubmittedRun, RunStatus]:
        """Return how the last submission ended."""
        from steadfed.deploy._attempts import Attempts, wait_for_folder

        attempts, began = Attempts(tries), time.monotonic()
        while True:  # at most `tries` times
            before = self._done()
            submitted = self.deployment.submit(self.application, self.settings)
            say(f"run {submitted.run_id}: {self.place or self.application}", quiet=self.quiet)
            passed = time.monotonic() - began if attempts.made else 0.0
            status = self._watch(submitted, None if timeout is None else max(1.0, timeout - passed))
            if status.completed or self.place is None:
                return submitted, status
            refusal = attempts.refusal(status, self.place, new_rounds=self._done() - before)
            if refusal is None and timeout is not None and time.monotonic() - began + attempts.pause() > timeout:
                refusal = "the time is over"
            if refusal is not None:
                say(f"not submitted again: {refusal}", quiet=self.quiet)
                return submitted, status
            why = harmless(status.details or status.status, limit=_LONGEST)
            done = f"{self._done():,} of {plural(self.rounds, 'round')} are written down"
            again = f"submitted again in {attempts.pause():.0f} s, try {attempts.made + 1} of {tries}"
            say(f"Flower ended run {submitted.run_id}: {why}; {done}; {again}", quiet=self.quiet)
            wait_for_folder(self.place, attempts.pause())

    def _done(self) -> int:
        return len(list(records_after(self.place, 0)))

    def _watch(self, submitted: SubmittedRun, timeout: float | None) -> RunStatus:
        """Follow a run to its end; stop it if somebody wishes so, or the time is over."""

        def show_news() -> None:
            for record in records_after(self.place, lane.done):
                shown.add_round("", record)
            shown.wait("", self._waiting(lane.done))

        try:
            lane = RunProgress(self.rounds, self._done(), people=_People(self.place))
            with progress_display({"": lane}, quiet=self.quiet or self.place is None) as shown:
                return submitted.wait(timeout, look=show_news)
        except (KeyboardInterrupt, SteadfedError):
            submitted.stop()
            raise

    def _waiting(self, done: int) -> str:
        """Return whom the round after those that are done waits for, in words; nothing if for nobody."""
        from steadfed.server._waiting import read_waiting

        found = None if self.place is None else read_waiting(self.place)
        return "" if found is None or found.round < done else f"round {found.round}: {found.words}"


@final
class _People:
    """Tells whom rounds are about; those before the first one count, too."""

    def __init__(self, place: Path | None) -> None:
        self._place = place
        self._narrator: Narrator | None = None

    def __call__(self, record: RoundRecord) -> tuple[str, object]:
        """Return it by name, and what is the same in every round about the same people."""
        if self._narrator is None:  # config.toml is there from the first round on
            self._narrator = self._begun(record.round)
        return "; ".join(self._narrator.told(record)), self._narrator.people

    def _begun(self, done: int) -> Narrator:
        from steadfed.server._history import Narrator, meaning_of
        from steadfed.server._history.files import CONFIG, raw_table, small_text

        text = None if self._place is None else small_text(self._place / CONFIG)
        return Narrator(meaning_of(raw_table(text or "").get("rule")), islice(records_after(self._place, 0), done))


def records_after(place: Path | None, done: int) -> Iterator[RoundRecord]:
    """Yield the rounds of a run that are written down, but for those that were done before."""
    from steadfed.server._folder import RunFolder

    files = () if place is None else (place / "config.toml", place / "rounds.jsonl")
    if place is not None and all(file.is_file() for file in files):  # the folder may be in the making
        yield from islice(RunFolder(place).records(), done, None)


def say(text: str, *, quiet: bool = False) -> None:
    """Print a line on stderr, unless nobody wants to know."""
    if not quiet:
        Console(stderr=True).print(text, highlight=False, markup=False, soft_wrap=True)
