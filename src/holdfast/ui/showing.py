"""Which of a report's sections the live page has, and which the report that it gives away.

The page has those that are cheap enough to be made every second. The report has all that the folder of a run tells.
What needs the data or the model is left to `holdfast report`: a configuration may name code and files to download, and
neither is for a visitor to set off.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from holdfast import __version__
from holdfast.reports.panels import Code, Report, Section
from holdfast.reports.reporting import live_sections
from holdfast.reports.sections.configuration import configuration
from holdfast.reports.sections.phrases import run_names, setting_words
from holdfast.reports.sections.reproduce import reproduce
from holdfast.reports.sections.verdict import headlines
from holdfast.reports.stories import Story
from holdfast.reports.thinning import LIVE


def live_report(stories: Sequence[Story]) -> Report:
    """Return what a page of runs shows while they are played."""
    return _report(stories, (*live_sections(stories, LIVE), configuration(stories)))


def whole_report(stories: Sequence[Story]) -> Report:
    """Return what a visitor can take away."""
    return _report(stories, (*live_sections(stories), configuration(stories), reproduce(stories), _more(stories)))


def _report(stories: Sequence[Story], sections: tuple[Section, ...]) -> Report:
    several = len(stories) > 1
    return Report(
        title=f"{len(stories)} runs side by side" if several else stories[0].name,
        subtitle=", ".join(run_names(stories)) if several else _words(stories[0]),
        sections=sections,
        headlines=headlines(stories),
        made_with={"holdfast": __version__},
    )


def _more(stories: Sequence[Story]) -> Section:
    """Say how to get what needs the data."""
    command = shlex.join(["holdfast", "report", *(str(story.path) for story in stories)])
    panel = Code(
        key="more",
        title="The guarantee, and who had which data",
        caption="Both need the data of the run, which the live page does not load.",
        text=command,
    )
    return Section(key="more", title="More", panels=(panel,))


def _words(story: Story) -> str:
    """Return the data, the rule and the attack of a run; a deployment does not know the attack."""
    parts = ("data", "rule") if story.deployed else ("data", "rule", "attack")
    return " · ".join(f"{part}: {setting_words(story, part)}" for part in parts if part in story.raw)
