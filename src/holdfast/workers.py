"""Worker processes that do not outlive those who started them."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading


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
