"""The code that a configuration names: what a run executes, and how it is told from other code at the same place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from steadfed._core.importing import import_object
from steadfed._core.own_code import imports_of
from steadfed._core.source import source_digest
from steadfed.data import TorchDataset
from steadfed.models import ImportedModel
from steadfed.simulation import RunConfig, config_from_table, config_table

_METRICS = ("metrics", "evaluation.client_metric")
"""Where import paths of metrics stand."""
_PREFIX = "code of "
"""Before an import path, under which the table that says what a run was made with holds the hash of its source."""


def code_named(config: RunConfig) -> Iterator[tuple[str, str]]:
    """Yield where a configuration names code, and the import path of it; nothing is executed."""
    if isinstance(config.data, TorchDataset):
        yield "data.factory", config.data.factory
    if isinstance(config.model, ImportedModel):
        yield "model.factory", config.model.factory
        if ":" in config.model.criterion:
            yield "model.criterion", config.model.criterion
    yield from (("metrics", name) for name in config.metrics if ":" in name)
    if ":" in (config.evaluation.client_metric or ""):
        yield "evaluation.client_metric", str(config.evaluation.client_metric)
    yield from ((f"{where}.import", path) for where, path in imports_of(config))


def code_digests(config: RunConfig) -> dict[str, str]:
    """Return the SHA-256 of the source of every rule, attack and metric of the user's own, under "code of PATH".

    It is imported for that. Code without a source, as that written in C, has none; data have a checksum of their own,
    and what a model is can be seen in its checkpoint.
    """
    written = config_from_table(config_table(config))  # where objects of the user's own classes are named by import
    named = {path: f"the {where.rpartition('.')[2]}" for where, path in imports_of(written)}
    named |= {path: "the metric" for where, path in code_named(config) if where in _METRICS}
    found = {path: source_digest(import_object(path, what), path) for path, what in named.items()}
    return {f"{_PREFIX}{path}": digest for path, digest in found.items() if digest is not None}


def code_changed(then: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return the import paths at which there is other code now, given what a run was and is made with.

    >>> code_changed({"code of my_rules:mine": "ab", "torch": "2"}, {"code of my_rules:mine": "cd"})
    ['my_rules:mine']
    """
    keys = [key for key in then if key.startswith(_PREFIX)]
    return [key.removeprefix(_PREFIX) for key in keys if now.get(key) != then[key]]
