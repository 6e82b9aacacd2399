"""How well the rule told clients apart: precision and recall, false positives, and the spread that it acts on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from steadfed.reports._sections.learning import attack_marks, curve, positive_only
from steadfed.reports._sections.phrases import per_run, setting_words
from steadfed.reports._sections.seeds import Points, group_curve, seed_groups, seeds_note
from steadfed.reports._thinning import REPORT, Numbers, PanelLimits
from steadfed.reports.panels import Lines, Panel, Section, Series, Style, Text, Unit
from steadfed.server._history import RunHistory

_WIDEST = 50
"""How many rounds are looked at together, at most."""


def filtering(histories: Sequence[RunHistory], limits: PanelLimits = REPORT) -> Section:
    """Return the curves of all runs, as far as they know who was Byzantine and what the rule measured."""
    width = window_of(max((history.rounds_played for history in histories), default=0))
    plots = (_precision(histories, limits, width), _false_positives(histories, limits, width))
    panels: list[Panel] = [plot for plot in plots if plot.series]
    alone = len(histories) == 1
    panels += per_run(histories, lambda history: _spread(history, limits, alone=alone))
    if not panels:
        unsaid = any(history.rounds.unattributed for history in histories)
        why = (
            "The rule does not say whose updates its result rests on." if unsaid else "No updates have been judged yet."
        )
        panels = [Text(key="no-filter", title="Nothing to draw", paragraphs=(why,))]
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


def _precision(histories: Sequence[RunHistory], limits: PanelLimits, width: int) -> Lines:
    """Return precision and recall of the runs that know who was Byzantine, and had somebody who was."""
    series: list[Series] = []
    for place, group in enumerate(seed_groups(histories)):
        if all(history.tally.byzantine for history in group.histories):
            before = "" if len(histories) == 1 else f"{group.name}: "
            for name, of, style in (("precision", "removed", Style.LINE), ("recall", "byzantine", Style.DASHED)):
                read = partial(_share, part="byzantine_removed", whole=of, width=width)
                series += group_curve(f"{before}{name}", group, read, limits, colour=place, style=style)
    return Lines(
        key="precision-recall",
        title="Precision and recall of the removals",
        caption="Precision: which share of the removed updates was Byzantine; undefined where nothing was removed. "
        f"Recall: which share of the Byzantine updates was removed. {_window_text(width)}",
        series=tuple(series),
        y_title="share",
        unit=Unit.PERCENT,
        marks=attack_marks(histories),
        note=seeds_note(histories),
    )


def _false_positives(histories: Sequence[RunHistory], limits: PanelLimits, width: int) -> Lines:
    """Return which share of the honest updates was removed; of all, where nobody knows who is honest."""
    series: list[Series] = []
    for place, group in enumerate(seed_groups(histories)):
        deployed = group.histories[0].deployed
        removed, judged = ("removed", "judged") if deployed else ("honest_removed", "honest")
        whose = "all updates" if deployed else "honest updates"
        name = whose if len(histories) == 1 else f"{group.name}: {whose}"
        read = partial(_share, part=removed, whole=judged, width=width)
        series += group_curve(name, group, read, limits, colour=place)
    blind = any(history.deployed for history in histories)
    said = (
        "Which share of the updates got no weight; who is honest is not known in a deployment."
        if blind
        else "The price of distrust: which share of the honest updates got no weight."
    )
    return Lines(
        key="false-positives",
        title="Removed updates" if blind else "Honest updates that were removed",
        caption=f"{said} {_window_text(width)}",
        series=tuple(series),
        y_title="share removed",
        unit=Unit.PERCENT,
        marks=attack_marks(histories),
        note=seeds_note(histories),
    )


def _share(history: RunHistory, *, part: str, whole: str, width: int) -> Points:
    rounds = np.arange(history.rounds_played, dtype=np.int64)
    return rounds, rounds, moving_share(history[part], history[whole], width)


def _window_text(width: int) -> str:
    return "" if width == 1 else f"Each point is about the last {width} rounds."


def _spread(history: RunHistory, limits: PanelLimits, *, alone: bool) -> Iterator[Panel]:
    """Yield λ_max before and after filtering against the threshold; or say that the rule does not measure it."""
    before, after, threshold = (positive_only(history[name]) for name in ("spread_before", "spread", "threshold"))
    title = "Spread of the updates, before and after"
    if not np.isfinite(history["spread"]).any():
        rule = setting_words(history, "rule")
        why = f"The rule {rule} does not measure how far updates spread, so there is nothing to compare."
        if alone and history.rounds_played:
            yield Text(key="spread", title=title, paragraphs=(why,))
        return
    old = not np.isfinite(history["spread_before"]).any()
    yield Lines(
        key="spread",
        title=title,
        caption="λ_max, the largest variance of the updates in any direction. The rule takes weight from clients until "
        f"it is below the threshold{_reach_text(history)}. Logarithmic scale."
        + (" The records do not have the spread before filtering." if old else ""),
        series=(
            *curve("before filtering", before, limits, colour=4),
            *curve("after filtering", after, limits, colour=0),
            *curve("threshold", threshold, limits, colour=7, style=Style.DASHED),
            *curve("smallest on the way", positive_only(history["anchor.spread"]), limits, colour=2),
        ),
        y_title="λ_max",
        log_y=True,
        marks=attack_marks([history]),
    )
    yield from _displacement(history, limits)


def _reach_text(history: RunHistory) -> str:
    anchored = np.isfinite(history["anchor.spread"]).any()
    return " and their mean near that of the state with the smallest spread on the way" if anchored else ""


def _displacement(history: RunHistory, limits: PanelLimits) -> Iterator[Panel]:
    """Yield how far the plain mean lies from the safest one, and where the guard raised f; nothing for other rules."""
    shift, by_few = history["anchor.displacement"], history["anchor.attributable"]
    alarmed, cut = np.flatnonzero(history["guard.alarmed"] > 0), np.flatnonzero(history["anchor.share"] < 1.0)
    if not np.isfinite(shift).any():
        return
    yield Lines(
        key="displacement",
        title="How far removable updates move the mean",
        caption="The distance of the plain mean to that of the safest updates. The unit is √(λ_a f/n), about as far as "
        "f clients can move it without being seen; what f updates account for is cut where it is more. Points: rounds "
        "in which it was cut, and rounds whose updates looked as if more were Byzantine than assumed, so that f was "
        "raised or the safest mean taken.",
        series=(
            *curve("displacement of the plain mean", shift, limits, colour=0),
            *curve("what f updates account for", by_few, limits, colour=3),
            *curve("cut", by_few[cut], limits, colour=2, style=Style.POINTS, x=cut),
            *curve("more Byzantine than assumed?", shift[alarmed], limits, colour=1, style=Style.POINTS, x=alarmed),
        ),
        y_title="displacement",
        marks=attack_marks([history]),
    )
