"""How well the rule told clients apart: precision and recall, false alarms, and the spread that it acts on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from holdfast.reports.panels import Lines, Panel, Section, Series, Style, Text, Unit
from holdfast.reports.sections.learning import attack_marks, curve
from holdfast.reports.sections.phrases import key_of, run_names, setting_words, title_of
from holdfast.reports.thinning import REPORT, Limits
from holdfast.server.history import RunHistory

Numbers = NDArray[np.float64]
_WIDEST = 50
"""How many rounds are looked at together, at most."""


def filtering(histories: Sequence[RunHistory], limits: Limits = REPORT) -> Section:
    """Return the curves of all runs, as far as they know who was Byzantine and what the rule measured."""
    panels: list[Panel] = [*_precision(histories, limits), *_false_alarms(histories, limits)]
    for place, (history, run) in enumerate(zip(histories, run_names(histories), strict=True)):
        panels += _spread(history, run, place, len(histories), limits)
    if not panels:
        panels = [Text(key="no-filter", title="Nothing to draw", paragraphs=("No rows have been judged yet.",))]
    return Section(
        key="filtering",
        title="How well were clients told apart?",
        intro="What the rule removed, and what it measured before it did.",
        panels=tuple(panels),
    )


def window_of(rounds: int) -> int:
    """Return how many rounds a moving window holds: a tenth of them, at least 1 and at most 50.

    >>> window_of(8), window_of(200), window_of(10_000)
    (1, 20, 50)
    """
    return max(1, min(_WIDEST, rounds // 10))


def moving_share(part: Numbers, whole: Numbers, window: int) -> Numbers:
    """Return what share one count is of another in each round and those before it in its window; NaN where of none.

    >>> moving_share(np.array([1.0, 0.0, 2.0]), np.array([2.0, 0.0, 2.0]), window=2)
    array([0.5, 0.5, 1. ])
    """
    sums = [np.cumsum(each) for each in (part, whole)]
    few, all_ = (each - np.concatenate([np.zeros(min(window, len(each))), each[:-window]]) for each in sums)
    share = np.full(len(part), np.nan)
    np.divide(few, all_, out=share, where=all_ > 0)
    return share


def _precision(histories: Sequence[RunHistory], limits: Limits) -> Iterator[Panel]:
    """Yield precision and recall of the runs that know who was Byzantine, and had somebody who was."""
    series: list[Series | None] = []
    width = window_of(max((history.rounds_played for history in histories), default=0))
    for place, (history, run) in enumerate(zip(histories, run_names(histories), strict=True)):
        if not history.tally.byzantine:
            continue
        caught = history["byzantine_removed"]
        rounds = np.arange(history.rounds_played, dtype=np.float64)
        before = "" if len(histories) == 1 else f"{run}: "
        precision = moving_share(caught, history["removed"], width)
        recall = moving_share(caught, history["byzantine"], width)
        series.append(curve(f"{before}precision", rounds, precision, limits, colour=place))
        series.append(curve(f"{before}recall", rounds, recall, limits, colour=place, style=Style.DASHED))
    found = tuple(each for each in series if each is not None)
    if found:
        yield Lines(
            key="precision-recall",
            title="Precision and recall of the removals",
            caption="Precision: which share of the removed updates was Byzantine; undefined where nothing was removed. "
            f"Recall: which share of the Byzantine updates was removed. {_moving(width)}",
            series=found,
            x_title="round",
            y_title="share",
            unit=Unit.PERCENT,
            marks=attack_marks(histories),
        )


def _false_alarms(histories: Sequence[RunHistory], limits: Limits) -> Iterator[Panel]:
    """Yield which share of the honest rows was removed; of all rows, where nobody knows who is honest."""
    series: list[Series | None] = []
    width = window_of(max((history.rounds_played for history in histories), default=0))
    for place, (history, run) in enumerate(zip(histories, run_names(histories), strict=True)):
        removed, judged = ("removed", "judged") if history.deployed else ("honest_removed", "honest")
        share = moving_share(history[removed], history[judged], width)
        whose = "all updates" if history.deployed else "honest updates"
        name = whose if len(histories) == 1 else f"{run}: {whose}"
        series.append(curve(name, np.arange(history.rounds_played, dtype=np.float64), share, limits, colour=place))
    found = tuple(each for each in series if each is not None)
    if found:
        blind = any(history.deployed for history in histories)
        yield Lines(
            key="false-alarms",
            title="Removed updates" if blind else "Honest updates that were removed",
            caption=(
                "Which share of the updates got no weight; who is honest is not known in a deployment. "
                if blind
                else "The price of distrust: which share of the honest updates got no weight. "
            )
            + _moving(width),
            series=found,
            x_title="round",
            y_title="share removed",
            unit=Unit.PERCENT,
            marks=attack_marks(histories),
        )


def _moving(width: int) -> str:
    return "" if width == 1 else f"Each point is about the last {width} rounds."


def _spread(history: RunHistory, run: str, place: int, runs: int, limits: Limits) -> Iterator[Panel]:
    """Yield λ_max before and after filtering against the threshold; or say that the rule does not measure it."""
    if not history.rounds_played:
        return
    rounds = np.arange(history.rounds_played, dtype=np.float64)
    drawn = (
        ("before filtering", "spread_before", 4, Style.LINE),
        ("after filtering", "spread", 0, Style.LINE),
        ("threshold", "threshold", 7, Style.DASHED),
    )
    curves = (
        curve(name, rounds, _positive(history[column]), limits, colour=colour, style=style)
        for name, column, colour, style in drawn
    )
    series = tuple(each for each in curves if each is not None)
    key, title = key_of("spread", place, runs), title_of("Spread of the updates, before and after", run, runs)
    if not np.isfinite(history["spread"]).any():
        rule = setting_words(history, "rule")
        why = f"The rule {rule} does not measure how far updates spread, so there is nothing to compare."
        if runs == 1:
            yield Text(key=key, title=title, paragraphs=(why,))
        return
    old = not np.isfinite(history["spread_before"]).any()
    yield Lines(
        key=key,
        title=title,
        caption="λ_max, the largest variance of the updates in any direction. The rule takes weight from clients until "
        "it is below the threshold. Logarithmic scale."
        + (" The records do not have the spread before filtering." if old else ""),
        series=series,
        x_title="round",
        y_title="λ_max",
        log_y=True,
        marks=attack_marks([history]),
    )


def _positive(values: Numbers) -> Numbers:
    """Return the values that a logarithmic scale can show."""
    return np.where(values > 0.0, values, np.nan)
