"""How long each part of a round takes."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import final


@final
class Timer:
    """How long each part of a round takes."""

    def __init__(self) -> None:
        self._seconds: defaultdict[str, float] = defaultdict(float)

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Count the time inside for a part."""
        start = time.perf_counter()
        yield
        self._seconds[name] += time.perf_counter() - start

    def seconds(self, name: str) -> float:
        """Return how long a part has taken so far."""
        return self._seconds[name]

    def move(self, source: str, target: str, seconds: float) -> None:
        """Count some of the time of one part for another."""
        self._seconds[source] -= seconds
        self._seconds[target] += seconds

    def rounded(self) -> dict[str, float]:
        """Return the seconds of every part."""
        return {name: round(seconds, 6) for name, seconds in self._seconds.items()}
