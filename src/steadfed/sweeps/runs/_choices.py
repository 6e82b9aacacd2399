"""What a grid may choose: its keys, how a value of one is read, what it is called, and where it goes."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

from steadfed._core.lookup import find
from steadfed._core.naming import name_key
from steadfed._core.ranges import check_between
from steadfed.attacks import ATTACKS
from steadfed.errors import ParameterError
from steadfed.partitions import PARTITIONS
from steadfed.runs._files import set_key
from steadfed.simulation._tables import NAMED
from steadfed.sweeps._ranking import NO_ATTACK, ORACLE, Label
from steadfed.sweeps.matrices._catalogue import attack_for

Table = dict[str, Any]

RULE, ATTACK, SEED, STEPS = "rule", "attack", "seed", "local_steps"
FRACTION, PARTICIPATION, HETEROGENEITY = "byzantine_fraction", "participation", "heterogeneity"
SETTING = "setting"
"""The key under which the name of a setting stands, where a grid names settings."""
LABEL = "label"
"""The key of a table in a grid that says what the choice is called; it is no parameter."""
_WHERE = {HETEROGENEITY: "partition"}
"""Keys of a grid that are words for keys of a configuration."""
ANY = "any"
"""The label of the attack where it does not matter."""
_RESERVED = {RULE: (ORACLE,), ATTACK: (ANY, NO_ATTACK)}
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
        share = _share(key, value)
        return Choice(label=share, value=share)
    if key == STEPS and isinstance(value, (Mapping, list)):
        return Choice(label=label_of_steps(value), value=value)
    if _WHERE.get(key, key) not in NAMED:
        if isinstance(value, (Mapping, list)):
            raise ParameterError(
                f"{key!r} takes numbers and words, got {value!r}; name what is inside with dots, as in client.momentum"
            )
        return Choice(label=value if isinstance(value, (int, float)) else str(value), value=value)
    table = _named_table(key, value)
    label = table.pop(LABEL, None)
    if label is not None and not (isinstance(label, str) and label):
        raise ParameterError(f"the {LABEL} of a {key} must be a word, got {label!r}")
    if label in _RESERVED.get(key, ()):
        raise ParameterError(f"the {LABEL} {label!r} of {key} has a meaning of its own; choose another word")
    return Choice(label=label or (value if isinstance(value, str) else label_of(table)), value=table)


def _share(key: str, value: Any) -> float:
    if key == FRACTION:
        return check_between(key, value, 0.0, 1.0, "a share from 0 to below 1", open_above=True)
    return check_between(key, value, 0.0, 1.0, "a share above 0 and at most 1", open_below=True)


def _named_table(key: str, value: Any) -> Table:
    """Return the table of a named object; attacks may have the labels of the gauntlet."""
    if isinstance(value, str):
        return dict(ATTACKS.to_table(attack_for(value))) if key == ATTACK else {"name": value}
    if not isinstance(value, Mapping) or not isinstance(value.get(name_key(value)), str):
        raise ParameterError(f'{key!r} takes names and tables with a name, such as {{ name = "…" }}; got {value!r}')
    return copy.deepcopy(dict(value))


def label_of(table: Mapping[str, Any]) -> str:
    """Return a table in a few words: the name and the parameters, those of objects inside in brackets.

    >>> label_of({"name": "dirichlet", "alpha": 0.1, "num_clients": 50})
    'dirichlet alpha=0.1'
    """
    called = name_key(table)
    words = [str(table[called])]
    for key, value in table.items():
        if key not in {called, _PLACED}:
            words.append(f"{key}=({label_of(value)})" if isinstance(value, Mapping) else f"{key}={_short(value)}")
    return " ".join(words)


def label_of_steps(value: Mapping[str, Any] | list[int]) -> str:
    """Return a list or a schedule of local steps in a few words.

    >>> label_of_steps([1, 4, 2]), label_of_steps({"name": "uniform", "lowest": 1, "highest": 8})
    ('1,4,2', 'uniform lowest=1 highest=8')
    """
    return label_of(value) if isinstance(value, Mapping) and "name" in value else _short(value)


def _short(value: Any) -> str:
    return ",".join(map(_short, value)) if isinstance(value, (list, tuple)) else str(value)


def place_choices(table: Table, choices: Mapping[str, Choice]) -> Table:
    """Return the table of a configuration with the choices in their places, whole objects before parts of them.

    Participation is not among them: it depends on how many clients there are. Nor is the name of a setting.
    """
    table = copy.deepcopy(table)
    for key, chosen in sorted(choices.items(), key=lambda item: "." in item[0]):
        if key == FRACTION:
            table["byzantine"] = {"name": "fraction", "fraction": chosen.value}
        elif key == HETEROGENEITY:
            table["partition"] = _with_num_clients(chosen.value, table.get("partition", {}))
        elif key not in {PARTICIPATION, SETTING}:
            set_key(table, key, copy.deepcopy(chosen.value))
    return table


def _with_num_clients(partition: Table, before: Mapping[str, Any]) -> Table:
    """Return a partition among as many clients as before, unless it says how many."""
    cls = find("partition", partition["name"], PARTITIONS)
    if _PLACED in cls.model_fields and _PLACED not in partition and _PLACED in before:
        return {**partition, _PLACED: before[_PLACED]}
    return partition
