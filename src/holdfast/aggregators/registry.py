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
from holdfast.aggregators.centre.geometric_median import GeometricMedian
from holdfast.aggregators.coordinatewise.median import Median
from holdfast.aggregators.mean import Mean
from holdfast.aggregators.rage.rule import Rage
from holdfast.aggregators.selection.krum import Krum
from holdfast.aggregators.wrappers.base import Wrapper
from holdfast.aggregators.wrappers.nnm import NearestNeighborMixing
from holdfast.errors import ParameterError, find

RULES: Mapping[str, type[Aggregator]] = MappingProxyType(
    {
        "geometric-median": GeometricMedian,
        "krum": Krum,
        "mean": Mean,
        "median": Median,
        "nnm": NearestNeighborMixing,
        "rage": Rage,
    }
)
_NAMES = {kind.__name__: name for name, kind in RULES.items()}


def build_rule(name: str, **parameters: Any) -> Aggregator:
    """Return the rule called `name`; parameters of "wrapper+rule" are the rule's, a wrapper keeps its defaults.

    >>> build_rule("rage", byzantine_fraction=0.2)
    Rage(byzantine_fraction=0.2)
    >>> build_rule("nnm+krum", num_byzantine=2)
    NearestNeighborMixing(rule=Krum(num_byzantine=2))
    """
    outer, plus, inner = name.partition("+")
    kind = find("rule", outer, RULES)
    if not plus:
        return kind(**{key: _built(value) for key, value in parameters.items()})
    if not issubclass(kind, Wrapper):
        wrappers = ", ".join(key for key, each in RULES.items() if issubclass(each, Wrapper))
        msg = f"{outer!r} in {name!r} wraps no other rule; wrappers: {wrappers}"
        raise ParameterError(msg)
    return kind(rule=build_rule(inner, **parameters))


def rule_name(rule: Aggregator) -> str:
    """Return the name under which the rule is registered, with those of the rules inside it.

    >>> rule_name(build_rule("nnm+krum", num_byzantine=2))
    'nnm+krum'
    """
    return "+".join(find("rule", type(each).__name__, _NAMES) for each in rule.chain())


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
    given = {key: value for key, value in rule if value != type(rule).model_fields[key].default}
    plain = {key: rule_table(value) if isinstance(value, Aggregator) else value for key, value in given.items()}
    return {"name": find("rule", type(rule).__name__, _NAMES), **plain}


def rule_from_toml(text: str) -> Aggregator:
    """Return the rule that a TOML text with one table `[rule]` describes."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        msg = f"not valid TOML: {error}"
        raise ParameterError(msg) from None
    table = document.get("rule")
    if set(document) != {"rule"} or not isinstance(table, dict):
        msg = f"expected one table [rule] with a name, got the keys {sorted(document)}"
        raise ParameterError(msg)
    return rule_from_table(table)


def rule_from_table(table: Mapping[str, Any]) -> Aggregator:
    """Return the rule that a table with a name and parameters describes."""
    name = table.get("name")
    if not isinstance(name, str):
        msg = f"expected a table with the name of a rule, got the keys {sorted(table)}"
        raise ParameterError(msg)
    return build_rule(name, **{key: value for key, value in table.items() if key != "name"})


def _built(value: Any) -> Any:
    return rule_from_table(value) if isinstance(value, Mapping) else value
