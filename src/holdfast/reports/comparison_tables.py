"""The tables of a comparison's report: who was removed, published figures, what has no figures, how to do it again."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from holdfast.reports.panels import Code, Column, Panel, Section, Table, Text, Tone, Unit, Value
from holdfast.sweeps.ranking import ORACLE, SUBJECT, DuelVerdict, Label
from holdfast.sweeps.runs.choices import ATTACK, RULE
from holdfast.sweeps.runs.commentary import commentary
from holdfast.sweeps.runs.comparison import GRID
from holdfast.sweeps.runs.grid import ComparisonGrid
from holdfast.sweeps.runs.ranking import Case, ComparisonRank, duels, has_figures, in_words, mean_figure
from holdfast.sweeps.runs.results import CellState, Result

_PRECISION = "share of removals that hit liars, over runs with any"
_RECALL = "share of Byzantine updates that were removed"
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
    return Table(
        key="ranking",
        title="Rules by their worst case",
        caption="Accuracy is the mean of the last five evaluations. The oracle is the mean of the honest rows, which "
        "no rule can know. Rules that lack settings stand below those that do not.",
        columns=(
            Column(title="rule"),
            Column(title="worst case", unit=Unit.PERCENT, hint="mean over settings of the worst case over attacks"),
            Column(title="±", unit=Unit.PERCENT, hint="half of the 95 % interval over seeds"),
            Column(title="lowest", unit=Unit.PERCENT, hint="the worst of all settings"),
            Column(title="under", hint="the attack of the lowest"),
            Column(title="without attack", unit=Unit.PERCENT),
            Column(title="precision", unit=Unit.PERCENT, hint=_PRECISION, minor=True),
            Column(title="recall", unit=Unit.PERCENT, hint=_RECALL, minor=True),
            Column(title="honest removed", unit=Unit.PERCENT, hint=_REMOVED, minor=True),
            Column(title="settings", hint="in which every attack has a result", minor=True),
            Column(title="seconds a cell", unit=Unit.SECONDS, minor=True),
        ),
        rows=tuple(_ranked(each) for each in ranked),
        flagged=tuple(place for place, each in enumerate(ranked) if each.rule == SUBJECT),
    )


def _ranked(each: ComparisonRank) -> tuple[Value, ...]:
    return (
        each.rule,
        each.score.mean if each.score else None,
        each.score.half_width if each.score else None,
        each.lowest.value.mean if each.lowest else None,
        each.lowest.case.attack if each.lowest else None,
        each.without_attack,
        each.precision,
        each.recall,
        each.honest_removed,
        each.coverage,
        each.seconds,
    )


def filtering(cases: Sequence[Case], keys: frozenset[str]) -> Section | None:
    """Return precision and recall of the rules that remove clients, by attack and setting; None if none does."""
    played = [case for case in cases if case.rule != ORACLE and has_figures(case)]
    removing = {
        case.rule
        for case in played
        if mean_figure(case.trials, "precision") is not None or mean_figure(case.trials, "honest_removed")
    }
    rows: list[tuple[Value, ...]] = []
    for case in played:
        if case.rule in removing:
            shares = (mean_figure(case.trials, figure) for figure in ("precision", "recall", "honest_removed"))
            rows.append((case.rule, case.attack, in_words(case.setting, keys), *shares))
    if not rows:
        return None
    table = Table(
        key="filter",
        title="Who was removed",
        caption="Means over seeds. Rules that never remove anybody, such as medians, are not here; a precision is "
        "blank where the rule removed nobody.",
        columns=(
            Column(title="rule"),
            Column(title="attack"),
            Column(title="setting"),
            Column(title="precision", unit=Unit.PERCENT, hint=_PRECISION),
            Column(title="recall", unit=Unit.PERCENT, hint=_RECALL),
            Column(title="honest removed", unit=Unit.PERCENT, hint=_REMOVED),
        ),
        rows=tuple(rows),
        flagged=tuple(place for place, row in enumerate(rows) if row[0] == SUBJECT),
        shown=30,
    )
    return Section(key="filtering", title="Precision and recall", panels=(table,))


def published(grid: ComparisonGrid | None, cases: Sequence[Case], keys: frozenset[str]) -> Section | None:
    """Return the figures that others have published beside ours; None if the grid names none."""
    if grid is None or not grid.published:
        return None
    rows: list[tuple[Value, ...]] = []
    for figure in grid.published:
        for case in cases:
            if not figure.belongs_to({**dict(case.setting), RULE: case.rule, ATTACK: case.attack}):
                continue
            ours = case.value
            rows.append(
                (
                    case.rule,
                    case.attack,
                    in_words(case.setting, keys),
                    figure.accuracy,
                    ours.mean if ours else None,
                    ours.half_width if ours else None,
                    ours.mean - figure.accuracy if ours else None,
                    len(case.by_seed),
                )
            )
    if not rows:
        return None
    table = Table(
        key="published",
        title="Published figures beside ours",
        caption="The comments of the grid say what is not the same in the two; see the configuration below.",
        columns=(
            Column(title="rule"),
            Column(title="attack"),
            Column(title="setting"),
            Column(title="published", unit=Unit.PERCENT),
            Column(title="ours", unit=Unit.PERCENT),
            Column(title="±", unit=Unit.PERCENT, hint="half of the 95 % interval over seeds"),
            Column(title="difference", unit=Unit.PERCENT, hint="ours minus published"),
            Column(title="seeds", unit=Unit.NUMBER),
        ),
        rows=tuple(rows),
    )
    return Section(key="published", title="Published figures", panels=(table,))


def failures(results: Sequence[Result], keys: frozenset[str]) -> Section | None:
    """Return the cells that have no figures, and why; None if all have."""
    bad = [row for row in results if row.state in {CellState.FAILED, CellState.REFUSED}]
    if not bad:
        return None
    rows = [
        (
            row.rule,
            row.attack,
            in_words(row.setting, keys),
            str(row.state),
            row.reason,
        )
        for row in bad
    ]
    table = Table(
        key="failures",
        title="Cells without figures",
        caption="Refused: the rule needs more rows for the number of Byzantine ones it is told. Failed cells are "
        "tried again when the comparison is run again.",
        columns=tuple(Column(title=title) for title in ("rule", "attack", "setting", "state", "reason")),
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
            columns=(Column(title="key"), Column(title="values", unit=Unit.NUMBER), Column(title="what they are")),
            rows=rows,
            flagged=tuple(place for place, row in enumerate(rows) if row[1] > 1),
        )
    ]
    if grid is not None:
        panels.append(Code(key="grid", title="The grid", text=grid.text, language="toml"))
        command = f"holdfast compare {shlex.quote(str(path / GRID))} --out elsewhere"
        note = "Same grid, same data, same accuracies, whatever the number of jobs."
        panels.append(Code(key="reproduce", title="How to reproduce", caption=note, text=command))
    if results:
        caption = "Save it and `holdfast run` it; the others are in the column config of results.parquet."
        text = results[0].config
        panels.append(Code(key="cell", title="One cell in full", caption=caption, text=text, language="toml"))
    return Section(key="configuration", title="Configuration", panels=tuple(panels))
