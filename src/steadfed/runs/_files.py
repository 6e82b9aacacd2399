"""Configurations in TOML: read with changes from the command line, written resolved; a commented one to start from."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from textwrap import wrap
from types import MappingProxyType
from typing import Any

import tomli_w

from steadfed._core.digests import sha256
from steadfed._core.naming import Registry, name_key
from steadfed._core.parsing import parse_toml
from steadfed._core.values import ValueObject
from steadfed.errors import ParameterError
from steadfed.server._history.files import PROVENANCE
from steadfed.simulation import RunConfig, config_from_table, config_table
from steadfed.simulation._tables import NAMED, OPTIONS

_EXAMPLES: Mapping[str, str] = MappingProxyType(
    {"task": '"classification"', "metrics": '["usual"]', "site_weights": '"sizes"', "max_share": "0.25"}
)
"""Keys that a template shows as comments, with an example, unless they are set."""
_WIDTH = 116
"""Letters of a line of comment in a template."""


def config_to_toml(config: RunConfig, provenance: Mapping[str, str] | None = None) -> str:
    """Return the whole configuration, defaults included, as TOML.

    >>> config_from_toml(config_to_toml(RunConfig(lr=0.5))) == RunConfig(lr=0.5)
    True
    """
    table = config_table(config)
    return tomli_w.dumps({**table, PROVENANCE: dict(provenance)} if provenance else table)


def seal_config(config: RunConfig, made_with: Mapping[str, str]) -> str:
    """Return the configuration of a run as TOML, with what it is made with and a checksum that tells later changes."""
    return config_to_toml(config, {"config_sha256": sha256(config_to_toml(config).encode()), **made_with})


def config_from_toml(text: str, settings: Iterable[str] = ()) -> RunConfig:
    """Return the configuration that a TOML text describes, changed by settings such as "lr=0.5" or "rule.kappa=2.8"."""
    return _config(parse_toml(text), settings)


def _config(table: dict[str, Any], settings: Iterable[str]) -> RunConfig:
    table.pop(PROVENANCE, None)
    for setting in settings:
        set_key(table, *parse_assignment(setting))
    return config_from_table(table)


def provenance(text: str) -> dict[str, str]:
    """Return what the configuration of a run says it was made with."""
    found = parse_toml(text).get(PROVENANCE, {})
    return {key: str(value) for key, value in found.items()} if isinstance(found, Mapping) else {}


def read_config(path: str | os.PathLike[str], settings: Iterable[str] = ()) -> RunConfig:
    """Return the configuration in a file, changed by settings."""
    hint = "; `steadfed init` writes one to start from"
    return _config(read_toml(Path(path), "the configuration", hint), settings)


def read_toml(path: Path, what: str, hint: str = "") -> dict[str, Any]:
    """Return the table in a file; an error says what it should be, and what helps."""
    try:
        return parse_toml(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, ParameterError) as error:
        raise ParameterError(f"cannot read {what} {str(path)!r}: {error}{hint}") from None


def parse_assignment(text: str) -> tuple[str, Any]:
    """Return (key, value) of KEY=VALUE; a value that is no TOML is a string.

    >>> parse_assignment("lr=0.5"), parse_assignment("rule=nnm+krum")
    (('lr', 0.5), ('rule', 'nnm+krum'))
    """
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise ParameterError(f"--set takes KEY=VALUE, got {text!r}")
    try:
        return key, parse_toml(f"value = {value}")["value"]
    except ParameterError:
        return key, value


_ONE_OF = {
    "rounds": "total_steps",
    "total_steps": "rounds",
    "num_byzantine": "byzantine_fraction",
    "byzantine_fraction": "num_byzantine",
}
"""Keys that say the same in two ways; setting one takes the other out of the same table."""


def set_key(table: dict[str, Any], key: str, value: Any) -> None:
    """Put a value in its place; "rule=krum" begins the table [rule] anew with this name, or import path."""
    *path, last = key.split(".")
    if not path and last in NAMED and isinstance(value, str):
        table[last] = {"name": value}
        return
    for part in path:
        table = table.setdefault(part, {})
        if not isinstance(table, dict):
            raise ParameterError(f"{key}: {part} is a value, not a table")
    table.pop(_ONE_OF.get(last, ""), None)
    table[last] = value


def template(config: RunConfig) -> str:
    """Return a configuration as TOML, with a comment before every key that says what it is and what else it may be."""
    table, fields = config_table(config), RunConfig.model_fields
    lines = [
        "# A run of steadfed: `steadfed check FILE`, then `steadfed run FILE`. What is left out is at its default.",
        "",
    ]
    for key, value in table.items():
        if not isinstance(value, dict):
            lines += [*_comment(fields[key].description), tomli_w.dumps({key: value}).strip(), ""]
    for key, example in _EXAMPLES.items():
        if key not in table:
            lines += [*_comment(fields[key].description), f"# {key} = {example}", ""]
    for key in table.keys() - NAMED.keys() - OPTIONS.keys():
        if isinstance(table[key], dict):  # a schedule of local steps that is neither a number nor a list
            lines += [*_comment(fields[key].description), tomli_w.dumps({key: table[key]}).strip(), ""]
    for key, names in NAMED.items():
        known = f"One of: {', '.join(names.offered)}."
        lines += [*_comment(f"{fields[key].description or ''} {known}"), *_section(key, names, getattr(config, key))]
    for key, options in OPTIONS.items():
        lines += [f"[{key}]", *_entries(options, table[key]), ""]
    return "\n".join(lines)


def _section(path: str, names: Registry[Any], value: ValueObject) -> list[str]:
    """Return the table of a named object with its parameters, and after it those of named objects inside."""
    table = names.to_table(value, complete=True)
    inside = {key: each for key, each in value if isinstance(table.get(key), Mapping)}
    called = name_key(table)
    plain = {key: each for key, each in table.items() if key not in inside and key != called}
    entries = _entries(type(value), plain, leave_out={*inside, "import_path"})
    lines = [f"[{path}]", _toml_line(called, table[called]), *entries, ""]
    for key, each in inside.items():
        field = type(value).model_fields.get(key)
        lines += [*_comment(field.description if field else None), *_section(f"{path}.{key}", names, each)]
    return lines


def _entries(cls: type[ValueObject], table: Mapping[str, Any], leave_out: Collection[str] = ()) -> list[str]:
    """Return every parameter with a comment before it; one that is not set is a comment as a whole."""
    lines: list[str] = []
    for name, field in cls.model_fields.items():
        if name not in leave_out:
            written = _toml_line(name, table[name]) if name in table else f"# {name} = ..."
            lines += [*_comment(field.description or name.replace("_", " ")), written]
    return [*lines, *(_toml_line(name, each) for name, each in table.items() if name not in cls.model_fields)]


def _toml_line(key: str, value: Any) -> str:
    return tomli_w.dumps({key: value}).strip()


def _comment(text: str | None) -> list[str]:
    """Return a text as lines of comment."""
    plain = " ".join((text or "").split())
    return [f"# {line}" for line in wrap(plain, _WIDTH, break_long_words=False, break_on_hyphens=False)]
