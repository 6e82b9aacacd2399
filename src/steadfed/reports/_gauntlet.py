"""The tables of a gauntlet: the rules by their worst case, and where one of them is not the best."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from steadfed.reports.panels import Column, Panel, Table, Text, Unit, Value, tabulate
from steadfed.sweeps._ranking import SUBJECT
from steadfed.sweeps.matrices import GauntletRank, GauntletRecord, lost_duels

MOST_DUELS = 12
"""Settings that are listed in which the subject is not the best."""


def gauntlet_ranking(ranked: Sequence[GauntletRank]) -> Table:
    """Return the worst cases, the best rule first."""
    lost, forged = "share of honest weight lost without attack", "share of the update that comes from forged updates"
    timed = "one aggregation of the largest matrices"
    trace, top = "largest error² over the trace of the honest covariance", "the same over its largest eigenvalue"
    columns: dict[Column, Callable[[GauntletRank], Value]] = {
        Column("rule"): lambda each: each.rule,
        Column("worst", Unit.NUMBER): lambda each: _digits(each.worst_error),
    }
    for dim in sorted({dim for each in ranked for dim in each.worst_by_dim}):
        columns[Column(f"d={dim:,}", Unit.NUMBER)] = partial(_worst_at, dim=dim)
    columns |= {
        Column("honest lost", Unit.PERCENT, lost): lambda each: each.honest_weight_lost,
        Column("forged kept", Unit.PERCENT, forged): lambda each: each.byzantine_weight,
        Column("e²/trace", Unit.NUMBER, trace, minor=True): lambda each: _digits(each.trace_coefficient),
        Column("e²/λ", Unit.NUMBER, top, minor=True): lambda each: _digits(each.spectral_coefficient),
        Column("mean", Unit.NUMBER, "over all attacks", minor=True): lambda each: _digits(each.mean_error),
        Column("ms", Unit.NUMBER, timed, minor=True): lambda each: _digits(1e3 * each.seconds),
        Column("its worst attack"): _where,
    }
    return tabulate(
        ranked,
        columns,
        key="ranking",
        title="worst error over all attacks, in units of σ₀√ε; best first",
        caption="A rule that refused some matrices is ranked by the others. e²/trace and e²/λ are the largest that was "
        "found, lower bounds of robustness coefficients; the true ones are at least f/(K − 2f) for every rule. "
        "A rule with older results, which have no trace, has none here.",
        flag=lambda each: each.rule == SUBJECT,
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
    rows: list[tuple[Value, ...]] = []
    for each in sorted(duels, key=lambda duel: duel.difference.mean):
        setting = (value for _, value in each.setting)
        rows.append((*setting, each.other.rule, _digits(-each.other.value.mean), _digits(-each.own.value.mean)))
    yield Table(
        key="duels",
        title=f"{SUBJECT} is not the best in {len(duels)} of {len(cells)} settings",
        caption="The largest differences come first.",
        columns=(
            *(Column(title, Unit.NUMBER) for title in ("K", "d", "f")),
            *(Column(title) for title in ("honest model", "best rule")),
            *(Column(title, Unit.NUMBER) for title in ("its worst", f"{SUBJECT}'s worst")),
        ),
        rows=tuple(rows),
        shown=MOST_DUELS,
    )


def _worst_at(ranked: GauntletRank, dim: int) -> float | None:
    return _digits(ranked.worst_by_dim.get(dim))


def _where(ranked: GauntletRank) -> str:
    worst = ranked.worst
    if worst is None:
        return "refused every matrix"
    return f"{worst.attack} on {worst.model}" + (f" ({ranked.num_refused} refused)" if ranked.num_refused else "")


def _digits(value: float | None) -> float | None:
    """Return an error as far as it is worth reading; None if there is none to show."""
    return None if value is None or not abs(value) < float("inf") else float(f"{value:.3g}")
