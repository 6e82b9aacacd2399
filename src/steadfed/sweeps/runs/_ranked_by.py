"""What a comparison is ranked by: the metric that its grid names, or what its runs have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from steadfed._core.parsing import parse_toml
from steadfed.errors import SteadfedError
from steadfed.metrics import ATTACKED, METRICS, OverClients, known_metric, metric_named, name_of
from steadfed.sweeps._measure import ACCURACY, Measure
from steadfed.sweeps.runs._results import Result

_WITHOUT_CLASSES = ("r2", "mae", "rmse", "loss")
"""What runs that have no accuracy are ranked by: the first that they have."""


def measure_named(metric: str, config: Mapping[str, Any]) -> Measure:
    """Return what a metric measures in runs with a configuration.

    Args:
        metric: its name, or an import path, which is imported.
        config: the table of a configuration; figures over clients have the direction of the metric they are scored by.

    Raises:
        UnknownNameError: there is none; the nearest name is in the message.
        ParameterError: there is nothing at the import path.
    """
    found, name = metric_named(metric), name_of(metric)
    scored = found
    if isinstance(found, OverClients):
        by = config.get("evaluation", {}).get("client_metric")
        scored = metric_named(by or ("mae" if config.get("task") == "regression" else "accuracy"))
    return Measure(
        name=name,
        title=name.replace("_", " ") if known_metric(name) is None else found.title,
        is_share=scored.is_share,
        higher_is_better=scored.higher_is_better,
    )


def ranked_by(results: Iterable[Result], metric: str | None) -> list[Result]:
    """Return the results with what they are ranked by: this metric, or if it is None what the runs have.

    Ranked by the success of attacks, results under attacks that want nothing in particular are left out.

    That is their accuracy; of runs without classes R², an error, or the loss, in this order.

    Raises:
        UnknownNameError: there is no such metric.
        ParameterError: it cannot be imported.
    """
    rows = list(results)
    chosen = metric or _usual(rows)
    rows = _with_goal(rows, chosen)
    measures: dict[str, Measure] = {}
    for row in rows:
        if row.config not in measures:
            measures[row.config] = measure_named(chosen, _table(row.config)) if chosen != ACCURACY.name else ACCURACY
    return [replace(row, measure=measures[row.config]) for row in rows]


def _with_goal(rows: list[Result], metric: str) -> list[Result]:
    """Return the results under attacks that the metric speaks of: all, but for success rates, which need a goal."""
    known = known_metric(metric)
    if known is None or known.points != ATTACKED:
        return rows
    played = [(row.attack, row.figures.of(metric)) for row in rows if row.figures is not None]
    without = {attack for attack, _ in played} - {attack for attack, value in played if value is not None}
    return [row for row in rows if row.attack not in without]


def _usual(rows: Iterable[Result]) -> str:
    played = [row.figures for row in rows if row.figures is not None]
    if not played or any(figures.accuracy is not None for figures in played):
        return ACCURACY.name
    return next((name for name in _WITHOUT_CLASSES if any(name in each.metrics for each in played)), ACCURACY.name)


def known_names(results: Iterable[Result]) -> list[str]:
    """Return the metrics that some run has, those first that steadfed knows."""
    found = {name for row in results if row.figures is not None for name in row.figures.metrics}
    return sorted(found, key=lambda name: (name not in METRICS, name))


def _table(text: str) -> dict[str, Any]:
    try:
        return parse_toml(text)
    except SteadfedError:
        return {}
