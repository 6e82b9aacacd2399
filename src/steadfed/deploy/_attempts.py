"""Whether a run that Flower ended is handed over again, into the same folder."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import final

from steadfed._core.wording import plural
from steadfed.deploy._submission import RunStatus
from steadfed.server._history.files import CONFIG, SUMMARY, is_running

FRUITLESS = 2
"""Failures in a row without a new round after which a run is given up."""
PAUSES = (5.0, 15.0, 45.0, 60.0)
"""Seconds before the second submission, the third, and so on; the last one from then on."""
LONGEST_HELD = 90.0
"""Seconds that a server app which Flower has given up may still hold the folder."""
OWN_ERROR = "ServerApp failed with exception"
"""How Flower begins to say that the app itself raised an error."""


@final
@dataclass
class Attempts:
    """How often a run was submitted, and whether it got anywhere.

    Flower marks a run as failed whose server app was killed, was too slow to give a sign of life, or lost its
    SuperLink; in a run folder nothing of it is lost. An error of the app itself is told by the words of Flower; it
    is taken for one that will repeat unless the app finished a round before it.
    """

    most: int
    made: int = 0
    _fruitless: int = 0

    def refusal(self, status: RunStatus, place: Path | None, *, new_rounds: int) -> str | None:
        """Return why a run that ended so is not submitted again, as a phrase; None if it is to be.

        Args:
            status: how the SuperLink says that it ended.
            place: its run folder; None if the app has none.
            new_rounds: how many rounds were written down since it was submitted.
        """
        self.made += 1
        self._fruitless = 0 if new_rounds else self._fruitless + 1
        if status.status != "finished:failed":
            return "it was stopped"
        if place is None or not (place / CONFIG).is_file():
            return "there is no run folder to continue from"
        if (place / SUMMARY).is_file():
            return "all its rounds are written down"
        if not new_rounds and status.details.startswith(OWN_ERROR):
            return "the app itself failed before it finished a round, and would again"
        if self._fruitless >= FRUITLESS:
            return f"it failed {plural(self._fruitless, 'time')} in a row without a new round"
        return f"it was submitted {plural(self.made, 'time')}" if self.made >= self.most else None

    def pause(self) -> float:
        """Return how many seconds to wait before the next submission."""
        return PAUSES[min(self.made, len(PAUSES)) - 1]


def wait_for_folder(place: Path, pause: float) -> None:
    """Wait for some seconds, and on until no server app holds the folder, but not for ever."""
    time.sleep(pause)
    deadline = time.monotonic() + LONGEST_HELD
    while is_running(place) and time.monotonic() < deadline:
        time.sleep(1.0)
