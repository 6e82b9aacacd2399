"""What the theorems say of a run: their conditions, with verdicts, and their bounds against what was measured."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from steadfed.errors import SteadfedError
from steadfed.reports._sections.phrases import per_run, setting_words
from steadfed.reports._sections.theory import bound_panel, theorem_panel, verdict_table
from steadfed.reports._settings import config_of
from steadfed.reports._thinning import REPORT, PanelLimits
from steadfed.reports.panels import Panel, Section, Text, Tone
from steadfed.server._history import RunHistory

CLIENTS, POINTS, CURVATURES = 10, 8, 3
"""What is looked at to measure constants: a sample, so that a report takes seconds. `steadfed certify` takes all."""
_MOST = 3
"""Runs that are certified in one report."""


def guarantee(
    histories: Sequence[RunHistory],
    limits: PanelLimits = REPORT,
    *,
    code: bool = True,
    notify: Callable[[str], None] = lambda _: None,
) -> Section:
    """Return for every run that a theorem may speak of its verdicts and bounds; for others, why not.

    Without `code` they are judged by their records alone. `notify` is told which run is looked at.
    """
    certifiable = [history for history in histories if _refusal(history) is None]

    def panels_of(history: RunHistory) -> Iterable[Panel]:
        why_not = _refusal(history)
        if why_not is None and history in certifiable[:_MOST]:
            notify(f"what is guaranteed of {history.name}")
            return _certify(history, limits, code=code)
        other = f"Only the first {_MOST} runs are certified here; “steadfed certify {history.path}” does this one."
        return [Text(key="guarantee", title="Guarantee", paragraphs=(why_not or other,))]

    return Section(
        key="guarantee",
        title="What is guaranteed?",
        intro="Which assumptions of the theorems held in this run, and what they guarantee then. σ² and κ² are "
        f"measured on samples ({CLIENTS} clients, {POINTS} points of each) to be quick; “steadfed certify” takes all.",
        panels=tuple(per_run(histories, panels_of)),
    )


def _refusal(history: RunHistory) -> str | None:
    """Return why no theorem may speak of a run; None if one may."""
    from steadfed.aggregators import Rage

    config = config_of(history)
    if config is None:
        return "The configuration cannot be read."
    if not isinstance(config.rule, Rage):
        return f"The theorems are about RAGE; nothing is proved about {setting_words(history, 'rule')} here."
    return None if history.rounds_played else "No round has been run yet."


def _certify(history: RunHistory, limits: PanelLimits, *, code: bool) -> Iterator[Panel]:
    from steadfed.certification import certify, certify_records

    try:
        found = (
            certify(history.path, clients=CLIENTS, points=POINTS, curvatures=CURVATURES)
            if code
            else certify_records(history.path)
        )
    except Exception as error:  # noqa: BLE001  data and models may come from code of the user's own
        why = str(error) if isinstance(error, SteadfedError) else f"{type(error).__name__}: {error}"
        yield Text(key="guarantee", title="Guarantee", paragraphs=(f"It cannot be judged: {why}",))
        return
    if found.models is not None:
        yield bound_panel(found, limits)
    if found.applicable:
        yield theorem_panel(found)
    if found.contradicted:
        why = "Something that is proved was measured not to be so, although all conditions held."
        yield Text(key="contradiction", title="A bound was exceeded", paragraphs=(why,), tone=Tone.WARNING)
    notes = " ".join(f"{note[:1].upper()}{note[1:]}." for note in found.notes)
    title = "Assumptions, filter and theorems, judged"
    yield replace(verdict_table(found.verdicts), key="conditions", title=title, caption=notes)
    if found.plan is not None and found.plan.reading:
        yield Text(key="in-practice", title="What that means in practice", paragraphs=found.plan.reading)
