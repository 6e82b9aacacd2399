"""Robust rules: each a pure map from the K x d matrix of updates to an `Aggregation`."""

from holdfast.aggregators.base import Aggregator, BoundedAggregator, Updates
from holdfast.aggregators.evidence import Aggregation, Stop
from holdfast.aggregators.geometric_median import GeometricMedian
from holdfast.aggregators.krum import Krum
from holdfast.aggregators.mean import Mean
from holdfast.aggregators.median import Median
from holdfast.aggregators.rage.certificate import Certificate
from holdfast.aggregators.rage.rule import Rage
from holdfast.aggregators.registry import RULES, build_rule, rule_from_toml, rule_name, rule_to_toml

__all__ = [
    "RULES",
    "Aggregation",
    "Aggregator",
    "BoundedAggregator",
    "Certificate",
    "GeometricMedian",
    "Krum",
    "Mean",
    "Median",
    "Rage",
    "Stop",
    "Updates",
    "build_rule",
    "rule_from_toml",
    "rule_name",
    "rule_to_toml",
]
