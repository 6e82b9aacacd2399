"""The report of a comparison: who stands where, how surely, under which attack, and what to make of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import final

from steadfed import __version__
from steadfed._core.wording import plural
from steadfed.errors import SteadfedError
from steadfed.reports._comparison_backdoors import backdoors
from steadfed.reports._comparison_cards import headlines
from steadfed.reports._comparison_curves import case_curves
from steadfed.reports._comparison_settings import worst_case_per_setting
from steadfed.reports._comparison_tables import (
    capitalised,
    configuration,
    critical_reading,
    failures,
    filtering,
    published,
    ranking_picture,
    ranking_table,
    unit_of,
)
from steadfed.reports.panels import HeatMap, Panel, Report, Section
from steadfed.sweeps._measure import ACCURACY, Measure
from steadfed.sweeps._ranking import (
    NO_ATTACK,
    ORACLE,
    TrialSetting,
    cannot_be_told_apart,
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
    has_byzantine,
    has_figures,
    in_words,
    ranking,
    subject_of,
    varied_keys,
)
from steadfed.sweeps.runs._results import CellState, Result, read_results

_Axis = tuple[str, list[str]]
"""What stands along an axis of a map, and the names there."""
_Cell = tuple[float | None, str, Case | None]
"""A value, what to say of it, and where it comes from."""
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
        reading = critical_reading(self.results, note, self.subject)
        sections = [
            Section(key="verdict", title="What to make of it", panels=(reading,)),
            Section(key="ranking", title="Ranking", panels=tuple(self._ranking())),
            worst_case_per_setting(self.results, self.rules, self.subject),
            self._worst(),
            self._attacks(),
            self._curves(),
            backdoors(cases(self.results), self.keys, self.subject),
            filtering(self.cases, self.keys, self.subject),
            published(self.grid, cases(self.results), self.keys),
            failures(self.results, self.keys),
            configuration(self.path, self.results, self.grid),
        ]
        return Report(
            title=title,
            subtitle=f"{done:,} of {len(self.results):,} points of the grid, {len(self.rules)} rules",
            sections=tuple(section for section in sections if section is not None),
            headlines=tuple(headlines(self.results, self.ranking, self.subject)),
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

    def _ranking(self) -> Iterator[Panel]:
        yield ranking_table(self.ranking, self.subject)
        if any(each.score is not None for each in self.ranking):
            yield ranking_picture(self.ranking)

    @cached_property
    def subject(self) -> str:
        """The rule that headlines and tables speak of."""
        return subject_of(self.results, None if self.grid is None else self.grid.subject)

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

    def _worst(self) -> Section | None:
        """Return all rules in all settings, then a map per rule as ByzFL draws them; one setting needs none of these.

        A map of one row or one column would say what the map of all settings says.
        """
        found = {(each.rule, each.setting): each for each in worst_cases(self.results)}
        fractions = sorted({dict(setting).get(FRACTION, 0.0) for setting in self.settings}, key=float)
        rows = list(dict.fromkeys(_without(setting, FRACTION) for setting in self.settings))
        maps: list[Panel] = []
        if 1 < len(self.settings) <= MOST_COLUMNS:
            cells = [[_worst_cell(found.get((rule, setting))) for rule in self.rules] for setting in self.settings]
            settings = [_short_setting(setting, self.keys) for setting in self.settings]
            maps.append(self._worst_map("overview", "Worst case over attacks", settings, ("rule", self.rules), cells))
        flat = maps and (len(rows) == 1 or len(fractions) == 1)
        if len(self.settings) == 1 or flat or SETTING in self.keys:
            return _worst_section(maps) if maps else None
        settings = [in_words(row, self.keys) for row in rows]
        across = [_fraction_text(fraction) for fraction in fractions]
        for rule in self.rules:
            cells = [
                [_worst_cell(found.get((rule, _sort_keys((*row, (FRACTION, fraction)))))) for fraction in fractions]
                for row in rows
            ]
            title = f"{rule}: worst case over attacks"
            maps.append(self._worst_map(f"worst-{_slug(rule)}", title, settings, ("Byzantine clients", across), cells))
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
        title, written = f"Every attack: {in_words(setting, self.keys)}", len(attacks) <= MOST_COLUMNS
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
        cases_here = {rule: _case_of(here, rule, attack) for rule in self.rules}
        title = f"{attack}: {in_words(setting, self.keys)}"
        return case_curves(f"curves-{number + 1}", title, cases_here, self.rules, oracle=ORACLE)


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
        return None, "not in the grid" if case is None else "no result", None
    return case.value.mean, f"{case.value}, {plural(len(case.by_seed), 'seed')}", case


def _worst_cell(worst: WorstCase | None) -> _Cell:
    if worst is None:
        return None, "no result", None
    return worst.value.mean, f"{worst.value}, under {worst.case.attack}", worst.case


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
    every = [case for line in cells for _, _, case in line if case is not None]
    counts = sorted({len(case.by_seed) for case in every if case.rule != ORACLE} or {1})
    seeds = plural(counts[0], "seed") if len(counts) == 1 else f"{counts[0]} to {counts[-1]} seeds"
    best = "; bold: the best, and what cannot be told from it" if "rule" in {down[0], across[0]} else ""
    return HeatMap(
        key=key,
        title=title,
        note=f"Test {measure.title}{' in percent' if measure.is_share else ''}, mean over {seeds}{best}",
        rows=tuple(down[1]),
        columns=tuple(across[1]),
        values=tuple(tuple(value for value, _, _ in line) for line in cells),
        hover=tuple(tuple(text for _, text, _ in line) for line in cells),
        widths=tuple(tuple(_half_width(case) for _, _, case in line) for line in cells),
        strong=tuple(_best_of(cells, by_row=across[0] == "rule")) if best else (),
        row_title=down[0],
        column_title=across[0],
        value_title=measure.title,
        unit=unit_of(measure),
        low=0.0 if measure.is_share else None,
        high=1.0 if measure.is_share else None,
        good_is_high=measure.higher_is_better,
        written=written,
    )


def _half_width(case: Case | None) -> float | None:
    return None if case is None or case.value is None else case.value.half_width


def _best_of(cells: list[list[_Cell]], *, by_row: bool) -> Iterator[tuple[int, int]]:
    """Yield the places of the best rule of every row or column, and of those that seed by seed differ as by chance."""
    placed = [((row, column), case) for row, line in enumerate(cells) for column, (_, _, case) in enumerate(line)]
    along = 0 if by_row else 1
    for number in sorted({place[along] for place, _ in placed}):
        here = [(place, case) for place, case in placed if place[along] == number and case and case.rule != ORACLE]
        known = [(place, case, case.value.rank) for place, case in here if case.value is not None]
        if known:
            best = max(known, key=lambda each: each[2])[1]
            yield from (
                place for place, case, _ in known if case is best or cannot_be_told_apart(best.by_seed, case.by_seed)
            )


def _short_setting(setting: TrialSetting, keys: frozenset[str]) -> str:
    """Return a setting in few words, the share of Byzantine clients first, as a percentage."""
    rest, share = _without(setting, FRACTION), dict(setting).get(FRACTION)
    words = [_fraction_text(share)] if share is not None and FRACTION in keys else []
    return ", ".join([*words, in_words(rest, keys)] if keys - {FRACTION} else words) or in_words(setting, keys)


def _fraction_text(share: float | str) -> str:
    """Return a share as it was chosen: all of its digits, and no more."""
    return f"{100 * float(share):.4g} %"
