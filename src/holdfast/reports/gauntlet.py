"""The tables of a gauntlet: the rules by their worst case, and where one of them is not the best."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from holdfast.reports.panels import Column, Panel, Table, Text, Unit, Value
from holdfast.sweeps.matrices import GauntletRank, GauntletRecord, lost_duels
from holdfast.sweeps.ranking import SUBJECT

MOST_DUELS = 12
"""Settings that are listed in which the subject is not the best."""


def gauntlet_ranking(ranked: Sequence[GauntletRank]) -> Table:
    """Return the worst cases, the best rule first."""
    dims = sorted({dim for each in ranked for dim in each.worst_by_dim})
    return Table(
        key="ranking",
        title="worst error over all attacks, in units of σ₀√ε; best first",
        caption="A rule that refused some matrices is ranked by the others.",
        columns=(
            Column(title="rule"),
            Column(title="worst", unit=Unit.NUMBER),
            *(Column(title=f"d={dim:,}", unit=Unit.NUMBER) for dim in dims),
            Column(title="honest lost", unit=Unit.PERCENT, hint="share of honest weight lost where nobody attacks"),
            Column(title="forged kept", unit=Unit.PERCENT, hint="share of the update that comes from forged rows"),
            Column(title="mean", unit=Unit.NUMBER, hint="over all attacks", minor=True),
            Column(title="ms", unit=Unit.NUMBER, hint="one aggregation of the largest matrices", minor=True),
            Column(title="its worst attack"),
        ),
        rows=tuple(
            (
                each.rule,
                _digits(each.worst_error),
                *(_digits(each.worst_by_dim.get(dim)) for dim in dims),
                each.honest_weight_lost,
                each.byzantine_weight,
                _digits(each.mean_error),
                _digits(1e3 * each.seconds),
                _where(each),
            )
            for each in ranked
        ),
        flagged=tuple(place for place, each in enumerate(ranked) if each.rule == SUBJECT),
    )


def gauntlet_duels(records: Sequence[GauntletRecord]) -> Iterator[Panel]:
    """Yield where the subject is not the best; nothing if it was not there, or alone."""
    duels = lost_duels(records)
    cells = {(r.cohort_size, r.dim, r.num_byzantine, r.model) for r in records}
    rules = {record.rule for record in records}
    if SUBJECT not in rules or len(rules) == 1:
        return
    if not duels:
        told = f"{SUBJECT} has the smallest worst case of {len(rules)} rules in all settings ({len(cells)})."
        yield Text(key="duels", title="", paragraphs=(told,))
        return
    ordered = sorted(duels, key=lambda duel: duel.difference.mean)
    rows: list[tuple[Value, ...]] = []
    for each in ordered:
        setting = (value for _, value in each.setting)
        rows.append((*setting, each.other.rule, _digits(-each.other.value.mean), _digits(-each.own.value.mean)))
    numbers, words = ("K", "d", "f"), ("honest model", "best rule")
    worst = ("its worst", f"{SUBJECT}'s worst")
    yield Table(
        key="duels",
        title=f"{SUBJECT} is not the best in {len(duels)} of {len(cells)} settings",
        caption="The largest differences come first.",
        columns=(
            *(Column(title=title, unit=Unit.NUMBER) for title in numbers),
            *(Column(title=title) for title in words),
            *(Column(title=title, unit=Unit.NUMBER) for title in worst),
        ),
        rows=tuple(rows),
        shown=MOST_DUELS,
    )


def _where(ranked: GauntletRank) -> str:
    worst = ranked.worst
    if worst is None:
        return "refused every matrix"
    return f"{worst.attack} on {worst.model}" + (f" ({ranked.num_refused} refused)" if ranked.num_refused else "")


def _digits(value: float | None) -> float | None:
    """Return an error as far as it is worth reading; None if there is none to show."""
    return None if value is None or not abs(value) < float("inf") else float(f"{value:.3g}")
