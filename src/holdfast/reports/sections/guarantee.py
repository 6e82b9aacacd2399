"""What the theorems say of a run: their conditions, with verdicts, and their bounds against what was measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from holdfast.errors import HoldfastError
from holdfast.reports.panels import Panel, Section, Text, Tone
from holdfast.reports.sections.phrases import key_of, run_names, setting_words, title_of
from holdfast.reports.sections.theory import bound_panel, verdict_table
from holdfast.reports.settings import config_of
from holdfast.reports.thinning import REPORT, Limits
from holdfast.server.history import RunHistory

CLIENTS, POINTS, CURVATURES = 10, 8, 3
"""What is looked at to measure constants: a sample, so that a report takes seconds. `holdfast certify` takes all."""
_MOST = 3
"""Runs that are certified in one report."""


def guarantee(histories: Sequence[RunHistory], limits: Limits = REPORT) -> Section:
    """Return for every run that a theorem may speak of its verdicts and bounds; for others, why not."""
    panels: list[Panel] = []
    certified = 0
    for place, (history, run) in enumerate(zip(histories, run_names(histories), strict=True)):
        key, title = key_of("guarantee", place, len(histories)), title_of("Guarantee", run, len(histories))
        why_not = _refusal(history, certified)
        if why_not is not None:
            panels.append(Text(key=key, title=title, paragraphs=(why_not,)))
            continue
        certified += 1
        panels += _certified(history, run, place, len(histories), limits)
    return Section(
        key="guarantee",
        title="What is guaranteed?",
        intro="Which assumptions of the theorems held in this run, and what they promise then. σ² and κ² are measured "
        f"on samples ({CLIENTS} clients, {POINTS} points of each) to be quick; “holdfast certify” takes all.",
        panels=tuple(panels),
    )


def _refusal(history: RunHistory, certified: int) -> str | None:
    """Return why a run is not certified; None if it is."""
    from holdfast.aggregators import Rage

    config = config_of(history)
    if config is None:
        return "The configuration cannot be read."
    if not isinstance(config.rule, Rage):
        return f"The theorems are about RAGE; nothing is proved about {setting_words(history, 'rule')} here."
    if not history.rounds_played:
        return "No round has been played yet."
    if certified >= _MOST:
        return (
            f"Only the first {_MOST} runs are certified in one report; “holdfast certify {history.path}” does this one."
        )
    return None


def _certified(history: RunHistory, run: str, place: int, runs: int, limits: Limits) -> Iterator[Panel]:
    from holdfast.certification import certify

    title = title_of("Guarantee", run, runs)
    try:
        found = certify(history.path, clients=CLIENTS, points=POINTS, curvatures=CURVATURES)
    except HoldfastError as error:
        yield Text(key=key_of("guarantee", place, runs), title=title, paragraphs=(f"It cannot be judged: {error}",))
        return
    except Exception as error:  # noqa: BLE001  data and models may come from code of the user's own
        why = f"It cannot be judged: {type(error).__name__}: {error}"
        yield Text(key=key_of("guarantee", place, runs), title=title, paragraphs=(why,))
        return
    if found.models is not None:
        bound = bound_panel(found, limits)
        yield replace(bound, key=key_of(bound.key, place, runs), title=title_of(bound.title, run, runs))
    if found.contradicted:
        yield Text(
            key=key_of("contradiction", place, runs),
            title=title_of("A bound was exceeded", run, runs),
            paragraphs=("Something that is proved was measured not to be so, although all conditions held.",),
            tone=Tone.WARNING,
        )
    judged = title_of("Assumptions, filter and theorems, judged", run, runs)
    notes = " ".join(f"{note[:1].upper()}{note[1:]}." for note in found.notes)
    yield replace(verdict_table(found.verdicts, key=key_of("conditions", place, runs), title=judged), caption=notes)
    if found.plan is not None and found.plan.reading:
        yield Text(
            key=key_of("in-practice", place, runs),
            title=title_of("What that means in practice", run, runs),
            paragraphs=found.plan.reading,
        )
