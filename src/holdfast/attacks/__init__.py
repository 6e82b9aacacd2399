"""Adversaries: each a map from what it may know to one forged row per Byzantine client."""

from holdfast.attacks.adaptive import BelowThreshold, Decoys, HillClimb, Optimal
from holdfast.attacks.base import Aim, Attack, DirectedAttack, Forged
from holdfast.attacks.crafted import ALittleIsEnough, Duplicates, InnerProductManipulation, Mimic, MinMax, MinSum
from holdfast.attacks.fang import FangKrum, FangTrimmedMean
from holdfast.attacks.geometry import Cluster, CovarianceShift, Spread, Staircase
from holdfast.attacks.hidra import Hidra
from holdfast.attacks.labels import ClassFlip, DataAttack, LabelFlip, LabelNoise
from holdfast.attacks.membership import ChangingMembers, FixedMembers, FractionMembers, Membership
from holdfast.attacks.registry import ATTACKS, attack_from_table, attack_name, attack_table, build_attack
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
from holdfast.attacks.timing import Alternating, Sleeper, TimedAttack, acting
from holdfast.attacks.view import EVERYTHING, AdversaryView, Knowledge

__all__ = [
    "ATTACKS",
    "EVERYTHING",
    "ALittleIsEnough",
    "AdversaryView",
    "Aim",
    "Alternating",
    "Attack",
    "BelowThreshold",
    "ChangingMembers",
    "ClassFlip",
    "Cluster",
    "CovarianceShift",
    "DataAttack",
    "Decoys",
    "DirectedAttack",
    "Duplicates",
    "FangKrum",
    "FangTrimmedMean",
    "FixedMembers",
    "Forged",
    "FractionMembers",
    "Gaussian",
    "Hidra",
    "HillClimb",
    "Honest",
    "Infinite",
    "InnerProductManipulation",
    "Knowledge",
    "LabelFlip",
    "LabelNoise",
    "Membership",
    "Mimic",
    "MinMax",
    "MinSum",
    "NotANumber",
    "Ones",
    "Optimal",
    "RandomGradient",
    "ReversedGradient",
    "Scaling",
    "Shift",
    "SignFlip",
    "Silence",
    "Sleeper",
    "Spread",
    "Staircase",
    "TimedAttack",
    "Zero",
    "acting",
    "attack_from_table",
    "attack_name",
    "attack_table",
    "build_attack",
]
