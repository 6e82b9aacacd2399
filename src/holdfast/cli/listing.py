"""`holdfast list`: what there is, with its parameters, what it must know, and where it is defined."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

app = typer.Typer(help="List the rules or the attacks.", no_args_is_help=True)


@app.command("rules")
def rules() -> None:
    """List every rule: name, parameters, what it must know besides the rows, and where it is defined.

    Wrappers take a rule inside and are written before it with a plus, such as nnm+krum.
    """
    from holdfast.aggregators import RULES  # noqa: PLC0415  loads torch

    table = Table("rule", "parameter", "default", "allowed", "must know", "defined in")
    for name, rule in RULES.items():
        _add(table, name, rule.model_json_schema(), rule.needs, rule.citation)
    Console().print(table)


@app.command("attacks")
def attacks() -> None:
    """List every attack: name, parameters, what it must know (and makes use of), and where it is defined.

    Attacks with an attack inside are written before it with a plus, such as sleeper+sign-flip.
    """
    from holdfast.attacks import ATTACKS  # noqa: PLC0415  loads torch

    table = Table("attack", "parameter", "default", "allowed", "must know (uses)", "defined in")
    for name, attack in ATTACKS.items():
        _add(table, name, attack.model_json_schema(), attack.needs, attack.citation, attack.uses)
    Console().print(table)


def _add(
    table: Table, name: str, schema: dict[str, Any], needs: Iterable[Enum], citation: str, uses: Iterable[Enum] = ()
) -> None:
    """Add one section: a line per parameter, the rest on the first of them."""
    knowledge = ", ".join(sorted(need.name.lower() for need in needs)) or "nothing"
    extra = ", ".join(sorted(use.name.lower() for use in uses))
    facts = (knowledge + (f" ({extra})" if extra else ""), citation)
    definitions = schema.get("$defs", {})
    parameters = list(schema.get("properties", {}).items()) or [("", {})]
    for index, (key, property_) in enumerate(parameters):
        default = property_.get("default")
        table.add_row(
            name if index == 0 else "",
            key,
            "" if default is None else str(default),
            allowed(property_, definitions) if key else "",
            *(facts if index == 0 else ("", "")),
        )
    table.add_section()


def allowed(schema: dict[str, Any], definitions: dict[str, Any]) -> str:
    """Return what a parameter's JSON schema allows, for people."""
    options = [option for option in schema.get("anyOf", [schema]) if option.get("type") != "null"]
    limits = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<"}
    texts = []
    for option in options:
        if "$ref" in option:
            texts.append("a table with a name and parameters" if definitions else "a table")
        elif "enum" in option:
            texts.append(" | ".join(map(str, option["enum"])))
        else:
            bounds = [f"{sign} {option[key]}" for key, sign in limits.items() if key in option]
            texts.append(" ".join([option.get("type", "any"), ", ".join(bounds)]).strip())
    return " or ".join(texts)
