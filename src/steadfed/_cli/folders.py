"""Where the runs of the command line lie, and how many processes they get."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

from steadfed._core.wording import plural
from steadfed._linalg.threads import num_workers
from steadfed.errors import RunError

RUNS = Path("runs")
"""The folder that holds the runs that were given no other place."""
MOST_NAMED = 10
"""So many runs of a folder are named where one is asked for."""
MOST_JOBS = 8
"""More processes are used only if somebody asks for them."""


def reserve_folder(stem: str) -> Path:
    """Make and return the first of runs/stem-1, runs/stem-2, … that does not exist.

    Raises:
        RunError: the folder cannot be made.
    """
    number = 1
    while True:
        path = RUNS / f"{stem}-{number}"
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            if not RUNS.is_dir():
                raise RunError(f"{str(RUNS)!r} is not a folder; give another place with --out") from None
            number += 1
        except OSError as error:
            raise RunError(
                f"cannot make the folder {str(path)!r}: {error.strerror}; give another place with --out"
            ) from None
        else:
            return path


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
