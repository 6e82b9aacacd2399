"""Which run a command is about, and how many processes it gets."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

from steadfed._core.wording import plural
from steadfed._linalg.threads import num_workers
from steadfed.errors import RunError

MOST_NAMED = 10
"""So many runs of a folder are named where one is asked for."""
MOST_JOBS = 8
"""More processes are used only if somebody asks for them."""


def require_run(path: Path) -> Path:
    """Return the folder itself; refuse one that is not a run and holds some.

    Raises:
        RunError: it is a folder of runs; the message names them.
    """
    from steadfed.server._folder import runs_in

    found = runs_in(path)
    if found == [path]:
        return path
    more = f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
    names = ", ".join(str(run) for run in found[:MOST_NAMED])
    raise RunError(f"{str(path)!r} is not a run but holds {plural(len(found), 'run')}; give one of them: {names}{more}")


def default_jobs(device: str = "cpu") -> int:
    """Return how many processes to use if nobody says: one per core that this process may use, at most eight.

    One on other devices than the CPU, and where processes cannot be forked.
    """
    if device != "cpu" or "fork" not in multiprocessing.get_all_start_methods():
        return 1
    return min(MOST_JOBS, num_workers())
