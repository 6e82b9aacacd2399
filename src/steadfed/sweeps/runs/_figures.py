"""What came of a cell, in numbers: written beside its run when it is done, and never computed again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from pathlib import Path
from typing import final

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from steadfed._core.durable import replace_file
from steadfed.server._history import Rounds, summary_of
from steadfed.server._record import RoundRecord

LAST = 5
"""Over how many of the last evaluations accuracies are averaged."""
_FEW = 3
"""A share of fewer rounds says little about a client."""
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
    most_removed: float | None = None
    """The largest share of its honest updates that any client lost, of those judged at least three times."""
    metrics: dict[str, float] = field(default_factory=dict)
    """Every metric that the run has, by name: the mean of its last five evaluations that have it, as of accuracies."""
    metric_curves: dict[str, list[float | None]] = field(default_factory=dict)
    """The metrics in the rounds that were looked at."""
    metric_rounds: list[int] = field(default_factory=list)
    """After how many rounds that was."""

    def __post_init__(self) -> None:
        """Refuse a curve that has not a round for every accuracy."""
        if len(self.curve) != len(self.curve_rounds):
            raise ValueError(f"{len(self.curve)} accuracies belong to {len(self.curve_rounds)} rounds")
        if any(len(each) != len(self.metric_rounds) for each in self.metric_curves.values()):
            raise ValueError(f"a metric has not as many values as there are rounds, {len(self.metric_rounds)}")

    def of(self, metric: str) -> float | None:
        """Return a metric by its name; None if the run has it not."""
        return self.accuracy if metric == "accuracy" else self.metrics.get(metric)

    def curve_of(self, metric: str) -> tuple[list[int], list[float | None]]:
        """Return after how many rounds a metric was looked at, and what it was."""
        if metric == "accuracy":
            return self.curve_rounds, [*self.curve]
        return (self.metric_rounds, self.metric_curves[metric]) if metric in self.metric_curves else ([], [])


_JSON = TypeAdapter(Figures)


def figures_of(records: Iterable[RoundRecord]) -> Figures:
    """Return the figures of a run."""
    rounds = Rounds.of(records)
    accuracy, summary, tally = rounds["test_accuracy"], summary_of(rounds), rounds.tally
    looks = np.flatnonzero(np.isfinite(accuracy))
    curve = accuracy[looks].tolist()
    metrics = {name: rounds[column] for name, column in rounds.metric_columns.items() if name != "accuracy"}
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
        most_removed=max(
            (each.honest_against / each.honest_judged for each in rounds.clients if each.honest_judged >= _FEW),
            default=None,
        ),
        metrics={name: float(np.mean(known[-LAST:])) for name, each in metrics.items() if len(known := _known(each))},
        metric_curves={name: _finite_or_none(each[rounds.evaluated]) for name, each in metrics.items()},
        metric_rounds=(rounds.evaluated + 1).tolist(),
    )


def _known(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return values[np.isfinite(values)]


def _finite_or_none(values: NDArray[np.float64]) -> list[float | None]:
    return [value if known else None for value, known in zip(values.tolist(), np.isfinite(values), strict=True)]


def write_figures(folder: Path, figures: Figures) -> None:
    """Write the figures into the folder of a cell; with them the cell is done."""
    replace_file(folder / FIGURES, _JSON.dump_json(figures) + b"\n")


def read_figures(folder: Path) -> Figures | None:
    """Return the figures of a cell; None if it is not done, or what is there is not what a cell writes."""
    try:
        return _JSON.validate_json((folder / FIGURES).read_bytes())
    except (OSError, ValidationError):
        return None
