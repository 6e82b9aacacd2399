"""Set-ups that the theorems are tested in, and how a measured run is held against a bound."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import numpy as np
import pytest
from benchmarks.theory.cases import Case
from numpy.typing import NDArray

from steadfed.attacks import ATTACKS, DataAttack, DistributedTrigger, ModelAttack, PixelTrigger

Vector = NDArray[np.float64]
Mode = Literal["auto", "known", "exact"]

LABELS = tuple(name for name in ATTACKS if issubclass(ATTACKS[name], DataAttack))
"""Attacks on data, which want classes."""
IMAGES = tuple(name for name in ATTACKS if issubclass(ATTACKS[name], PixelTrigger | DistributedTrigger))
"""Those of them that want images."""
SEARCHING = ("anchor-poisoning", "below-guard", "below-threshold", "decoys", "hill-climb", "optimal")
"""Attacks that try many rows against the rule, or a filter, in every round."""
EVERY_ATTACK = tuple(name for name in ATTACKS if name not in IMAGES and not issubclass(ATTACKS[name], ModelAttack))
"""On points that are no images; those on models take another inside, and send what any other may."""
LOCAL_STEPS = (1, 5, 20)
ROUNDING = 1e-9
"""Relative; runs are in double precision."""

QUADRATIC = Case(
    dim=6,
    num_clients=24,
    num_points=8,
    heterogeneity=0.5,
    strong_convexity=0.8,
    start=8.0,
    cohort_size=16,
    num_byzantine=3,
    assumed=3,
    rounds=8,
)
"""Ends near its floor after few rounds, because L/μ is small."""
LOGISTIC = Case(
    kind="logistic",
    dim=4,
    num_clients=24,
    num_points=8,
    heterogeneity=0.5,
    noise=0.3,
    strong_convexity=0.2,
    cohort_size=16,
    num_byzantine=3,
    assumed=3,
    rounds=8,
)
CASES = {"quadratic": QUADRATIC, "logistic": LOGISTIC}


def skip_what_has_no_labels(kind: str, attack: str) -> None:
    if kind == "quadratic" and attack in LABELS:
        pytest.skip(f"{attack} changes classes, and the points of a quadratic have none")


def assert_below(measured: Vector, bound: Vector, what: object) -> None:
    """Fail where a measured curve is above a bound by more than rounding."""
    above = np.flatnonzero(~(measured <= bound * (1.0 + ROUNDING)))
    assert not len(above), f"{what}: {measured[above[0]]:.6g} > {bound[above[0]]:.6g} after {above[0]} rounds"


def mean_and_error(samples: Iterable[Vector]) -> tuple[Vector, Vector]:
    """Return the mean over runs, and its standard error."""
    rows = np.array(list(samples))
    return rows.mean(axis=0), rows.std(axis=0, ddof=1) / np.sqrt(len(rows))
