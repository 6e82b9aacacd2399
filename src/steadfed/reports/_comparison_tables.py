"""The tables of a comparison's report: who was removed, published figures, what has no figures, how to do it again."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from steadfed._core.wording import plural
from steadfed.reports.panels import (
    Code,
    Column,
    Lines,
    Panel,
    Section,
    Series,
    Style,
    Table,
    Text,
    Tone,
    Unit,
    Value,
    tabulate,
)
from steadfed.sweeps._measure import ACCURACY, Measure
from steadfed.sweeps._ranking import ORACLE, SUBJECT, DuelVerdict, Estimate, Label, paired_difference
from steadfed.sweeps.runs._choices import ATTACK, RULE
from steadfed.sweeps.runs._commentary import commentary
from steadfed.sweeps.runs._comparison import GRID
from steadfed.sweeps.runs._grid import ComparisonGrid
from steadfed.sweeps.runs._ranking import (
    Case,
    ComparisonRank,
    duels,
    has_figures,
    in_words,
    leaders,
    mean_figure,
    subject_of,
)
from steadfed.sweeps.runs._results import CellState, Result

_TEXT, _PERCENT = Unit.TEXT, Unit.PERCENT
_MEAN = "mean over settings of the worst case over attacks"
_LOWEST, _UNDER = "the worst of all settings", "the attack of the lowest"
_HALF = "half of the 95 % interval over seeds"
_PRECISION = "share of removals that hit Byzantine clients, over runs with any"
_RECALL = "share of Byzantine updates that were removed"
_MOST = "of the honest updates of the client that lost most, mean over cells"
_REMOVED = "share of honest updates that were removed"
_AGAINST = (
    "less than the best rule has (shares in points), seed by seed, with the 95 % interval; a tie, if that holds 0"
)
_ONE_SEED = "One seed has no interval: what separates rules here may be chance."


def critical_reading(results: Sequence[Result], note: str = "", subject: str | None = None) -> Text:
    """Return what a critical reader would say of one rule, after what the grid says of itself."""
    beaten = any(each.verdict is DuelVerdict.BEATEN for each in duels(results, subject_of(results, subject)))
    return Text(
        key="reading",
        title="A critical reading",
        paragraphs=tuple(" ".join(each.split()) for each in (note, *commentary(results, subject)) if each),
        tone=Tone.WARNING if beaten else Tone.PLAIN,
    )


def ranking_table(ranked: Sequence[ComparisonRank], subject: str = SUBJECT) -> Table:
    """Return the rules by their worst case, the best first."""
    first, measure = [each.rule for each in leaders(ranked)], measure_of(ranked)
    unit = unit_of(measure)

    def against_best(each: ComparisonRank) -> str | None:
        if each.rule in first:
            return "best" if len(first) == 1 else "tie"
        best = next((one for one in ranked if one.rule in first), each)
        difference = paired_difference(each.by_seed, best.by_seed, measure)
        told = each.rule != ORACLE and best.num_settings == each.num_settings and difference is not None
        return points_of(difference) if told and difference is not None else None

    columns: dict[Column, Callable[[ComparisonRank], Value]] = {
        Column("rule"): lambda each: each.rule,
        Column("worst case", unit, _MEAN): lambda each: each.score.mean if each.score else None,
        Column("±", unit, _HALF, half_width=True): lambda each: each.score.half_width if each.score else None,
        Column("against the best", _TEXT, _AGAINST): against_best,
        Column("lowest", unit, _LOWEST): lambda each: each.lowest.value.mean if each.lowest else None,
        Column("under", _TEXT, _UNDER): lambda each: each.lowest.case.attack if each.lowest else None,
        Column("without attack", unit): lambda each: each.without_attack,
        Column("precision", _PERCENT, _PRECISION, minor=True): lambda each: each.precision,
        Column("recall", _PERCENT, _RECALL, minor=True): lambda each: each.recall,
        Column("honest removed", _PERCENT, _REMOVED, minor=True): lambda each: each.honest_removed,
        Column("most removed", _PERCENT, _MOST, minor=True): lambda each: each.most_removed,
        **_client_columns(ranked),
        Column("settings", _TEXT, "in which every attack has a result", minor=True): lambda each: each.coverage,
        Column("time", Unit.SECONDS, "of a cell, on average", minor=True): lambda each: each.seconds,
    }
    seeds = max((len(each.by_seed) for each in ranked), default=0)
    table = tabulate(
        ranked,
        columns,
        key="ranking",
        title="Rules by their worst case",
        caption=f"{capitalised(measure)} is the mean of the last five evaluations"
        + ("" if measure.higher_is_better else "; lower is better")
        + ". The oracle is the mean of the honest updates, which no rule can know. Rules that lack settings stand "
        "below those that do not. A tie: the differences to the best rule, seed by seed, have a 95 % interval that "
        "holds 0." + (f" {_ONE_SEED}" if seeds == 1 else ""),
        flag=lambda each: each.rule == subject,
    )
    return replace(table, note=_basis(ranked))


def ranking_picture(ranked: Sequence[ComparisonRank]) -> Lines:
    """Return the ranking as points: what an attacker leaves of every rule, and what it reaches without an attack."""
    places = range(len(ranked))
    scores, measure = [each.score for each in ranked], measure_of(ranked)
    worst = Series(
        name="worst case over attacks",
        x=tuple(map(float, places)),
        y=tuple(None if score is None else score.mean for score in scores),
        bands=tuple(map(_interval, scores)),
        colour=1,
        style=Style.POINTS,
        strong=True,
    )
    unattacked = Series(
        name="without attack",
        x=tuple(map(float, places)),
        y=tuple(each.without_attack for each in ranked),
        colour=0,
        style=Style.POINTS,
    )
    return Lines(
        key="worst-cases-of-rules",
        title="What an attacker leaves of every rule",
        note=_basis(ranked),
        series=(worst, unattacked),
        x_title="rule",
        y_title=f"test {measure.title}",
        unit=unit_of(measure),
        places=tuple(each.rule for each in ranked),
    )


def _basis(ranked: Sequence[ComparisonRank]) -> str:
    """Say what a ranking rests on."""
    seeds = max((len(each.by_seed) for each in ranked), default=0)
    settings = max((each.num_wanted for each in ranked), default=0)
    over = f"{plural(settings, 'setting')} and {plural(seeds, 'seed')}" if settings > 1 else plural(seeds, "seed")
    return f"Worst case over attacks, mean over {over}{', with 95 % intervals' if seeds > 1 else ''}"


def _interval(score: Estimate | None) -> tuple[float, float] | None:
    if score is None or score.half_width is None:
        return None
    low, high = score.mean - score.half_width, score.mean + score.half_width
    return (max(0.0, low), min(1.0, high)) if score.measure.is_share else (low, high)


def points_of(difference: Estimate) -> str:
    """Return a difference of shares in points of a percent, of others as a number, with its interval.

    >>> points_of(Estimate(mean=-0.1234, half_width=0.02, number=3))
    '−12.3 ± 2.0'
    """
    if not difference.measure.is_share:
        return str(difference).replace("-", "−")
    mean = f"{100 * difference.mean:+.1f}".replace("-", "−")
    return mean if difference.half_width is None else f"{mean} ± {100 * difference.half_width:.1f}"


def measure_of(ranked: Sequence[ComparisonRank]) -> Measure:
    """Return what rules are ranked by."""
    return next((each.score.measure for each in ranked if each.score is not None), ACCURACY)


def _client_columns(ranked: Sequence[ComparisonRank]) -> dict[Column, Callable[[ComparisonRank], Value]]:
    """Return the column of the client for whom the model is worst, if clients were scored."""
    if all(each.worst_client is None for each in ranked):
        return {}
    shares = all(0.0 <= each.worst_client <= 1.0 for each in ranked if each.worst_client is not None)
    unit = Unit.PERCENT if shares else Unit.NUMBER
    return {Column("worst client", unit, "its score, mean over cells", minor=True): lambda each: each.worst_client}


def unit_of(measure: Measure) -> Unit:
    """Return how values of a measure are shown."""
    return Unit.PERCENT if measure.is_share else Unit.NUMBER


def capitalised(measure: Measure) -> str:
    """Return what a measure is called at the beginning of a sentence."""
    return measure.title[:1].upper() + measure.title[1:]


def filtering(cases: Sequence[Case], keys: frozenset[str], subject: str = SUBJECT) -> Section | None:
    """Return precision and recall of the rules that remove clients, by attack and setting; None if none does."""
    played = [case for case in cases if case.rule != ORACLE and has_figures(case)]
    removing = {
        case.rule
        for case in played
        if mean_figure(case.trials, "precision") is not None or mean_figure(case.trials, "honest_removed")
    }
    chosen = [case for case in played if case.rule in removing]
    if not chosen:
        return None
    columns: dict[Column, Callable[[Case], Value]] = {
        Column("rule"): lambda case: case.rule,
        Column("attack"): lambda case: case.attack,
        Column("setting"): lambda case: in_words(case.setting, keys),
        Column("precision", _PERCENT, _PRECISION): lambda case: mean_figure(case.trials, "precision"),
        Column("recall", _PERCENT, _RECALL): lambda case: mean_figure(case.trials, "recall"),
        Column("honest removed", _PERCENT, _REMOVED): lambda case: mean_figure(case.trials, "honest_removed"),
    }
    table = tabulate(
        chosen,
        columns,
        key="filter",
        title="Who was removed",
        caption="Means over seeds. Rules that never remove anybody, such as medians, are not here; a precision is "
        "blank where the rule removed nobody.",
        flag=lambda case: case.rule == subject,
        shown=30,
    )
    return Section(key="filtering", title="Precision and recall", panels=(table,))


def published(grid: ComparisonGrid | None, cases: Sequence[Case], keys: frozenset[str]) -> Section | None:
    """Return the figures that others have published beside ours; None if the grid names none."""
    pairs = [
        (case, figure.accuracy, case.value)
        for figure in (() if grid is None or grid.metric not in {None, ACCURACY.name} else grid.published)
        for case in cases
        if figure.belongs_to({**dict(case.setting), RULE: case.rule, ATTACK: case.attack})
    ]
    if not pairs:
        return None
    columns: dict[Column, Callable[[tuple[Case, float, Estimate | None]], Value]] = {
        Column("rule"): lambda pair: pair[0].rule,
        Column("attack"): lambda pair: pair[0].attack,
        Column("setting"): lambda pair: in_words(pair[0].setting, keys),
        Column("published", _PERCENT): lambda pair: pair[1],
        Column("ours", _PERCENT): lambda pair: pair[2].mean if pair[2] else None,
        Column("±", _PERCENT, _HALF, half_width=True): lambda pair: pair[2].half_width if pair[2] else None,
        Column("difference", _PERCENT, "ours minus published"): (
            lambda pair: pair[2].mean - pair[1] if pair[2] else None
        ),
        Column("seeds", Unit.NUMBER): lambda pair: len(pair[0].by_seed),
    }
    table = tabulate(
        pairs,
        columns,
        key="published",
        title="Published figures beside ours",
        caption="The comments of the grid say what is not the same in the two; see the configuration below.",
    )
    return Section(key="published", title="Published figures", panels=(table,))


def failures(results: Sequence[Result], keys: frozenset[str]) -> Section | None:
    """Return the cells that have no figures, and why; None if all have."""
    bad = [row for row in results if row.state in {CellState.FAILED, CellState.REFUSED}]
    if not bad:
        return None
    rows = [(row.rule, row.attack, in_words(row.setting, keys), str(row.state), row.reason) for row in bad]
    table = Table(
        key="failures",
        title="Cells without figures",
        caption="Refused: the rule needs more updates for the number of Byzantine ones it assumes. Failed cells are "
        "tried again when the comparison is run again.",
        columns=tuple(Column(title) for title in ("rule", "attack", "setting", "state", "reason")),
        rows=tuple(dict.fromkeys(rows)),
        shown=20,
    )
    return Section(key="failures", title="Refused and failed", panels=(table,))


def configuration(path: Path, results: Sequence[Result], grid: ComparisonGrid | None) -> Section:
    """Return what was chosen from, the grid, one cell in full, and how to do it again."""
    axes: dict[str, dict[Label, None]] = {}
    for row in results:
        for key, value in row.settings.items():
            axes.setdefault(key, {})[value] = None
    rows = tuple((key, len(values), ", ".join(map(str, values))) for key, values in axes.items())
    panels: list[Panel] = [
        Table(
            key="axes",
            title="Settings",
            columns=(Column("key"), Column("values", Unit.NUMBER), Column("what they are")),
            rows=rows,
            flagged=tuple(place for place, row in enumerate(rows) if row[1] > 1),
        )
    ]
    if grid is not None:
        panels.append(Code(key="grid", title="The grid", text=grid.text, language="toml"))
        command = f"steadfed compare {shlex.quote(str(path / GRID))} --out elsewhere"
        note = "Same grid, same data, same figures, whatever the number of jobs."
        panels.append(Code(key="reproduce", title="How to reproduce", caption=note, text=command))
    if results:
        caption = "Save it and `steadfed run` it; the others are in the column config of results.parquet."
        text = results[0].config
        panels.append(Code(key="cell", title="One cell in full", caption=caption, text=text, language="toml"))
    return Section(key="configuration", title="Configuration", panels=tuple(panels))
