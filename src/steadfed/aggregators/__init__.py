"""Robust rules: each a pure map from the K x d matrix of updates to an `Aggregation`."""

from steadfed.aggregators._base import (
    Aggregator as Aggregator,
    BoundedAggregator as BoundedAggregator,
    Claim as Claim,
    LooselyBoundedAggregator as LooselyBoundedAggregator,
    MinorityAggregator as MinorityAggregator,
    Updates as Updates,
)
from steadfed.aggregators._centre.centered_clipping import CenteredClipping as CenteredClipping
from steadfed.aggregators._centre.geometric_median import GeometricMedian as GeometricMedian
from steadfed.aggregators._centre.median_of_means import MedianOfMeans as MedianOfMeans
from steadfed.aggregators._centre.rfa import Rfa as Rfa
from steadfed.aggregators._coordinatewise.mean_around_median import MeanAroundMedian as MeanAroundMedian
from steadfed.aggregators._coordinatewise.median import Median as Median
from steadfed.aggregators._coordinatewise.rsa import Rsa as Rsa
from steadfed.aggregators._coordinatewise.slsgd import Slsgd as Slsgd
from steadfed.aggregators._coordinatewise.trimmed_mean import TrimmedMean as TrimmedMean
from steadfed.aggregators._evidence import Aggregation as Aggregation, Stop as Stop
from steadfed.aggregators._imported import ImportedRule as ImportedRule
from steadfed.aggregators._mean import Mean as Mean
from steadfed.aggregators._rage.certificate import Certificate as Certificate
from steadfed.aggregators._rage.rule import Rage as Rage
from steadfed.aggregators._registry import RULES as RULES
from steadfed.aggregators._selection.bulyan import Bulyan as Bulyan
from steadfed.aggregators._selection.dnc import Dnc as Dnc
from steadfed.aggregators._selection.krum import Krum as Krum, MultiKrum as MultiKrum
from steadfed.aggregators._selection.minimum_diameter import MinimumDiameter as MinimumDiameter
from steadfed.aggregators._selection.norm_filter import NormFilter as NormFilter
from steadfed.aggregators._selection.smallest_spread import SmallestSpread as SmallestSpread
from steadfed.aggregators._selection.zeno import Zeno as Zeno
from steadfed.aggregators._similarity.clustered import Clustered as Clustered
from steadfed.aggregators._similarity.flame import Flame as Flame
from steadfed.aggregators._similarity.fltrust import FlTrust as FlTrust
from steadfed.aggregators._similarity.foolsgold import FoolsGold as FoolsGold
from steadfed.aggregators._similarity.sign_guard import SignGuard as SignGuard
from steadfed.aggregators._spectral.caf import Caf as Caf
from steadfed.aggregators._view import Memory as Memory, Need as Need, ServerView as ServerView
from steadfed.aggregators._wrappers.base import Wrapper as Wrapper
from steadfed.aggregators._wrappers.bucketing import Bucketing as Bucketing
from steadfed.aggregators._wrappers.clipping import AdaptiveClipping as AdaptiveClipping, Clipping as Clipping
from steadfed.aggregators._wrappers.nnm import NearestNeighborMixing as NearestNeighborMixing
