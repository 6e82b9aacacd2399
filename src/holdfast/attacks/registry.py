"""Every attack by name: one literal table; unknown names are refused with the nearest known one.

Attacks that steer another are written before it, with a plus: "sleeper+sign-flip" flips signs after a while.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from holdfast.attacks.adaptive import BelowThreshold, Decoys, HillClimb, Optimal
from holdfast.attacks.base import Attack
from holdfast.attacks.crafted import ALittleIsEnough, Duplicates, InnerProductManipulation, Mimic, MinMax, MinSum
from holdfast.attacks.fang import FangKrum, FangTrimmedMean
from holdfast.attacks.geometry import Cluster, CovarianceShift, Spread, Staircase
from holdfast.attacks.hidra import Hidra
from holdfast.attacks.labels import ClassFlip, LabelFlip, LabelNoise
from holdfast.attacks.simple import (
    Gaussian,
    Honest,
    Infinite,
    NotANumber,
    Ones,
    RandomGradient,
    ReversedGradient,
    Scaling,
    Shift,
    SignFlip,
    Silence,
    Zero,
)
from holdfast.attacks.timing import Alternating, Sleeper
from holdfast.naming import Names

ATTACKS: Mapping[str, type[Attack]] = MappingProxyType(
    {
        "alie": ALittleIsEnough,
        "alternating": Alternating,
        "below-threshold": BelowThreshold,
        "class-flip": ClassFlip,
        "cluster": Cluster,
        "covariance-shift": CovarianceShift,
        "decoys": Decoys,
        "duplicates": Duplicates,
        "fang-krum": FangKrum,
        "fang-trimmed-mean": FangTrimmedMean,
        "gaussian": Gaussian,
        "hidra": Hidra,
        "hill-climb": HillClimb,
        "inf": Infinite,
        "ipm": InnerProductManipulation,
        "label-flip": LabelFlip,
        "label-noise": LabelNoise,
        "mimic": Mimic,
        "min-max": MinMax,
        "min-sum": MinSum,
        "nan": NotANumber,
        "none": Honest,
        "ones": Ones,
        "optimal": Optimal,
        "random-gradient": RandomGradient,
        "reversed-gradient": ReversedGradient,
        "scaling": Scaling,
        "shift": Shift,
        "sign-flip": SignFlip,
        "silence": Silence,
        "sleeper": Sleeper,
        "spread": Spread,
        "staircase": Staircase,
        "zero": Zero,
    }
)
_NAMES = Names("attack", ATTACKS)


def build_attack(name: str, **parameters: Any) -> Attack:
    """Return the attack called `name`; parameters of "outer+inner" are the inner one's, the outer keeps its defaults.

    >>> build_attack("scaling", factor=3)
    Scaling(factor=3.0)
    >>> build_attack("sleeper+sign-flip")
    Sleeper(attack=SignFlip())
    """
    return _NAMES.build(name, **parameters)


def attack_name(attack: Attack) -> str:
    """Return the name under which the attack is registered, with those of the attacks inside it.

    >>> attack_name(build_attack("alternating+gaussian", std=1.0))
    'alternating+gaussian'
    """
    return _NAMES.name(attack)


def attack_table(attack: Attack) -> dict[str, Any]:
    """Return the name and the parameters that differ from their defaults, attacks inside as tables of their own.

    >>> attack_table(build_attack("sleeper+scaling", factor=3.0))
    {'name': 'sleeper', 'attack': {'name': 'scaling', 'factor': 3.0}}
    """
    return _NAMES.to_table(attack)


def attack_from_table(table: Mapping[str, Any]) -> Attack:
    """Return the attack that a table with a name and parameters describes.

    >>> attack_from_table({"name": "sleeper", "start": 3, "attack": {"name": "zero"}})
    Sleeper(attack=Zero(), start=3)
    """
    return _NAMES.from_table(table)
