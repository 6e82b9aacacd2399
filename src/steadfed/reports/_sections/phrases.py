"""How sections name runs, clients and panels; numbers as panels hold them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from steadfed.errors import SteadfedError
from steadfed.reports.panels import Panel
from steadfed.server._history import RunHistory
from steadfed.server._history.files import in_words
from steadfed.server._record import Client
from steadfed.simulation._step_schedules import read_local_steps, step_schedule

_LETTERS = 40
"""How many letters of a client's name are shown beside a plot."""
_APART = 5
"""Runs besides the first that are folded away one by one."""


def client_names(clients: Sequence[Client], letters: int = _LETTERS) -> list[str]:
    """Return a name for every client, no two alike and none too long; clients without a name are numbered.

    >>> client_names([7, "hospital-a", "x" * 50])[:2]
    ['client 7', 'hospital-a']
    """
    names: list[str] = []
    taken: set[str] = set()
    for place, client in enumerate(clients):
        name = f"client {client}" if isinstance(client, int) else client or "(no name)"
        short = name if len(name) <= letters else f"{name[: letters - 1]}…"
        names.append(short if short not in taken else f"{short} #{place}")
        taken.add(names[-1])
    return names


def most_telling_first(histories: Sequence[RunHistory]) -> list[RunHistory]:
    """Return the runs in which something was removed before those in which nothing was, and those before the unread."""
    return sorted(histories, key=lambda history: (not history.raw, not history.tally.removed))


def run_names(histories: Sequence[RunHistory]) -> list[str]:
    """Return a name for every run: that of its folder, or as much of the path as tells them apart."""
    names = [history.name for history in histories]
    if len(set(names)) == len(names):
        return names
    paths = [history.path.resolve() for history in histories]
    shared = Path(os.path.commonpath([path.parent for path in paths]))
    longer = [str(path.relative_to(shared)) for path in paths]
    if len(set(longer)) == len(longer):
        return longer
    return [f"{name} ({place + 1})" for place, name in enumerate(longer)]


def per_run(histories: Sequence[RunHistory], panels_of: Callable[[RunHistory], Iterable[Panel]]) -> list[Panel]:
    """Return the panels of every run; of several, each panel is named after its run, and only the first is open."""
    if len(histories) == 1:
        return [*panels_of(histories[0])]
    others = run_names(histories)[1:]
    together = f"The same of {len(others)} other runs"
    folds = {place: f"The same of {run}" if len(others) <= _APART else together for place, run in enumerate(others, 2)}
    return [
        replace(panel, key=f"{panel.key}-{place}", title=f"{run}: {panel.title}", fold=folds.get(place, ""))
        for place, (history, run) in enumerate(zip(histories, run_names(histories), strict=True), 1)
        for panel in panels_of(history)
    ]


def setting_words(history: RunHistory, key: str) -> str:
    """Return what the configuration says under a key, in words; "unknown" if it cannot be read."""
    return in_words(history.raw[key]) if key in history.raw else "unknown"


def steps_words(history: RunHistory) -> str:
    """Return H of a run: the number, or from where to where it goes if rounds differ."""
    steps = history.raw.get("local_steps")
    try:
        return step_schedule(read_local_steps(steps)).words
    except SteadfedError:
        return in_words(steps)
    except ValueError:  # no number, list or table
        return str(steps)


def sent_words(history: RunHistory) -> str | None:
    """Return what of an update is sent; None if all of it is, or it is not known. Loads torch if some of it is."""
    table = history.raw.get("compression", {"name": "none"})
    if not isinstance(table, Mapping) or table.get("name") == "none":
        return None
    from steadfed.simulation import COMPRESSIONS

    try:
        return COMPRESSIONS.from_table(table).words
    except SteadfedError:
        return in_words(table)


def short_words(histories: Sequence[RunHistory], key: str) -> list[str]:
    """Return what the configurations of runs say under a key: the bare names, if these tell apart what differs."""
    words = [setting_words(history, key) for history in histories]
    names = [each.partition("(")[0] for each in words]
    return names if len(set(names)) == len(set(words)) else words


def floats(values: Any) -> tuple[float, ...]:
    """Return plain numbers."""
    return tuple(np.asarray(values, dtype=np.float64).tolist())


def figures(values: Any) -> tuple[float | None, ...]:
    """Return plain numbers, None for those that are not finite."""
    array = np.asarray(values, dtype=np.float64)
    return tuple(value if known else None for value, known in zip(array.tolist(), np.isfinite(array), strict=True))
