"""What a grid may choose: its keys, how a value of one is read, what it is called, and where it goes."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

from holdfast.aggregators import RULES
from holdfast.attacks import ATTACKS
from holdfast.errors import ParameterError, find
from holdfast.gauntlet.lineup import attack_called
from holdfast.partitions import PARTITIONS
from holdfast.runs.files import change
from holdfast.simulation.tables import NAMED
from holdfast.values import real_number

Label = str | int | float
"""What a choice is called, in columns of the results."""
Table = dict[str, Any]

RULE, ATTACK, SEED = "rule", "attack", "seed"
FRACTION, PARTICIPATION, HETEROGENEITY = "byzantine_fraction", "participation", "heterogeneity"
LABEL = "label"
"""The key of a table in a grid that says what the choice is called; it is no parameter."""
_WHERE = {HETEROGENEITY: "partition"}
"""Keys of a grid that are words for keys of a configuration."""
ORACLE = "oracle"
"""The label of the mean of the honest rows, which no rule can know."""
ANY, NONE = "any", "none"
"""The labels of the attack where it does not matter, and where there is none."""
_RESERVED = {RULE: (ORACLE,), ATTACK: (ANY, NONE)}
SAME_PLACE = {HETEROGENEITY: "partition", FRACTION: "byzantine", PARTICIPATION: "cohort_size"}
"""Keys of a grid that decide what another key would decide too."""
_PLACED = "num_clients"
"""What a partition takes over from the one in the base, and what its label leaves out."""


@final
@dataclass(frozen=True, kw_only=True)
class Choice:
    """One value of one key of a grid."""

    label: Label
    value: Any
    """A number, a string, or the table of a named object."""


def choice(key: str, value: Any) -> Choice:
    """Return a value of a grid as a choice; an error of the tree says what is allowed.

    >>> choice("rule", {"name": "centered-clipping", "radius": 10}).label
    'centered-clipping radius=10'
    >>> choice("attack", "ipm-100").value
    {'name': 'ipm', 'epsilon': 100.0}
    """
    if key in {FRACTION, PARTICIPATION}:
        return Choice(label=_share(key, value), value=_share(key, value))
    if _WHERE.get(key, key) not in NAMED:
        if isinstance(value, (Mapping, list)):
            raise ParameterError(
                f"{key!r} takes numbers and words, got {value!r}; name what is inside with dots, as in client.momentum"
            )
        return Choice(label=value if isinstance(value, (int, float)) else str(value), value=value)
    table = _named(key, value)
    label = table.pop(LABEL, None)
    if label is not None and not (isinstance(label, str) and label):
        raise ParameterError(f"the {LABEL} of a {key} must be a word, got {label!r}")
    if label in _RESERVED.get(key, ()):
        raise ParameterError(f"the {LABEL} {label!r} of {key} has a meaning of its own; choose another word")
    return Choice(label=label or (value if isinstance(value, str) else label_of(table)), value=table)


def _share(key: str, value: Any) -> float:
    allowed = "from 0 to below 1" if key == FRACTION else "above 0 and at most 1"
    try:
        share = real_number(value)
    except ValueError:
        share = -1.0
    if not (0.0 <= share < 1.0 if key == FRACTION else 0.0 < share <= 1.0):
        raise ParameterError(f"{key} must be a share {allowed}, got {value!r}")
    return float(share)


def _named(key: str, value: Any) -> Table:
    """Return the table of a named object; attacks may have the labels of the gauntlet."""
    if isinstance(value, str):
        return dict(ATTACKS.to_table(attack_called(value))) if key == ATTACK else {"name": value}
    if not isinstance(value, Mapping) or not isinstance(value.get("name"), str):
        raise ParameterError(f'{key!r} takes names and tables with a name, such as {{ name = "…" }}; got {value!r}')
    return copy.deepcopy(dict(value))


def label_of(table: Mapping[str, Any]) -> str:
    """Return a table in a few words: the name and the parameters, those of objects inside in brackets.

    >>> label_of({"name": "dirichlet", "alpha": 0.1, "num_clients": 50})
    'dirichlet alpha=0.1'
    """
    words = [str(table["name"])]
    for key, value in table.items():
        if key not in {"name", _PLACED}:
            words.append(f"{key}=({label_of(value)})" if isinstance(value, Mapping) else f"{key}={_short(value)}")
    return " ".join(words)


def _short(value: Any) -> str:
    return ",".join(map(_short, value)) if isinstance(value, (list, tuple)) else str(value)


def placed(table: Table, choices: Mapping[str, Choice]) -> Table:
    """Return the table of a configuration with the choices in their places, whole objects before parts of them.

    Participation is not among them: it depends on how many clients there are.
    """
    table = copy.deepcopy(table)
    for key, chosen in sorted(choices.items(), key=lambda item: "." in item[0]):
        if key == FRACTION:
            table["byzantine"] = {"name": "fraction", "fraction": chosen.value}
        elif key == HETEROGENEITY:
            table["partition"] = _of_as_many(chosen.value, table.get("partition", {}))
        elif key != PARTICIPATION:
            change(table, key, copy.deepcopy(chosen.value))
    return table


def _of_as_many(partition: Table, before: Mapping[str, Any]) -> Table:
    """Return a partition among as many clients as before, unless it says how many."""
    cls = find("partition", partition["name"], PARTITIONS)
    if _PLACED in cls.model_fields and _PLACED not in partition and _PLACED in before:
        return {**partition, _PLACED: before[_PLACED]}
    return partition


def told(rule: Mapping[str, Any], num_byzantine: int) -> Table:
    """Return the table of a rule whose innermost rule is told f, unless it takes none or has a bound already.

    >>> told({"name": "nnm+krum"}, 3)
    {'name': 'nnm+krum', 'num_byzantine': 3}
    >>> told({"name": "bucketing", "size": 3, "rule": {"name": "rage"}}, 3)
    {'name': 'bucketing', 'size': 3, 'rule': {'name': 'rage', 'num_byzantine': 3}}
    """
    inside = rule.get(RULE)
    if isinstance(inside, Mapping):
        return {**rule, RULE: told(inside, num_byzantine)}
    cls = find(RULE, str(rule.get("name")).rpartition("+")[2], RULES)
    bounds = {"num_byzantine", "byzantine_fraction"}
    if "num_byzantine" not in cls.model_fields or bounds & rule.keys():
        return dict(rule)
    return {**rule, "num_byzantine": num_byzantine}
