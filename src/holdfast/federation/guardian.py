"""Who takes a federation down when the process that brought it up is killed."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import final

from holdfast.federation.places import Place
from holdfast.federation.processes import Process, end, until

WEEK = 7 * 86400.0
"""How long a guardian waits at most."""


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
    """Start a process that waits for the end of this one and then ends all that carries the marker."""
    owner = Process.of(os.getpid())
    if owner is None:
        return None
    words = [sys.executable, "-m", "holdfast.federation.guardian", str(owner.pid), owner.started, str(folder), marker]
    with (folder / "logs" / "guardian.log").open("ab") as log:
        child = subprocess.Popen(  # noqa: S603  this module
            words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    return Guardian(child)


def guard(owner: Process, folder: Path, marker: str) -> None:
    """Wait until the owner is gone, then end the federation."""
    until(lambda: not owner.is_running, WEEK)
    state = Place(folder).state() if folder.is_dir() else None
    end([] if state is None else state.processes(), marker, patience=3.0)


if __name__ == "__main__":
    number, started, path, mark = sys.argv[1:]
    guard(Process(int(number), started), Path(path), mark)
