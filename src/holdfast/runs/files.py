"""Configurations in TOML: read with changes from the command line, written resolved; a commented one to start from."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import tomli_w

from holdfast.errors import ParameterError
from holdfast.simulation import RunConfig, config_from_table, config_table
from holdfast.simulation.tables import NAMED, OPTIONS

PROVENANCE = "provenance"
"""The table of a run's configuration that says what it was made with; it is not part of the configuration."""


def config_to_toml(config: RunConfig, provenance: Mapping[str, str] | None = None) -> str:
    """Return the whole configuration, defaults included, as TOML.

    >>> config_from_toml(config_to_toml(RunConfig(lr=0.5))) == RunConfig(lr=0.5)
    True
    """
    table = config_table(config)
    return tomli_w.dumps({**table, PROVENANCE: dict(provenance)} if provenance else table)


def config_from_toml(text: str, settings: Iterable[str] = ()) -> RunConfig:
    """Return the configuration that a TOML text describes, changed by settings such as "lr=0.5" or "rule.kappa=2.8"."""
    table = parsed(text)
    table.pop(PROVENANCE, None)
    for setting in settings:
        _change(table, *assignment(setting))
    return config_from_table(table)


def provenance(text: str) -> dict[str, str]:
    """Return what the configuration of a run says it was made with."""
    found = parsed(text).get(PROVENANCE, {})
    return {key: str(value) for key, value in found.items()} if isinstance(found, Mapping) else {}


def read_config(path: Path, settings: Iterable[str] = ()) -> RunConfig:
    """Return the configuration in a file, changed by settings."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        msg = f"cannot read the configuration {str(path)!r}: {error}; `holdfast init` writes one to start from"
        raise ParameterError(msg) from None
    return config_from_toml(text, settings)


def parsed(text: str) -> dict[str, Any]:
    """Return the table that a TOML text holds."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        msg = f"not valid TOML: {error}"
        raise ParameterError(msg) from None


def assignment(text: str) -> tuple[str, Any]:
    """Return (key, value) of KEY=VALUE; a value that is no TOML is a string.

    >>> assignment("lr=0.5"), assignment("rule=nnm+krum")
    (('lr', 0.5), ('rule', 'nnm+krum'))
    """
    key, equals, value = text.partition("=")
    if not equals or not key:
        msg = f"--set takes KEY=VALUE, got {text!r}"
        raise ParameterError(msg)
    try:
        return key, tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return key, value


def _change(table: dict[str, Any], key: str, value: Any) -> None:
    """Put a value in its place; "rule=krum" begins the table [rule] anew with this name."""
    *path, last = key.split(".")
    if not path and last in NAMED and isinstance(value, str):
        table[last] = {"name": value}
        return
    for part in path:
        table = table.setdefault(part, {})
        if not isinstance(table, dict):
            msg = f"--set {key}: {part} is a value, not a table"
            raise ParameterError(msg)
    table[last] = value


def template(config: RunConfig) -> str:
    """Return a configuration as TOML, with a comment before every key that says what it is and what else it may be."""
    table, fields = config_table(config), RunConfig.model_fields
    lines = [
        "# A run of holdfast: `holdfast check FILE`, then `holdfast run FILE`. What is left out is at its default.",
        "",
    ]
    for key, value in table.items():
        if not isinstance(value, dict):
            lines += [*_comment(fields[key].description), tomli_w.dumps({key: value}).strip(), ""]
    for key in NAMED:
        known = ", ".join(NAMED[key].classes)
        lines += [*_comment(f"{fields[key].description or ''} One of: {known}."), *_section(key, table[key]), ""]
    for key, options in OPTIONS.items():
        lines += [f"[{key}]"]
        for name, field in options.model_fields.items():
            value = table[key].get(name)
            written = tomli_w.dumps({name: value}).strip() if value is not None else f"# {name} = ..."
            lines += [*_comment(field.description), written]
        lines += [""]
    return "\n".join(lines)


def _section(key: str, table: Mapping[str, Any]) -> list[str]:
    return tomli_w.dumps({key: table}).strip().splitlines()


def _comment(text: str | None, width: int = 116) -> list[str]:
    """Return a text as lines of comment."""
    lines = [""]
    for word in (text or "").split():
        if lines[-1] and len(lines[-1]) + len(word) >= width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return [f"# {line}" for line in lines if line]
