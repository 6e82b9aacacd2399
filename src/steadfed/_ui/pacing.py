"""Work that many ask for and that is done once in a while."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar, final

Found = TypeVar("Found")

SHARE = 0.1
"""Which share of a processor's time may go into making one thing again and again."""
LONGEST = 10.0
"""Seconds after which it is made again, however long that takes."""


@final
class Paced(Generic[Found]):
    """Something that is made anew at most every so many seconds, however many ask; and less often if that takes long.

    Who asks while somebody else makes it gets what there is, and waits only for the first.

    >>> made = iter(range(10))
    >>> paced = Paced(lambda: next(made), patience=60)
    >>> paced.get(), paced.get()
    (0, 0)
    """

    def __init__(self, make: Callable[[], Found], *, patience: float) -> None:
        """Make nothing yet.

        Args:
            make: gives the thing; what it raises goes to who asked, and the next one tries again.
            patience: seconds for which it is good; 0 to make it whenever somebody asks.
        """
        self._make = make
        self._patience = patience
        self._lock = threading.Lock()
        self._found: tuple[Found] | None = None
        self._due = 0.0

    def get(self) -> Found:
        """Return the thing, at most about as old as the patience."""
        found = self._found
        if not self._lock.acquire(blocking=found is None) and found is not None:
            return found[0]
        try:
            if self._found is None or time.monotonic() >= self._due:
                start = time.thread_time()
                self._found = (self._make(),)
                cost = min((time.thread_time() - start) / SHARE, LONGEST) if self._patience else 0.0
                self._due = time.monotonic() + max(self._patience, cost)
            return self._found[0]
        finally:
            self._lock.release()
