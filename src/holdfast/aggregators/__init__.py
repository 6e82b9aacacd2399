"""Robust rules: each a pure map from the K x d matrix of updates to an `Aggregation`."""

from holdfast.aggregators._base import (
    Aggregator as Aggregator,
    BoundedAggregator as BoundedAggregator,
    Claim as Claim,
    LooselyBoundedAggregator as LooselyBoundedAggregator,
    MinorityAggregator as MinorityAggregator,
    Updates as Updates,
)
from holdfast.aggregators._centre.centered_clipping import CenteredClipping as CenteredClipping
from holdfast.aggregators._centre.geometric_median import GeometricMedian as GeometricMedian
from holdfast.aggregators._centre.median_of_means import MedianOfMeans as MedianOfMeans
from holdfast.aggregators._centre.rfa import Rfa as Rfa
from holdfast.aggregators._coordinatewise.mean_around_median import MeanAroundMedian as MeanAroundMedian
from holdfast.aggregators._coordinatewise.median import Median as Median
from holdfast.aggregators._coordinatewise.rsa import Rsa as Rsa
from holdfast.aggregators._coordinatewise.slsgd import Slsgd as Slsgd
from holdfast.aggregators._coordinatewise.trimmed_mean import TrimmedMean as TrimmedMean
from holdfast.aggregators._evidence import Aggregation as Aggregation, Stop as Stop
from holdfast.aggregators._mean import Mean as Mean
from holdfast.aggregators._rage.certificate import Certificate as Certificate
from holdfast.aggregators._rage.rule import Rage as Rage
from holdfast.aggregators._registry import RULES as RULES
from holdfast.aggregators._selection.bulyan import Bulyan as Bulyan
from holdfast.aggregators._selection.dnc import Dnc as Dnc
from holdfast.aggregators._selection.krum import Krum as Krum, MultiKrum as MultiKrum
from holdfast.aggregators._selection.minimum_diameter import MinimumDiameter as MinimumDiameter
from holdfast.aggregators._selection.norm_filter import NormFilter as NormFilter
from holdfast.aggregators._selection.smallest_spread import SmallestSpread as SmallestSpread
from holdfast.aggregators._selection.zeno import Zeno as Zeno
from holdfast.aggregators._similarity.clustered import Clustered as Clustered
from holdfast.aggregators._similarity.flame import Flame as Flame
from holdfast.aggregators._similarity.fltrust import FlTrust as FlTrust
from holdfast.aggregators._similarity.foolsgold import FoolsGold as FoolsGold
from holdfast.aggregators._similarity.sign_guard import SignGuard as SignGuard
from holdfast.aggregators._spectral.caf import Caf as Caf
from holdfast.aggregators._view import Memory as Memory, Need as Need, ServerView as ServerView
from holdfast.aggregators._wrappers.base import Wrapper as Wrapper
from holdfast.aggregators._wrappers.bucketing import Bucketing as Bucketing
from holdfast.aggregators._wrappers.clipping import AdaptiveClipping as AdaptiveClipping, Clipping as Clipping
from holdfast.aggregators._wrappers.nnm import NearestNeighborMixing as NearestNeighborMixing
