"""`steadfed list`: what there is, with its parameters, what it must know, and where it is defined."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any

import click
import typer
from rich.console import Console, Group
from rich.padding import Padding
from rich.text import Text

from steadfed._cli import snapshot

if TYPE_CHECKING:
    from steadfed._cli.snapshot import Entry
    from steadfed._core.naming import Registry
    from steadfed._core.values import ValueObject
    from steadfed.aggregators import Aggregator
    from steadfed.attacks import Attack
    from steadfed.data import DataSource
    from steadfed.metrics import Metric

KINDS: Mapping[str, str] = MappingProxyType(
    {
        "rules": "steadfed.aggregators:RULES",
        "attacks": "steadfed.attacks:ATTACKS",
        "datasets": "steadfed.data:DATASETS",
        "models": "steadfed.models:MODELS",
        "metrics": "steadfed.metrics:METRICS",
        "partitions": "steadfed.partitions:PARTITIONS",
        "cohorts": "steadfed.simulation._cohorts:COHORTS",
        "compressions": "steadfed.simulation._compression:COMPRESSIONS",
        "schedules": "steadfed.simulation._schedules:SCHEDULES",
        "local-steps": "steadfed.simulation._step_schedules:STEP_SCHEDULES",
        "memberships": "steadfed.attacks:MEMBERSHIPS",
    }
)
"""What may be listed, and where its registry is: the others are not imported for it."""


def list_(
    kind: Annotated[
        str, typer.Argument(click_type=click.Choice(list(KINDS)), metavar="KIND", help=f"One of: {', '.join(KINDS)}.")
    ],
    name: Annotated[str | None, typer.Argument(help="Show only this one, at length; nnm+krum shows both.")] = None,
    long: Annotated[bool, typer.Option("--long", "-l", help="Show parameters, knowledge and origin of each.")] = False,
) -> None:
    """List what a configuration may name, one line each; at length with --long or the name of one.

    At length are shown the parameters with their limits, what a rule or an attack must know, where it is defined, who
    made a data set and whether this machine has it. Nothing is downloaded.

    Rules and attacks that take another inside are written before it with a plus, such as nnm+krum or sleeper+sign-flip.
    Your own are not listed: they are named by import path, my_rules:mine, wherever these names are.
    """
    known = snapshot.known()["kinds"][kind]
    names = list(known) if name is None else name.split("+")
    at_length = long or name is not None
    if (kind in OF_THIS_MACHINE and at_length) or not known.keys() >= set(names):
        known = entries(kind, names)
    if at_length:
        for key in names:
            _show(key, known[key])
    else:
        _show_lines(known)


def entries(kind: str, names: Sequence[str] | None = None) -> dict[str, Entry]:
    """Return what is told of some or all of a kind, from the classes themselves. Loads torch.

    Raises:
        UnknownNameError: there is none of that name.
    """
    from steadfed._core.importing import import_object

    registry: Registry[Any] = import_object(KINDS[kind], "a registry")
    facts = _FACTS.get(kind, _citation)
    return {
        name: {
            "first": (cls.__doc__ or "").strip().split("\n", 1)[0],
            "summary": summary(cls),
            "facts": facts(cls),
            "parameters": [list(parameter) for parameter in parameters(cls)],
        }
        for name, cls in ((name, registry[name]) for name in (registry if names is None else names))
    }


def _rule_facts(rule: type[Aggregator]) -> str:
    needs = f"must know besides the updates: {member_names(rule.needs)}" if rule.needs else "needs the updates only"
    return f"{needs}; defined in {rule.citation}"


def _attack_facts(attack: type[Attack]) -> str:
    uses = f", makes use of {member_names(attack.uses)}" if attack.uses else ""
    return f"must know {member_names(attack.needs) or 'nothing'}{uses}; {attack.citation}"


def _dataset_facts(source: type[DataSource]) -> str:
    """Return who made a data set and where this machine has it; data of the user's own are where the user says."""
    from steadfed.data import find_folder

    if not source.here or any(field.is_required() for field in source.model_fields.values()):
        return source.citation
    if not source.files:
        return f"{source.citation}\nalways there"
    found = [find_folder(wanted) for wanted in source.files]
    if None in found:
        return f"{source.citation}\nnot on this machine: it is downloaded when it is first used"
    return f"{source.citation}\nfound in {' and '.join(dict.fromkeys(map(str, found)))}"


def _metric_facts(metric: type[Metric]) -> str:
    """Return for what a metric is, and which direction is better."""
    of = f"of {' and '.join(sorted(metric.tasks))}" + (" with two classes" if metric.two_classes else "")
    return f"{metric.title}: {metric.meaning}; {of}; {'higher' if metric.higher_is_better else 'lower'} is better"


def _citation(cls: type[Any]) -> str:
    return str(getattr(cls, "citation", ""))


_FACTS: Mapping[str, Callable[[type[Any]], str]] = MappingProxyType(
    {"rules": _rule_facts, "attacks": _attack_facts, "datasets": _dataset_facts, "metrics": _metric_facts}
)
"""What is told of each, where that is more than its origin."""
OF_THIS_MACHINE = {"datasets"}
"""Kinds of which something is told at length that is no property of the package."""


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


def _show_lines(known: Mapping[str, Entry]) -> None:
    """Print a line for each: its name and the first line of its description, cut where a terminal ends."""
    console, width = Console(), max(map(len, known))
    for name, entry in known.items():
        line = Text.assemble((f"{name:{width}}", "bold green"), "  ", entry["first"])
        if console.is_terminal:
            console.print(line, no_wrap=True, overflow="ellipsis")
        else:
            console.print(line, soft_wrap=True)


def _show(name: str, entry: Entry) -> None:
    facts = entry["facts"]
    lines = [Text(entry["summary"]), *([Text(facts, style="dim")] if facts else [])]
    for key, default, limits, meaning in entry["parameters"]:
        value = f" = {default}" if default else ""
        lines.append(Text.assemble((key, "bold"), f"{value}  ({limits})", f"  {meaning}" if meaning else ""))
    Console().print(Text(name, style="bold green"), Padding(Group(*lines), (0, 0, 1, 4)))


def member_names(members: Iterable[Enum]) -> str:
    """Return what a rule or an attack must know in words, in alphabetical order."""
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
