"""How to get the same again."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from steadfed.reports._sections.phrases import per_run
from steadfed.reports.panels import Code, Panel, Section, Text
from steadfed.server._history import RunHistory
from steadfed.server._history.files import RunState

_MOST = 3
"""Whole configurations that are shown."""


def reproduce(histories: Sequence[RunHistory]) -> Section:
    """Return the commands and the configurations."""
    simulated = [history for history in histories if not history.deployed and history.config_text]
    panels: list[Panel] = []
    if simulated:
        panels.append(
            Code(
                key="commands",
                title="Commands",
                caption="The same configuration on the same data gives the same numbers, bit for bit on the same "
                "versions of steadfed and torch; only the times differ.",
                text="\n".join(line for history in simulated for line in _commands(history)),
            )
        )
    if len(simulated) < len(histories):
        why = (
            "A deployment cannot be run again: its data are with its clients. Starting its server app again with "
            "the same run folder continues it; its records say what happened."
        )
        panels.append(Text(key="deployments", title="Deployments", paragraphs=(why,)))
    if len(histories) <= _MOST:
        panels += per_run(histories, _configuration)
    return Section(key="reproduce", title="Reproduce it", panels=tuple(panels))


def _configuration(history: RunHistory) -> list[Panel]:
    text = history.config_text
    return [Code(key="config", title="config.toml", text=text, language="toml")] if text else []


def _commands(history: RunHistory) -> list[str]:
    path = shlex.quote(str(history.path))
    lines = [f"steadfed run {shlex.quote(str(history.path / 'config.toml'))}"]
    if history.state in {RunState.INTERRUPTED, RunState.EMPTY}:
        lines.append(f"steadfed resume {path}")
    return [*lines, f"steadfed show {path}", f"steadfed certify {path}"]
