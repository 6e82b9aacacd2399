"""Who runs the gauntlet: the rules as they are set up for a cell, and the attacks with their parameters."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from holdfast.aggregators import RULES, Aggregator, Rage
from holdfast.attacks import (
    ATTACKS,
    ALittleIsEnough,
    Attack,
    BelowThreshold,
    Cluster,
    CovarianceShift,
    DataAttack,
    Decoys,
    HillClimb,
    InnerProductManipulation,
    MinMax,
    MinSum,
    Optimal,
    Spread,
)
from holdfast.errors import UnknownNameError, find, nearest

RULE_LABELS = (
    "rage",
    "rage-known",
    "rage-exact",
    "mean",
    "median",
    "trimmed-mean",
    "meamed",
    "krum",
    "multi-krum",
    "bulyan",
    "mda",
    "geometric-median",
    "rfa",
    "geometric-median-of-means",
    "centered-clipping",
    "caf",
    "dnc",
    "norm-filter",
    "signguard",
    "flame",
    "foolsgold",
    "fltrust",
    "zeno",
    "nnm+trimmed-mean",
    "nnm+krum",
    "nnm+geometric-median",
    "nnm+rage",
    "bucketing+krum",
    "bucketing+geometric-median",
    "arc+nnm+trimmed-mean",
)
"""The rules of the full table. SLSGD and RSA scale the update by design and are no estimates of the mean."""

SIGMA0_GIVEN: Mapping[str, Literal["known", "exact"]] = MappingProxyType({"rage-known": "known", "rage-exact": "exact"})
"""The modes of RAGE that are told the true σ₀, by their labels."""

WITH_PARAMETERS: Mapping[str, Attack] = MappingProxyType(
    {
        "ipm-0.1": InnerProductManipulation(epsilon=0.1),
        "ipm-100": InnerProductManipulation(epsilon=100.0),
        "alie-1.5": ALittleIsEnough(z=1.5),
        "min-max-std": MinMax(direction="std"),
        "min-max-sign": MinMax(direction="sign"),
        "min-sum-std": MinSum(direction="std"),
        "min-sum-sign": MinSum(direction="sign"),
        "far-cluster": Cluster(strength=1000.0),
        "optimal-alie": Optimal(attack=ALittleIsEnough()),
        "optimal-ipm": Optimal(attack=InnerProductManipulation()),
        "optimal-cluster": Optimal(attack=Cluster(direction="random")),
        "optimal-cluster-spread": Optimal(attack=Cluster(direction="spread")),
        "optimal-cluster-mean": Optimal(attack=Cluster(direction="mean")),
        "optimal-spread-2": Optimal(attack=Spread(num_directions=2)),
        "optimal-spread-5": Optimal(attack=Spread(num_directions=5)),
        "optimal-spread-10": Optimal(attack=Spread(num_directions=10)),
        "optimal-covariance": Optimal(attack=CovarianceShift()),
        "below-threshold": BelowThreshold(),
        "decoys": Decoys(),
        "hill-climb": HillClimb(num_trials=50),
    }
)
"""Attacks under names of their own; every registered attack that acts on rows may also be called by its own name."""
ATTACK_LABELS = (
    "none",
    "sign-flip",
    "reversed-gradient",
    "scaling",
    "gaussian",
    "random-gradient",
    "zero",
    "ones",
    "nan",
    "inf",
    "silence",
    "alie",
    "mimic",
    "duplicates",
    "min-max",
    "min-sum",
    "fang-krum",
    "fang-trimmed-mean",
    "staircase",
    "hidra",
    *WITH_PARAMETERS,
)
"""The attacks of the full table."""


def rule_called(label: str, num_byzantine: int, sigma0: float) -> Aggregator:
    """Return the rule for a cell, told the number of Byzantine clients; "rage-known" and "rage-exact" also the true σ₀.

    >>> rule_called("nnm+krum", 3, 1.0)
    NearestNeighborMixing(rule=Krum(num_byzantine=3))
    """
    if label in SIGMA0_GIVEN:
        return Rage(num_byzantine=num_byzantine, mode=SIGMA0_GIVEN[label], sigma0=sigma0)
    return RULES.build(label, num_byzantine=num_byzantine)


def attack_called(label: str) -> Attack:
    """Return the attack with this label, or the registered one of this name with its own parameters."""
    return WITH_PARAMETERS[label] if label in WITH_PARAMETERS else ATTACKS.build(label)


def check_labels(rules: tuple[str, ...], attacks: tuple[str, ...]) -> None:
    """Raise an error of the tree for a label that means nothing here, or cannot be built from its name alone."""
    for label in rules:
        if label not in SIGMA0_GIVEN:
            for part in label.split("+"):
                find("rule", part, {**RULES, **SIGMA0_GIVEN})
        rule_called(label, 1, 1.0)
    on_rows = (name for name, kind in ATTACKS.items() if not issubclass(kind, DataAttack))
    known = list(dict.fromkeys([*WITH_PARAMETERS, *on_rows]))
    for label in attacks:
        parts = label.split("+")
        if label not in WITH_PARAMETERS and any(part not in known for part in parts):
            raise UnknownNameError(
                f"unknown attack {label!r} on a matrix{nearest(label, known)}; known: {', '.join(sorted(known))}"
            )
        attack_called(label)
