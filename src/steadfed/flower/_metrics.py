"""What clients report about themselves: shown, never used in a decision."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress

from flwr.app import MetricRecord, RecordDict

MOST_METRICS = 256
"""How many metrics of one reply are read."""
LONGEST_NAME = 128
"""How many characters the name of a metric may have."""


def scalars_of(content: RecordDict) -> dict[str, float]:
    """Return the finite numbers that the metric records of a reply hold, by name; never raises.

    Lists, NaN, Inf, names that are too long and whatever is beyond the first `MOST_METRICS` are left out; of a name
    that stands in two records the first counts.

    >>> reply = RecordDict({"metrics": MetricRecord({"loss": 0.5, "accuracy": float("nan"), "losses": [0.7, 0.5]})})
    >>> scalars_of(reply)
    {'loss': 0.5}
    """
    scalars: dict[str, float] = {}
    # Metrics are decoration: a reply whose records break while they are read has those that were read before.
    with suppress(Exception):
        records = [record for record in content.values() if isinstance(record, MetricRecord)]
        for name, value in (item for record in records for item in record.items()):
            if len(scalars) == MOST_METRICS:
                break
            number = _finite(value)
            if number is not None and type(name) is str and len(name) <= LONGEST_NAME and name.isprintable():
                scalars.setdefault(name, number)
    return scalars


def common_metrics(reports: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the median of every metric that more than half of the reports have, sorted by name.

    A minority can neither add a metric nor move one out of the range of the others.

    >>> common_metrics([{"loss": 0.4}, {"loss": 0.6}, {"loss": 1e30, "secret": 1.0}])
    {'loss': 0.6}
    """
    counts = Counter(name for report in reports for name in report)
    names = sorted(name for name, count in counts.items() if 2 * count > len(reports))
    return {name: _median([report[name] for report in reports if name in report]) for name in names}


def _median(values: Sequence[float]) -> float:
    order = sorted(values)
    lower, upper = order[(len(order) - 1) // 2], order[len(order) // 2]
    return lower if lower == upper else lower / 2 + upper / 2  # halved first, so that the sum cannot overflow


def _finite(value: object) -> float | None:
    """Return a finite real number as a float, None for everything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None
