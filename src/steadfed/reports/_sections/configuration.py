"""What was run: every setting, and where several runs differ."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from steadfed.reports._sections.phrases import run_names
from steadfed.reports.panels import Column, Section, Table, Text
from steadfed.server._history import RunHistory

_MISSING = "–"
_SEALS = ("config_sha256",)
"""Checksums that say nothing to a reader who has the settings."""
_CHECKSUM, _SHOWN = re.compile("[0-9a-f]{40,}"), 12
_ABREAST, _SHOWN_RUNS = 5, 8
"""Runs that stand side by side; more stand one below the other, of whom so many are shown at first."""


def configuration(histories: Sequence[RunHistory]) -> Section:
    """Return the settings of a run; of several, where they differ, and what they have in common."""
    settings = [dict(_flat(history.raw)) for history in histories]
    names = [name for name in dict.fromkeys(key for each in settings for key in each) if not name.endswith(_SEALS)]
    if not names:
        why = "The configuration cannot be read."
        panels: list[Table | Text] = [Text(key="configuration", title="Settings", paragraphs=(why,))]
    elif len(histories) == 1:
        rows = tuple((name, settings[0].get(name, _MISSING)) for name in names)
        columns = (Column(title="setting"), Column(title=histories[0].name))
        panels = [Table(key="configuration", title="Settings and versions", columns=columns, rows=rows)]
    else:
        panels = _side_by_side(run_names(histories), settings, names)
    return Section(key="configuration", title="What was run", panels=tuple(panels))


def _side_by_side(runs: Sequence[str], settings: list[dict[str, str]], names: list[str]) -> list[Table | Text]:
    """Return a table of what differs between runs, a line for each or a column if they are few; and one of the rest."""
    values = {name: [each.get(name, _MISSING) for each in settings] for name in names}
    differing = {name: each for name, each in values.items() if len({*each}) > 1}
    same = tuple((name, each[0]) for name, each in values.items() if name not in differing)
    title = "Settings in which the runs differ"
    if not differing:
        found: list[Table | Text] = [Text(key="configuration", title=title, paragraphs=("The runs do not differ.",))]
    elif len(runs) <= _ABREAST:
        columns = (Column(title="setting"), *(Column(title=run) for run in runs))
        by_name = tuple((name, *each) for name, each in differing.items())
        found = [Table(key="configuration", title=title, columns=columns, rows=by_name)]
    else:
        columns = (Column(title="run"), *(Column(title=name, minor=True) for name in differing))
        by_run = tuple((run, *each) for run, *each in zip(runs, *differing.values(), strict=True))
        found = [Table(key="configuration", title=title, columns=columns, rows=by_run, shown=_SHOWN_RUNS)]
    if same:
        columns = (Column(title="setting"), Column(title="all runs"))
        title = "Settings and versions that all runs share"
        found.append(Table(key="configuration-shared", title=title, columns=columns, rows=same))
    return found


def _flat(table: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    """Yield dotted keys, as --set takes them, and values."""
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{key}.")
        else:
            yield f"{before}{key}", _briefly(str(value))


def _briefly(text: str) -> str:
    """Return a value; of a checksum its beginning, which is enough to compare: config.toml has it whole."""
    return f"{text[:_SHOWN]}…" if _CHECKSUM.fullmatch(text) else text
