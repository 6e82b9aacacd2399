"""Adversaries: each a map from what it may know to one forged row per Byzantine client."""

from holdfast.attacks.adaptive import (
    BelowThreshold as BelowThreshold,
)
from holdfast.attacks.adaptive import (
    Decoys as Decoys,
)
from holdfast.attacks.adaptive import (
    HillClimb as HillClimb,
)
from holdfast.attacks.adaptive import (
    Optimal as Optimal,
)
from holdfast.attacks.base import Aim as Aim
from holdfast.attacks.base import Attack as Attack
from holdfast.attacks.base import DirectedAttack as DirectedAttack
from holdfast.attacks.base import Forged as Forged
from holdfast.attacks.crafted import (
    ALittleIsEnough as ALittleIsEnough,
)
from holdfast.attacks.crafted import (
    Duplicates as Duplicates,
)
from holdfast.attacks.crafted import (
    InnerProductManipulation as InnerProductManipulation,
)
from holdfast.attacks.crafted import (
    Mimic as Mimic,
)
from holdfast.attacks.crafted import (
    MinMax as MinMax,
)
from holdfast.attacks.crafted import (
    MinSum as MinSum,
)
from holdfast.attacks.fang import FangKrum as FangKrum
from holdfast.attacks.fang import FangTrimmedMean as FangTrimmedMean
from holdfast.attacks.geometry import (
    Cluster as Cluster,
)
from holdfast.attacks.geometry import (
    CovarianceShift as CovarianceShift,
)
from holdfast.attacks.geometry import (
    Spread as Spread,
)
from holdfast.attacks.geometry import (
    Staircase as Staircase,
)
from holdfast.attacks.hidra import Hidra as Hidra
from holdfast.attacks.labels import (
    ClassFlip as ClassFlip,
)
from holdfast.attacks.labels import (
    DataAttack as DataAttack,
)
from holdfast.attacks.labels import (
    LabelFlip as LabelFlip,
)
from holdfast.attacks.labels import (
    LabelNoise as LabelNoise,
)
from holdfast.attacks.membership import (
    MEMBERSHIPS as MEMBERSHIPS,
)
from holdfast.attacks.membership import (
    ChangingMembers as ChangingMembers,
)
from holdfast.attacks.membership import (
    FixedMembers as FixedMembers,
)
from holdfast.attacks.membership import (
    FractionMembers as FractionMembers,
)
from holdfast.attacks.membership import (
    Membership as Membership,
)
from holdfast.attacks.registry import ATTACKS as ATTACKS
from holdfast.attacks.simple import (
    Gaussian as Gaussian,
)
from holdfast.attacks.simple import (
    Honest as Honest,
)
from holdfast.attacks.simple import (
    Infinite as Infinite,
)
from holdfast.attacks.simple import (
    NotANumber as NotANumber,
)
from holdfast.attacks.simple import (
    Ones as Ones,
)
from holdfast.attacks.simple import (
    RandomGradient as RandomGradient,
)
from holdfast.attacks.simple import (
    ReversedGradient as ReversedGradient,
)
from holdfast.attacks.simple import (
    Scaling as Scaling,
)
from holdfast.attacks.simple import (
    Shift as Shift,
)
from holdfast.attacks.simple import (
    SignFlip as SignFlip,
)
from holdfast.attacks.simple import (
    Silence as Silence,
)
from holdfast.attacks.simple import (
    Zero as Zero,
)
from holdfast.attacks.timing import (
    Alternating as Alternating,
)
from holdfast.attacks.timing import (
    Sleeper as Sleeper,
)
from holdfast.attacks.timing import (
    TimedAttack as TimedAttack,
)
from holdfast.attacks.timing import (
    acting_attack as acting_attack,
)
from holdfast.attacks.view import EVERYTHING as EVERYTHING
from holdfast.attacks.view import AdversaryView as AdversaryView
from holdfast.attacks.view import Knowledge as Knowledge
