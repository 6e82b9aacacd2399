"""`holdfast list`: what there is, with its parameters, what it must know, and where it is defined."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console, Group
from rich.padding import Padding
from rich.text import Text

from holdfast.errors import find

if TYPE_CHECKING:
    from holdfast.data import DataSource
    from holdfast.values import ValueObject

app = typer.Typer(help="List what a configuration may name: rules, attacks, data sets, models, …", no_args_is_help=True)


@app.command("rules")
def rules(name: Annotated[str | None, typer.Argument(help="Show this rule only; nnm+krum shows both.")] = None) -> None:
    """List every rule: name, parameters, what it must know besides the rows, and where it is defined.

    Wrappers take a rule inside and are written before it with a plus, such as nnm+krum.
    """
    from holdfast.aggregators import RULES

    for key, rule in _chosen("rule", name, RULES).items():
        needs = f"must know besides the rows: {_names(rule.needs)}" if rule.needs else "needs the rows only"
        _show(key, rule, f"{needs}; defined in {rule.citation}")


@app.command("attacks")
def attacks(
    name: Annotated[str | None, typer.Argument(help="Show this attack only; optimal+alie shows both.")] = None,
) -> None:
    """List every attack: name, parameters, what it must know and what it makes use of, and where it is defined.

    Attacks with an attack inside are written before it with a plus, such as sleeper+sign-flip.
    """
    from holdfast.attacks import ATTACKS

    for key, attack in _chosen("attack", name, ATTACKS).items():
        needs = f"must know {_names(attack.needs) or 'nothing'}"
        uses = f", makes use of {_names(attack.uses)}" if attack.uses else ""
        _show(key, attack, f"{needs}{uses}; {attack.citation}")


@app.command("datasets")
def datasets(name: Annotated[str | None, typer.Argument(help="Show this data set only.")] = None) -> None:
    """List every data set: name, parameters, who made it and its licence, and whether this machine has it.

    Files count as found if their content is right; nothing is downloaded.
    """
    from holdfast.data import DATASETS

    for key, source in _chosen("data set", name, DATASETS).items():
        _show(key, source, f"{source.citation}{_whereabouts(source)}")


def _whereabouts(source: type[DataSource]) -> str:
    """Return where this machine has a data set; nothing for data of the user's own, which are where he says."""
    from holdfast.data import found_in

    if not source.here or any(field.is_required() for field in source.model_fields.values()):
        return ""
    if not source.files:
        return "\nalways there"
    found = [found_in(wanted) for wanted in source.files]
    if None in found:
        return "\nnot on this machine: it is downloaded when it is first used"
    return f"\nfound in {' and '.join(dict.fromkeys(map(str, found)))}"


@app.command("models")
def models(name: Annotated[str | None, typer.Argument(help="Show this model only.")] = None) -> None:
    """List every model: name, parameters, and where it is defined."""
    from holdfast.models import MODELS

    _show_all("model", name, MODELS)


@app.command("partitions")
def partitions(name: Annotated[str | None, typer.Argument(help="Show this partition only.")] = None) -> None:
    """List every way to deal points out to clients: name, parameters, and where it is defined."""
    from holdfast.partitions import PARTITIONS

    _show_all("partition", name, PARTITIONS)


@app.command("cohorts")
def cohorts(name: Annotated[str | None, typer.Argument(help="Show this way only.")] = None) -> None:
    """List every way to choose the clients of a round."""
    from holdfast.simulation.tables import COHORTS

    _show_all("way to choose cohorts", name, COHORTS)


@app.command("schedules")
def schedules(name: Annotated[str | None, typer.Argument(help="Show this schedule only.")] = None) -> None:
    """List every way in which the step size may change over the rounds."""
    from holdfast.simulation.tables import SCHEDULES

    _show_all("schedule", name, SCHEDULES)


@app.command("memberships")
def memberships(name: Annotated[str | None, typer.Argument(help="Show this membership only.")] = None) -> None:
    """List every way to say who is Byzantine: what the table [byzantine] of a configuration may name."""
    from holdfast.simulation.tables import MEMBERSHIPS

    for key, membership in _chosen("membership", name, MEMBERSHIPS).items():
        _show(key, membership, "")


def summary(kind: type[ValueObject]) -> str:
    """Return the first paragraph of a class's docstring in one line."""
    return " ".join((kind.__doc__ or "").split("\n\n")[0].split())


def parameters(kind: type[ValueObject]) -> list[tuple[str, str, str, str]]:
    """Return name, default, what is allowed and meaning of every parameter."""
    found = []
    for name, schema in kind.model_json_schema().get("properties", {}).items():
        default = "" if schema.get("default") is None else str(schema["default"])
        meaning = " ".join((kind.model_fields[name].description or "").split())
        found.append((name, default, _allowed(schema), meaning))
    return found


def _chosen(what: str, name: str | None, table: Mapping[str, Any]) -> Mapping[str, Any]:
    return table if name is None else {part: find(what, part, table) for part in name.split("+")}


def _show_all(what: str, name: str | None, table: Mapping[str, Any]) -> None:
    for key, kind in _chosen(what, name, table).items():
        _show(key, kind, kind.citation)


def _show(name: str, kind: type[ValueObject], facts: str) -> None:
    lines = [Text(summary(kind)), *([Text(facts, style="dim")] if facts else [])]
    for key, default, limits, meaning in parameters(kind):
        value = f" = {default}" if default else ""
        lines.append(Text.assemble((key, "bold"), f"{value}  ({limits})", f"  {meaning}" if meaning else ""))
    Console().print(Text(name, style="bold green"), Padding(Group(*lines), (0, 0, 1, 4)))


def _names(members: Iterable[Enum]) -> str:
    return ", ".join(sorted(member.name.lower().replace("_", " ") for member in members))


def _allowed(schema: dict[str, Any]) -> str:
    """Return what a parameter's JSON schema allows, for people."""
    options = [option for option in schema.get("anyOf", [schema]) if option.get("type") != "null"]
    limits = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<"}
    texts = []
    for option in options:
        if "$ref" in option:
            texts.append("a table with a name and parameters")
        elif "enum" in option:
            texts.append(" | ".join(map(str, option["enum"])))
        else:
            bounds = [f"{sign} {option[key]}" for key, sign in limits.items() if key in option]
            texts.append(" ".join([option.get("type", "any"), ", ".join(bounds)]).strip())
    return " or ".join(texts)
