"""Who takes a federation down when the process that brought it up is killed.

The processes of a federation are sessions of their own, so that Ctrl-C in a terminal does not reach them, and nothing
of the system ends them with their owner. A test or a benchmark that is killed would leave them running.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import final

from holdfast.federation.installed import MARKER
from holdfast.federation.places import Place
from holdfast.federation.processes import Process, end, launch

PAUSE = 0.5
"""Seconds between two looks at the owner."""


@final
@dataclass(frozen=True)
class Guardian:
    """A process that waits for the end of another, and then ends a federation."""

    child: subprocess.Popen[bytes]

    def dismiss(self) -> None:
        """End it; the federation was taken down."""
        self.child.kill()
        self.child.wait()


def watched_over(folder: Path, marker: str) -> Guardian | None:
    """Start a process that waits for the end of this one and then ends all that carries the marker.

    It carries the marker itself: whoever takes the federation down ends it too.
    """
    owner = Process.of(os.getpid())
    if owner is None:
        return None
    words = [sys.executable, "-m", "holdfast.federation.guardian", str(owner.pid), owner.started, str(folder), marker]
    variables = {**os.environ, MARKER: f"{marker}/guardian"}
    return Guardian(launch(words, folder / "logs" / "guardian.log", variables, Path.cwd()))


def guard(owner: Process, folder: Path, marker: str) -> None:
    """Wait until the owner is gone, then end the federation, but not another that was brought up in its folder."""
    while owner.is_running:
        time.sleep(PAUSE)
    place = Place(folder)
    state = place.state() if place.belongs_to(marker) else None  # without one, those that carry the marker are found
    end([] if state is None else state.processes(), marker, patience=3.0)


if __name__ == "__main__":
    number, started, path, mark = sys.argv[1:]
    guard(Process(int(number), started), Path(path), mark)
