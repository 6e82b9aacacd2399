"""A metric of the user's own, by import path."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar, final

from steadfed._core.importing import import_object
from steadfed.errors import ParameterError
from steadfed.metrics._base import Metric, Predictions, Task


@final
class ImportedMetric(Metric):
    """A function at an import path: of what was predicted and what is true, it returns a number, larger is better.

    It gets two tensors of all points at once: int64 classes, or numbers. What needs more (another direction, scores,
    a title) is a subclass of `Metric` at an import path.

    >>> import torch
    >>> told = Predictions(task="regression", predicted=torch.zeros(4), targets=torch.ones(4))
    >>> ImportedMetric(path="torch:dist").value(told)
    2.0
    """

    title: ClassVar[str] = "metric of one's own"
    meaning: ClassVar[str] = "computed by a function of one's own"
    tasks: ClassVar[frozenset[Task]] = frozenset({"classification", "regression"})
    is_share: ClassVar[bool] = False

    path: str
    """Where the function is, "package.module:function"."""

    def value(self, predictions: Predictions) -> float | None:
        """Call the function.

        Raises:
            ParameterError: it fails, or what it returns is no number.
        """
        try:
            number = float(_function(self.path)(predictions.predicted, predictions.targets))
        except Exception as error:
            raise ParameterError(f"the metric {self.path} failed with {type(error).__name__}: {error}") from error
        return number if math.isfinite(number) else None


def imported_metric(path: str) -> Metric:
    """Return the metric at an import path: a `Metric`, a class of them, or a function.

    Raises:
        ParameterError: there is none.
    """
    found = import_object(path, "the metric")
    if isinstance(found, type) and issubclass(found, Metric):
        found = found()
    if isinstance(found, Metric):
        return found
    _function(path)
    return ImportedMetric(path=path)


def _function(path: str) -> Callable[[Any, Any], Any]:
    """Return the function at an import path."""
    found: Callable[[Any, Any], Any] = import_object(path, "the metric")
    if not callable(found):
        raise ParameterError(f"{path} must be a function or a Metric, got {type(found).__name__}")
    return found
