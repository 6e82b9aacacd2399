"""Accuracy over rounds of the rules of a comparison: the mean over seeds, a band about it, and of how many it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from steadfed._core.wording import plural
from steadfed.reports.panels import Lines, Series, Style, Unit
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
    return Lines(
        key=key,
        title=title,
        note=note,
        series=series,
        x_title="rounds",
        y_title="test accuracy",
        unit=Unit.PERCENT,
    )


Curve = tuple[tuple[float, ...], tuple[float | None, ...], int, tuple[tuple[float, float] | None, ...]]
"""Rounds, means, of how many seeds, and bands if there are several."""


def case_curve(case: Case) -> Curve | None:
    """Return the mean curve of the seeds that have the same evaluations as the first; None if there is none."""
    figures = [result.figures for result in case.trials if result.figures is not None and result.figures.curve]
    if not figures:
        return None
    rounds = figures[0].curve_rounds
    alike = np.array([each.curve for each in figures if each.curve_rounds == rounds], dtype=np.float64)
    bands = tuple(zip(alike.min(axis=0).tolist(), alike.max(axis=0).tolist(), strict=True)) if len(alike) > 1 else ()
    return tuple(map(float, rounds)), tuple(alike.mean(axis=0).tolist()), len(alike), bands
