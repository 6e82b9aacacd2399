"""The settings of a comparison that have names: how every rule does in each of them, and where one rule loses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from steadfed.reports._comparison_tables import unit_of
from steadfed.reports.panels import Column, Lines, Section, Series, Style, Table, Unit, Value, tabulate
from steadfed.sweeps._measure import ACCURACY
from steadfed.sweeps._ranking import ORACLE, SUBJECT, Duel, DuelVerdict, TrialSetting
from steadfed.sweeps.runs._ranking import Case, Standing, duels, in_words, name_of, standings, subject_of, varied_keys
from steadfed.sweeps.runs._results import Result

_ABREAST = 0.75
"""The share of a place that the rules in it take up, side by side."""
_FROM, _TO = "the smallest over seeds", "the largest over seeds"
_DIFFERENCE = "'s worst case minus the other's, seed by seed"
_OTHER = "the best of those that beat it beyond the noise, or the best there is"
_INTRO = (
    "The worst case is the mean over seeds under the attack that hurts a rule most there; bands are from the smallest "
    "to the largest over seeds. An attacker chooses the attack, you choose the rule: without attack is what it costs."
)


def worst_case_per_setting(results: Sequence[Result], rules: Sequence[str], subject: str = SUBJECT) -> Section | None:
    """Return how rules do in each setting that has a name, as pictures and tables; None if none has one."""
    found = [each for each in standings(results) if name_of(each.setting) is not None]
    if not found:
        return None
    keys = varied_keys(results)
    ordered = _by_setting(found, rules)
    picture = partial(_picture, found=ordered, rules=rules, keys=keys, subject=subject)
    return Section(
        key="settings",
        title="Worst case per setting",
        intro=_INTRO,
        panels=(
            duel_table(results, subject),
            picture("worst-by-setting", "Worst case over attacks", case_of=lambda each: each.worst.case),
            picture("unattacked-by-setting", "Without attack", case_of=lambda each: each.without_attack),
            _standings_table(ordered, keys, subject, _unit(results)),
        ),
    )


def duel_table(results: Sequence[Result], chosen: str | None = None) -> Table:
    """Return one rule beside the strongest other one, setting by setting; where it is beaten is marked."""
    keys, subject = varied_keys(results), subject_of(results, chosen)
    unit = _unit(results)
    unattacked = {(each.setting, each.rule): each.without_attack for each in standings(results)}
    oracles = {each.setting: each.worst.value.mean for each in standings(results) if each.rule == ORACLE}
    columns: dict[Column, Callable[[Duel[Result]], Value]] = {
        Column("setting"): lambda each: in_words(each.setting, keys),
        Column(subject, unit, "its worst case"): lambda each: each.own.value.mean,
        Column("best other", hint=_OTHER): lambda each: each.other.rule,
        Column("its worst", unit): lambda each: each.other.value.mean,
        Column("difference", unit, f"{subject}{_DIFFERENCE}"): lambda each: each.difference.mean,
        Column("verdict", hint=f"on {subject}"): lambda each: each.verdict.value,
        Column("unattacked", unit): lambda each: _mean(unattacked.get((each.setting, each.own.rule))),
        Column("its unattacked", unit): lambda each: _mean(unattacked.get((each.setting, each.other.rule))),
        Column("oracle", unit, "the mean of the honest", minor=True): lambda each: oracles.get(each.setting),
    }
    return tabulate(
        duels(results, subject),
        columns,
        key="duels",
        title=f"{subject} and the strongest other rule",
        caption="On the seeds that both have. Within the noise: the difference is smaller than its 95 % interval.",
        flag=lambda each: each.verdict is DuelVerdict.BEATEN,
    )


def _unit(results: Sequence[Result]) -> Unit:
    return unit_of(results[0].measure if results else ACCURACY)


def _standings_table(found: Sequence[Standing], keys: frozenset[str], subject: str, unit: Unit) -> Table:
    columns: dict[Column, Callable[[Standing], Value]] = {
        Column("setting"): lambda each: in_words(each.setting, keys),
        Column("rule"): lambda each: each.rule,
        Column("worst case", unit): lambda each: each.worst.value.mean,
        Column("from", unit, _FROM): lambda each: _end(each.worst.case, 0),
        Column("to", unit, _TO): lambda each: _end(each.worst.case, 1),
        Column("under"): lambda each: each.worst.case.attack + ("" if each.worst.complete else ", others are lacking"),
        Column("without attack", unit): lambda each: _mean(each.without_attack),
        Column("seeds", Unit.NUMBER): lambda each: each.worst.value.number,
    }
    return tabulate(
        found,
        columns,
        key="standings",
        title="Every rule in every setting",
        caption="The oracle is the mean of the honest updates, which no rule can know.",
        flag=lambda each: each.rule == subject,
        shown=30,
    )


def _picture(
    key: str,
    title: str,
    *,
    found: Sequence[Standing],
    rules: Sequence[str],
    keys: frozenset[str],
    subject: str,
    case_of: Callable[[Standing], Case | None],
) -> Lines:
    """Return a point with its band for every rule in every setting, the rules of a setting side by side."""
    settings = list(dict.fromkeys(each.setting for each in found))
    by_rule = {rule: {each.setting: case_of(each) for each in found if each.rule == rule} for rule in rules}
    measure = found[0].worst.value.measure if found else ACCURACY
    return Lines(
        key=key,
        title=title,
        series=tuple(
            _points(rule, place, len(rules), settings, by_rule[rule], strong=rule == subject)
            for place, rule in enumerate(rules)
        ),
        x_title="setting",
        y_title=f"test {measure.title}",
        unit=unit_of(measure),
        places=tuple(in_words(setting, keys) for setting in settings),
    )


def _points(
    rule: str,
    place: int,
    number: int,
    settings: Sequence[TrialSetting],
    cases: dict[TrialSetting, Case | None],
    *,
    strong: bool,
) -> Series:
    beside = _ABREAST * ((place + 0.5) / number - 0.5)
    there = [(at + beside, cases[setting]) for at, setting in enumerate(settings) if cases.get(setting) is not None]
    return Series(
        name=rule,
        x=tuple(at for at, _ in there),
        y=tuple(_mean(case) for _, case in there),
        bands=tuple(None if case is None else case.span for _, case in there),
        colour=place,
        style=Style.POINTS,
        strong=strong,
    )


def _by_setting(found: Iterable[Standing], rules: Sequence[str]) -> list[Standing]:
    """Return standings by setting as they come, and within each by the order of the rules."""
    rows = list(found)
    settings = list(dict.fromkeys(each.setting for each in rows))
    return sorted(rows, key=lambda each: (settings.index(each.setting), rules.index(each.rule)))


def _mean(case: Case | None) -> float | None:
    return None if case is None or case.value is None else case.value.mean


def _end(case: Case, which: int) -> float | None:
    return None if case.span is None else case.span[which]
