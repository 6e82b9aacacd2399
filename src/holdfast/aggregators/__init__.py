"""Robust rules: each a pure map from the K x d matrix of updates to an `Aggregation`."""

from holdfast.aggregators.base import (
    Aggregator,
    BoundedAggregator,
    Claim,
    LooselyBoundedAggregator,
    MinorityAggregator,
    Updates,
)
from holdfast.aggregators.centre.centered_clipping import CenteredClipping
from holdfast.aggregators.centre.geometric_median import GeometricMedian
from holdfast.aggregators.centre.median_of_means import MedianOfMeans
from holdfast.aggregators.centre.rfa import Rfa
from holdfast.aggregators.coordinatewise.mean_around_median import MeanAroundMedian
from holdfast.aggregators.coordinatewise.median import Median
from holdfast.aggregators.coordinatewise.rsa import Rsa
from holdfast.aggregators.coordinatewise.slsgd import Slsgd
from holdfast.aggregators.coordinatewise.trimmed_mean import TrimmedMean
from holdfast.aggregators.evidence import Aggregation, Stop
from holdfast.aggregators.mean import Mean
from holdfast.aggregators.rage.certificate import Certificate
from holdfast.aggregators.rage.rule import Rage
from holdfast.aggregators.registry import RULES, build_rule, rule_from_toml, rule_name, rule_to_toml
from holdfast.aggregators.selection.bulyan import Bulyan
from holdfast.aggregators.selection.dnc import Dnc
from holdfast.aggregators.selection.krum import Krum, MultiKrum
from holdfast.aggregators.selection.minimum_diameter import MinimumDiameter
from holdfast.aggregators.selection.norm_filter import NormFilter
from holdfast.aggregators.selection.smallest_spread import SmallestSpread
from holdfast.aggregators.selection.zeno import Zeno
from holdfast.aggregators.similarity.clustered import Clustered
from holdfast.aggregators.similarity.flame import Flame
from holdfast.aggregators.similarity.fltrust import FlTrust
from holdfast.aggregators.similarity.foolsgold import FoolsGold
from holdfast.aggregators.similarity.sign_guard import SignGuard
from holdfast.aggregators.spectral.caf import Caf
from holdfast.aggregators.view import Memory, Need, ServerView
from holdfast.aggregators.wrappers.base import Wrapper
from holdfast.aggregators.wrappers.bucketing import Bucketing
from holdfast.aggregators.wrappers.clipping import AdaptiveClipping, Clipping
from holdfast.aggregators.wrappers.nnm import NearestNeighborMixing

__all__ = [
    "RULES",
    "AdaptiveClipping",
    "Aggregation",
    "Aggregator",
    "BoundedAggregator",
    "Bucketing",
    "Bulyan",
    "Caf",
    "CenteredClipping",
    "Certificate",
    "Claim",
    "Clipping",
    "Clustered",
    "Dnc",
    "FlTrust",
    "Flame",
    "FoolsGold",
    "GeometricMedian",
    "Krum",
    "LooselyBoundedAggregator",
    "Mean",
    "MeanAroundMedian",
    "Median",
    "MedianOfMeans",
    "Memory",
    "MinimumDiameter",
    "MinorityAggregator",
    "MultiKrum",
    "NearestNeighborMixing",
    "Need",
    "NormFilter",
    "Rage",
    "Rfa",
    "Rsa",
    "ServerView",
    "SignGuard",
    "Slsgd",
    "SmallestSpread",
    "Stop",
    "TrimmedMean",
    "Updates",
    "Wrapper",
    "Zeno",
    "build_rule",
    "rule_from_toml",
    "rule_name",
    "rule_to_toml",
]
