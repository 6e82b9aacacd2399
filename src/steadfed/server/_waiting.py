"""Whom a round is waiting for: one small file in the folder of a run, which is there only meanwhile.

A server app writes it for whoever watches the run from outside. It is no evidence, and nothing depends on it.
"""

from __future__ import annotations

import json
import time
from contextlib import suppress
from pathlib import Path
from typing import final

from steadfed._core.durable import replace_file
from steadfed._core.parsing import parse_json
from steadfed._core.values import ValueObject
from steadfed._core.wording import harmless
from steadfed.errors import ParameterError
from steadfed.server._history.files import small_text
from steadfed.server._history.silence import listed
from steadfed.server._record import Client

WAITING = "waiting.json"
"""The name of the file."""
_OLDEST = 60.0
"""Seconds after which a file is what a server app left behind that was killed."""

_FEW = 2
"""Names that are listed even if they are all."""


@final
class Waiting(ValueObject):
    """How many of those asked have replied, and who has not yet."""

    round: int
    """The number of the round, from 0."""
    asked: int
    replied: int
    missing: tuple[Client, ...]
    """Who has not."""
    seconds_left: float | None = None
    """How long they are waited for; None without end."""
    what: str = ""
    """What they were asked for, if it is not the training."""

    @property
    def words(self) -> str:
        """What a line says.

        >>> Waiting(round=3, asked=6, replied=4, missing=("Erfurt", "Jena"), seconds_left=31.2).words
        '4 of 6 replied, waiting for Erfurt, Jena, 31 s left'
        >>> Waiting(round=3, asked=2, replied=1, missing=("Erfurt",), what="evaluation").words
        'evaluation: 1 of 2 replied, waiting for Erfurt'
        >>> Waiting(round=3, asked=3, replied=0, missing=("Erfurt", "Jena", "Ulm"), seconds_left=50.0).words
        '0 of 3 replied, waiting for all, 50 s left'
        """
        head = f"{harmless(self.what, limit=40)}: " if self.what else ""
        left = "" if self.seconds_left is None else f", {self.seconds_left:.0f} s left"
        whom = "all" if _FEW < len(self.missing) == self.asked else listed(self.missing)
        return f"{head}{self.replied:,} of {self.asked:,} replied, waiting for {whom}{left}"


@final
class Note(ValueObject):
    """What the file holds."""

    waiting: Waiting
    at: float
    """When it was written, by the clock that nobody sets and all processes of a machine share."""


def write_waiting(folder: Path, waiting: Waiting) -> None:
    """Write the file anew; one that cannot be written is not missed: a full disk is told of where it matters."""
    note = Note(waiting=waiting, at=time.monotonic())
    with suppress(OSError):
        replace_file(folder / WAITING, json.dumps(note.model_dump()).encode())


def forget_waiting(folder: Path) -> None:
    """Remove the file: nobody is waited for any more."""
    with suppress(OSError):
        (folder / WAITING).unlink(missing_ok=True)


def read_waiting(folder: Path) -> Waiting | None:
    """Return whom the round waits for; None if it waits for nobody, or nobody has said so for a while."""
    try:
        text = small_text(folder / WAITING)
        note = None if text is None else Note.model_validate(parse_json(text))
    except (OSError, ParameterError, TypeError, ValueError):
        return None
    fresh = note is not None and 0.0 <= time.monotonic() - note.at <= _OLDEST
    return note.waiting if note is not None and fresh else None
