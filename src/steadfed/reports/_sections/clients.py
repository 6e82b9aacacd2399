"""Who was trusted: weights and scores of clients over the rounds, and how suspicious each of them looks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import final

import numpy as np

from steadfed._core.wording import harmless, percent, plural
from steadfed.reports._sections.overview import faults_text
from steadfed.reports._sections.phrases import client_names, figures, per_run
from steadfed.reports._thinning import REPORT, Bins, Numbers, PanelLimits, Places, grid_largest, grid_means
from steadfed.reports.panels import Column, HeatMap, Panel, Section, Table, Text, Unit, Value, tabulate
from steadfed.server._history import ClientSummary, Entries, Fate, RunHistory
from steadfed.server._history.clients import in_order, mid_ranks
from steadfed.server._record import Client

_WORDS = {
    Fate.KEPT: "kept",
    Fate.SKIPPED: "round skipped",
    Fate.ABSENT: "absent",
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
_LONGEST = 60
"""Letters of a layer's name."""
_LETTERS = 120
"""Of a client's name in a table; there is less room beside a plot."""
_FEW = 3
"""A share of a few rounds says little: the client with most false positives was judged at least so often."""


def clients(
    histories: Sequence[RunHistory], limits: PanelLimits = REPORT, *, notify: Callable[[str], None] = lambda _: None
) -> Section:
    """Return for every run its false positives, its heat maps, and its table of suspicion; `notify` is told of whom."""
    few = replace(limits, cells=max(1, limits.cells // max(1, len(histories))))

    def panels_of(history: RunHistory) -> Iterator[Panel]:
        notify(f"who was removed in {history.name}")
        return _panels(history, few)

    panels = per_run(histories, panels_of)
    if not panels:
        panels = [Text(key="no-clients", title="Nobody yet", paragraphs=("No client has been asked yet.",))]
    return Section(
        key="clients",
        title="Who was trusted, who was removed?",
        intro="One line for every client, one column for every round (or some rounds). Clients that were not in the "
        "cohort of a round leave a gap.",
        panels=tuple(panels),
    )


def _panels(history: RunHistory, limits: PanelLimits) -> Iterator[Panel]:
    if len(history.entries):
        grid = _ClientGrid.of(history, limits)
        yield from _false_positives(history)
        yield from _weights(grid)
        yield from _scores(grid)
        yield suspicion_table(history)


def suspicion_table(history: RunHistory, lines: Sequence[ClientSummary] | None = None) -> Table:
    """Return a line for every client, or for some; the most suspicious first, unless they come in another order."""
    known = not history.deployed
    names = dict(zip(history.client_ids, client_names(history.client_ids, letters=_LETTERS), strict=True))
    chosen = history.clients if lines is None else lines
    columns: dict[Column, Callable[[ClientSummary], Value]] = {
        Column("client", name=True): lambda line: names[line.client]
    }
    if known:
        columns[Column("Byzantine", hint="truly, as the simulation knows")] = _membership
    columns |= _JUDGED
    columns |= {column: value for column, value in _IF_ANY.items() if any(map(value, chosen))}
    return tabulate(
        chosen,
        columns,
        key="suspicion",
        title="Suspicion of each client",
        caption="Suspicion is a lower bound, with 95 % confidence (Wilson: 0.27 after 1 of 1, 0.79 after 10 of "
        "10), on the share of a client's replies that the rule gives no weight: compare clients with each other. A "
        "rule that always drops many updates suspects all."
        + (" Truly Byzantine clients are marked." if known and history.byzantine else ""),
        flag=lambda line: known and line.byzantine > 0,
        shown=_SHOWN,
    )


def _membership(line: ClientSummary) -> str:
    """Return whether a client was Byzantine; who is may change from round to round."""
    if 0 < line.byzantine < line.asked:
        return f"in {line.byzantine} of {line.asked} rounds"
    return "yes" if line.byzantine else "no"


_NUMBER, _PERCENT = Unit.NUMBER, Unit.PERCENT
_LESS = "share of updates that looked less suspicious; 0.5: average"
_JUDGED: Mapping[Column, Callable[[ClientSummary], Value]] = {
    Column("suspicion", _NUMBER, "least plausible share of its replies worth nothing"): lambda line: line.suspicion,
    Column("removed", _PERCENT, "share of its judged replies that got no weight"): lambda line: line.removed_rate,
    Column("times", _NUMBER, "how often it was removed or its reply malformed", minor=True): lambda line: line.against,
    Column("judged", _NUMBER, "how often there was something to judge"): lambda line: line.judged,
    Column("mean weight", _NUMBER, "1 is an equal share", minor=True): lambda line: line.mean_weight,
    Column("mean rank", _NUMBER, _LESS, minor=True): lambda line: line.mean_rank,
    Column("asked", _NUMBER, "in how many cohorts it was", minor=True): lambda line: line.asked,
}
_IF_ANY: Mapping[Column, Callable[[ClientSummary], Value]] = {
    Column("absent", _NUMBER, "how often it sent nothing"): lambda line: line.absent,
    Column("faults", hint="what was wrong with its replies"): lambda line: faults_text(line.faults) or None,
    Column("deviates in", hint="the layer in which its removed updates deviate most", minor=True): lambda line: (
        _layer_text(line.layers)
    ),
}
"""Columns that are left out if they have nothing to tell."""


def _layer_text(layers: Mapping[str, float]) -> str | None:
    """Return the layer with the largest share.

    >>> _layer_text({"head.weight": 0.931, "head.bias": 0.04})
    'head.weight (93 %)'
    """
    return next((f"{harmless(name, limit=_LONGEST)} ({percent(share, 0)})" for name, share in layers.items()), None)


def _false_positives(history: RunHistory) -> Iterator[Text]:
    """Say who lost most honest updates, and who got most Byzantine ones through; only where that is known."""
    if history.deployed:
        return
    names = dict(zip(history.client_ids, client_names(history.client_ids), strict=True))
    often = [line for line in history.rounds.clients if line.honest_judged >= _FEW]
    said = []
    if any(line.honest_against for line in often):
        worst = max(often, key=lambda line: (line.honest_against / line.honest_judged, line.honest_against))
        lost, sent = worst.honest_against, worst.honest_judged
        half = sum(2 * line.honest_against > line.honest_judged for line in often)
        said.append(
            f"{names[worst.client]} lost most: {lost:,} of its {sent:,} honest updates were removed "
            f"({percent(lost / sent)}). {half or 'None'} of {plural(len(often), 'client')} "
            f"with {_FEW} honest updates or more lost over half of them."
        )
    forgers = [line for line in history.rounds.clients if line.byzantine_judged]
    if forgers:
        said.append(_got_through(names, forgers))
    if said:
        paragraphs = tuple(sentence[:1].upper() + sentence[1:] for sentence in said)
        yield Text(key="mistakes", title="False positives and false negatives", paragraphs=paragraphs)


def _got_through(names: Mapping[Client, str], forgers: Sequence[ClientSummary]) -> str:
    """Say which of the clients that sent Byzantine updates had most of them kept."""
    kept = {line.client: line.byzantine_judged - line.byzantine_against for line in forgers}
    if not any(line.byzantine_against for line in forgers):
        return "No update of a Byzantine client was ever removed."
    if not any(kept.values()):
        return "No update of a Byzantine client got through."
    enough = min(_FEW, max(line.byzantine_judged for line in forgers))
    often = [line for line in forgers if line.byzantine_judged >= enough]
    best = max(often, key=lambda line: (kept[line.client] / line.byzantine_judged, kept[line.client]))
    through, sent = kept[best.client], best.byzantine_judged
    share = f"{through:,} of its {sent:,} Byzantine updates were kept ({percent(through / sent)})"
    return f"{names[best.client]} got through most often: {share}."


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class _ClientGrid:
    """The entries of a history on a grid of some clients and bins of rounds."""

    history: RunHistory
    chosen: list[int]
    """Places of the clients that are shown, the most suspicious first."""
    bins: Bins

    @classmethod
    def of(cls, history: RunHistory, limits: PanelLimits) -> _ClientGrid:
        chosen = chosen_clients(history, min(limits.rows, limits.cells))
        columns = min(limits.columns, max(1, limits.cells // len(chosen)))
        return cls(history=history, chosen=chosen, bins=Bins.of(history.rounds_played, columns))

    @cached_property
    def all_rows(self) -> Places:
        """The row of every entry of the history, -1 if its client is not shown."""
        row_of = np.full(len(self.history.client_ids), -1, dtype=np.int64)
        row_of[self.chosen] = np.arange(len(self.chosen))
        return row_of[self.history.entries.client]

    @cached_property
    def entries(self) -> Entries:
        """Those of the clients that are shown."""
        return Entries(**{name: values[self.all_rows >= 0] for name, values in vars(self.history.entries).items()})

    @property
    def rows(self) -> Places:
        """Of every entry."""
        return self.all_rows[self.all_rows >= 0]

    @property
    def columns(self) -> Places:
        """Of every entry."""
        return self.entries.round // self.bins.width

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.chosen), self.bins.number

    @property
    def flagged(self) -> tuple[int, ...]:
        return tuple(row for row, client in enumerate(self.chosen) if client in self.history.byzantine)

    def orders(self) -> Mapping[str, tuple[int, ...]]:
        """Return ways to sort the rows."""
        rows = range(len(self.chosen))
        everybody = self.history.client_ids
        by_name = sorted(rows, key=lambda row: in_order(everybody[self.chosen[row]]))
        orders = {"most suspicious first": tuple(rows), "by name": tuple(by_name)}
        if self.flagged:
            byzantine = set(self.flagged)
            orders["Byzantine first"] = tuple(sorted(rows, key=lambda row: row not in byzantine))
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
    first = set(sorted(order, key=lambda place: place not in history.byzantine)[:most])
    return [place for place in order if place in first]


def _weights(grid: _ClientGrid) -> Iterator[HeatMap]:
    weights = grid.history.entries.weight
    if np.isfinite(grid.entries.weight).any():
        yield replace(
            _heat_map(grid, weights, weights=False),
            key="weights",
            title="Weight of each client in each round",
            caption=f"1 is an equal share, 0 is removed; from {_DEEPEST} on colours are alike. {grid.note()}".strip(),
            value_title="weight (1 = equal share)",
            high=_DEEPEST,
        )


def _scores(grid: _ClientGrid) -> Iterator[HeatMap]:
    """Yield ranks in place of scores, as scores of different rounds have no common scale."""
    every = grid.history.entries
    known = np.isfinite(every.score)
    if known.any():
        ranks = np.full(len(every), np.nan)
        ranks[known] = mid_ranks(every.round[known], every.score[known])
        yield replace(
            _heat_map(grid, ranks, weights=True),
            key="scores",
            title="How suspicious each client looked in each round",
            caption="Which share of the round's updates had a lower score, as the rule measures suspicion: near 1 is "
            f"among the most suspicious, 0.5 nothing special. {grid.note()}".strip(),
            value_title="rank of suspicion",
            high=1.0,
            good_is_high=False,
        )


def _heat_map(grid: _ClientGrid, values: Numbers, *, weights: bool) -> HeatMap:
    """Return a value of every entry on the grid, still without a name; with weights, these are said of every cell."""
    names = client_names(grid.history.client_ids)
    means = grid_means(grid.rows, grid.columns, values[grid.all_rows >= 0], grid.shape)
    return HeatMap(
        key="",
        title="",
        rows=tuple(names[client] for client in grid.chosen),
        columns=grid.bins.labels(),
        values=tuple(map(figures, means)),
        row_title="client",
        column_title="round" if grid.bins.width == 1 else "rounds",
        value_title="",
        low=0.0,
        hover=_hover(grid, weights=weights),
        flagged=grid.flagged,
        orders=grid.orders(),
    )


def _hover(grid: _ClientGrid, *, weights: bool) -> tuple[tuple[str, ...], ...]:
    """Return what to say of every cell: of one round what happened and why, of several how often what happened."""
    texts = [[""] * grid.bins.number for _ in grid.chosen]
    if grid.bins.width == 1:
        _say_rounds(grid, texts, weights=weights)
    else:
        _say_bins(grid, texts)
    return tuple(map(tuple, texts))


def _say_rounds(grid: _ClientGrid, texts: list[list[str]], *, weights: bool) -> None:
    entries, reasons = grid.entries, grid.history.rounds.drop_reasons
    medians, meaning = grid.history["median_score"].tolist(), grid.history.score_meaning
    words = {int(fate): text for fate, text in _WORDS.items()}
    columns = (entries.client, entries.round, entries.weight, entries.score, entries.fate, grid.rows)
    for client, number, weight, score, fate, row in zip(*(each.tolist() for each in columns), strict=True):
        said = words[fate]
        if weights and not math.isnan(weight):
            said += f"; weight {weight:.3g} (1 = equal share)"
        if not math.isnan(score):
            said += f"; {meaning.briefly(score)}, median of the round {meaning.number([medians[number]])}"
        told = reasons.get((number, client)) or (
            grid.history.rounds.round_reasons[number] if fate in _EXPLAINED else ""
        )
        if told:
            said += f"\n{told}"
        texts[row][number] = said


def _say_bins(grid: _ClientGrid, texts: list[list[str]]) -> None:
    shape, entries = grid.shape, grid.entries
    cells = grid.rows * shape[1] + grid.columns
    size = shape[0] * shape[1]
    asked = np.bincount(cells, minlength=size).tolist()
    removed = np.bincount(cells[entries.removed], minlength=size).tolist()
    worst = grid_largest(grid.rows, grid.columns, entries.fate, shape).tolist()
    words = {int(fate): text for fate, text in _WORDS.items()}
    for row, line in enumerate(texts):
        for column in range(shape[1]):
            cell = row * shape[1] + column
            if asked[cell]:
                said = f"in {plural(asked[cell], 'cohort')}, removed {removed[cell]}×"
                line[column] = f"{said}; worst: {words[worst[row][column]]}"
