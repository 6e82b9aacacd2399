"""Rules by their worst case: over the attacks of a setting, with intervals over seeds, one rule against another."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Generic, Protocol, TypeVar, final

import numpy as np
from scipy.stats import t as student

from steadfed.sweeps._measure import ACCURACY, Measure

Label = str | int | float
"""What a choice of a grid is called."""
TrialSetting = tuple[tuple[str, Label], ...]
"""All that is chosen for a trial but the rule, the attack and the seed."""

SUBJECT = "rage"
"""The rule that is compared with the others."""
ORACLE = "oracle"
"""The label of the mean of the honest rows, which no rule can know: it is the same under every attack."""
NO_ATTACK = "none"
"""The label of the attack where there is none."""
CONFIDENCE = 0.95


class Trial(Protocol):
    """A rule, tried under an attack in a setting with a seed."""

    @property
    def setting(self) -> TrialSetting:
        """Where it was tried."""

    @property
    def rule(self) -> str:
        """The label of the rule."""

    @property
    def attack(self) -> str:
        """The label of the attack."""

    @property
    def seed(self) -> Label:
        """Which of several draws it is."""

    @property
    def value(self) -> float | None:
        """What was reached; None if there is no result."""

    @property
    def measure(self) -> Measure:
        """What the value means, and which direction is better."""


TrialT = TypeVar("TrialT", bound=Trial)


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
    measure: Measure = field(default=ACCURACY, repr=False)
    """What it is an estimate of."""

    @property
    def rank(self) -> float:
        """The mean so that larger is better."""
        return self.measure.rank(self.mean)

    def __str__(self) -> str:
        """Return the mean, in percent if it is a share, with the half width of its interval."""
        mean = self.measure.text(self.mean)
        return mean if self.half_width is None else f"{mean.removesuffix(' %')} ± {self.measure.text(self.half_width)}"


def estimate(values: Sequence[float], measure: Measure = ACCURACY) -> Estimate:
    """Return the mean with its interval x̄ ± t_{0.975, n−1} s/√n."""
    mean, number = float(np.mean(values)), len(values)
    if number < 2:
        return Estimate(mean=mean, half_width=None, number=number, measure=measure)
    spread = float(np.std(values, ddof=1)) / math.sqrt(number)
    width = float(student.ppf(0.5 + CONFIDENCE / 2, number - 1)) * spread
    return Estimate(mean=mean, half_width=width, number=number, measure=measure)


def paired_difference(
    ours: Mapping[Label, float], theirs: Mapping[Label, float], measure: Measure = ACCURACY
) -> Estimate | None:
    """Return how much more one has than another, seed by seed, on the seeds that both have; None if there are none.

    What all seeds share, such as easy data, cancels, so the interval is narrower than those of the two.

    >>> paired_difference({0: 0.5, 1: 0.9}, {0: 0.4, 1: 0.8, 2: 0.7})
    Estimate(mean=0.1, half_width=0.0, number=2)
    """
    differences = [round(ours[seed] - theirs[seed], 12) for seed in ours if seed in theirs]
    return estimate(differences, measure) if differences else None


def is_tie(difference: Estimate) -> bool:
    """Tell whether a difference may be chance: its interval holds 0, or it has none, as one seed tells nothing."""
    return difference.half_width is None or abs(difference.mean) <= difference.half_width


def cannot_be_told_apart(ours: Mapping[Label, float], theirs: Mapping[Label, float]) -> bool:
    """Tell whether two tie: the interval of their differences, seed by seed, holds 0.

    One seed has no interval: two tie if they are equal there. Without a common seed nothing is known, and no tie.

    >>> cannot_be_told_apart({0: 0.5, 1: 0.9}, {0: 0.6, 1: 0.8}), cannot_be_told_apart({0: 0.5}, {0: 0.6})
    (True, False)
    """
    difference = paired_difference(ours, theirs)
    if difference is None:
        return False
    return difference.mean == 0.0 or (difference.half_width is not None and is_tie(difference))


def mean_of(values: Iterable[float | None]) -> float | None:
    """Return the mean of the values that there are; None if there is none."""
    there = [value for value in values if value is not None]
    return float(np.mean(there)) if there else None


@final
@dataclass(frozen=True, kw_only=True)
class Case(Generic[TrialT]):
    """A rule under an attack in a setting: what it reached with each seed."""

    setting: TrialSetting
    rule: str
    attack: str
    trials: tuple[TrialT, ...]

    @property
    def by_seed(self) -> dict[Label, float]:
        """The values that there are, by seed."""
        return {trial.seed: trial.value for trial in self.trials if trial.value is not None}

    @property
    def value(self) -> Estimate | None:
        """The mean over seeds; None if there is none."""
        values = list(self.by_seed.values())
        return estimate(values, self.trials[0].measure) if values else None

    @property
    def span(self) -> tuple[float, float] | None:
        """The smallest and the largest value over seeds; None if there is none."""
        values = self.by_seed.values()
        return (min(values), max(values)) if values else None


@final
@dataclass(frozen=True, kw_only=True)
class WorstCase(Generic[TrialT]):
    """The attack under which a rule does worst in a setting."""

    setting: TrialSetting
    rule: str
    case: Case[TrialT]
    value: Estimate
    complete: bool
    """Whether there is a result for every attack that any rule meets in the setting."""


class DuelVerdict(Enum):
    """How the subject does in a setting."""

    BEST = "best"
    WITHIN_NOISE = "within the noise"
    BEATEN = "beaten"


@final
@dataclass(frozen=True, kw_only=True)
class Duel(Generic[TrialT]):
    """The subject against another rule in a setting, on the seeds that both have."""

    setting: TrialSetting
    own: WorstCase[TrialT]
    other: WorstCase[TrialT]
    difference: Estimate
    """The subject's worst case minus the other's, paired by seed."""

    @property
    def verdict(self) -> DuelVerdict:
        """Whether the difference is more than the seeds explain; what one seed shows may be chance."""
        if is_tie(self.difference):
            return DuelVerdict.WITHIN_NOISE
        return DuelVerdict.BEST if self.difference.rank > 0 else DuelVerdict.BEATEN


def cases(trials: Iterable[TrialT]) -> list[Case[TrialT]]:
    """Return the trials by setting, rule and attack, in the order in which they come."""
    found: dict[tuple[TrialSetting, str, str], list[TrialT]] = defaultdict(list)
    for trial in trials:
        found[trial.setting, trial.rule, trial.attack].append(trial)
    return [
        Case(setting=setting, rule=rule, attack=attack, trials=tuple(each))
        for (setting, rule, attack), each in found.items()
    ]


def on_common_seeds(trials: Iterable[TrialT]) -> list[TrialT]:
    """Return the trials without the values of seeds that not all rules of a setting have played whole.

    A rule has played a seed whole if it has a value under every attack of the setting. Rules that have no whole seed
    take none from the others; where no seed is common to the rest, all are kept.
    """
    rows = list(trials)
    found = cases(rows)
    attacks = _attacks(found)
    met: dict[tuple[TrialSetting, str], dict[Label, set[str]]] = defaultdict(lambda: defaultdict(set))
    for case in found:
        for seed in case.by_seed if case.rule != ORACLE else ():
            met[case.setting, case.rule][seed].add(case.attack)
    common: dict[TrialSetting, set[Label]] = {}
    for (setting, _), by_seed in met.items():
        whole = {seed for seed, names in by_seed.items() if names >= attacks[setting]}
        if whole:
            common[setting] = common.get(setting, whole) & whole
    return [row for row in rows if row.value is None or row.seed in (common.get(row.setting) or {row.seed})]


def _attacks(found: Iterable[Case[Any]]) -> Mapping[TrialSetting, set[str]]:
    """Return which attacks any rule meets in a setting."""
    attacks: dict[TrialSetting, set[str]] = defaultdict(set)
    for case in found:
        if case.rule != ORACLE:
            attacks[case.setting].add(case.attack)
    return attacks


def worst_cases(trials: Iterable[TrialT]) -> list[WorstCase[TrialT]]:
    """Return for every setting and rule the attack with the worst mean over the seeds that rules have in common."""
    return worst_of(cases(on_common_seeds(trials)))


def worst_of(every: Sequence[Case[TrialT]]) -> list[WorstCase[TrialT]]:
    """Return for every setting and rule the case with the worst mean."""
    attacks = _attacks(every)
    found: dict[tuple[TrialSetting, str], list[Case[TrialT]]] = defaultdict(list)
    for case in every:
        found[case.setting, case.rule].append(case)
    worst = []
    for (setting, rule), each in found.items():
        there = [(case, case.value) for case in each if case.value is not None]
        if there:
            case, value = min(there, key=lambda pair: pair[1].rank)
            met = rule == ORACLE or attacks[setting] <= {case.attack for case, _ in there}
            worst.append(WorstCase(setting=setting, rule=rule, case=case, value=value, complete=met))
    return worst


def duels(trials: Iterable[TrialT], subject: str = SUBJECT) -> list[Duel[TrialT]]:
    """Return the subject against the strongest other rule, setting by setting, where both have met every attack.

    The strongest is the best of those that beat the subject beyond the seeds; if none does, the best.
    """
    found: dict[TrialSetting, dict[str, WorstCase[TrialT]]] = defaultdict(dict)
    for each in worst_cases(trials):
        if each.complete and each.rule != ORACLE:
            found[each.setting][each.rule] = each
    fought = []
    for by_rule in found.values():
        own = by_rule.pop(subject, None)
        if own is not None and by_rule:
            met = [_duel(own, other) for other in by_rule.values()]
            lost = [each for each in met if each.verdict is DuelVerdict.BEATEN]
            fought.append(min(lost or met, key=lambda each: each.difference.rank))
    return fought


def _duel(own: WorstCase[TrialT], other: WorstCase[TrialT]) -> Duel[TrialT]:
    ours, theirs, measure = own.case.by_seed, other.case.by_seed, own.value.measure
    common = [seed for seed in ours if seed in theirs]
    paired = paired_difference(ours, theirs, measure)
    if paired is None:
        apart = own.value.mean - other.value.mean
        difference = Estimate(mean=apart, half_width=None, number=1, measure=measure)
        return Duel(setting=own.setting, own=own, other=other, difference=difference)
    return Duel(
        setting=own.setting,
        own=replace(own, value=estimate([ours[seed] for seed in common], measure)),
        other=replace(other, value=estimate([theirs[seed] for seed in common], measure)),
        difference=paired,
    )
