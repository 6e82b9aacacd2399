"""How long each part of a round takes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import final


@final
class Timer:
    """How long each part of a round takes."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Count the time inside for a part."""
        start = time.perf_counter()
        yield
        self._seconds[name] = self._seconds.get(name, 0.0) + time.perf_counter() - start

    def move(self, source: str, target: str, seconds: float) -> None:
        """Count some of the time of one part for another."""
        self._seconds[source] -= seconds
        self._seconds[target] += seconds

    def rounded(self) -> dict[str, float]:
        """Return the seconds of every part."""
        return {name: round(seconds, 6) for name, seconds in self._seconds.items()}
