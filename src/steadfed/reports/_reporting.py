"""A report of runs: the answer first, then everything that backs it."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence

from steadfed import __version__
from steadfed._core.wording import plural
from steadfed.errors import ParameterError
from steadfed.reports._sections.certificate import certificate
from steadfed.reports._sections.clients import clients
from steadfed.reports._sections.configuration import configuration
from steadfed.reports._sections.filtering import filtering
from steadfed.reports._sections.guarantee import guarantee as what_is_guaranteed
from steadfed.reports._sections.learning import learning
from steadfed.reports._sections.metrics import beside_accuracy
from steadfed.reports._sections.partition import partition
from steadfed.reports._sections.phrases import run_names, setting_words
from steadfed.reports._sections.reproduce import reproduce
from steadfed.reports._sections.served import served
from steadfed.reports._sections.timing import timing
from steadfed.reports._sections.verdict import headlines, run_by_run, verdict
from steadfed.reports._thinning import REPORT, PanelLimits
from steadfed.reports.panels import Report, Section
from steadfed.server._history import RunHistory


def report_of(
    histories: Sequence[RunHistory],
    *,
    guarantee: bool = True,
    code: bool = True,
    limits: PanelLimits = REPORT,
    notify: Callable[[str], None] = lambda _: None,
) -> Report:
    """Return everything that there is to see of one run, or of several side by side.

    Args:
        histories: what the runs tell; any of them may be empty, interrupted or damaged.
        guarantee: whether to measure the constants of the theorems, which takes some seconds a run.
        code: whether data may be loaded and models built, which executes code that a configuration names for them.
            Without, what needs them is judged by the records alone, or left out.
        limits: how much there may be to see; longer curves and larger heat maps are thinned.
        notify: is told what is being looked at, now and then.

    Raises:
        ParameterError: there is no run.
    """
    if not histories:
        raise ParameterError("a report needs at least one run, got none")
    notify(f"who was removed and what was learned in {plural(len(histories), 'run')}")
    live = live_sections(histories, limits)
    notify("what is guaranteed, who holds which points, how to do it again")
    rest = [partition(histories, limits, code=code), configuration(histories), reproduce(histories)]
    if guarantee:
        rest.insert(0, what_is_guaranteed(histories, limits, code=code))
    return Report(
        title=_title(histories),
        subtitle=_subtitle(histories),
        sections=(*live, *rest),
        headlines=headlines(histories),
        made_with={"steadfed": __version__, "python": platform.python_version()},
    )


def live_sections(histories: Sequence[RunHistory], limits: PanelLimits = REPORT) -> tuple[Section, ...]:
    """Return the sections that change while a run is going on, and are cheap enough to be made again and again."""
    found = (
        verdict(histories),
        learning(histories, limits),
        beside_accuracy(histories, limits),
        served(histories, limits),
        *((run_by_run(histories),) if len(histories) > 1 else ()),
        clients(histories, limits),
        filtering(histories, limits),
        certificate(histories, limits),
        timing(histories, limits),
    )
    return tuple(section for section in found if section is not None)


def _title(histories: Sequence[RunHistory]) -> str:
    """Return the name of the run, or of the folder that holds all the runs."""
    names, parents = run_names(histories), {history.path.resolve().parent for history in histories}
    if len(names) == 1:
        return names[0]
    return parents.pop().name if len(parents) == 1 else f"{names[0]} and {plural(len(names) - 1, 'other run')}"


def _subtitle(histories: Sequence[RunHistory]) -> str:
    if len(histories) > 1:
        return ", ".join(run_names(histories))
    history = histories[0]
    if not history.raw:
        return "its configuration cannot be read"
    attack = "" if history.deployed else f", attack: {setting_words(history, 'attack')}"
    return f"{setting_words(history, 'data')}, rule: {setting_words(history, 'rule')}{attack}"
