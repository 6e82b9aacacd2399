"""Every rule by name: one literal table; unknown names are refused with the nearest known one."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import tomli_w

from holdfast.aggregators.base import Aggregator
from holdfast.aggregators.geometric_median import GeometricMedian
from holdfast.aggregators.krum import Krum
from holdfast.aggregators.mean import Mean
from holdfast.aggregators.median import Median
from holdfast.aggregators.rage.rule import Rage
from holdfast.errors import ParameterError, find

RULES: Mapping[str, type[Aggregator]] = MappingProxyType(
    {
        "geometric-median": GeometricMedian,
        "krum": Krum,
        "mean": Mean,
        "median": Median,
        "rage": Rage,
    }
)


def build_rule(name: str, **parameters: Any) -> Aggregator:
    """Return the rule called `name` with these parameters.

    >>> build_rule("rage", byzantine_fraction=0.2)
    Rage(byzantine_fraction=0.2)
    """
    return find("rule", name, RULES)(**parameters)


def rule_name(rule: Aggregator) -> str:
    """Return the name under which the rule is registered."""
    names = {kind.__name__: name for name, kind in RULES.items()}
    return find("rule", type(rule).__name__, names)


def rule_to_toml(rule: Aggregator) -> str:
    """Return the rule as a TOML table `[rule]`.

    >>> print(rule_to_toml(Rage(num_byzantine=3)))
    [rule]
    name = "rage"
    num_byzantine = 3
    <BLANKLINE>
    """
    return tomli_w.dumps({"rule": {"name": rule_name(rule), **rule.model_dump(exclude_defaults=True)}})


def rule_from_toml(text: str) -> Aggregator:
    """Return the rule that a TOML text with one table `[rule]` describes."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        msg = f"not valid TOML: {error}"
        raise ParameterError(msg) from None
    table = document.get("rule")
    if set(document) != {"rule"} or not isinstance(table, dict) or not isinstance(table.get("name"), str):
        msg = f"expected one table [rule] with a name, got the keys {sorted(document)}"
        raise ParameterError(msg)
    return build_rule(table["name"], **{key: value for key, value in table.items() if key != "name"})
