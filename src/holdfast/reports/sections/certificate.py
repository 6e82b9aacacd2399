"""What was proved of each update, against how far it really was from the mean of the honest ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from holdfast.reports.panels import Lines, Panel, Section, Series, Style, Text
from holdfast.reports.sections.learning import attack_marks, curve
from holdfast.reports.sections.phrases import key_of, run_names, setting_words, title_of
from holdfast.reports.thinning import REPORT, Limits
from holdfast.server.history import RunHistory
from holdfast.wording import plural

Numbers = NDArray[np.float64]
_ROUNDING = 1e-5
"""Errors below this part of the updates' size are rounding, of rounds without Byzantine rows."""


def certificate(histories: Sequence[RunHistory], limits: Limits = REPORT) -> Section:
    """Return for every run with certificates what they prove; and the true errors of all runs in one plot."""
    panels: list[Panel] = []
    for place, (history, run) in enumerate(zip(histories, run_names(histories), strict=True)):
        panels += _bounds(history, run, place, len(histories), limits)
    if len(histories) > 1:
        panels += _errors(histories, limits)
    if not panels:
        rules = ", ".join(dict.fromkeys(setting_words(history, "rule") for history in histories))
        why = f"There are no certificates: the rule is {rules}, and only RAGE proves something of its updates."
        played = any(history.rounds_played for history in histories)
        said = why if played else "No round has been played yet."
        panels = [Text(key="no-certificate", title="Nothing is certified", paragraphs=(said,))]
    return Section(
        key="certificate",
        title="How wrong were the updates, and what was proved?",
        intro="The distance between the update that the server applied and the mean of the honest clients' updates.",
        panels=tuple(panels),
    )


def broken_rounds(history: RunHistory) -> NDArray[np.int64]:
    """Return the rounds with more Byzantine rows than the rule assumed, as far as the records know."""
    return np.flatnonzero(history["byzantine"] > history["num_byzantine"])  # not where one of them is unknown


def real_errors(history: RunHistory) -> Numbers:
    """Return every round's distance between its update and the honest mean, NaN if it is unknown or mere rounding."""
    error, size = history["error"], history["update_norm"]
    scatter = np.sqrt(np.nan_to_num(history["honest_scatter"]))
    return np.where(error > _ROUNDING * np.fmax(np.nan_to_num(size), scatter), error, np.nan)


def _bounds(history: RunHistory, run: str, place: int, runs: int, limits: Limits) -> Iterator[Panel]:
    rounds = np.arange(history.rounds_played, dtype=np.float64)
    proved, error = _positive(history["certificate.error_bound"]), real_errors(history)
    at_truth = _positive(history["honest_error_bound"])
    if not np.isfinite(proved).any() and (runs > 1 or not np.isfinite(error).any()):
        return
    measured = np.flatnonzero(np.isfinite(at_truth))
    broken = broken_rounds(history)
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
        caption=_caption(history, certified=bool(certified)),
        series=tuple(each for each in drawn if each is not None),
        x_title="round",
        y_title="distance to the honest mean",
        log_y=True,
        marks=attack_marks([history]),
    )


def _caption(history: RunHistory, *, certified: bool) -> str:
    if not certified:
        return "Only a simulation knows this. The rule proves nothing of its updates. Logarithmic scale."
    if history.deployed:
        return (
            "The bound is proved if the honest updates spread no more than the rule found; the true error is not known "
            "in a deployment. Logarithmic scale."
        )
    proved = _exceeded(history, "honest_error_bound", broken_rounds(history))
    return (
        "With the true spread of the honest updates (known in some rounds of a simulation) the bound is proved"
        f"{proved}; with the spread that the rule found by itself it may fail"
        f"{_exceeded(history, 'certificate.error_bound')}. {_unbounded(history)}Mere rounding is not drawn. "
        "Logarithmic scale."
    )


def _exceeded(history: RunHistory, name: str, besides: NDArray[np.int64] | None = None) -> str:
    """Say how often the error was above a bound by more than rounding, besides rounds that the bound is not about."""
    bound = history[name]
    known = np.isfinite(bound) & np.isfinite(history["error"])
    if besides is not None:
        known[besides] = False
    if not known.any():
        return ""
    above = int((real_errors(history)[known] > bound[known]).sum())
    return f" (the error was above it in {above} of {plural(int(known.sum()), 'round')})"


def _unbounded(history: RunHistory) -> str:
    """Say in how many rounds there is no bound, and why."""
    missing = np.isnan(history["certificate.error_bound"])
    void = (history["skipped"] > 0) | (history["promise_broken"] > 0)
    contradicted, without = int((missing & ~void).sum()), int((missing & void).sum())
    said = ""
    if contradicted:
        said += f"In {plural(contradicted, 'round')} that spread contradicts the updates, so nothing follows from it. "
    if without:
        said += f"There is no bound in {plural(without, 'round')} that changed nothing or broke the promise. "
    return said


def _errors(histories: Sequence[RunHistory], limits: Limits) -> Iterator[Panel]:
    """Yield the true errors of all runs."""
    curves = (
        curve(run, np.arange(history.rounds_played, dtype=np.float64), real_errors(history), limits, colour=place)
        for place, (history, run) in enumerate(zip(histories, run_names(histories), strict=True))
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
            marks=attack_marks(histories),
        )


def _positive(values: Numbers) -> Numbers:
    return np.where(values > 0.0, values, np.nan)
