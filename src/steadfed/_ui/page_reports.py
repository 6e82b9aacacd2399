"""Which of a report's sections the live page has, and which the report that it gives away.

The page has those that are cheap enough to be made every second. The report has all that the folder of a run tells.
What needs the data or the model is left to `steadfed report`: a configuration may name code and files to download, and
neither is for a visitor to set off.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from steadfed import __version__
from steadfed.reports._reporting import live_sections
from steadfed.reports._sections.configuration import configuration
from steadfed.reports._sections.phrases import run_names, setting_words
from steadfed.reports._sections.reproduce import reproduce
from steadfed.reports._sections.verdict import headlines
from steadfed.reports._thinning import LIVE
from steadfed.reports.panels import Code, Report, Section
from steadfed.server._history import RunHistory


def live_report(histories: Sequence[RunHistory]) -> Report:
    """Return what a page of runs shows while they are played."""
    return _report(histories, (*live_sections(histories, LIVE), configuration(histories)))


def whole_report(histories: Sequence[RunHistory]) -> Report:
    """Return what a visitor can take away."""
    return _report(
        histories, (*live_sections(histories), configuration(histories), reproduce(histories), _more(histories))
    )


def _report(histories: Sequence[RunHistory], sections: tuple[Section, ...]) -> Report:
    several = len(histories) > 1
    return Report(
        title=f"{len(histories)} runs side by side" if several else histories[0].name,
        subtitle=", ".join(run_names(histories)) if several else _words(histories[0]),
        sections=sections,
        headlines=headlines(histories),
        made_with={"steadfed": __version__},
    )


def _more(histories: Sequence[RunHistory]) -> Section:
    """Say how to get what needs the data."""
    command = shlex.join(["steadfed", "report", *(str(history.path) for history in histories)])
    panel = Code(
        key="more",
        title="The guarantee, and who had which data",
        caption="Both need the data of the run, which the live page does not load.",
        text=command,
    )
    return Section(key="more", title="More", panels=(panel,))


def _words(history: RunHistory) -> str:
    """Return the data, the rule and the attack of a run; a deployment does not know the attack."""
    parts = ("data", "rule") if history.deployed else ("data", "rule", "attack")
    return " · ".join(f"{part}: {setting_words(history, part)}" for part in parts if part in history.raw)
