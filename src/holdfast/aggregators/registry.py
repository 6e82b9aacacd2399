"""Every rule by name: one literal table; unknown names are refused with the nearest known one.

Wrappers are written before the rule they wrap, with a plus: "nnm+krum" is Krum on nearest-neighbour mixtures.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import tomli_w

from holdfast.aggregators.base import Aggregator
from holdfast.aggregators.centre.centered_clipping import CenteredClipping
from holdfast.aggregators.centre.geometric_median import GeometricMedian
from holdfast.aggregators.centre.median_of_means import MedianOfMeans
from holdfast.aggregators.centre.rfa import Rfa
from holdfast.aggregators.coordinatewise.mean_around_median import MeanAroundMedian
from holdfast.aggregators.coordinatewise.median import Median
from holdfast.aggregators.coordinatewise.rsa import Rsa
from holdfast.aggregators.coordinatewise.slsgd import Slsgd
from holdfast.aggregators.coordinatewise.trimmed_mean import TrimmedMean
from holdfast.aggregators.mean import Mean
from holdfast.aggregators.rage.rule import Rage
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
from holdfast.aggregators.wrappers.bucketing import Bucketing
from holdfast.aggregators.wrappers.clipping import AdaptiveClipping, Clipping
from holdfast.aggregators.wrappers.nnm import NearestNeighborMixing
from holdfast.errors import ParameterError
from holdfast.naming import Names

RULES: Mapping[str, type[Aggregator]] = MappingProxyType(
    {
        "arc": AdaptiveClipping,
        "bucketing": Bucketing,
        "bulyan": Bulyan,
        "caf": Caf,
        "centered-clipping": CenteredClipping,
        "clipping": Clipping,
        "clustered": Clustered,
        "dnc": Dnc,
        "flame": Flame,
        "fltrust": FlTrust,
        "foolsgold": FoolsGold,
        "geometric-median": GeometricMedian,
        "geometric-median-of-means": MedianOfMeans,
        "krum": Krum,
        "mda": MinimumDiameter,
        "meamed": MeanAroundMedian,
        "mean": Mean,
        "median": Median,
        "multi-krum": MultiKrum,
        "nnm": NearestNeighborMixing,
        "norm-filter": NormFilter,
        "rage": Rage,
        "rfa": Rfa,
        "rsa": Rsa,
        "signguard": SignGuard,
        "slsgd": Slsgd,
        "smea": SmallestSpread,
        "trimmed-mean": TrimmedMean,
        "zeno": Zeno,
    }
)
_NAMES = Names("rule", RULES)


def build_rule(name: str, **parameters: Any) -> Aggregator:
    """Return the rule called `name`; parameters of "wrapper+rule" are the rule's, a wrapper keeps its defaults.

    >>> build_rule("rage", byzantine_fraction=0.2)
    Rage(byzantine_fraction=0.2)
    >>> build_rule("nnm+krum", num_byzantine=2)
    NearestNeighborMixing(rule=Krum(num_byzantine=2))
    """
    return _NAMES.build(name, **parameters)


def rule_name(rule: Aggregator) -> str:
    """Return the name under which the rule is registered, with those of the rules inside it.

    >>> rule_name(build_rule("nnm+krum", num_byzantine=2))
    'nnm+krum'
    """
    return _NAMES.name(rule)


def rule_to_toml(rule: Aggregator) -> str:
    """Return the rule as a TOML table `[rule]`.

    >>> print(rule_to_toml(build_rule("nnm+krum", num_byzantine=3)))
    [rule]
    name = "nnm"
    <BLANKLINE>
    [rule.rule]
    name = "krum"
    num_byzantine = 3
    <BLANKLINE>
    """
    return tomli_w.dumps({"rule": rule_table(rule)})


def rule_table(rule: Aggregator) -> dict[str, Any]:
    """Return the name and the parameters that differ from their defaults, rules inside as tables of their own."""
    return _NAMES.to_table(rule)


def rule_from_toml(text: str) -> Aggregator:
    """Return the rule that a TOML text with one table `[rule]` describes."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ParameterError(f"not valid TOML: {error}") from None
    table = document.get("rule")
    if set(document) != {"rule"} or not isinstance(table, dict):
        raise ParameterError(f"expected one table [rule] with a name, got the keys {sorted(document)}")
    return rule_from_table(table)


def rule_from_table(table: Mapping[str, Any]) -> Aggregator:
    """Return the rule that a table with a name and parameters describes."""
    return _NAMES.from_table(table)
