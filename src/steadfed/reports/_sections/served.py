"""For whom the model is good: scores of single clients, and whether those pay for it whose updates were removed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from steadfed._core.wording import number, percent, plural
from steadfed.metrics import known_metric
from steadfed.reports._sections.learning import curve
from steadfed.reports._sections.metrics import capital, title_of
from steadfed.reports._sections.phrases import client_names, per_run
from steadfed.reports._thinning import REPORT, PanelLimits
from steadfed.reports.panels import Column, Lines, Panel, Section, Series, Style, Table, Text, Unit, Value, tabulate
from steadfed.server._history import ClientSummary, RunHistory
from steadfed.server._history.rounds import CLIENT_SCORES
from steadfed.server._record import ClientScores

_FIGURES = {"mean": "mean of all", "worst_tenth": "worst tenth", "worst": "worst client"}
_OFTEN = 0.5
"""Clients whose honest updates are removed more often than this are those who may pay."""
_SHOWN = 15


def served(histories: Sequence[RunHistory], limits: PanelLimits = REPORT) -> Section | None:
    """Return how good the model is for single clients; None if no run looked at that."""
    known = [history for history in histories if history.rounds.client_scores is not None]
    if not known:
        return None
    return Section(
        key="served",
        title="For whom is it good?",
        intro="The model, looked at for single honest clients. A mean hides a client for whom it is bad, and a robust "
        "rule may make it so: it removes updates that are unlike the others.",
        panels=tuple(per_run(known, lambda history: _panels(history, limits))),
    )


def _panels(history: RunHistory, limits: PanelLimits) -> Iterator[Panel]:
    scores = history.rounds.client_scores
    if scores is None:
        return
    yield _over_rounds(history, scores, limits)
    lines = _lines(history, scores)
    if (told := who_pays(history, scores)) is not None:
        yield Text(key="who-pays", title="Who pays for robustness", paragraphs=(told,))
    if any(line.removed is not None for line in lines):
        yield _against_removal(lines, scores)
    yield _table(lines, scores)


def unit_of(scores: ClientScores) -> Unit:
    """Return how scores are shown."""
    known = known_metric(scores.metric)
    return Unit.PERCENT if known is not None and known.is_share else Unit.NUMBER


def _text(scores: ClientScores, value: float) -> str:
    return percent(value) if unit_of(scores) is Unit.PERCENT else number(value)


def basis(scores: ClientScores) -> str:
    """Return on which points clients were scored, as a sentence."""
    if scores.own_points:
        return "On test points of its own."
    return "Estimated from its classes: the recall of each class on all test points, weighted by what the client holds."


def figures_text(scores: ClientScores) -> str:
    """Return what the scores come to, in a few words."""
    found = scores.figures()
    listed = ", ".join(f"{_FIGURES[name]} {_text(scores, value)}" for name, value in found.items())
    return f"{title_of(scores.metric)}: {listed}, of {plural(len(scores.by_client), 'honest client')}"


def _over_rounds(history: RunHistory, scores: ClientScores, limits: PanelLimits) -> Lines:
    series: list[Series] = []
    for place, (name, words) in enumerate(_FIGURES.items()):
        values = history[f"{CLIENT_SCORES}.{name}"]
        looks = np.flatnonzero(np.isfinite(values))
        series += curve(words, values[looks], limits, colour=place, x=looks)
    return Lines(
        key="client-scores",
        title=f"{capital(title_of(scores.metric))} for single clients",
        caption=f"{basis(scores)} Worst tenth: the mean over the ⌈n/10⌉ clients for whom it is worst.",
        series=tuple(series),
        y_title=title_of(scores.metric),
        unit=unit_of(scores),
    )


@final
@dataclass(frozen=True, kw_only=True)
class _Line:
    """A client: its score, and how often its honest updates were removed."""

    name: str
    score: float
    judged: int
    removed: float | None
    """None if none of its honest updates was judged."""


def _lines(history: RunHistory, scores: ClientScores) -> list[_Line]:
    known = {line.client: line for line in history.rounds.clients}
    ranked = scores.worst_first
    names = client_names([client for client, _ in ranked])
    return [
        _Line(name=name, score=score, judged=_judged(known.get(client)), removed=_removed(known.get(client)))
        for name, (client, score) in zip(names, ranked, strict=True)
    ]


def _judged(line: ClientSummary | None) -> int:
    return 0 if line is None else line.honest_judged


def _removed(line: ClientSummary | None) -> float | None:
    return line.honest_against / line.honest_judged if line is not None and line.honest_judged else None


def who_pays(history: RunHistory, scores: ClientScores) -> str | None:
    """Return how good the model is for those who were removed though honest, and for the others."""
    lines = [line for line in _lines(history, scores) if line.removed is not None]
    if not lines:
        return None
    shares = [line.removed or 0.0 for line in lines]
    middle = float(np.mean(shares))
    often = [line.score for line in lines if (line.removed or 0.0) > middle]
    if not often:
        return f"{percent(middle)} of the honest updates of every client that was scored were removed: nobody more."
    others = [line.score for line in lines if (line.removed or 0.0) <= middle]
    what, theirs = title_of(scores.metric), _text(scores, float(np.mean(often)))
    most = max(lines, key=lambda line: (line.removed or 0.0, line.judged))
    return (
        f"On average {percent(middle)} of the honest updates of a client were removed. For the "
        f"{plural(len(often), 'client')} that lost more, {what} is {theirs} on average, for "
        f"the other {len(others)} it is {_text(scores, float(np.mean(others)))}. {most.name} lost most, "
        f"{percent(most.removed)} of {most.judged:,}; there {what} is {_text(scores, most.score)}."
    )


def _against_removal(lines: Sequence[_Line], scores: ClientScores) -> Lines:
    there = sorted((line for line in lines if line.removed is not None), key=lambda line: line.removed or 0.0)
    return Lines(
        key="who-pays-map",
        title="Scores beside removals",
        caption="A point for every honest client that was judged: those at the right were removed though honest; if "
        "these are lower, they pay for robustness.",
        series=(
            Series(
                name="clients",
                x=tuple(line.removed or 0.0 for line in there),
                y=tuple(line.score for line in there),
                colour=0,
                style=Style.POINTS,
            ),
        ),
        x_title="share of its honest updates removed",
        x_unit=Unit.PERCENT,
        y_title=title_of(scores.metric),
        unit=unit_of(scores),
    )


def _table(lines: Sequence[_Line], scores: ClientScores) -> Table:
    columns: dict[Column, Callable[[_Line], Value]] = {
        Column("client", name=True): lambda line: line.name,
        Column(title_of(scores.metric), unit_of(scores)): lambda line: line.score,
        Column("honest removed", Unit.PERCENT, "share of its honest updates that got no weight"): (
            lambda line: line.removed
        ),
        Column("judged", Unit.NUMBER, "how many honest updates of it there were to judge"): lambda line: line.judged,
    }
    return tabulate(
        lines,
        columns,
        key="client-score-table",
        title="Clients, the worst served first",
        caption=basis(scores),
        flag=lambda line: (line.removed or 0.0) > _OFTEN,
        shown=_SHOWN,
    )
