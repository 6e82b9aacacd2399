"""The loss, which every run writes down, as a metric to rank by."""

from __future__ import annotations

from typing import ClassVar, final

from steadfed.metrics._base import Metric, Predictions, Task
from steadfed.metrics._registry import METRICS


@METRICS.register("loss")
@final
class MeanLoss(Metric):
    """What training makes small, on the test points. Written in any case, as `test_loss`; no prediction tells it."""

    title: ClassVar[str] = "loss"
    meaning: ClassVar[str] = "what training makes small"
    tasks: ClassVar[frozenset[Task]] = frozenset({"classification", "regression"})
    higher_is_better: ClassVar[bool] = False
    is_share: ClassVar[bool] = False
    column: ClassVar[str | None] = "test_loss"

    def value(self, predictions: Predictions) -> float | None:
        """Return None: the loss is looked at by the run itself."""
        return None
