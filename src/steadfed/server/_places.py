"""Where runs lie that were given no other place."""

from __future__ import annotations

from pathlib import Path

from steadfed.errors import RunError

RUNS = Path("runs")
"""The folder that holds the runs that were given no other place."""


def reserve_folder(stem: str, *, otherwise: str = "--out") -> Path:
    """Make and return the first of runs/stem-1, runs/stem-2, … that does not exist.

    Args:
        stem: what the number is put after.
        otherwise: by what another place is given, for messages.

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
                raise RunError(f"{str(RUNS)!r} is not a folder; give another place with {otherwise}") from None
            number += 1
        except OSError as error:
            raise RunError(
                f"cannot make the folder {str(path)!r}: {error.strerror}; give another place with {otherwise}"
            ) from None
        else:
            return path
