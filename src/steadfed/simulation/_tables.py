"""Configurations as tables of plain values, and back: what a TOML file holds."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from steadfed._core.naming import Registry
from steadfed._core.values import ValueObject
from steadfed.aggregators import RULES
from steadfed.attacks import ATTACKS, MEMBERSHIPS
from steadfed.data import DATASETS
from steadfed.errors import ParameterError
from steadfed.models import MODELS
from steadfed.partitions import PARTITIONS
from steadfed.simulation._cohorts import COHORTS
from steadfed.simulation._compression import COMPRESSIONS, NoCompression
from steadfed.simulation._config import ClientOptions, Evaluation, RunConfig, ServerOptions
from steadfed.simulation._schedules import SCHEDULES
from steadfed.simulation._step_schedules import StepSchedule, plain_local_steps

NAMED: Mapping[str, Registry[Any]] = MappingProxyType(
    {
        "data": DATASETS,
        "partition": PARTITIONS,
        "model": MODELS,
        "rule": RULES,
        "byzantine": MEMBERSHIPS,
        "attack": ATTACKS,
        "cohorts": COHORTS,
        "schedule": SCHEDULES,
        "compression": COMPRESSIONS,
    }
)
"""The tables of a configuration that have a name and parameters."""
LATER: Mapping[str, Any] = MappingProxyType(
    {"compression": NoCompression(), "task": None, "metrics": (), "site_weights": None, "max_share": None}
)
"""Keys that are written only if they differ from this, which is what older versions, which do not know them, did."""
OPTIONS: Mapping[str, type[ValueObject]] = MappingProxyType(
    {"client": ClientOptions, "server": ServerOptions, "evaluation": Evaluation}
)
"""The tables of a configuration that have parameters only."""


def config_table(config: RunConfig) -> dict[str, Any]:
    """Return the whole configuration as plain values, defaults included, so that it means the same in years.

    Left out is what older versions had no word for and did anyway, so that a configuration of theirs is still the same.

    >>> config_table(RunConfig())["cohorts"]
    {'name': 'uniform'}
    """
    table: dict[str, Any] = {}
    for key, value in config:
        if key in LATER and value == LATER[key]:
            continue
        if key in NAMED:
            table[key] = _plain(NAMED[key].to_table(value, complete=True))
        elif isinstance(value, StepSchedule):
            table[key] = plain_local_steps(value)
        elif isinstance(value, ValueObject):
            table[key] = {name: each for name, each in value if each is not None}
        else:
            table[key] = _plain(value)
    return {key: table[key] for key in sorted(table, key=lambda key: isinstance(table[key], dict))}


def config_from_table(table: Mapping[str, Any]) -> RunConfig:
    """Return the configuration that a table describes; what it leaves out is at its default.

    Raises:
        ParameterError: a value that is not allowed.
        UnknownNameError: a rule, attack, data set, … that does not exist; the nearest one is named.
    """
    values: dict[str, Any] = {}
    for key, value in table.items():
        if key not in NAMED and key not in OPTIONS:
            values[key] = tuple(value) if isinstance(value, list) else value
        elif not isinstance(value, Mapping):
            example = f'{key} = {{ name = "{value}" }}' if key in NAMED else f"a table [{key}]"
            raise ParameterError(f"{key} must be a table, such as {example}; got {value!r}")
        else:
            values[key] = NAMED[key].from_table(value) if key in NAMED else OPTIONS[key](**value)
    return RunConfig(**values)


def _plain(value: Any) -> Any:
    """Return tables and lists for mappings and tuples."""
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, tuple) else value
