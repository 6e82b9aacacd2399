"""Who is waited for while replies come, told now and then: in the log, and in the folder of the run."""

from __future__ import annotations

import math
import os
from collections.abc import Collection
from logging import INFO
from pathlib import Path
from typing import final

from flwr.supercore import log

from steadfed.flower._nodes import NodeDirectory
from steadfed.server._waiting import Waiting, forget_waiting, write_waiting

REMINDER = 10.0
"""Seconds between two lines that say who is waited for."""


@final
class Lookout:
    """Tells every ten seconds how many have replied, for whom the round still waits, and how long."""

    def __init__(self, directory: NodeDirectory, run_folder: str | os.PathLike[str] | None = None) -> None:
        """Tell it in the log, and in the folder of the run, if there is one."""
        self._directory = directory
        self._folder = None if run_folder is None else Path(run_folder)
        self._round, self._what = 0, ""
        self._asked = self._undelivered = 0
        self._told = -math.inf

    def turn_to(self, number: int, what: str = "") -> None:
        """Watch the replies of a round, counted from 0; `what` they are, if not those of the training."""
        self._round, self._what = number, what

    def begin(self, asked: int, undelivered: int, now: float) -> None:
        """Take note that messages were sent at a time, and that some of them were not taken."""
        self._asked, self._undelivered, self._told = asked, undelivered, now

    def look(self, waiting: Collection[int], now: float, left: float) -> None:
        """Tell which nodes are waited for, if it is time, and for how many seconds more."""
        if not waiting or now - self._told < REMINDER:
            return
        self._told = now
        told = Waiting(
            round=self._round,
            asked=self._asked,
            replied=self._asked - self._undelivered - len(waiting),
            missing=tuple(self._directory.name(node) for node in waiting),
            seconds_left=max(0.0, left) if math.isfinite(left) else None,
            what=self._what,
        )
        log(INFO, "\t> %s", told.words)
        if self._folder is not None:
            write_waiting(self._folder, told)

    def end(self) -> None:
        """Take note that nobody is waited for any more."""
        if self._folder is not None:
            forget_waiting(self._folder)
