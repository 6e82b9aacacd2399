"""Did it learn: accuracy and loss over the rounds, and against what was sent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from steadfed.reports._sections.phrases import figures, floats, run_names
from steadfed.reports._sections.seeds import Points, group_curve, seed_groups, seeds_note
from steadfed.reports._settings import attack_start
from steadfed.reports._thinning import REPORT, Numbers, PanelLimits, Places, kept_places
from steadfed.reports.panels import Lines, Mark, Panel, Section, Series, Style, Text, Unit
from steadfed.server._history import RunHistory

_LOGARITHMIC = 30.0
"""A loss that changes by more than this factor is drawn on a logarithmic scale."""
_MOST_METRICS = 6
_BOTH = 5
"""So many runs, or groups of them, are shown on test and on training points; of more, test points are enough to see."""


def learning(histories: Sequence[RunHistory], limits: PanelLimits = REPORT) -> Section:
    """Return the curves of all runs in common plots."""
    plots = (_accuracies(histories, limits), _losses(histories, limits), _costs(histories, limits))
    panels: list[Panel] = [plot for plot in plots if plot.series]
    if not plots[-1].series and any(len(history.rounds.evaluated) for history in histories):
        why = "The records do not say how many bytes were sent: an older version of steadfed wrote them."
        panels.append(Text(key="communication", title="Accuracy against communication", paragraphs=(why,)))
    panels += _metrics(histories, limits)
    if not panels:
        played = any(history.rounds_played for history in histories)
        why = "No round was evaluated with a finite result." if played else "No round has been run yet."
        panels = [Text(key="no-curves", title="Nothing to draw", paragraphs=(why,))]
    return Section(
        key="learning",
        title="Did it learn?",
        intro="The model after each round. Rounds are counted from 0, as “steadfed show --round” does.",
        panels=tuple(panels),
    )


def attack_marks(histories: Sequence[RunHistory]) -> tuple[Mark, ...]:
    """Return where attacks start: once for all runs that agree."""
    starts: dict[int, list[str]] = {}
    for history, name in zip(histories, run_names(histories), strict=True):
        start = attack_start(history)
        if start is not None:
            starts.setdefault(start, []).append(name)
    several = len(starts) > 1
    return tuple(
        Mark(at=float(start), text="attack starts" + (f" ({', '.join(names)})" if several else ""))
        for start, names in sorted(starts.items())
    )


def curve(
    name: str,
    y: Numbers,
    limits: PanelLimits,
    *,
    colour: int,
    style: Style = Style.LINE,
    x: Numbers | Places | None = None,
) -> tuple[Series, ...]:
    """Return a thinned curve, over the rounds unless x is given; nothing if there is no number in it."""
    if not np.isfinite(y).any():
        return ()
    places = kept_places(y, limits.points)
    where = places if x is None else x[places]
    return (Series(name=name, x=floats(where), y=figures(y[places]), colour=colour, style=style),)


def positive_only(values: Numbers) -> Numbers:
    """Return the values that a logarithmic scale can show, NaN for the others."""
    return np.where(values > 0.0, values, np.nan)


def _evaluation_curves(histories: Sequence[RunHistory], figure: str, limits: PanelLimits) -> tuple[Series, ...]:
    """Return a figure on test and on training points in the rounds that were evaluated; gaps where it is not finite."""
    kinds = {"test": ("test points", Style.LINE), "train": ("training points", Style.DOTTED)}
    series: list[Series] = []
    groups = seed_groups(histories)
    if len(groups) > _BOTH and any(np.isfinite(history[f"test_{figure}"]).any() for history in histories):
        del kinds["train"]
    for place, group in enumerate(groups):
        for points, (words, style) in kinds.items():
            name = words if len(histories) == 1 else f"{group.name}: {words}"
            read = partial(_evaluated, column=f"{points}_{figure}")
            series += group_curve(name, group, read, limits, colour=place, style=style)
    return tuple(series)


def _evaluated(history: RunHistory, column: str) -> Points:
    rounds = history.rounds.evaluated
    return rounds, rounds, history[column][rounds]


def _accuracies(histories: Sequence[RunHistory], limits: PanelLimits) -> Lines:
    return Lines(
        key="accuracy",
        title="Accuracy over the rounds",
        caption="Share of points that the model classifies correctly; higher is better.",
        series=_evaluation_curves(histories, "accuracy", limits),
        y_title="accuracy",
        unit=Unit.PERCENT,
        marks=attack_marks(histories),
        note=seeds_note(histories),
    )


def _losses(histories: Sequence[RunHistory], limits: PanelLimits) -> Lines:
    series = _evaluation_curves(histories, "loss", limits)
    values = [value for each in series for value in each.y if value is not None]
    steep = bool(values) and min(values) > 0.0 and max(values) > _LOGARITHMIC * min(values)
    gaps = any(value is None for each in series for value in each.y)
    return Lines(
        key="loss",
        title="Loss over the rounds",
        caption="What training makes small; lower is better."
        + (" Logarithmic scale." if steep else "")
        + (" Gaps: the loss was not finite." if gaps else ""),
        series=series,
        y_title="loss",
        log_y=steep,
        marks=attack_marks(histories),
        note=seeds_note(histories),
    )


def _costs(histories: Sequence[RunHistory], limits: PanelLimits) -> Lines:
    """Return accuracy (or else loss) against all bytes sent and received so far."""
    kinds = ("test_accuracy", "test_loss", "train_accuracy", "train_loss")
    column = next((kind for kind in kinds if any(np.isfinite(history[kind]).any() for history in histories)), kinds[0])
    accurate = column.endswith("accuracy")
    points = "test points" if column.startswith("test") else "training points"
    series: list[Series] = []
    for place, group in enumerate(seed_groups(histories)):
        name = points if len(histories) == 1 else group.name
        series += group_curve(name, group, partial(_against_bytes, column=column), limits, colour=place)
    return Lines(
        key="communication",
        title=f"{'Accuracy' if accurate else 'Loss'} against communication",
        caption="All models sent to clients and updates received from them so far, as bare numbers; the model is "
        f"looked at on {points}.",
        series=tuple(series),
        x_title="bytes down and up",
        y_title="accuracy" if accurate else "loss",
        unit=Unit.PERCENT if accurate else Unit.NUMBER,
        x_unit=Unit.BYTES,
        note=seeds_note(histories),
    )


def _against_bytes(history: RunHistory, column: str) -> Points | None:
    rounds, sent = history.rounds.evaluated, sent_so_far(history)
    return None if sent is None else (rounds, sent[rounds], history[column][rounds])


def sent_so_far(history: RunHistory) -> Numbers | None:
    """Return how many bytes went down and up until the end of every round; None if it was not written down."""
    down, up = history["bytes_down"], history["bytes_up"]
    if not np.isfinite(down).any():
        return None
    total: Numbers = np.cumsum(np.nan_to_num(down) + np.nan_to_num(up))
    return total


def _metrics(histories: Sequence[RunHistory], limits: PanelLimits) -> Iterator[Panel]:
    """Yield what clients report of themselves."""
    names = list(dict.fromkeys(name for history in histories for name in history.rounds.names_below("metrics")))
    for place, name in enumerate(names[:_MOST_METRICS], 1):
        series: list[Series] = []
        for colour, (history, run) in enumerate(zip(histories, run_names(histories), strict=True)):
            if name in history.rounds.names_below("metrics"):
                values = history[f"metrics.{name}"]
                rounds = np.flatnonzero(np.isfinite(values))
                series += curve(run, values[rounds], limits, colour=colour, x=rounds)
        if series:
            yield Lines(
                key="metric" if len(names) == 1 else f"metric-{place}",
                title=f"{name}: as clients or the server's own evaluation report it",
                caption="Of what clients report, the median: what a minority claims cannot move it far.",
                series=tuple(series),
                y_title=name,
                marks=attack_marks(histories),
            )
