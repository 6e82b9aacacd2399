"""The records of a run turned on their side: a column for every figure, and one line for every client of a cohort."""

from __future__ import annotations

import math
import statistics
from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import final

import numpy as np
from numpy.typing import NDArray

from holdfast.server.drops import malformed
from holdfast.server.record import Client, RoundRecord

_FIGURES = (
    "step", "lr", "num_byzantine", "sigma0", "spread", "spread_before", "threshold", "update_norm", "error",
    "honest_spread", "honest_scatter", "honest_error_bound", "train_loss", "train_accuracy", "test_loss",
    "test_accuracy", "bytes_down", "bytes_up", "skipped", "promise_broken",
)  # fmt: skip
"""The numbers of a record that are columns of the same name."""


class Status(IntEnum):
    """What became of a client of a cohort, from nothing special to worst."""

    KEPT = 0
    """Its update got weight."""
    SKIPPED = 1
    """It sent an update, and the round was skipped."""
    ABSENT = 2
    """It sent nothing."""
    REMOVED = 3
    """The rule gave its update weight 0."""
    UNUSABLE = 4
    """Its update held NaN, Inf or numbers whose squares overflow."""
    MALFORMED = 5
    """Its reply was no model like the one it was sent."""


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Entries:
    """One line for every client of every cohort, in the order of the rounds."""

    client: NDArray[np.int64]
    """Places in the list of clients."""
    round: NDArray[np.int64]
    weight: NDArray[np.float64]
    """Times the number of rows: 1 is an equal share; NaN without one."""
    score: NDArray[np.float64]
    """The rule's measure of suspicion; NaN without one."""
    status: NDArray[np.int64]
    """Values of `Status`."""
    byzantine: NDArray[np.bool_]
    """As far as the records know."""

    def __len__(self) -> int:
        return len(self.client)

    @property
    def judged(self) -> NDArray[np.bool_]:
        """Which lines are about a row that a rule kept or removed, for whatever reason."""
        judged: NDArray[np.bool_] = (self.status == Status.KEPT) | (self.status >= Status.REMOVED)
        return judged

    @property
    def removed(self) -> NDArray[np.bool_]:
        """Which lines are about a row that got no weight."""
        return self.status >= Status.REMOVED


@final
@dataclass
class Columns:
    """Columns that grow by a record at a time."""

    rounds: int = 0
    reasons: dict[tuple[int, int], str] = field(default_factory=dict)
    """Why a reply was dropped, by round and place of the client."""
    said: list[str] = field(default_factory=list)
    """The reason of every round."""
    byzantine: set[int] = field(default_factory=set)
    """Places of those that were Byzantine in some round."""
    last: RoundRecord | None = None
    _figures: dict[str, array[float]] = field(default_factory=dict)
    _whole: dict[str, array[int]] = field(
        default_factory=lambda: {name: array("q") for name in ("client", "round", "status", "byzantine")}
    )
    _real: dict[str, array[float]] = field(default_factory=lambda: {name: array("d") for name in ("weight", "score")})

    def add(self, record: RoundRecord, places: Mapping[Client, int]) -> None:
        """Add a round; every client in it must have a place."""
        for name, value in _figures_of(record).items():
            self._put(name, value)
        self._add_entries(record, places)
        self.said.append(record.reason or "")
        for drop in record.drops:
            told = f"{drop.fault}: {drop.detail}" if drop.detail else drop.fault
            self.reasons[self.rounds, places[drop.client]] = told
        self.byzantine.update(places[client] for client in record.byzantine)
        self.last = record
        self.rounds += 1

    def figure(self, name: str) -> NDArray[np.float64]:
        """Return a column, NaN where there is no number; all NaN if the name never turned up."""
        found = np.full(self.rounds, np.nan)
        values = self._figures.get(name)
        if values is not None:
            found[: len(values)] = values
        return found

    def names_below(self, prefix: str) -> list[str]:
        """Return the names of columns "prefix.x" without the prefix, in the order in which they turned up."""
        return [name.removeprefix(f"{prefix}.") for name in self._figures if name.startswith(f"{prefix}.")]

    def entries(self) -> Entries:
        """Return the lines of all clients."""
        whole = {name: np.array(values, dtype=np.int64) for name, values in self._whole.items()}
        real = {name: np.array(values, dtype=np.float64) for name, values in self._real.items()}
        return Entries(
            client=whole["client"],
            round=whole["round"],
            status=whole["status"],
            byzantine=whole["byzantine"].astype(np.bool_),
            weight=real["weight"],
            score=real["score"],
        )

    def _put(self, name: str, value: float) -> None:
        column = self._figures.setdefault(name, array("d"))
        if len(column) < self.rounds:
            column.extend([math.nan] * (self.rounds - len(column)))
        column.append(value)

    def _add_entries(self, record: RoundRecord, places: Mapping[Client, int]) -> None:
        number, rows = record.round, len(record.received)
        weighed = len(record.weights) == rows
        weights = dict(zip(record.received, record.weights, strict=True)) if weighed else {}
        scores = dict(zip(record.received, record.scores, strict=True)) if len(record.scores) == rows else {}
        statuses, liars = _statuses(record), set(record.byzantine)
        for client, status in statuses.items():
            score = scores.get(client)
            self._whole["client"].append(places[client])
            self._whole["round"].append(number)
            self._whole["status"].append(status)
            self._whole["byzantine"].append(client in liars)
            self._real["weight"].append(weights[client] * rows if client in weights else math.nan)
            self._real["score"].append(math.nan if score is None else score)


def _statuses(record: RoundRecord) -> dict[Client, int]:
    """Return what became of every client of the cohort; the worst, if several things did."""
    found = dict.fromkeys(record.cohort, int(Status.ABSENT))
    found |= dict.fromkeys(record.received, int(Status.SKIPPED if record.skipped else Status.REMOVED))
    if not record.skipped:
        found |= dict.fromkeys(record.kept, int(Status.KEPT))
    found |= dict.fromkeys(record.erased, int(Status.ABSENT))
    found |= dict.fromkeys(record.unusable, int(Status.UNUSABLE))
    return found | dict.fromkeys(malformed(record), int(Status.MALFORMED))


def _figures_of(record: RoundRecord) -> dict[str, float]:
    figures = {name: value for name in _FIGURES if (value := getattr(record, name)) is not None}
    figures |= {f"seconds.{name}": value for name, value in record.seconds.items()}
    figures |= {f"metrics.{name}": value for name, value in record.metrics.items() if value is not None}
    bound = (record.certificate or {}).get("error_bound")
    if isinstance(bound, (int, float)):
        figures["certificate.error_bound"] = bound
    known = [score for score in record.scores if score is not None]
    if known:
        figures["median_score"] = statistics.median(known)
    counts = {"received": record.received, "removed": record.removed, "unusable": record.unusable}
    figures |= {name: len(clients) for name, clients in {**counts, "erased": record.erased}.items()}
    return {name: _real(value) for name, value in figures.items()}


def _real(value: float) -> float:
    """Return a number as what a column holds; JSON has whole numbers that are larger."""
    try:
        return float(value)
    except OverflowError:
        return math.nan
