"""Who was trusted: weights and scores of clients over the rounds, and how suspicious each of them looks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np
from numpy.typing import NDArray

from holdfast.reports.panels import Column, HeatMap, Panel, Section, Table, Text, Unit, Value
from holdfast.reports.sections.overview import faults_text
from holdfast.reports.sections.phrases import client_names, figures, key_of, run_names, title_of
from holdfast.reports.thinning import REPORT, Bins, Limits, grid_largest, grid_means
from holdfast.server.history import ClientSummary, Entries, Fate, RunHistory
from holdfast.server.history.clients import in_order, mid_ranks
from holdfast.wording import percent, plural

_WORDS = {
    Fate.KEPT: "kept",
    Fate.SKIPPED: "round skipped",
    Fate.ABSENT: "sent nothing",
    Fate.REMOVED: "removed",
    Fate.UNUSABLE: "unusable: NaN, Inf or overflowing numbers",
    Fate.MALFORMED: "malformed reply",
}
_EXPLAINED = (Fate.REMOVED, Fate.SKIPPED)
"""What the rule gives a reason for."""
_DEEPEST = 1.25
"""Weights from here on have one colour, so that an equal share looks alike in every run, and like no gap."""
_SHOWN = 15
"""Rows of the table that are shown at first."""
_FEW = 3
"""A share of a few rounds says little: the client that was wronged most was judged at least so often."""


def clients(histories: Sequence[RunHistory], limits: Limits = REPORT) -> Section:
    """Return for every run who was wronged, its heat maps, and its table of suspicion."""
    panels: list[Panel] = []
    few = replace(limits, cells=max(1, limits.cells // max(1, len(histories))))
    for place, (history, run) in enumerate(zip(histories, run_names(histories), strict=True)):
        panels += _panels(history, run, place, len(histories), few)
    if not panels:
        panels = [Text(key="no-clients", title="Nobody yet", paragraphs=("No client has been asked yet.",))]
    return Section(
        key="clients",
        title="Who was trusted, who was removed?",
        intro="One line for every client, one column for every round (or some rounds). Clients that were not in the "
        "cohort of a round leave a gap.",
        panels=tuple(panels),
    )


def _panels(history: RunHistory, run: str, place: int, runs: int, limits: Limits) -> list[Panel]:
    if not len(history.entries):
        return []
    view = _View.of(history, limits)
    panels: tuple[Panel | None, ...] = (_wronged(history), _weights(view), _scores(view), suspicion_table(history))
    return [
        replace(panel, key=key_of(panel.key, place, runs), title=title_of(panel.title, run, runs))
        for panel in panels
        if panel is not None
    ]


def suspicion_table(history: RunHistory, lines: Sequence[ClientSummary] | None = None) -> Table:
    """Return a line for every client, or for some; the most suspicious first, unless they come in another order."""
    known = not history.deployed
    names = dict(zip(history.client_ids, client_names(history.client_ids), strict=True))
    chosen = history.clients if lines is None else lines
    cells: dict[Column, list[Value]] = {
        _ABSENT: [line.absent for line in chosen],
        _FAULTS: [faults_text(line.faults) or None for line in chosen],
    }
    found = [column for column, values in cells.items() if any(values)]
    return Table(
        key="suspicion",
        title="Suspicion of each client",
        caption="Suspicion is a lower bound, with 95 % confidence (Wilson: 0.27 after 1 of 1, 0.79 after 10 of "
        "10), on the share of a client's replies that the rule gives no weight: compare clients with each other. A "
        "rule that always drops many rows suspects all."
        + (" Truly Byzantine clients are marked." if known and history.byzantine else ""),
        columns=(_CLIENT, *((_BYZANTINE,) if known else ()), *_JUDGED, *found),
        rows=tuple(
            _row(line, names[line.client], known=known, more=tuple(cells[column][place] for column in found))
            for place, line in enumerate(chosen)
        ),
        flagged=tuple(place for place, line in enumerate(chosen) if known and line.byzantine),
        shown=_SHOWN,
    )


_CLIENT = Column(title="client")
_BYZANTINE = Column(title="Byzantine", hint="truly, as the simulation knows")
_JUDGED = (
    Column(title="suspicion", unit=Unit.NUMBER, hint="least plausible share of its replies worth nothing"),
    Column(title="removed", unit=Unit.PERCENT, hint="share of its judged replies that got no weight"),
    Column(title="times", unit=Unit.NUMBER, hint="how often it was removed or its reply malformed"),
    Column(title="judged", unit=Unit.NUMBER, hint="how often there was something to judge"),
    Column(title="mean weight", unit=Unit.NUMBER, hint="1 is an equal share", minor=True),
    Column(
        title="mean rank", unit=Unit.NUMBER, hint="share of rows that looked less suspicious; 0.5: average", minor=True
    ),
    Column(title="asked", unit=Unit.NUMBER, hint="in how many cohorts it was", minor=True),
)
_ABSENT = Column(title="absent", unit=Unit.NUMBER, hint="how often it sent nothing")
_FAULTS = Column(title="faults", hint="what was wrong with its replies")


def _row(line: ClientSummary, name: str, *, known: bool, more: tuple[Value, ...]) -> tuple[Value, ...]:
    return (
        name,
        *((_membership(line),) if known else ()),
        line.suspicion,
        line.accused / line.judged if line.judged else None,
        line.accused,
        line.judged,
        line.mean_weight,
        line.mean_rank,
        line.asked,
        *more,
    )


def _membership(line: ClientSummary) -> str:
    """Return whether a client was Byzantine; who is may change from round to round."""
    if 0 < line.byzantine < line.asked:
        return f"in {line.byzantine} of {line.asked} rounds"
    return "yes" if line.byzantine else "no"


def _wronged(history: RunHistory) -> Text | None:
    """Say who lost most honest updates, and who got most Byzantine ones through; only where that is known."""
    if history.deployed:
        return None
    entries, names = history.entries, client_names(history.client_ids)
    sent, lost = _counts(history, ~entries.byzantine)
    forged, caught = _counts(history, entries.byzantine)
    said = []
    often = np.flatnonzero((sent >= _FEW) & (lost > 0))
    if len(often):
        worst = max(often.tolist(), key=lambda client: (lost[client] / sent[client], lost[client]))
        half, number = int((2 * lost[often] > sent[often]).sum()), int((sent >= _FEW).sum())
        said.append(
            f"{names[worst]} lost most: {lost[worst]:,} of its {sent[worst]:,} honest updates were removed "
            f"({percent(lost[worst] / sent[worst])}). {half or 'None'} of {plural(number, 'client')} "
            f"with {_FEW} honest updates or more lost over half of them."
        )
    if forged.any():
        said.append(_got_through(names, forged, caught))
    return Text(key="wronged", title="Was anybody wronged?", paragraphs=tuple(map(_capital, said))) if said else None


def _counts(history: RunHistory, chosen: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return of every client how many of the chosen entries were judged, and how many of those removed."""
    entries, number = history.entries, len(history.client_ids)
    masks = (chosen & entries.judged, chosen & entries.removed)
    judged, removed = (np.bincount(entries.client[mask], minlength=number) for mask in masks)
    return judged, removed


def _got_through(names: Sequence[str], forged: NDArray[np.int64], caught: NDArray[np.int64]) -> str:
    kept = forged - caught
    if not caught.any():
        return "No update of a Byzantine client was ever removed."
    if not kept.any():
        return "No update of a Byzantine client got through."
    enough = np.flatnonzero(forged >= min(_FEW, forged.max()))
    best = max(enough.tolist(), key=lambda client: (kept[client] / forged[client], kept[client]))
    often = f"{kept[best]:,} of its {forged[best]:,} Byzantine updates were kept ({percent(kept[best] / forged[best])})"
    return f"{names[best]} got through most often: {often}."


def _capital(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class _View:
    """The entries of a history on a grid of some clients and bins of rounds."""

    history: RunHistory
    entries: Entries
    """Those of the clients that are shown."""
    rows: NDArray[np.int64]
    columns: NDArray[np.int64]
    """Of every entry."""
    names: tuple[str, ...]
    bins: Bins
    chosen: list[int]
    """Places of the clients that are shown, the most suspicious first."""

    @classmethod
    def of(cls, history: RunHistory, limits: Limits) -> _View:
        chosen = chosen_clients(history, min(limits.rows, limits.cells))
        bins = Bins.of(history.rounds_played, min(limits.columns, max(1, limits.cells // len(chosen))))
        every = history.entries
        row_of = np.full(len(history.client_ids), -1, dtype=np.int64)
        row_of[chosen] = np.arange(len(chosen))
        shown = row_of[every.client] >= 0
        entries = Entries(**{name: values[shown] for name, values in vars(every).items()})
        names = client_names(history.client_ids)
        return cls(
            history=history,
            entries=entries,
            rows=row_of[entries.client],
            columns=entries.round // bins.width,
            names=tuple(names[client] for client in chosen),
            bins=bins,
            chosen=chosen,
        )

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.chosen), self.bins.number

    @property
    def flagged(self) -> tuple[int, ...]:
        liars = self.history.byzantine
        return tuple(row for row, client in enumerate(self.chosen) if client in liars)

    def orders(self) -> Mapping[str, tuple[int, ...]]:
        """Return ways to sort the rows."""
        rows = range(len(self.chosen))
        everybody = self.history.client_ids
        by_name = sorted(rows, key=lambda row: in_order(everybody[self.chosen[row]]))
        orders = {"most suspicious first": tuple(rows), "by name": tuple(by_name)}
        if self.flagged:
            liars = set(self.flagged)
            orders["Byzantine first"] = tuple(sorted(rows, key=lambda row: row not in liars))
        return orders

    def note(self) -> str:
        """Say what is left out."""
        said = []
        if len(self.chosen) < len({*self.history.entries.client.tolist()}):
            whom = "Byzantine ones first, then the most suspicious" if self.flagged else "the most suspicious"
            said.append(f"Shown are {len(self.chosen)} of {len(self.history.client_ids)} clients: {whom}.")
        if self.bins.width > 1:
            said.append(f"A column is {self.bins.width} rounds, a cell the mean over those of them with the client.")
        if self.flagged:
            said.append("Truly Byzantine clients are marked.")
        return " ".join(said)


def chosen_clients(history: RunHistory, most: int) -> list[int]:
    """Return the places of at most so many clients that were asked: Byzantine ones, then the most suspicious."""
    places = {client: place for place, client in enumerate(history.client_ids)}
    order = [places[line.client] for line in history.clients if line.asked]
    if len(order) <= most:
        return order
    liars = history.byzantine
    first = set(sorted(order, key=lambda place: place not in liars)[:most])
    return [place for place in order if place in first]


def _weights(view: _View) -> HeatMap | None:
    if not np.isfinite(view.entries.weight).any():
        return None
    means = grid_means(view.rows, view.columns, view.entries.weight, view.shape)
    return HeatMap(
        key="weights",
        title="Weight of each client in each round",
        caption=f"1 is an equal share, 0 is removed; from {_DEEPEST} on colours are the same. {view.note()}".strip(),
        rows=view.names,
        columns=view.bins.labels(),
        values=tuple(map(figures, means)),
        row_title="client",
        column_title="round" if view.bins.width == 1 else "rounds",
        value_title="weight (1 = equal share)",
        low=0.0,
        high=_DEEPEST,
        hover=_hover(view, weights=False),
        flagged=view.flagged,
        orders=view.orders(),
    )


def _scores(view: _View) -> HeatMap | None:
    """Return ranks in place of scores, as scores of different rounds have no common scale."""
    known = np.isfinite(view.history.entries.score)
    if not known.any():
        return None
    every = view.history.entries
    ranks = np.full(len(every), np.nan)
    ranks[known] = mid_ranks(every.round[known], every.score[known])
    row_of = np.full(len(view.history.client_ids), -1, dtype=np.int64)
    row_of[view.chosen] = np.arange(len(view.chosen))
    means = grid_means(view.rows, view.columns, ranks[row_of[every.client] >= 0], view.shape)
    return HeatMap(
        key="scores",
        title="How suspicious each client looked in each round",
        caption="Which share of the round's updates had a lower score, as the rule measures suspicion: near 1 is among "
        f"the most suspicious, 0.5 nothing special. {view.note()}".strip(),
        rows=view.names,
        columns=view.bins.labels(),
        values=tuple(map(figures, means)),
        row_title="client",
        column_title="round" if view.bins.width == 1 else "rounds",
        value_title="rank of suspicion",
        unit=Unit.NUMBER,
        low=0.0,
        high=1.0,
        good_is_high=False,
        hover=_hover(view, weights=True),
        flagged=view.flagged,
        orders=view.orders(),
    )


def _hover(view: _View, *, weights: bool) -> tuple[tuple[str, ...], ...]:
    """Return what to say of every cell: of one round what happened and why, of several how often what happened."""
    texts = [[""] * view.bins.number for _ in view.chosen]
    if view.bins.width == 1:
        _say_rounds(view, texts, weights=weights)
    else:
        _say_bins(view, texts)
    return tuple(map(tuple, texts))


def _say_rounds(view: _View, texts: list[list[str]], *, weights: bool) -> None:
    entries, reasons = view.entries, view.history.rounds.reasons
    medians = view.history["median_score"].tolist()
    words = {int(fate): text for fate, text in _WORDS.items()}
    columns = (entries.client, entries.round, entries.weight, entries.score, entries.fate, view.rows)
    for client, number, weight, score, fate, row in zip(*(each.tolist() for each in columns), strict=True):
        said = words[fate]
        if weights and not math.isnan(weight):
            said += f"; weight {weight:.3g} (1 = equal share)"
        if not math.isnan(score):
            said += f"; score {score:.4g}, median of the round {medians[number]:.4g}"
        told = reasons.get((number, client)) or (view.history.rounds.said[number] if fate in _EXPLAINED else "")
        if told:
            said += f"\n{told}"
        texts[row][number] = said


def _say_bins(view: _View, texts: list[list[str]]) -> None:
    shape, entries = view.shape, view.entries
    cells = view.rows * shape[1] + view.columns
    size = shape[0] * shape[1]
    asked = np.bincount(cells, minlength=size).tolist()
    removed = np.bincount(cells[entries.removed], minlength=size).tolist()
    worst = grid_largest(view.rows, view.columns, entries.fate, shape).tolist()
    words = {int(fate): text for fate, text in _WORDS.items()}
    for row, line in enumerate(texts):
        for column in range(shape[1]):
            cell = row * shape[1] + column
            if asked[cell]:
                said = f"in {plural(asked[cell], 'cohort')}, removed {removed[cell]}×"
                line[column] = f"{said}; worst: {words[worst[row][column]]}"
