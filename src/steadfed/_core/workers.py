"""Worker processes that do not outlive those who started them."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker


@contextmanager
def interrupts_blocked() -> Iterator[None]:
    """Start threads and processes that do not hear Ctrl-C, which a terminal sends to all its processes.

    What is blocked in a thread is blocked in the threads and processes that it starts, from their first moment: a
    worker needs seconds to import what it needs before it could say so itself. A Ctrl-C in between is not lost: another
    thread takes it, or this one when it is done here.
    """
    if sys.platform == "win32":
        yield
        return
    resource_tracker.ensure_running()  # starting it later would unblock the signal in the thread that does so
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def end_with_parent() -> None:
    """End this worker when the process that started it is gone, however it ended: nobody would take its results.

    The first thing that a worker calls. Ctrl-C, which a terminal sends to all its processes, is for the parent.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def wait() -> None:
        parent = multiprocessing.parent_process()
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
