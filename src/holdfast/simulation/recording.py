"""What a round puts into its record, wherever the rows come from: the rule's decision, and the time it took."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import compress
from typing import Any, final

import torch

from holdfast.aggregators import Aggregation
from holdfast.server.record import Client

_EVIDENCE = (
    "weights",
    "scores",
    "stop",
    "reason",
    "promise_broken",
    "num_byzantine",
    "sigma0",
    "spread",
    "spread_before",
    "threshold",
    "certificate",
)


def decided(outcome: Aggregation | str, clients: Sequence[Client]) -> dict[str, Any]:
    """Return what the rule decided about the rows of these clients, or why it could not, as fields of a record."""
    if isinstance(outcome, str):
        return {"skipped": True, "reason": outcome}
    evidence = outcome.evidence()
    return {
        **{key: evidence[key] for key in _EVIDENCE},
        "unusable": list(compress(clients, (~outcome.usable).tolist())),
        "kept": list(compress(clients, outcome.kept.tolist())),
        "update_norm": float(torch.linalg.vector_norm(outcome.update)),
    }


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
