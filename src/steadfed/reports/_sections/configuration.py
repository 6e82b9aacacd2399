"""What was run: every setting, and where several runs differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from steadfed.reports._sections.phrases import run_names
from steadfed.reports.panels import Column, Section, Table, Text
from steadfed.server._history import RunHistory

_MISSING = "–"
_SEALS = ("config_sha256",)
"""Checksums that say nothing to a reader who has the settings."""


def configuration(histories: Sequence[RunHistory]) -> Section:
    """Return the settings of all runs side by side, those that differ first."""
    settings = [dict(_flat(history.raw)) for history in histories]
    names = [name for name in dict.fromkeys(key for each in settings for key in each) if not name.endswith(_SEALS)]
    if not names:
        why = "The configuration cannot be read."
        panel: Table | Text = Text(key="configuration", title="Settings", paragraphs=(why,))
    else:
        panel = _table(histories, settings, names)
    return Section(key="configuration", title="What was run", panels=(panel,))


def _table(histories: Sequence[RunHistory], settings: list[dict[str, str]], names: list[str]) -> Table:
    rows = [(name, *(each.get(name, _MISSING) for each in settings)) for name in names]
    differing = [row for row in rows if len({*row[1:]}) > 1]
    same = [row for row in rows if len({*row[1:]}) == 1]
    caption = ""
    if len(histories) > 1:
        told = {0: "The runs do not differ.", 1: "The setting in which the runs differ is marked and comes first."}
        caption = told.get(len(differing), f"The {len(differing)} settings in which the runs differ come first.")
    return Table(
        key="configuration",
        title="Settings and versions",
        caption=caption,
        columns=(Column(title="setting"), *(Column(title=name) for name in run_names(histories))),
        rows=(*differing, *same),
        flagged=tuple(range(len(differing))),
    )


def _flat(table: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    """Yield dotted keys, as --set takes them, and values."""
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{key}.")
        else:
            yield f"{before}{key}", str(value)
