"""How to get the same again."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from holdfast.reports.panels import Code, Panel, Section, Text
from holdfast.reports.sections.phrases import key_of, run_names, title_of
from holdfast.server.history import RunHistory
from holdfast.server.history.files import RunState

_MOST = 3
"""Whole configurations that are shown."""


def reproduce(histories: Sequence[RunHistory]) -> Section:
    """Return the commands and the configurations."""
    simulated = [history for history in histories if not history.deployed and history.config_text]
    panels: list[Panel] = []
    if simulated:
        lines = [line for history in simulated for line in _commands(history)]
        panels.append(
            Code(
                key="commands",
                title="Commands",
                caption="The same configuration on the same data gives the same numbers, bit for bit on the same "
                "versions of holdfast and torch; only the times differ.",
                text="\n".join(lines),
            )
        )
    if len(simulated) < len(histories):
        why = (
            "A deployment cannot be played again: its data are with its clients. Starting its server app again with "
            "the same run folder continues it; its records say what happened."
        )
        panels.append(Text(key="deployments", title="Deployments", paragraphs=(why,)))
    for place, (history, run) in enumerate(zip(histories, run_names(histories), strict=True)):
        if history.config_text and len(histories) <= _MOST:
            panels.append(
                Code(
                    key=key_of("config", place, len(histories)),
                    title=title_of("config.toml", run, len(histories)),
                    text=history.config_text,
                    language="toml",
                )
            )
    return Section(key="reproduce", title="Reproduce it", panels=tuple(panels))


def _commands(history: RunHistory) -> list[str]:
    path = shlex.quote(str(history.path))
    lines = [f"holdfast run {shlex.quote(str(history.path / 'config.toml'))}"]
    if history.state in {RunState.INTERRUPTED, RunState.EMPTY}:
        lines.append(f"holdfast resume {path}")
    return [*lines, f"holdfast show {path}", f"holdfast certify {path}"]
