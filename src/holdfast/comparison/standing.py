"""What the results say: means over seeds with intervals, the worst case over attacks, and who stands where."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from scipy.stats import t as student

from holdfast.comparison.choices import ATTACK, FRACTION, ORACLE, RULE, SEED, Label
from holdfast.comparison.results import Result, State

NO_ATTACK = "none"
NOTHING = "–"
CONFIDENCE = 0.95
Setting = tuple[tuple[str, Label], ...]
"""All settings of a cell but the rule, the attack and the seed."""


@final
@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A mean over seeds, and how far it may be from that over all seeds.

    >>> estimate([0.90, 0.92, 0.91])
    Estimate(mean=0.91, half_width=0.0248413..., number=3)
    """

    mean: float
    half_width: float | None
    """Of the interval of Student's t at 95 %; None for one seed, which says nothing about others."""
    number: int

    def __str__(self) -> str:
        """Return the mean in percent, with the half width of its interval."""
        plus_minus = "" if self.half_width is None else f" ± {100 * self.half_width:.1f}"
        return f"{100 * self.mean:.1f}{plus_minus} %"


def estimate(values: Sequence[float]) -> Estimate:
    """Return the mean with its interval x̄ ± t_{0.975, n−1} s/√n."""
    mean, number = float(np.mean(values)), len(values)
    if number < 2:
        return Estimate(mean=mean, half_width=None, number=number)
    spread = float(np.std(values, ddof=1)) / math.sqrt(number)
    return Estimate(mean=mean, half_width=float(student.ppf(0.5 + CONFIDENCE / 2, number - 1)) * spread, number=number)


@final
@dataclass(frozen=True, kw_only=True)
class Case:
    """A rule under an attack in a setting: what it reached with each seed."""

    setting: Setting
    rule: str
    attack: str
    results: tuple[Result, ...]
    """Those with figures."""

    @property
    def by_seed(self) -> dict[Label, float]:
        """The accuracies that there are, by seed."""
        found = {}
        for result in self.results:
            if result.figures is not None and result.figures.accuracy is not None:
                found[result.settings[SEED]] = result.figures.accuracy
        return found

    @property
    def accuracy(self) -> Estimate | None:
        """The mean over seeds; None if there is none."""
        values = list(self.by_seed.values())
        return estimate(values) if values else None

    def mean_of(self, figure: str) -> float | None:
        """Return the mean over seeds of precision, recall, honest_removed or seconds; None if there is none."""
        values = [getattr(result.figures, figure) for result in self.results]
        there = [value for value in values if value is not None]
        return float(np.mean(there)) if there else None


@final
@dataclass(frozen=True, kw_only=True)
class WorstCase:
    """The attack under which a rule does worst in a setting."""

    setting: Setting
    rule: str
    case: Case
    accuracy: Estimate
    complete: bool
    """Whether there is a result for every attack that any rule meets in the setting."""


@final
@dataclass(frozen=True, kw_only=True)
class Standing:
    """One rule over all settings in which there are Byzantine clients."""

    rule: str
    score: Estimate | None
    """Mean over settings of the worst case over attacks; the interval is over seeds. None without a result."""
    lowest: WorstCase | None
    peace: float | None
    """Mean accuracy where nobody attacks."""
    precision: float | None
    recall: float | None
    honest_removed: float | None
    seconds: float | None
    """Mean time of a cell."""
    num_settings: int
    """In how many settings there is a result for every attack; the others do not count."""
    num_wanted: int
    refused: int
    """Cells that the rule refused."""

    def words(self) -> tuple[str, ...]:
        """Return a line of a table.

        Rule, worst case, lowest, under which attack, without attack, precision, recall, honest removed, settings.
        """
        return (
            self.rule,
            NOTHING if self.score is None else str(self.score),
            *((NOTHING, NOTHING) if self.lowest is None else (str(self.lowest.accuracy), self.lowest.case.attack)),
            *(_percent(each) for each in (self.peace, self.precision, self.recall, self.honest_removed)),
            self.coverage,
        )

    @property
    def coverage(self) -> str:
        """In how many settings of how many there is a result for every attack."""
        return f"{self.num_settings}/{self.num_wanted}" + (f" ({self.refused} refused)" if self.refused else "")


def setting_of(settings: Mapping[str, Label]) -> Setting:
    """Return what is not the rule, the attack or the seed."""
    return tuple((key, value) for key, value in sorted(settings.items()) if key not in {RULE, ATTACK, SEED})


def varied(results: Iterable[Result]) -> frozenset[str]:
    """Return the keys of settings that differ within the results."""
    values: dict[str, set[Label | None]] = defaultdict(set)
    rows = list(results)
    keys = {key for row in rows for key in row.settings}
    for row in rows:
        for key in keys:
            values[key].add(row.settings.get(key))
    return frozenset(key for key, seen in values.items() if len(seen) > 1)


def in_words(setting: Setting, keys: Iterable[str] | None = None) -> str:
    """Return a setting in words; only these keys, or all. What has a name needs no key.

    >>> in_words((("byzantine_fraction", 0.2), ("heterogeneity", "dirichlet alpha=0.1"), ("local_steps", 5)))
    'byzantine fraction 0.2, dirichlet alpha=0.1, local steps 5'
    """
    shown = [(key, value) for key, value in setting if keys is None or key in keys]
    return ", ".join(_short(key, value) for key, value in shown) or "the one setting"


def _short(key: str, value: Label) -> str:
    return value if isinstance(value, str) else f"{key.replace('_', ' ').replace('.', ' ')} {value:.4g}"


def cases(results: Iterable[Result]) -> list[Case]:
    """Return the results by setting, rule and attack, in the order of the grid."""
    found: dict[tuple[Setting, str, str], list[Result]] = defaultdict(list)
    for result in results:
        found[setting_of(result.settings), str(result.settings[RULE]), str(result.settings[ATTACK])].append(result)
    return [
        Case(
            setting=setting,
            rule=rule,
            attack=attack,
            results=tuple(each for each in rows if each.figures is not None),
        )
        for (setting, rule, attack), rows in found.items()
    ]


def comparable(results: Iterable[Result]) -> list[Result]:
    """Return the results without those of seeds that not all rules of a setting have played whole.

    A rule has played a seed whole if it has an accuracy under every attack of the setting. Rules that have no whole
    seed take none from the others; where no seed is common to the rest, all are kept.
    """
    rows = list(results)
    found = cases(rows)
    attacks = _attacks(found)
    met: dict[tuple[Setting, str], dict[Label, set[str]]] = defaultdict(lambda: defaultdict(set))
    for case in found:
        for seed in case.by_seed if case.rule != ORACLE else ():
            met[case.setting, case.rule][seed].add(case.attack)
    common: dict[Setting, set[Label]] = {}
    for (setting, _), by_seed in met.items():
        whole = {seed for seed, names in by_seed.items() if names >= attacks[setting]}
        if whole:
            common[setting] = common.get(setting, whole) & whole
    return [row for row in rows if row.figures is None or _counts(row, common.get(setting_of(row.settings)))]


def _counts(row: Result, seeds: set[Label] | None) -> bool:
    return not seeds or row.settings[SEED] in seeds


def _attacks(found: Iterable[Case]) -> dict[Setting, set[str]]:
    """Return which attacks any rule meets in a setting."""
    attacks: dict[Setting, set[str]] = defaultdict(set)
    for case in found:
        if case.rule != ORACLE:
            attacks[case.setting].add(case.attack)
    return attacks


def worst_cases(results: Iterable[Result]) -> list[WorstCase]:
    """Return for every setting and rule the attack with the smallest mean accuracy over the comparable seeds."""
    return _worst_of(cases(comparable(results)))


def _worst_of(every: Sequence[Case]) -> list[WorstCase]:
    attacks = _attacks(every)
    found: dict[tuple[Setting, str], list[Case]] = defaultdict(list)
    for case in every:
        found[case.setting, case.rule].append(case)
    worst = []
    for (setting, rule), each in found.items():
        there = [(case, case.accuracy) for case in each if case.accuracy is not None]
        if there:
            case, accuracy = min(there, key=lambda pair: pair[1].mean)
            met = rule == ORACLE or attacks[setting] <= {case.attack for case, _ in there}
            worst.append(WorstCase(setting=setting, rule=rule, case=case, accuracy=accuracy, complete=met))
    return worst


def attacked(setting: Setting) -> bool:
    """Return whether there are Byzantine clients in a setting."""
    return bool(dict(setting).get(FRACTION, 0.0))


def standings(results: Iterable[Result]) -> list[Standing]:
    """Return every rule's standing on the comparable seeds, the best first; rules that lack settings come last."""
    everything = list(results)
    rows = comparable(everything)
    contested = {setting_of(row.settings) for row in everything if attacked(setting_of(row.settings))}
    contested = contested or {setting_of(row.settings) for row in everything}
    worst = [each for each in _worst_of(cases(rows)) if each.setting in contested]
    rules = dict.fromkeys(str(row.settings[RULE]) for row in everything)
    found = [_standing(rule, rows, [each for each in worst if each.rule == rule], contested) for rule in rules]
    return sorted(found, key=lambda each: (-each.num_settings, -(each.score.mean if each.score else -1.0)))


def _standing(rule: str, rows: Sequence[Result], worst: Sequence[WorstCase], contested: set[Setting]) -> Standing:
    own = [row for row in rows if row.settings[RULE] == rule]
    complete = [each for each in worst if each.complete]
    peaceful = [row for row in own if row.settings[ATTACK] == NO_ATTACK]
    hostile = [row for row in own if row.settings[ATTACK] != NO_ATTACK]
    return Standing(
        rule=rule,
        score=_score(complete),
        lowest=min(worst, key=lambda each: each.accuracy.mean, default=None),
        peace=_mean(peaceful, "accuracy"),
        precision=_mean(hostile, "precision"),
        recall=_mean(hostile, "recall"),
        honest_removed=None if rule == ORACLE else _mean(own, "honest_removed"),
        seconds=_mean(own, "seconds"),
        num_settings=len(complete),
        num_wanted=len(contested),
        refused=sum(row.state is State.REFUSED for row in own),
    )


def _score(worst: Sequence[WorstCase]) -> Estimate | None:
    """Return the mean over settings of the worst cases; the interval is over seeds that are there everywhere."""
    if not worst:
        return None
    mean = float(np.mean([each.accuracy.mean for each in worst]))
    by_seed = [each.case.by_seed for each in worst]
    common = sorted(set.intersection(*(set(each) for each in by_seed)), key=str)
    over_seeds = estimate([float(np.mean([each[seed] for each in by_seed])) for seed in common] or [mean])
    return Estimate(mean=mean, half_width=over_seeds.half_width, number=over_seeds.number)


def _mean(rows: Iterable[Result], figure: str) -> float | None:
    values: list[Any] = [getattr(row.figures, figure) for row in rows if row.figures is not None]
    there = [value for value in values if value is not None]
    return float(np.mean(there)) if there else None


def _percent(share: float | None) -> str:
    return NOTHING if share is None else f"{100 * share:.1f} %"
