"""Adversaries: each a map from what it may know to one forged row per Byzantine client."""

from holdfast.attacks.base import Aim, Attack, DirectedAttack, Forged
from holdfast.attacks.geometry import Cluster, CovarianceShift, Spread, Staircase
from holdfast.attacks.labels import ClassFlip, DataAttack, LabelFlip, LabelNoise
from holdfast.attacks.registry import ATTACKS, build_attack
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
from holdfast.attacks.view import EVERYTHING, AdversaryView, Knowledge
