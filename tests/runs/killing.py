"""Commands of steadfed as processes that are killed: forked from one that has loaded torch, so that they start at once.

Every line of input is a JSON list: a run's folder, after how many rounds in it to kill (null for never), how many
seconds later, then the arguments. Answered by the exit code, which is -9 for a process that was killed.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

import sklearn.datasets  # noqa: F401  loaded once for all

import steadfed.runs._run  # noqa: F401  loaded once for all
from steadfed._cli import main


def play(folder: Path, rounds: int | None, seconds: float, arguments: list[str]) -> int:
    """Fork a process that runs a command, and kill it."""
    process = os.fork()
    if process == 0:
        sys.argv = ["steadfed", *arguments]
        os.dup2(2, 1)
        main()
        os._exit(0)
    if rounds is not None:
        while _written(folder) < rounds and not _ended(process):
            time.sleep(0.001)
        time.sleep(seconds)
        os.kill(process, signal.SIGKILL)  # if it has ended it is still there, for nobody asked how
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def _written(folder: Path) -> int:
    """Return how many rounds are written down."""
    with suppress(FileNotFoundError):
        return (folder / "rounds.jsonl").read_bytes().count(b"\n")
    return 0


def _ended(process: int) -> bool:
    """Tell whether the process has ended, and leave it as it is."""
    return os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


if __name__ == "__main__":
    for line in sys.stdin:
        run, number, delay, *words = json.loads(line)
        sys.stdout.write(f"{play(Path(run), number, delay, words)}\n")
        sys.stdout.flush()
