"""Robust rules: each a pure map from the K x d matrix of updates to an `Aggregation`."""

from holdfast.aggregators.base import (
    Aggregator as Aggregator,
)
from holdfast.aggregators.base import (
    BoundedAggregator as BoundedAggregator,
)
from holdfast.aggregators.base import (
    Claim as Claim,
)
from holdfast.aggregators.base import (
    LooselyBoundedAggregator as LooselyBoundedAggregator,
)
from holdfast.aggregators.base import (
    MinorityAggregator as MinorityAggregator,
)
from holdfast.aggregators.base import (
    Updates as Updates,
)
from holdfast.aggregators.centre.centered_clipping import CenteredClipping as CenteredClipping
from holdfast.aggregators.centre.geometric_median import GeometricMedian as GeometricMedian
from holdfast.aggregators.centre.median_of_means import MedianOfMeans as MedianOfMeans
from holdfast.aggregators.centre.rfa import Rfa as Rfa
from holdfast.aggregators.coordinatewise.mean_around_median import MeanAroundMedian as MeanAroundMedian
from holdfast.aggregators.coordinatewise.median import Median as Median
from holdfast.aggregators.coordinatewise.rsa import Rsa as Rsa
from holdfast.aggregators.coordinatewise.slsgd import Slsgd as Slsgd
from holdfast.aggregators.coordinatewise.trimmed_mean import TrimmedMean as TrimmedMean
from holdfast.aggregators.evidence import Aggregation as Aggregation
from holdfast.aggregators.evidence import Stop as Stop
from holdfast.aggregators.mean import Mean as Mean
from holdfast.aggregators.rage.certificate import Certificate as Certificate
from holdfast.aggregators.rage.rule import Rage as Rage
from holdfast.aggregators.registry import RULES as RULES
from holdfast.aggregators.selection.bulyan import Bulyan as Bulyan
from holdfast.aggregators.selection.dnc import Dnc as Dnc
from holdfast.aggregators.selection.krum import Krum as Krum
from holdfast.aggregators.selection.krum import MultiKrum as MultiKrum
from holdfast.aggregators.selection.minimum_diameter import MinimumDiameter as MinimumDiameter
from holdfast.aggregators.selection.norm_filter import NormFilter as NormFilter
from holdfast.aggregators.selection.smallest_spread import SmallestSpread as SmallestSpread
from holdfast.aggregators.selection.zeno import Zeno as Zeno
from holdfast.aggregators.similarity.clustered import Clustered as Clustered
from holdfast.aggregators.similarity.flame import Flame as Flame
from holdfast.aggregators.similarity.fltrust import FlTrust as FlTrust
from holdfast.aggregators.similarity.foolsgold import FoolsGold as FoolsGold
from holdfast.aggregators.similarity.sign_guard import SignGuard as SignGuard
from holdfast.aggregators.spectral.caf import Caf as Caf
from holdfast.aggregators.view import Memory as Memory
from holdfast.aggregators.view import Need as Need
from holdfast.aggregators.view import ServerView as ServerView
from holdfast.aggregators.wrappers.base import Wrapper as Wrapper
from holdfast.aggregators.wrappers.bucketing import Bucketing as Bucketing
from holdfast.aggregators.wrappers.clipping import AdaptiveClipping as AdaptiveClipping
from holdfast.aggregators.wrappers.clipping import Clipping as Clipping
from holdfast.aggregators.wrappers.nnm import NearestNeighborMixing as NearestNeighborMixing
