"""The lock of a run's folder: one process at a time works in it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from steadfed._core.durable import own_file, sole_holder
from steadfed.errors import RunError


@contextmanager
def hold(lock: Path) -> Iterator[None]:
    """Hold the lock, with the number of this process in it.

    Raises:
        RunError: another process holds it, or there can be no lock here; the message says which.
    """
    with ExitStack() as stack:
        try:
            descriptor = stack.enter_context(sole_holder(lock))
            os.truncate(descriptor, 0)
            os.write(descriptor, b"%d\n" % os.getpid())
        except BlockingIOError:
            raise RunError(_say_who_holds(lock)) from None
        except OSError as error:
            raise RunError(
                f"cannot lock {str(lock)!r}: {error.strerror}; a run needs a folder that can be written and locked"
            ) from None
        yield


def _say_who_holds(lock: Path) -> str:
    """Say who holds the lock."""
    try:
        with own_file(lock) as file:
            holder = f"process {int(file.read(32))}"
    except (OSError, ValueError):
        holder = "another process"  # it has not written its number yet
    return f"{holder} is working in {str(lock.parent)!r}; wait until it is done, or end it"
