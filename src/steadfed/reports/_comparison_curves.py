"""What rules are ranked by, over rounds: the mean over seeds, a band about it, and of how many it is."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from steadfed._core.wording import plural
from steadfed.reports._comparison_tables import unit_of
from steadfed.reports.panels import Lines, Series, Style
from steadfed.sweeps._measure import ACCURACY
from steadfed.sweeps.runs._ranking import Case

BAND = "bands reach from the smallest to the largest seed"


def case_curves(key: str, title: str, cases: Mapping[str, Case | None], places: Sequence[str], *, oracle: str) -> Lines:
    """Return the curves of rules under one attack in one setting.

    Args:
        key: of the panel.
        title: the attack and the setting.
        cases: by rule; None where there is none.
        places: all rules of the comparison, whose order gives the colours.
        oracle: the rule that is none, and is dotted.
    """
    found = {rule: (case_curve(case), case) for rule, case in cases.items() if case is not None}
    counts = {rule: curve[2] for rule, (curve, _) in found.items() if curve is not None}
    alike = len(set(counts.values())) == 1
    series = tuple(
        Series(
            name=rule if alike else f"{rule} (n = {counts[rule]})",
            x=curve[0],
            y=curve[1],
            bands=curve[3],
            colour=places.index(rule),
            style=Style.DOTTED if rule == oracle else Style.LINE,
        )
        for rule, (curve, _) in found.items()
        if curve is not None
    )
    several = max(counts.values(), default=1) > 1
    mean = f"Mean over {plural(next(iter(counts.values()), 1), 'seed')}" if alike else "Mean over n seeds"
    note = f"{mean}; {BAND}" if several else "One seed"
    measure = next((case.trials[0].measure for case in cases.values() if case is not None), ACCURACY)
    return Lines(
        key=key,
        title=title,
        note=note,
        series=series,
        x_title="rounds",
        y_title=f"test {measure.title}",
        unit=unit_of(measure),
    )


Curve = tuple[tuple[float, ...], tuple[float | None, ...], int, tuple[tuple[float, float] | None, ...]]
"""Rounds, means, of how many seeds, and bands if there are several."""


def case_curve(case: Case) -> Curve | None:
    """Return the mean curve of the seeds that have the same evaluations as the first; None if there is none."""
    name = case.trials[0].measure.name
    curves = [result.figures.curve_of(name) for result in case.trials if result.figures is not None]
    found = [(rounds, curve) for rounds, curve in curves if curve]
    if not found:
        return None
    rounds = found[0][0]
    alike = np.array([curve for other, curve in found if other == rounds], dtype=np.float64)  # None becomes NaN
    bands = tuple(map(_band, alike.T)) if len(alike) > 1 else ()
    return tuple(map(float, rounds)), tuple(map(_finite, alike.mean(axis=0).tolist())), len(alike), bands


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _band(values: NDArray[np.float64]) -> tuple[float, float] | None:
    return (float(values.min()), float(values.max())) if np.isfinite(values).all() else None
