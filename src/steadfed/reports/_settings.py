"""The configurations of runs, built: what a history, which builds nothing, does not know."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from steadfed.errors import SteadfedError
from steadfed.server._history import RunHistory
from steadfed.server._history.files import Stamp

if TYPE_CHECKING:
    from steadfed.simulation import RunConfig


def config_of(history: RunHistory) -> RunConfig | None:
    """Return the configuration of a run; None if it cannot be read, see `problems_of`. Loads torch."""
    found = _build(history.path, history.config_stamp) if history.raw else ""
    return None if isinstance(found, str) else found


def problems_of(history: RunHistory) -> list[str]:
    """Return why something of a run cannot be read, a sentence each, its configuration among it."""
    built = _build(history.path, history.config_stamp) if history.raw else None
    return [*([built] if isinstance(built, str) else []), *history.problems]


def attack_start(history: RunHistory) -> int | None:
    """Return the first round whose cohort was attacked; None if none was, or nobody knows."""
    config = config_of(history)
    if config is None or not history.byzantine:
        return None
    entries = history.entries
    return attack_start_of(config, np.unique(entries.round[entries.byzantine]).tolist())


def attack_start_of(config: RunConfig, rounds: Iterable[int]) -> int | None:
    """Return the first of some rounds in which the attack of a configuration acts; None if it does in none of them.

    >>> from steadfed.attacks import SignFlip, Sleeper
    >>> from steadfed.simulation import RunConfig
    >>> config = RunConfig(attack=Sleeper(attack=SignFlip(), start=7))
    >>> attack_start_of(config, range(20)), attack_start_of(config, [3, 9]), attack_start_of(config, range(5))
    (7, 9, None)
    """
    from steadfed.attacks import Honest
    from steadfed.attacks._timing import acting_attack

    return next((number for number in rounds if not isinstance(acting_attack(config.attack, number), Honest)), None)


@lru_cache(maxsize=64)
def _build(path: Path, _stamp: Stamp | None) -> RunConfig | str:
    """Return what a configuration describes, or why it cannot be built; remembered, as the live page asks often.

    A file with another stamp is another file.
    """
    from steadfed.runs import config_of as build
    from steadfed.server._folder import RunFolder

    try:
        return build(RunFolder(path))
    except SteadfedError as error:
        return str(error)
    except Exception as error:  # noqa: BLE001  a configuration may name code of the user's own, which may fail
        return f"the configuration of {str(path)!r} cannot be built: {error}"
