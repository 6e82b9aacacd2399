"""Which of a report's sections the live page has: those that are cheap enough to be made every second."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.reports.panels import Report
from holdfast.reports.sections.clients import clients
from holdfast.reports.sections.learning import learning
from holdfast.reports.stories import Story
from holdfast.reports.thinning import LIVE


def live_report(stories: Sequence[Story]) -> Report:
    """Return what a page of runs shows while they are played."""
    title = stories[0].name if len(stories) == 1 else f"{len(stories)} runs side by side"
    return Report(title=title, subtitle="", sections=(learning(stories, LIVE), clients(stories, LIVE)))
