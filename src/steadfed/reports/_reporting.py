"""A report of runs: the answer first, then everything that backs it."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

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
from steadfed.reports._sections.phrases import most_telling_first, run_names, setting_words
from steadfed.reports._sections.reproduce import reproduce
from steadfed.reports._sections.served import served
from steadfed.reports._sections.timing import timing
from steadfed.reports._sections.verdict import headlines, run_by_run, verdict
from steadfed.reports._thinning import REPORT, PanelLimits
from steadfed.reports.panels import Panel, Report, Section
from steadfed.server._history import RunHistory

_ASIDE = frozenset(
    (
        *("communication", "metric", "scores", "suspicion", "spread", "displacement", "seconds", "partition"),
        *("configuration-shared", "commands", "config"),
    )
)
"""Keys of panels, without their numbers, that a page of several runs folds away."""
_NAMED = 8
"""Runs that stand below the title."""


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
    title = _title(histories)
    histories = most_telling_first(histories)
    sections = [*live_sections(histories, limits, notify=notify)]
    if guarantee:
        sections.append(what_is_guaranteed(histories, limits, code=code, notify=notify))
    notify("who holds which points")
    sections.append(partition(histories, limits, code=code))
    notify("what was run, and how to do it again")
    sections += [configuration(histories), reproduce(histories)]
    return Report(
        title=title,
        subtitle=_subtitle(histories),
        sections=tuple(sections) if len(histories) == 1 else fold_away(sections),
        headlines=headlines(histories),
        made_with={"steadfed": __version__, "python": platform.python_version()},
    )


def live_sections(
    histories: Sequence[RunHistory], limits: PanelLimits = REPORT, *, notify: Callable[[str], None] = lambda _: None
) -> tuple[Section, ...]:
    """Return the sections that change while a run is going on, and are cheap enough to be made again and again."""
    makers: dict[str, Callable[[], Section | None]] = {
        "in short": lambda: verdict(histories),
        "what was learned": lambda: learning(histories, limits),
        "what accuracy does not say": lambda: beside_accuracy(histories, limits),
        "for whom it is good": lambda: served(histories, limits),
        "in words": lambda: run_by_run(histories),
        "who was removed": lambda: clients(histories, limits, notify=notify),
        "how well clients were told apart": lambda: filtering(histories, limits),
        "what was proved of each update": lambda: certificate(histories, limits),
        "where the time went": lambda: timing(histories, limits),
    }
    if len(histories) == 1:
        del makers["in words"]
    found = []
    for what, make in makers.items():
        notify(f"{plural(len(histories), 'run')}: {what}")
        found.append(make())
    return tuple(section for section in found if section is not None)


def fold_away(sections: Sequence[Section]) -> tuple[Section, ...]:
    """Return the sections of several runs with what most readers need not see first folded away, after the rest."""
    return tuple(replace(section, panels=tuple(_folded(section.panels))) for section in sections)


def _folded(panels: Sequence[Panel]) -> Iterator[Panel]:
    """Yield the open panels, then those that are folded."""
    aside = [panel for panel in panels if not panel.fold and panel.key.rstrip("-0123456789") in _ASIDE]
    open_ = [panel for panel in panels if not panel.fold and panel not in aside]
    yield from open_
    name = ("Also: " if open_ else "") + "; ".join(dict.fromkeys(panel.title for panel in aside))
    yield from (replace(panel, fold=name) for panel in aside)
    yield from (panel for panel in panels if panel.fold)


def _title(histories: Sequence[RunHistory]) -> str:
    """Return the name of the run, or of the folder that holds all the runs."""
    names, parents = run_names(histories), {history.path.resolve().parent for history in histories}
    if len(names) == 1:
        return names[0]
    return parents.pop().name if len(parents) == 1 else f"{names[0]} and {plural(len(names) - 1, 'other run')}"


def _subtitle(histories: Sequence[RunHistory]) -> str:
    if len(histories) > 1:
        names = run_names(histories)
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        return ", ".join(names[:_NAMED]) + more
    history = histories[0]
    if not history.raw:
        return "its configuration cannot be read"
    attack = "" if history.deployed else f", attack: {setting_words(history, 'attack')}"
    return f"{setting_words(history, 'data')}, rule: {setting_words(history, 'rule')}{attack}"
