"""The report of a comparison: who stands where, how surely, under which attack, and what to make of it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import final

import numpy as np

from steadfed import __version__
from steadfed._core.wording import plural
from steadfed.errors import SteadfedError
from steadfed.reports._comparison_backdoors import backdoors
from steadfed.reports._comparison_settings import worst_case_per_setting
from steadfed.reports._comparison_tables import (
    capitalised,
    configuration,
    critical_reading,
    failures,
    filtering,
    published,
    ranking_table,
    unit_of,
)
from steadfed.reports.panels import (
    Headline,
    HeatMap,
    Lines,
    Panel,
    Report,
    Section,
    Series,
    Style,
    Tone,
)
from steadfed.sweeps._measure import ACCURACY, Measure
from steadfed.sweeps._ranking import (
    NO_ATTACK,
    ORACLE,
    SUBJECT,
    DuelVerdict,
    TrialSetting,
    cases,
    on_common_seeds,
    worst_cases,
)
from steadfed.sweeps.runs._choices import FRACTION, SETTING
from steadfed.sweeps.runs._comparison import GRID, RESULTS
from steadfed.sweeps.runs._grid import ComparisonGrid, parse_grid
from steadfed.sweeps.runs._ranking import (
    Case,
    ComparisonRank,
    WorstCase,
    duels,
    has_byzantine,
    has_figures,
    in_words,
    ranking,
    varied_keys,
)
from steadfed.sweeps.runs._results import CellState, Result, read_results

_Axis = tuple[str, list[str]]
"""What stands along an axis of a map, and the names there."""
_Cell = tuple[float | None, str]
"""A value, and what to say of it."""
MOST_MAPS = 12
"""How many settings have a map of rules and attacks."""
MOST_WRITTEN = 150
"""How many cells of a map have their number written into them."""
MOST_COLUMNS = 16
"""How many settings fit into one map of all rules."""
MOST_CURVES = 24
"""How many pairs of a setting and an attack have curves."""


def comparison_report(path: Path) -> Report:
    """Return the report of the comparison in a folder.

    Raises:
        CorruptRunError: there is none, or it is damaged.
    """
    return _Comparison(path, read_results(path / RESULTS), _grid(path / GRID)).report()


def _grid(path: Path) -> ComparisonGrid | None:
    """Return the grid that was compared; None if it cannot be read, as the results speak for themselves."""
    try:
        return parse_grid(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, SteadfedError):
        return None


@final
@dataclass(frozen=True, eq=False)
class _Comparison:
    path: Path
    results: list[Result]
    grid: ComparisonGrid | None

    def report(self) -> Report:
        title = self.grid.title if self.grid is not None else self.path.name
        done = sum(row.state is CellState.FINISHED for row in self.results)
        note = "" if self.grid is None else self.grid.note
        sections = [
            Section(key="verdict", title="What to make of it", panels=(critical_reading(self.results, note),)),
            Section(key="ranking", title="Ranking", panels=(ranking_table(self.ranking),)),
            worst_case_per_setting(self.results, self.rules),
            self._worst(),
            self._attacks(),
            self._curves(),
            backdoors(cases(self.results), self.keys),
            filtering(self.cases, self.keys),
            published(self.grid, cases(self.results), self.keys),
            failures(self.results, self.keys),
            configuration(self.path, self.results, self.grid),
        ]
        return Report(
            title=title,
            subtitle=f"{done:,} of {len(self.results):,} points of the grid, {len(self.rules)} rules",
            sections=tuple(section for section in sections if section is not None),
            headlines=tuple(self._headlines()),
            made_with={"steadfed": __version__},
        )

    @property
    def measure(self) -> Measure:
        """What rules are ranked by."""
        return self.results[0].measure if self.results else ACCURACY

    @cached_property
    def rules(self) -> list[str]:
        """The rules, the best first; the oracle among them."""
        return [each.rule for each in self.ranking]

    @cached_property
    def ranking(self) -> list[ComparisonRank]:
        return ranking(self.results)

    @cached_property
    def keys(self) -> frozenset[str]:
        """The settings that differ."""
        return varied_keys(self.results)

    @cached_property
    def cases(self) -> list[Case]:
        """The cases on the seeds that rules have in common, as the ranking has them."""
        return cases(on_common_seeds(self.results))

    @cached_property
    def settings(self) -> list[TrialSetting]:
        return list(dict.fromkeys(case.setting for case in self.cases))

    def _headlines(self) -> Iterator[Headline]:
        ranked = [each for each in self.ranking if each.rule != ORACLE and each.score is not None]
        if ranked:
            yield Headline(title="best worst case", value=ranked[0].rule, note=str(ranked[0].score), tone=Tone.GOOD)
        for place, each in enumerate(ranked, 1):
            if each.rule == SUBJECT and place > 1:
                yield Headline(title=SUBJECT, value=f"number {place} of {len(ranked)}", note=str(each.score))
        fought = duels(self.results)
        if fought:
            counts = {verdict: sum(each.verdict is verdict for each in fought) for verdict in DuelVerdict}
            value = f"{counts[DuelVerdict.BEATEN]} of {len(fought)} settings"
            note = f"best in {counts[DuelVerdict.BEST]}, within noise in {counts[DuelVerdict.WITHIN_NOISE]}"
            tone = Tone.WARNING if counts[DuelVerdict.BEATEN] else Tone.PLAIN
            yield Headline(title=f"{SUBJECT} beaten in", value=value, note=note, tone=tone)
        oracle = next((each for each in self.ranking if each.rule == ORACLE and each.score is not None), None)
        if oracle is not None:
            yield Headline(title="mean of the honest", value=str(oracle.score), note="what no rule can know")
        failed = sum(row.state is CellState.FAILED for row in self.results)
        if failed:
            yield Headline(title="failed", value=f"{failed:,} cells", tone=Tone.WARNING)

    def _worst(self) -> Section:
        """Return all rules in all settings, then a map per rule as ByzFL draws them."""
        found = {(each.rule, each.setting): each for each in worst_cases(self.results)}
        fractions = sorted({dict(setting).get(FRACTION, 0.0) for setting in self.settings}, key=float)
        rows = list(dict.fromkeys(_without(setting, FRACTION) for setting in self.settings))
        maps: list[Panel] = []
        if 1 < len(self.settings) <= MOST_COLUMNS:
            cells = [[_worst_cell(found.get((rule, setting))) for rule in self.rules] for setting in self.settings]
            settings = [_short_setting(setting, self.keys) for setting in self.settings]
            maps.append(self._worst_map("overview", "All settings, all rules", settings, ("rule", self.rules), cells))
        if maps and SETTING in self.keys:  # each has a share of its own, and all are in the map above
            return _worst_section(maps)
        settings = [in_words(row, self.keys) for row in rows]
        across = [_fraction_text(fraction) for fraction in fractions]
        for rule in self.rules:
            cells = [
                [_worst_cell(found.get((rule, _sort_keys((*row, (FRACTION, fraction)))))) for fraction in fractions]
                for row in rows
            ]
            maps.append(self._worst_map(f"worst-{_slug(rule)}", rule, settings, ("Byzantine clients", across), cells))
        return _worst_section(maps)

    def _worst_map(self, key: str, title: str, settings: list[str], across: _Axis, cells: list[list[_Cell]]) -> HeatMap:
        written = len(settings) * len(across[1]) <= MOST_WRITTEN
        return _value_map(self.measure, key, title, ("setting", settings), across, cells, written=written)

    def _attacks(self) -> Section:
        maps = [self._map(number, setting) for number, setting in enumerate(self._contested[:MOST_MAPS])]
        return Section(
            key="attacks",
            title="Rules under attacks",
            panels=tuple(maps),
            intro=_limit_note("settings", len(maps), len(self._contested)),
        )

    @cached_property
    def _contested(self) -> list[TrialSetting]:
        return [setting for setting in self.settings if has_byzantine(setting)] or self.settings

    def _map(self, number: int, setting: TrialSetting) -> Panel:
        here = {(case.rule, case.attack): case for case in self.cases if case.setting == setting}
        attacks = list(dict.fromkeys(attack for rule, attack in here if rule != ORACLE))
        rules = [rule for rule in self.rules if any(key[0] == rule for key in here)]
        cells = [[_case_cell(_case_of(here, rule, attack)) for attack in attacks] for rule in rules]
        title, written = in_words(setting, self.keys), len(attacks) <= 12
        down, across = ("rule", rules), ("attack", attacks)
        return _value_map(self.measure, f"attacks-{number + 1}", title, down, across, cells, written=written)

    def _curves(self) -> Section:
        contested = {setting: place for place, setting in enumerate(self._contested)}
        pairs = list(
            dict.fromkeys(
                (case.setting, case.attack)
                for case in self.cases
                if case.rule != ORACLE and case.setting in contested and has_figures(case)
            )
        )
        pairs.sort(key=lambda pair: (pair[1] == NO_ATTACK, contested[pair[0]]))
        panels = [self._lines(number, *pair) for number, pair in enumerate(pairs[:MOST_CURVES])]
        return Section(
            key="curves",
            title=f"{capitalised(self.measure)} over rounds",
            panels=tuple(panels),
            intro=_limit_note("pairs of a setting and an attack", len(panels), len(pairs)),
        )

    def _lines(self, number: int, setting: TrialSetting, attack: str) -> Panel:
        here = {(case.rule, case.attack): case for case in self.cases if case.setting == setting}
        series = []
        for place, rule in enumerate(self.rules):
            case = _case_of(here, rule, attack)
            if case is not None and (curve := _curve(case)):
                x, y = curve
                style = Style.DOTTED if rule == ORACLE else Style.LINE
                series.append(Series(name=rule, x=x, y=y, colour=place, style=style))
        return Lines(
            key=f"curves-{number + 1}",
            title=f"{attack}: {in_words(setting, self.keys)}",
            caption="Mean over seeds.",
            series=tuple(series),
            x_title="rounds",
            y_title=f"test {self.measure.title}",
            unit=unit_of(self.measure),
        )


def _worst_section(maps: Sequence[Panel]) -> Section:
    return Section(
        key="worst-cases",
        title="Worst case over attacks",
        panels=tuple(maps),
        intro="Every cell is the mean over seeds under the attack that hurts this rule most there.",
    )


def _case_of(here: Mapping[tuple[str, str], Case], rule: str, attack: str) -> Case | None:
    """Return a case; the oracle is the same under every attack."""
    if rule == ORACLE:
        return next((case for (name, _), case in here.items() if name == ORACLE), None)
    return here.get((rule, attack))


def _case_cell(case: Case | None) -> _Cell:
    """Return the value of a case, and what to say of it."""
    if case is None or case.value is None:
        return None, "not in the grid" if case is None else "no result"
    return case.value.mean, f"{case.value}, {plural(len(case.by_seed), 'seed')}"


def _worst_cell(worst: WorstCase | None) -> _Cell:
    return (worst.value.mean, f"{worst.value}, under {worst.case.attack}") if worst else (None, "no result")


def _curve(case: Case) -> tuple[tuple[float, ...], tuple[float | None, ...]] | None:
    """Return the mean curve of the seeds that have the same evaluations as the first."""
    name = case.trials[0].measure.name
    curves = [result.figures.curve_of(name) for result in case.trials if result.figures is not None]
    found = [(rounds, curve) for rounds, curve in curves if curve]
    if not found:
        return None
    rounds = found[0][0]
    alike = np.array([curve for other, curve in found if other == rounds], dtype=np.float64)  # None becomes NaN
    means = alike.mean(axis=0).tolist()
    return tuple(map(float, rounds)), tuple(value if math.isfinite(value) else None for value in means)


def _without(setting: TrialSetting, key: str) -> TrialSetting:
    return tuple(pair for pair in setting if pair[0] != key)


def _sort_keys(setting: TrialSetting) -> TrialSetting:
    return tuple(sorted(setting, key=lambda pair: pair[0]))


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def _limit_note(what: str, shown: int, total: int) -> str:
    return f"The first {shown} of {total} {what}; all are in results.parquet." if shown < total else ""


def _value_map(
    measure: Measure, key: str, title: str, down: _Axis, across: _Axis, cells: list[list[_Cell]], *, written: bool
) -> HeatMap:
    return HeatMap(
        key=key,
        title=title,
        rows=tuple(down[1]),
        columns=tuple(across[1]),
        values=tuple(tuple(value for value, _ in line) for line in cells),
        hover=tuple(tuple(text for _, text in line) for line in cells),
        row_title=down[0],
        column_title=across[0],
        value_title=measure.title,
        unit=unit_of(measure),
        low=0.0 if measure.is_share else None,
        high=1.0 if measure.is_share else None,
        good_is_high=measure.higher_is_better,
        written=written,
    )


def _short_setting(setting: TrialSetting, keys: frozenset[str]) -> str:
    """Return a setting in few words, the share of Byzantine clients first, as a percentage."""
    rest, share = _without(setting, FRACTION), dict(setting).get(FRACTION)
    words = [_fraction_text(share)] if share is not None and FRACTION in keys else []
    return ", ".join([*words, in_words(rest, keys)] if keys - {FRACTION} else words) or in_words(setting, keys)


def _fraction_text(share: float | str) -> str:
    """Return a share as it was chosen: all of its digits, and no more."""
    return f"{100 * float(share):.4g} %"
