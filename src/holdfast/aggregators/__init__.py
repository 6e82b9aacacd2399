"""Robust rules: each a pure map from the K x d matrix of updates to an `Aggregation`."""

from holdfast.aggregators.base import Aggregator, BoundedAggregator, Claim, Updates
from holdfast.aggregators.centre.geometric_median import GeometricMedian
from holdfast.aggregators.coordinatewise.median import Median
from holdfast.aggregators.evidence import Aggregation, Stop
from holdfast.aggregators.mean import Mean
from holdfast.aggregators.rage.certificate import Certificate
from holdfast.aggregators.rage.rule import Rage
from holdfast.aggregators.registry import RULES, build_rule, rule_from_toml, rule_name, rule_to_toml
from holdfast.aggregators.selection.krum import Krum
from holdfast.aggregators.view import Memory, Need, ServerView
from holdfast.aggregators.wrappers.nnm import NearestNeighborMixing

__all__ = [
    "RULES",
    "Aggregation",
    "Aggregator",
    "BoundedAggregator",
    "Certificate",
    "Claim",
    "GeometricMedian",
    "Krum",
    "Mean",
    "Median",
    "Memory",
    "NearestNeighborMixing",
    "Need",
    "Rage",
    "ServerView",
    "Stop",
    "Updates",
    "build_rule",
    "rule_from_toml",
    "rule_name",
    "rule_to_toml",
]
