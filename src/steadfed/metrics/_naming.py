"""Metrics by the names that configurations and columns have for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from steadfed._core.lookup import find
from steadfed.errors import ParameterError
from steadfed.metrics._base import Metric, Task
from steadfed.metrics._imported import imported_metric
from steadfed.metrics._registry import METRICS

TABLE = "test_metrics"
"""The field of a `RoundRecord` with the metrics that were asked for."""
USUAL: Final = "usual"
"""The word for the metrics that suit the task."""
_USUAL: Mapping[Task, tuple[str, ...]] = MappingProxyType(
    {"classification": ("balanced_accuracy", "worst_class_recall", "f1_macro", "auroc"), "regression": ("r2", "mae")}
)


def metric_named(name: str) -> Metric:
    """Return the metric called so, or the one at an import path.

    >>> metric_named("auroc")
    AreaUnderRoc()
    >>> metric_named("auc")
    Traceback (most recent call last):
        ...
    steadfed.errors.UnknownNameError: unknown metric 'auc', did you mean 'auroc'?; known: accuracy, ...

    Raises:
        UnknownNameError: there is none; the nearest name is in the message.
        ParameterError: there is nothing at the import path.
    """
    return imported_metric(name) if ":" in name else METRICS[name]()


def known_metric(name: str) -> type[Metric] | None:
    """Return the class of a metric by its name in a record; None for one of the user's own, or of a client's."""
    return METRICS.get(name)


def name_of(metric: str) -> str:
    """Return what a metric is called in records: of an import path the last name.

    >>> name_of("r2"), name_of("our.metrics:geometric_mean")
    ('r2', 'geometric_mean')

    Raises:
        ParameterError: the last name is that of a metric that is known.
    """
    name = metric.rpartition(":")[2].rpartition(".")[2]
    if name != metric and name in METRICS:
        raise ParameterError(f"the metric {metric!r} would be called {name!r} as one of steadfed's is; rename it")
    return name


def column_of(name: str) -> str:
    """Return the column of a run in which a metric stands, by its name in records.

    >>> column_of("accuracy"), column_of("r2")
    ('test_accuracy', 'test_metrics.r2')
    """
    known = METRICS.get(name)
    return known.column if known is not None and known.column is not None else f"{TABLE}.{name}"


def is_usual(name: str) -> bool:
    """Tell whether a metric is among those that suit a task."""
    return any(name in names for names in _USUAL.values())


def checked_metrics(value: Any) -> Any:
    """Return names of metrics as a tuple without repetitions; one may come alone.

    Raises:
        UnknownNameError: a name is no metric's; the nearest one is in the message.
        ValueError: two would have one name in records.
    """
    names = (value,) if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        return value
    different = tuple(dict.fromkeys(names))
    for name in different:
        if ":" not in name and name != USUAL:
            find("metric", name, {**METRICS, USUAL: None})
    called = [name_of(name) for name in different]
    if len(set(called)) < len(called):
        raise ValueError(f"two metrics would have one name in records: {', '.join(called)}")
    return different


def asked_metrics(names: Iterable[str], task: Task | None, num_classes: int | None) -> dict[str, Metric]:
    """Return the metrics that a run computes beside accuracy and loss, by their names in records.

    Raises:
        ParameterError: one says nothing about this task or these data, or cannot be imported.
    """
    found: dict[str, Metric] = {}
    for name in names:
        if name == USUAL and task is None:
            raise ParameterError(
                f"{USUAL!r} metrics are those of a task, and these outputs and labels show none; set task"
            )
        for each in _USUAL[task] if name == USUAL and task is not None else (name,):
            metric = metric_named(each)
            metric.check(each, task, num_classes)
            if metric.column is None:
                found[name_of(each)] = metric
    return found
