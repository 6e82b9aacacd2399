"""What came of a run, in a few numbers: the content of summary.json."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from steadfed.metrics import column_of
from steadfed.server._history.rounds import EVALUATED, Rounds


def summary_of(rounds: Rounds) -> dict[str, Any]:
    """Return the last losses and accuracies, the best accuracy, the `Tally` and how long each part took.

    "last" is of the last round with an evaluation; a loss that was not finite there is None.
    """
    looks, peak = rounds.evaluated, rounds.last_and_best("test_accuracy")
    return {
        "rounds": len(rounds),
        "last": {name: _finite_or_none(rounds[name][looks[-1]]) for name in EVALUATED} if len(looks) else {},
        "best": {"test_accuracy": peak and peak[1], "round": peak and peak[2]},
        **({"metrics": metrics_of(rounds)} if rounds.asked_metrics else {}),
        "tally": rounds.tally.as_dict(),
        "seconds": {
            part: round(float(np.nansum(rounds[f"seconds.{part}"])), 3) for part in rounds.names_below("seconds")
        },
    }


def metrics_of(rounds: Rounds) -> dict[str, Any]:
    """Return every metric that was asked for when it was looked at last, None where it is not defined."""
    looks = rounds.evaluated
    return {name: _finite_or_none(rounds[column_of(name)][looks[-1]]) for name in rounds.asked_metrics if len(looks)}


def _finite_or_none(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
