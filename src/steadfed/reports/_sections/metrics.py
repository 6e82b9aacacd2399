"""Metrics beside accuracy and loss: over the rounds, and what accuracy hides."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from steadfed._core.wording import harmless, number, percent
from steadfed.metrics import Metric, column_of, known_metric
from steadfed.reports._sections.learning import attack_marks, curve
from steadfed.reports._sections.phrases import run_names
from steadfed.reports._thinning import REPORT, PanelLimits
from steadfed.reports.panels import Headline, Lines, Mark, Panel, Section, Series, Text, Tone, Unit
from steadfed.server._history import RunHistory

_HIDDEN = 0.1
"""An accuracy this much above the balanced one hides that classes are recognised unequally."""
_LONGEST = 40
"""Letters of a name that somebody chose."""
_MOST = 12
"""Metrics that have a panel of their own."""


def title_of(name: str) -> str:
    """Return what people call a metric, one of somebody's own by its name, in which no letter acts."""
    known = known_metric(name)
    return harmless(name, limit=_LONGEST).replace("_", " ") if known is None else known.title


def is_share(name: str) -> bool:
    """Tell whether a metric is shown in percent; of one of somebody's own the records do not say."""
    known = known_metric(name)
    return known is not None and known.is_share


def value_text(name: str, value: float | None) -> str:
    """Return a metric as people read it."""
    return percent(value) if is_share(name) else number(value)


def asked_of(histories: Sequence[RunHistory]) -> list[str]:
    """Return the metrics that some of the runs have beside accuracy and loss."""
    return list(dict.fromkeys(name for history in histories for name in history.rounds.asked_metrics))


def beside_accuracy(histories: Sequence[RunHistory], limits: PanelLimits = REPORT) -> Section | None:
    """Return the metrics that were asked for, and what accuracy hides; None if none was."""
    hidden = [
        f"{'' if len(histories) == 1 else f'{run}: '}{said}"
        for history, run in zip(histories, run_names(histories), strict=True)
        if (said := hidden_by_accuracy(history)) is not None
    ]
    panels: list[Panel] = [*_metric_panels(histories, limits, attack_marks(histories))]
    if hidden:
        title = "What accuracy hides"
        panels.insert(0, Text(key="hidden-class", title=title, paragraphs=tuple(hidden), tone=Tone.WARNING))
    if not panels:
        return None
    return Section(key="beside-accuracy", title="Beside accuracy", panels=tuple(panels))


def _metric_panels(
    histories: Sequence[RunHistory], limits: PanelLimits, marks: tuple[Mark, ...] = ()
) -> Iterator[Panel]:
    """Yield a panel for each metric, with the curves of all runs; the shares of a single run stand in one."""
    names = asked_of(histories)
    together = [name for name in names if is_share(name)] if len(histories) == 1 else []
    if len(together) > 1:
        yield _of_one_run(histories[0], together, limits, marks)
        names = [name for name in names if name not in together]
    for place_of, name in enumerate(names[:_MOST], 1):
        known, column = known_metric(name), column_of(name)
        series: list[Series] = []
        for place, (history, run) in enumerate(zip(histories, run_names(histories), strict=True)):
            if column in history.columns:
                looks = np.flatnonzero(np.isfinite(history[column]))
                series += curve(run, history[column][looks], limits, colour=place, x=looks)
        if series:
            yield Lines(
                key=f"own-metric-{place_of}" if known is None else f"metric-{slug(name)}",
                title=f"{capital(title_of(name))} over the rounds",
                caption=_caption(known),
                series=tuple(series),
                y_title=title_of(name),
                unit=Unit.PERCENT if is_share(name) else Unit.NUMBER,
                marks=marks,
            )


def _of_one_run(history: RunHistory, names: Sequence[str], limits: PanelLimits, marks: tuple[Mark, ...]) -> Lines:
    series: list[Series] = []
    for place, name in enumerate(["accuracy", *names]):
        values = history[column_of(name)]
        looks = np.flatnonzero(np.isfinite(values))
        series += curve(title_of(name), values[looks], limits, colour=place, x=looks)
    said = [f"{capital(known.title)}: {known.meaning}." for name in names if (known := known_metric(name)) is not None]
    return Lines(
        key="metrics",
        title="Metrics over the rounds",
        caption=" ".join(["On the test points.", *said]),
        series=tuple(series),
        y_title="share",
        unit=Unit.PERCENT,
        marks=marks,
    )


def _caption(known: type[Metric] | None) -> str:
    if known is None:
        return "On the test points."
    direction = "higher" if known.higher_is_better else "lower"
    return f"{capital(known.meaning)}; {direction} is better. On the test points."


def hidden_by_accuracy(history: RunHistory) -> str | None:
    """Return a sentence on a class that is lost or hardly recognised while accuracy is high; None if there is none."""
    names = ("accuracy", "balanced_accuracy", "worst_class_recall")
    accuracy, balanced, worst = (_last(history, name) for name in names)
    said = []
    if accuracy is not None and balanced is not None and accuracy - balanced > _HIDDEN:
        said.append(
            f"accuracy is {percent(accuracy)}, balanced accuracy, in which every class counts the same, only "
            f"{percent(balanced)}"
        )
    if worst == 0.0:
        said.append("of one class no test point is recognised")
    return f"Accuracy hides a class: {'; '.join(said)}." if said else None


def metric_headlines(history: RunHistory) -> Iterator[Headline]:
    """Yield the last value of the metric that was asked for first, with a warning where accuracy hides a class."""
    for name in history.rounds.asked_metrics[:1]:
        value = _last(history, name)
        if value is not None:
            hides = name in {"balanced_accuracy", "worst_class_recall"} and hidden_by_accuracy(history) is not None
            yield Headline(
                title=capital(title_of(name)),
                value=value_text(name, value),
                note="hidden by accuracy" if hides else "on test points",
                tone=Tone.WARNING if hides else Tone.PLAIN,
            )


def last_values(history: RunHistory) -> dict[str, float | None]:
    """Return the metrics that were asked for, as far as there is room for them, with their last values."""
    return {name: _last(history, name) for name in history.rounds.asked_metrics[:_MOST]}


def _last(history: RunHistory, name: str) -> float | None:
    column = column_of(name)
    values = history[column] if column in history.columns else np.empty(0)
    known = values[np.isfinite(values)]
    return float(known[-1]) if len(known) else None


def capital(text: str) -> str:
    """Return a text that begins a sentence."""
    return text[:1].upper() + text[1:]


def slug(name: str) -> str:
    """Return a name as the key of a panel has it."""
    return "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in name.lower())
