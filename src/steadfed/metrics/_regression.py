"""Metrics of numbers, in double precision."""

from __future__ import annotations

from abc import ABC
from typing import TYPE_CHECKING, ClassVar, final

from steadfed.metrics._base import Metric, Predictions, Task
from steadfed.metrics._registry import METRICS

if TYPE_CHECKING:
    from torch import Tensor

_SCALE = 1e6
"""torchmetrics takes residuals below 1e-4 for none; on this scale they are none to twelve digits."""


class NumberMetric(Metric, ABC):
    """A metric of predicted numbers; None without points. Labels that are vectors count coordinate by coordinate."""

    tasks: ClassVar[frozenset[Task]] = frozenset({"regression"})


@METRICS.register("r2")
@final
class RSquared(NumberMetric):
    r"""R² = 1 − Σ (y − ŷ)² / Σ (y − ȳ)²: which share of the variance is explained; the mean over coordinates.

    1 is perfect, 0 no better than always saying the mean ȳ, and it is negative for worse than that. None if the labels
    do not vary, where others say 0 or 1.
    """

    title: ClassVar[str] = "R²"
    meaning: ClassVar[str] = "share of the labels' variance that is explained; 0 is no better than their mean"
    is_share: ClassVar[bool] = False

    def value(self, predictions: Predictions) -> float | None:
        """Return R²."""
        from torchmetrics.functional.regression import r2_score

        predicted, targets = _columns(predictions)
        if len(targets) < 2:
            return None
        centre, deviation = targets.mean(0), targets.std(0, correction=0)
        varied = deviation > 0
        if not bool(varied.any()):
            return None
        scale = _SCALE / deviation[varied]  # R² does not change with the unit; r2_score's tolerance would
        known, said = ((each[:, varied] - centre[varied]) * scale for each in (targets, predicted))
        return float(r2_score(said, known))


@METRICS.register("mae")
@final
class MeanAbsoluteError(NumberMetric):
    """mean |y − ŷ|, in the unit of the labels."""

    title: ClassVar[str] = "mean absolute error"
    meaning: ClassVar[str] = "how far predictions are off on average, in the unit of the labels"
    higher_is_better: ClassVar[bool] = False
    is_share: ClassVar[bool] = False

    def value(self, predictions: Predictions) -> float | None:
        """Return the mean distance."""
        from torchmetrics.functional.regression import mean_absolute_error

        predicted, targets = _columns(predictions)
        return float(mean_absolute_error(predicted, targets)) if len(targets) else None


@METRICS.register("rmse")
@final
class RootMeanSquaredError(NumberMetric):
    """(mean (y − ŷ)²)^½, in the unit of the labels; large errors count more than in the mean absolute error."""

    title: ClassVar[str] = "root mean squared error"
    meaning: ClassVar[str] = "how far predictions are off, large errors counting more, in the unit of the labels"
    higher_is_better: ClassVar[bool] = False
    is_share: ClassVar[bool] = False

    def value(self, predictions: Predictions) -> float | None:
        """Return the root of the mean square."""
        from torchmetrics.functional.regression import mean_squared_error

        predicted, targets = _columns(predictions)
        return float(mean_squared_error(predicted, targets, squared=False)) if len(targets) else None


def _columns(predictions: Predictions) -> tuple[Tensor, Tensor]:
    """Return predicted and true numbers as n × m, in double precision."""
    targets = predictions.targets.double().reshape(len(predictions), -1)
    return predictions.predicted.double().reshape(targets.shape), targets
