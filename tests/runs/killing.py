"""Commands of holdfast as processes that are killed: forked from one that has loaded torch, so that they start at once.

Every line of input is a JSON list: after how many seconds to kill (null for never), then the arguments. Answered by the
exit code, which is -9 for a process that was killed.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading

import sklearn.datasets  # noqa: F401  loaded once for all

import holdfast.runs.run  # noqa: F401  loaded once for all
from holdfast.cli import main


def play(seconds: float | None, arguments: list[str]) -> int:
    """Fork a process that runs a command, and kill it."""
    process = os.fork()
    if process == 0:
        sys.argv = ["holdfast", *arguments]
        os.dup2(2, 1)
        main()
        os._exit(0)
    timer = threading.Timer(seconds, os.kill, (process, signal.SIGKILL)) if seconds is not None else None
    if timer is not None:
        timer.start()
    os.waitid(os.P_PID, process, os.WEXITED | os.WNOWAIT)  # it stays there until the timer is done
    if timer is not None:
        timer.cancel()
        timer.join()
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


if __name__ == "__main__":
    for line in sys.stdin:
        moment, *words = json.loads(line)
        sys.stdout.write(f"{play(moment, words)}\n")
        sys.stdout.flush()
