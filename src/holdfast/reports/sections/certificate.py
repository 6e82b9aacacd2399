"""What was proved of each update, against how far it really was from the mean of the honest ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from holdfast.reports.panels import Lines, Panel, Section, Series, Style, Text
from holdfast.reports.sections.filtering import per_round
from holdfast.reports.sections.learning import attack_marks, curve
from holdfast.reports.sections.phrases import key_of, run_names, setting_words, title_of
from holdfast.reports.stories import Story
from holdfast.reports.tallies import real_errors
from holdfast.reports.thinning import REPORT, Limits
from holdfast.reports.wording import plural

Numbers = NDArray[np.float64]


def certificate(stories: Sequence[Story], limits: Limits = REPORT) -> Section:
    """Return for every run with certificates what they prove; and the true errors of all runs in one plot."""
    panels: list[Panel] = []
    for place, (story, run) in enumerate(zip(stories, run_names(stories), strict=True)):
        panels += _bounds(story, run, place, len(stories), limits)
    if len(stories) > 1:
        panels += _errors(stories, limits)
    if not panels:
        rules = ", ".join(dict.fromkeys(setting_words(story, "rule") for story in stories))
        why = f"There are no certificates: the rule is {rules}, and only RAGE proves something of its updates."
        played = any(story.rounds_played for story in stories)
        said = why if played else "No round has been played yet."
        panels = [Text(key="no-certificate", title="Nothing is certified", paragraphs=(said,))]
    return Section(
        key="certificate",
        title="How wrong were the updates, and what was proved?",
        intro="The distance between the update that the server applied and the mean of the honest clients' updates.",
        panels=tuple(panels),
    )


def broken_rounds(story: Story) -> NDArray[np.int64]:
    """Return the rounds with more Byzantine rows than the rule assumed, as far as the records know."""
    entries = story.entries
    liars = per_round(story, entries.byzantine & entries.judged)
    assumed = story.column("num_byzantine")
    return np.flatnonzero(np.isfinite(assumed) & (liars > np.nan_to_num(assumed)))


def _bounds(story: Story, run: str, place: int, runs: int, limits: Limits) -> Iterator[Panel]:
    rounds = np.arange(story.rounds_played, dtype=np.float64)
    proved, error = _positive(story.column("certificate.error_bound")), real_errors(story)
    at_truth = _positive(story.column("honest_error_bound"))
    if not np.isfinite(proved).any() and (runs > 1 or not np.isfinite(error).any()):
        return
    measured = np.flatnonzero(np.isfinite(at_truth))
    broken = broken_rounds(story)
    drawn: tuple[Series | None, ...] = (
        curve("bound, with the spread the rule found", rounds, proved, limits, colour=0),
        curve(
            "bound, with the true spread", rounds[measured], at_truth[measured], limits, colour=4, style=Style.POINTS
        ),
        curve("true error", rounds, error, limits, colour=7),
        curve("more Byzantine rows than assumed", rounds[broken], error[broken], limits, colour=1, style=Style.POINTS),
    )
    certified = np.isfinite(proved).any()
    yield Lines(
        key=key_of("certificate", place, runs),
        title=title_of("Certificate against the true error" if certified else "Error of the updates", run, runs),
        caption=_caption(story, certified=bool(certified)),
        series=tuple(each for each in drawn if each is not None),
        x_title="round",
        y_title="distance to the honest mean",
        log_y=True,
        marks=attack_marks([story]),
    )


def _caption(story: Story, *, certified: bool) -> str:
    if not certified:
        return "Only a simulation knows this. The rule proves nothing of its updates. Logarithmic scale."
    if story.deployed:
        return (
            "The bound is proved if the honest updates spread no more than the rule found; the true error is not known "
            "in a deployment. Logarithmic scale."
        )
    proved = _exceeded(story, "honest_error_bound", broken_rounds(story))
    return (
        "With the true spread of the honest updates (known in some rounds of a simulation) the bound is proved"
        f"{proved}; with the spread that the rule found by itself it may fail"
        f"{_exceeded(story, 'certificate.error_bound')}. {_unbounded(story)}Mere rounding is not drawn. Logarithmic "
        "scale."
    )


def _exceeded(story: Story, name: str, besides: NDArray[np.int64] | None = None) -> str:
    """Say how often the error was above a bound by more than rounding, besides rounds that the bound is not about."""
    bound = story.column(name)
    known = np.isfinite(bound) & np.isfinite(story.column("error"))
    if besides is not None:
        known[besides] = False
    if not known.any():
        return ""
    above = int((real_errors(story)[known] > bound[known]).sum())
    return f" (the error was above it in {above} of {plural(int(known.sum()), 'round')})"


def _unbounded(story: Story) -> str:
    """Say in how many rounds there is no bound, and why."""
    missing = np.isnan(story.column("certificate.error_bound"))
    void = (story.column("skipped") > 0) | (story.column("promise_broken") > 0)
    contradicted, without = int((missing & ~void).sum()), int((missing & void).sum())
    said = ""
    if contradicted:
        said += f"In {plural(contradicted, 'round')} that spread contradicts the updates, so nothing follows from it. "
    if without:
        said += f"There is no bound in {plural(without, 'round')} that changed nothing or broke the promise. "
    return said


def _errors(stories: Sequence[Story], limits: Limits) -> Iterator[Panel]:
    """Yield the true errors of all runs."""
    curves = (
        curve(run, np.arange(story.rounds_played, dtype=np.float64), real_errors(story), limits, colour=place)
        for place, (story, run) in enumerate(zip(stories, run_names(stories), strict=True))
    )
    series = tuple(each for each in curves if each is not None)
    if series:
        yield Lines(
            key="errors",
            title="True error of the updates",
            caption="Only simulations know it; lower is better. Mere rounding is not drawn. Logarithmic scale.",
            series=series,
            x_title="round",
            y_title="distance to the honest mean",
            log_y=True,
            marks=attack_marks(stories),
        )


def _positive(values: Numbers) -> Numbers:
    return np.where(values > 0.0, values, np.nan)
