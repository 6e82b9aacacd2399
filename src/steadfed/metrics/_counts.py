"""Counts per class, which most metrics of classes are made of."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from steadfed._core.arrays import Indices, Vector
from steadfed.errors import ParameterError
from steadfed.metrics._base import Predictions


@dataclass(frozen=True, eq=False)
class ClassCounts:
    """For every class c: how many points were rightly and wrongly said to be c, and how many are c."""

    hits: Indices
    """Points of c that were said to be c: true positives."""
    false_alarms: Indices
    """Points of other classes that were said to be c: false positives."""
    support: Indices
    """Points of c."""

    @classmethod
    def of(cls, predictions: Predictions) -> ClassCounts:
        """Count, in whole numbers."""
        from torchmetrics.functional.classification import multiclass_stat_scores

        if predictions.num_classes is None:
            raise ParameterError("these predictions name no classes, so nothing can be counted by class")
        counts = multiclass_stat_scores(
            predictions.predicted,
            predictions.targets,
            num_classes=predictions.num_classes,
            average="none",
            validate_args=False,
        )
        hits, false_alarms, _, _, support = counts.reshape(-1, 5).cpu().numpy().T.astype(np.int64)
        return cls(hits, false_alarms, support)

    def recalls(self) -> Vector:
        """Return for every class that occurs which share of its points was recognised."""
        there = self.support > 0
        return self.hits[there] / self.support[there]

    def f1_scores(self) -> Vector:
        """Return 2 hits / (2 hits + false alarms + misses) of every class that occurs or was named."""
        reach = self.hits + self.false_alarms + self.support
        return 2.0 * self.hits[reach > 0] / reach[reach > 0]


def share(part: float, whole: float) -> float | None:
    """Return part / whole; None if there is no whole.

    >>> share(1, 4), share(0, 0)
    (0.25, None)
    """
    return float(part / whole) if whole else None
