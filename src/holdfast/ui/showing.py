"""Which of a report's sections the live page has: those that are cheap enough to be made every second."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.reports.panels import Report
from holdfast.reports.reporting import live_sections
from holdfast.reports.sections.configuration import configuration
from holdfast.reports.sections.phrases import run_names, setting_words
from holdfast.reports.sections.verdict import headlines
from holdfast.reports.stories import Story
from holdfast.reports.thinning import LIVE


def live_report(stories: Sequence[Story]) -> Report:
    """Return what a page of runs shows while they are played."""
    several = len(stories) > 1
    return Report(
        title=f"{len(stories)} runs side by side" if several else stories[0].name,
        subtitle=", ".join(run_names(stories)) if several else _words(stories[0]),
        sections=(*live_sections(stories, LIVE), configuration(stories)),
        headlines=headlines(stories),
    )


def _words(story: Story) -> str:
    """Return the data, the rule and the attack of a run; a deployment does not know the attack."""
    parts = ("data", "rule") if story.deployed else ("data", "rule", "attack")
    return " · ".join(f"{part}: {setting_words(story, part)}" for part in parts if part in story.raw)
