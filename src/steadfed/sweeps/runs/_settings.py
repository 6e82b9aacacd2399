"""The settings of a grid: in each, what its cells share, and products of choices."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, TypeVar, final

from steadfed._core.lookup import nearest
from steadfed._core.ranges import check_probability
from steadfed.errors import ParameterError, SteadfedError, UnknownNameError
from steadfed.runs._files import set_key
from steadfed.simulation import config_from_table
from steadfed.sweeps.matrices._catalogue import with_bound
from steadfed.sweeps.runs._choices import PARTICIPATION, RULE, SAME_PLACE, SETTING, Choice, Table, choice, place_choices

BASE, GRID, BOUND, SETTINGS = "base", "grid", "bound_probability", "settings"
_OWN = (BASE, GRID, BOUND)
"""What a setting may say by itself."""
MOST_CELLS = 100_000
"""Combinations of a grid; all of them are looked at before the first is played."""
UNNAMED = ""
"""The name of the one setting of a grid that names none."""
_BOUND_PROBABILITY = 0.99
Kind = TypeVar("Kind")


@final
@dataclass(frozen=True, kw_only=True)
class GridSetting:
    """What some cells share, and one or more products of choices for them."""

    base: Table
    """What all cells share: the table of a configuration."""
    products: tuple[Mapping[str, tuple[Choice, ...]], ...]
    """Every key with its choices; there may be several such products."""
    bound_probability: float
    """Rules assume the smallest f that a cohort keeps to with this probability."""

    @property
    def num_points(self) -> int:
        """How many combinations there are."""
        return sum(math.prod(map(len, axes.values())) for axes in self.products)

    def points(self, name: str) -> Iterator[dict[str, Choice]]:
        """Yield every combination; the name of the setting is among what is chosen, if it has one."""
        named = {SETTING: Choice(label=name, value=name)} if name != UNNAMED else {}
        for axes in self.products:
            for chosen in product(*axes.values()):
                yield named | dict(zip(axes, chosen, strict=True))


def grid_settings(document: Mapping[str, Any]) -> dict[str, GridSetting]:
    """Return the settings of a grid by name: those of its tables [settings.NAME], or one without a name.

    A named setting has all that [base] and [grid] say, but for the keys that it says itself.
    """
    if SETTINGS not in document:
        found = {UNNAMED: _setting([document])}
    else:
        named = checked(SETTINGS, document[SETTINGS], dict, "tables [settings.NAME]")
        if not named:
            raise ParameterError(f"{SETTINGS} names no setting; give tables [{SETTINGS}.NAME], or leave it out")
        found = {name: _named_setting(name, document, own) for name, own in named.items()}
    number = sum(setting.num_points for setting in found.values())
    if number > MOST_CELLS:
        raise ParameterError(f"a grid may have {MOST_CELLS:,} combinations, got {number:,}; take choices out")
    return found


def _named_setting(name: str, document: Mapping[str, Any], own: Any) -> GridSetting:
    if name == UNNAMED:
        raise ParameterError(f"a setting needs a name, as in [{SETTINGS}.one-class]")
    where = f"{SETTINGS}.{name}"
    for key in checked(where, own, dict, f"a table [{where}]"):
        if key not in _OWN:
            raise ParameterError(f"no key {key!r} in {where}{nearest(key, _OWN)}; known: {', '.join(_OWN)}")
    try:
        return _setting([document, own])
    except SteadfedError as error:
        raise alike(error, f"{where}: {error}") from None


def _setting(layers: Sequence[Mapping[str, Any]]) -> GridSetting:
    """Return a setting from what is said of it, the later before the earlier."""
    base = _base([checked(BASE, each.get(BASE, {}), dict, "a table [base]") for each in layers])
    bounds = [each[BOUND] for each in layers if BOUND in each]
    return GridSetting(
        base=base,
        products=tuple(
            {key: _choices(key, values, base) for key, values in axes.items()} for axes in _products(layers, base)
        ),
        bound_probability=check_probability(BOUND, bounds[-1] if bounds else _BOUND_PROBABILITY),
    )


def _base(layers: Sequence[Mapping[str, Any]]) -> Table:
    """Return the table of a configuration; the keys of a table may be written with dots, as in --set."""
    table: Table = {}
    for given in layers:
        for key, value in given.items():
            set_key(table, key, copy.deepcopy(value))
    try:
        config_from_table(_rule_with_bound(table))
    except SteadfedError as error:
        raise ParameterError(f"[base] is no configuration: {error}") from None
    return table


def _products(layers: Sequence[Mapping[str, Any]], base: Table) -> list[Table]:
    """Return the products of choices: each that a layer names, over each of the layers before."""
    found: list[Table] = [{}]
    for layer in layers:
        given = layer.get(GRID, [{}])
        tables = given if isinstance(given, list) else [given]
        if not tables or not all(isinstance(each, Mapping) for each in tables):
            raise ParameterError(f"{GRID} must be a table [grid] (or several, [[grid]]), got {given!r}")
        found = [{**before, **each} for before in found for each in tables]
    if not all(found):
        raise ParameterError("a grid needs a table [grid] (or several, [[grid]]) with at least one key")
    for axes in found:
        _check_places(axes)
    _check_rules(found, base)
    return found


def _choices(key: str, values: Any, base: Table) -> tuple[Choice, ...]:
    """Return the choices of a key, each tried on the base by itself; none may be empty or there twice."""
    listed = values if isinstance(values, list) else [values]
    if not listed:
        raise ParameterError(f"grid.{key} is an empty list; give at least one value, or leave the key out")
    found: dict[str, Choice] = {}
    for value in listed:
        try:
            each = choice(key, value)
            changed = _rule_with_bound(place_choices(base, {key: each}))
            identity = repr(each.value) if key == PARTICIPATION else repr(config_from_table(changed))
        except SteadfedError as error:
            raise alike(error, f"grid.{key} = {value!r}: {error}") from None
        if identity in found or each.label in {other.label for other in found.values()}:
            other = found[identity].label if identity in found else each.label
            raise ParameterError(f"grid.{key} has {value!r} twice: it is the same as {other!r}; give every value once")
        found[identity] = each
    return tuple(found.values())


def _rule_with_bound(table: Table) -> Table:
    """Return a table whose rule, if it needs a bound and has none, assumes 0."""
    return {**table, RULE: with_bound(table[RULE], 0)} if isinstance(table.get(RULE), Mapping) else table


def _check_rules(products: Sequence[Mapping[str, Any]], base: Table) -> None:
    """Refuse a setting without rules, unless the base names one."""
    if not any(RULE in axes for axes in products) and RULE not in base:
        raise ParameterError(
            'a grid compares rules, this one names none; give grid.rule, such as rule = ["rage", "median"]'
        )


def _check_places(axes: Mapping[str, Any]) -> None:
    """Refuse two keys of which one would silently undo the other, and a key that is no choice."""
    if SETTING in axes:
        raise ParameterError(f"grid.{SETTING} is no choice; settings have their names from tables [{SETTINGS}.NAME]")
    for one, other in SAME_PLACE.items():
        if one in axes and other in axes:
            raise ParameterError(f"grid.{one} and grid.{other} decide the same; give one of them")


def checked(key: str, value: Any, kind: type[Kind], allowed: str) -> Kind:
    """Return a value of a file if it is of a kind; the error says what is allowed."""
    if isinstance(value, kind):
        return value
    raise ParameterError(f"{key} must be {allowed}, got {value!r}")


def alike(error: SteadfedError, words: str) -> SteadfedError:
    """Return an error with more words: an unknown name stays one, whatever else is wrong is a parameter."""
    return (UnknownNameError if isinstance(error, UnknownNameError) else ParameterError)(words)
