"""The tables of a comparison's report: who was removed, published figures, what has no figures, how to do it again."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

from steadfed.reports.panels import Code, Column, Panel, Section, Table, Text, Tone, Unit, Value, tabulate
from steadfed.sweeps._measure import ACCURACY, Measure
from steadfed.sweeps._ranking import ORACLE, SUBJECT, DuelVerdict, Estimate, Label
from steadfed.sweeps.runs._choices import ATTACK, RULE
from steadfed.sweeps.runs._commentary import commentary
from steadfed.sweeps.runs._comparison import GRID
from steadfed.sweeps.runs._grid import ComparisonGrid
from steadfed.sweeps.runs._ranking import Case, ComparisonRank, duels, has_figures, in_words, mean_figure
from steadfed.sweeps.runs._results import CellState, Result

_TEXT, _PERCENT = Unit.TEXT, Unit.PERCENT
_MEAN = "mean over settings of the worst case over attacks"
_LOWEST, _UNDER = "the worst of all settings", "the attack of the lowest"
_HALF = "half of the 95 % interval over seeds"
_PRECISION = "share of removals that hit Byzantine clients, over runs with any"
_RECALL = "share of Byzantine updates that were removed"
_MOST = "of the honest updates of the client that lost most, mean over cells"
_REMOVED = "share of honest updates that were removed"


def critical_reading(results: Sequence[Result], note: str = "") -> Text:
    """Return what a critical reader would say, after what the grid says of itself."""
    beaten = any(each.verdict is DuelVerdict.BEATEN for each in duels(results))
    return Text(
        key="reading",
        title="A critical reading",
        paragraphs=tuple(" ".join(each.split()) for each in (note, *commentary(results)) if each),
        tone=Tone.WARNING if beaten else Tone.PLAIN,
    )


def ranking_table(ranked: Sequence[ComparisonRank]) -> Table:
    """Return the rules by their worst case, the best first."""
    measure = next((each.score.measure for each in ranked if each.score is not None), ACCURACY)
    unit = unit_of(measure)
    columns: dict[Column, Callable[[ComparisonRank], Value]] = {
        Column("rule"): lambda each: each.rule,
        Column("worst case", unit, _MEAN): lambda each: each.score.mean if each.score else None,
        Column("±", unit, _HALF): lambda each: each.score.half_width if each.score else None,
        Column("lowest", unit, _LOWEST): lambda each: each.lowest.value.mean if each.lowest else None,
        Column("under", _TEXT, _UNDER): lambda each: each.lowest.case.attack if each.lowest else None,
        Column("without attack", unit): lambda each: each.without_attack,
        Column("precision", _PERCENT, _PRECISION, minor=True): lambda each: each.precision,
        Column("recall", _PERCENT, _RECALL, minor=True): lambda each: each.recall,
        Column("honest removed", _PERCENT, _REMOVED, minor=True): lambda each: each.honest_removed,
        Column("most removed", _PERCENT, _MOST, minor=True): lambda each: each.most_removed,
        **_client_columns(ranked),
        Column("settings", _TEXT, "in which every attack has a result", minor=True): lambda each: each.coverage,
        Column("seconds a cell", Unit.SECONDS, minor=True): lambda each: each.seconds,
    }
    return tabulate(
        ranked,
        columns,
        key="ranking",
        title="Rules by their worst case",
        caption=f"{capitalised(measure)} is the mean of the last five evaluations"
        + ("" if measure.higher_is_better else "; lower is better")
        + ". The oracle is the mean of the honest updates, "
        "which no rule can know. Rules that lack settings stand below those that do not.",
        flag=lambda each: each.rule == SUBJECT,
    )


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


def filtering(cases: Sequence[Case], keys: frozenset[str]) -> Section | None:
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
        flag=lambda case: case.rule == SUBJECT,
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
        Column("±", _PERCENT, _HALF): lambda pair: pair[2].half_width if pair[2] else None,
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
