"""What came of a cell, in numbers: written beside its run when it is done, and never computed again."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import final

import numpy as np
from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from steadfed._core.durable import replace_file
from steadfed.server._history import Rounds, summary_of
from steadfed.server._record import RoundRecord

LAST = 5
"""Over how many of the last evaluations accuracies are averaged."""
FIGURES = "figures.json"
"""The file beside a run that says that the cell is done."""


@final
@dataclass(frozen=True, kw_only=True, config=ConfigDict(strict=True, allow_inf_nan=False))
class Figures:
    """A run in a few numbers."""

    accuracy: float | None
    """Mean test accuracy of the last five evaluations, as the bucketing repository reports it."""
    final_accuracy: float | None
    best_accuracy: float | None
    curve_rounds: list[int]
    """After how many rounds the model was looked at."""
    curve: list[float]
    """Test accuracies then."""
    precision: float | None
    """Which share of the removals hit Byzantine clients; None if nobody was removed."""
    recall: float | None
    """Which share of the Byzantine updates was removed; None if there were none."""
    honest_removed: float | None
    """Which share of the honest updates was removed."""
    skipped: int
    """Rounds in which nothing could be aggregated."""
    assumption_violated: int
    """Rounds in which the rule saw that its assumptions do not hold."""
    seconds: float
    """Time of all rounds: the only number that differs from machine to machine."""

    def __post_init__(self) -> None:
        """Refuse a curve that has not a round for every accuracy."""
        if len(self.curve) != len(self.curve_rounds):
            raise ValueError(f"{len(self.curve)} accuracies belong to {len(self.curve_rounds)} rounds")


_JSON = TypeAdapter(Figures)


def figures_of(records: Iterable[RoundRecord]) -> Figures:
    """Return the figures of a run."""
    rounds = Rounds.of(records)
    accuracy, summary, tally = rounds["test_accuracy"], summary_of(rounds), rounds.tally
    looks = np.flatnonzero(np.isfinite(accuracy))
    curve = accuracy[looks].tolist()
    return Figures(
        accuracy=float(np.mean(curve[-LAST:])) if curve else None,
        final_accuracy=curve[-1] if curve else None,
        best_accuracy=summary["best"]["test_accuracy"],
        curve_rounds=(looks + 1).tolist(),
        curve=curve,
        precision=tally.precision,
        recall=tally.recall,
        honest_removed=tally.honest_removed_rate,
        skipped=tally.skipped,
        assumption_violated=tally.assumption_violated,
        seconds=round(sum(summary["seconds"].values()), 3),
    )


def write_figures(folder: Path, figures: Figures) -> None:
    """Write the figures into the folder of a cell; with them the cell is done."""
    replace_file(folder / FIGURES, _JSON.dump_json(figures) + b"\n")


def read_figures(folder: Path) -> Figures | None:
    """Return the figures of a cell; None if it is not done, or what is there is not what a cell writes."""
    try:
        return _JSON.validate_json((folder / FIGURES).read_bytes())
    except (OSError, ValidationError):
        return None
