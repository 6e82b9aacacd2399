"""Grids: files in which lists mean "each of these"."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from itertools import product
from pathlib import Path
from typing import Any, TypeVar, final

from steadfed._core.lookup import nearest
from steadfed._core.ranges import check_probability
from steadfed.errors import ParameterError, SteadfedError, UnknownNameError
from steadfed.runs._files import parse_toml, set_key
from steadfed.simulation import config_from_table
from steadfed.sweeps._ranking import Label
from steadfed.sweeps.matrices._catalogue import with_bound
from steadfed.sweeps.runs._choices import (
    PARTICIPATION,
    RULE,
    SAME_PLACE,
    SEED,
    Choice,
    Table,
    choice,
    place_choices,
)
from steadfed.sweeps.runs._published_figures import PublishedFigure, published_figures

_KEYS = ("title", "note", "bound_probability", "reference", "base", "grid", "published")
_ENDING = ".toml"
Kind = TypeVar("Kind")


@final
@dataclass(frozen=True, kw_only=True)
class ComparisonGrid:
    r"""A file: what all cells share, and one or more products of choices.

    >>> grid = parse_grid('[grid]\nrule = ["rage", "mean"]\nattack = ["alie", "nan"]\nbyzantine_fraction = 0.2')
    >>> [(point["rule"].label, point["attack"].label) for point in grid.points()]
    [('rage', 'alie'), ('rage', 'nan'), ('mean', 'alie'), ('mean', 'nan')]
    """

    text: str
    """The file itself."""
    base: Table
    """What all cells share: the table of a configuration."""
    products: tuple[Mapping[str, tuple[Choice, ...]], ...]
    """Every key with its choices; a file may have several such products."""
    title: str = "Comparison"
    note: str = ""
    bound_probability: float = 0.99
    """Rules assume the smallest f that a cohort keeps to with this probability."""
    reference: bool = True
    """Whether the mean of the honest updates, which no rule can know, is shown beside the rules."""
    published: tuple[PublishedFigure, ...] = ()

    def points(self) -> Iterator[dict[str, Choice]]:
        """Yield every combination, all of the first seed first, so that an unfinished comparison is a whole picture."""
        points = [dict(zip(axes, chosen, strict=True)) for axes in self.products for chosen in product(*axes.values())]
        order = list(dict.fromkeys(_seed(point) for point in points))
        yield from sorted(points, key=lambda point: order.index(_seed(point)))


def _seed(point: Mapping[str, Choice]) -> Label | None:
    return point[SEED].label if SEED in point else None


def shipped_grids() -> tuple[str, ...]:
    """Return the names of the grids that come with steadfed.

    >>> shipped_grids()
    ('bucketing', 'paper', 'quick')
    """
    files = resources.files("steadfed.sweeps.runs").joinpath("grids").iterdir()
    return tuple(sorted(file.name.removesuffix(_ENDING) for file in files if file.name.endswith(_ENDING)))


def read_grid(name: str) -> ComparisonGrid:
    """Return the grid of a file, or one that comes with steadfed.

    Raises:
        ParameterError, UnknownNameError: there is none of this name, or what it says means nothing.
    """
    if name in shipped_grids() and not Path(name).is_file():
        text = resources.files("steadfed.sweeps.runs").joinpath("grids", name + _ENDING).read_text(encoding="utf-8")
    else:
        try:
            text = Path(name).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            known = ", ".join(shipped_grids())
            raise ParameterError(
                f"cannot read the grid {name!r}: {error}{nearest(name, shipped_grids())}; shipped ones: {known}"
            ) from None
    try:
        return parse_grid(text)
    except SteadfedError as error:
        raise (UnknownNameError if isinstance(error, UnknownNameError) else ParameterError)(
            f"the grid {name!r}: {error}"
        ) from None


def parse_grid(text: str) -> ComparisonGrid:
    """Return the grid that a text holds; an error names the key, the value and what is allowed."""
    document = parse_toml(text)
    for key in document:
        if key not in _KEYS:
            raise ParameterError(f"no key {key!r} in a grid{nearest(key, _KEYS)}; known: {', '.join(_KEYS)}")
    base = _base(_checked("base", document.get("base", {}), dict, "a table [base]"))
    given = document.get("grid", {})
    tables = given if isinstance(given, list) else [given]
    if not tables or not all(isinstance(each, Mapping) and each for each in tables):
        raise ParameterError(f"a grid needs a table [grid] (or several, [[grid]]) with at least one key, got {given!r}")
    for each in tables:
        _check_places(each)
    grid = ComparisonGrid(
        text=text,
        base=base,
        products=tuple({key: _choices(key, values, base) for key, values in each.items()} for each in tables),
        title=_checked("title", document.get("title", "Comparison"), str, "a text").strip(),
        note=_checked("note", document.get("note", ""), str, "a text").strip(),
        bound_probability=check_probability("bound_probability", document.get("bound_probability", 0.99)),
        reference=_checked("reference", document.get("reference", True), bool, "true or false"),
        published=published_figures(document.get("published", [])),
    )
    _check_rules(grid)
    return grid


def _base(given: Mapping[str, Any]) -> Table:
    """Return the table of a configuration; the keys of a table may be written with dots, as in --set."""
    table: Table = {}
    for key, value in given.items():
        set_key(table, key, value)
    try:
        config_from_table(_rule_with_bound(table))
    except SteadfedError as error:
        raise ParameterError(f"[base] is no configuration: {error}") from None
    return table


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
            raise (UnknownNameError if isinstance(error, UnknownNameError) else ParameterError)(
                f"grid.{key} = {value!r}: {error}"
            ) from None
        if identity in found or each.label in {other.label for other in found.values()}:
            other = found[identity].label if identity in found else each.label
            raise ParameterError(f"grid.{key} has {value!r} twice: it is the same as {other!r}; give every value once")
        found[identity] = each
    return tuple(found.values())


def _rule_with_bound(table: Table) -> Table:
    """Return a table whose rule, if it needs a bound and has none, assumes 0."""
    return {**table, RULE: with_bound(table[RULE], 0)} if isinstance(table.get(RULE), Mapping) else table


def _check_rules(grid: ComparisonGrid) -> None:
    """Refuse a grid without rules, unless the base names one."""
    if not any(RULE in axes for axes in grid.products) and RULE not in grid.base:
        raise ParameterError(
            'a grid compares rules, this one names none; give grid.rule, such as rule = ["rage", "median"]'
        )


def _check_places(axes: Mapping[str, Any]) -> None:
    """Refuse two keys of which one would silently undo the other."""
    for one, other in SAME_PLACE.items():
        if one in axes and other in axes:
            raise ParameterError(f"grid.{one} and grid.{other} decide the same; give one of them")


def _checked(key: str, value: Any, kind: type[Kind], allowed: str) -> Kind:
    if isinstance(value, kind):
        return value
    raise ParameterError(f"{key} must be {allowed}, got {value!r}")
