"""Who takes a deployment down when the process that brought it up is killed.

The processes of a deployment are sessions of their own, so that Ctrl-C in a terminal does not reach them, and nothing
of the system ends them with their owner. A test or a benchmark that is killed would leave them running.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from steadfed.deploy._environment import MARKER
from steadfed.deploy._folder import DeploymentFolder
from steadfed.deploy._processes import end_process_tree, launch

PAUSE = 0.5
"""Seconds between two looks at the owner."""


def start_guardian(folder: Path, marker: str) -> subprocess.Popen[bytes]:
    """Start a process that waits for the end of this one and then ends all that carries the marker.

    It carries the marker itself: whoever takes the deployment down ends it too.
    """
    words = [sys.executable, "-P", "-m", "steadfed.deploy._guardian", str(os.getpid()), str(folder), marker]
    variables = {**os.environ, MARKER: f"{marker}/guardian"}
    return launch(words, folder / "logs" / "guardian.log", variables, Path.cwd())


def guard(owner: int, folder: DeploymentFolder, marker: str) -> None:
    """Wait until the owner, parent of this process, is gone; then end its deployment, and no later one in the folder.

    A process whose parent ends gets another one at once, so nobody can be taken for the owner.
    """
    while os.getppid() == owner:
        time.sleep(PAUSE)
    state = folder.state() if folder.belongs_to(marker) else None  # without one, the marker alone says who is meant
    end_process_tree([] if state is None else state.processes(), marker, patience=3.0)


if __name__ == "__main__":
    guard(int(sys.argv[1]), DeploymentFolder(Path(sys.argv[2])), sys.argv[3])
