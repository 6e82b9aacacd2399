"""Adversaries: each a map from what it may know to one forged row per Byzantine client."""

from steadfed.attacks._adaptive import (
    BelowThreshold as BelowThreshold,
    HillClimb as HillClimb,
    Optimal as Optimal,
)
from steadfed.attacks._base import Aim as Aim, Attack as Attack, DirectedAttack as DirectedAttack, Forged as Forged
from steadfed.attacks._crafted import (
    ALittleIsEnough as ALittleIsEnough,
    Duplicates as Duplicates,
    InnerProductManipulation as InnerProductManipulation,
    Mimic as Mimic,
    MinMax as MinMax,
    MinSum as MinSum,
)
from steadfed.attacks._decoys import AnchorPoisoning as AnchorPoisoning, Decoys as Decoys
from steadfed.attacks._fang import FangKrum as FangKrum, FangTrimmedMean as FangTrimmedMean
from steadfed.attacks._geometry import (
    Cluster as Cluster,
    CovarianceShift as CovarianceShift,
    Spread as Spread,
    Staircase as Staircase,
    SymmetricPairs as SymmetricPairs,
)
from steadfed.attacks._guard import BelowGuard as BelowGuard
from steadfed.attacks._hidra import Hidra as Hidra
from steadfed.attacks._imported import ImportedAttack as ImportedAttack
from steadfed.attacks._labels import (
    ClassFlip as ClassFlip,
    LabelAttack as LabelAttack,
    LabelFlip as LabelFlip,
    LabelNoise as LabelNoise,
)
from steadfed.attacks._membership import (
    MEMBERSHIPS as MEMBERSHIPS,
    ChangingMembers as ChangingMembers,
    FixedMembers as FixedMembers,
    FractionMembers as FractionMembers,
    Membership as Membership,
)
from steadfed.attacks._natural import EdgeCase as EdgeCase, SemanticBackdoor as SemanticBackdoor
from steadfed.attacks._poisoning import (
    DataAttack as DataAttack,
    Goal as Goal,
    PoisonedShare as PoisonedShare,
    Poisoning as Poisoning,
    Trigger as Trigger,
)
from steadfed.attacks._registry import ATTACKS as ATTACKS
from steadfed.attacks._replacement import (
    ConstrainAndScale as ConstrainAndScale,
    ModelAttack as ModelAttack,
    ModelReplacement as ModelReplacement,
    ProjectedDescent as ProjectedDescent,
    TrainAndScale as TrainAndScale,
)
from steadfed.attacks._simple import (
    Gaussian as Gaussian,
    Honest as Honest,
    Infinite as Infinite,
    NotANumber as NotANumber,
    Ones as Ones,
    RandomGradient as RandomGradient,
    ReversedGradient as ReversedGradient,
    Scaling as Scaling,
    Shift as Shift,
    SignFlip as SignFlip,
    Silence as Silence,
    Zero as Zero,
)
from steadfed.attacks._timing import (
    Alternating as Alternating,
    Sleeper as Sleeper,
    TimedAttack as TimedAttack,
    acting_attack as acting_attack,
)
from steadfed.attacks._triggers import (
    DistributedTrigger as DistributedTrigger,
    FeatureTrigger as FeatureTrigger,
    PixelTrigger as PixelTrigger,
)
from steadfed.attacks._view import EVERYTHING as EVERYTHING, AdversaryView as AdversaryView, Knowledge as Knowledge
