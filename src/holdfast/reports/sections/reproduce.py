"""How to get the same again."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from holdfast.reports.glances import State
from holdfast.reports.panels import Code, Panel, Section, Text
from holdfast.reports.sections.phrases import key_of, run_names, title_of
from holdfast.reports.stories import Story

_MOST = 3
"""Whole configurations that are shown."""


def reproduce(stories: Sequence[Story]) -> Section:
    """Return the commands and the configurations."""
    simulated = [story for story in stories if not story.deployed and story.config_text]
    panels: list[Panel] = []
    if simulated:
        lines = [line for story in simulated for line in _commands(story)]
        panels.append(
            Code(
                key="commands",
                title="Commands",
                caption="The same configuration on the same data gives the same numbers, bit for bit on the same "
                "versions of holdfast and torch; only the times differ.",
                text="\n".join(lines),
            )
        )
    if len(simulated) < len(stories):
        why = (
            "A deployment cannot be played again: its data are with its clients. Starting its server app again with "
            "the same run folder continues it; its records say what happened."
        )
        panels.append(Text(key="deployments", title="Deployments", paragraphs=(why,)))
    for place, (story, run) in enumerate(zip(stories, run_names(stories), strict=True)):
        if story.config_text and len(stories) <= _MOST:
            panels.append(
                Code(
                    key=key_of("config", place, len(stories)),
                    title=title_of("config.toml", run, len(stories)),
                    text=story.config_text,
                    language="toml",
                )
            )
    return Section(key="reproduce", title="Reproduce it", panels=tuple(panels))


def _commands(story: Story) -> list[str]:
    path = shlex.quote(str(story.path))
    lines = [f"holdfast run {shlex.quote(str(story.path / 'config.toml'))}"]
    if story.state in {State.INTERRUPTED, State.EMPTY}:
        lines.append(f"holdfast resume {path}")
    return [*lines, f"holdfast show {path}", f"holdfast certify {path}"]
