"""What the results of a comparison say: who stands where, and settings in words."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from steadfed._core.parsing import parse_toml
from steadfed.errors import SteadfedError
from steadfed.sweeps import _ranking as sweep
from steadfed.sweeps._ranking import NO_ATTACK, ORACLE, Estimate, Label, TrialSetting, estimate, mean_of
from steadfed.sweeps.runs._choices import FRACTION, SETTING
from steadfed.sweeps.runs._results import CellState, Result

Case = sweep.Case[Result]
WorstCase = sweep.WorstCase[Result]


@final
@dataclass(frozen=True, kw_only=True)
class ComparisonRank:
    """One rule over all settings in which there are Byzantine clients."""

    rule: str
    score: Estimate | None
    """Mean over settings of the worst case over attacks; the interval is over seeds. None without a result."""
    lowest: WorstCase | None
    without_attack: float | None
    """Mean of what is ranked by where nobody attacks."""
    precision: float | None
    recall: float | None
    honest_removed: float | None
    most_removed: float | None
    """The largest share of its honest updates that a client lost, the mean over cells."""
    worst_client: float | None
    """The score of the client for whom the model is worst, the mean over cells; None if clients were not scored."""
    seconds: float | None
    """Mean time of a cell."""
    num_settings: int
    """In how many settings there is a result for every attack; the others do not count."""
    num_wanted: int
    refused: int
    """Cells that the rule refused."""
    by_seed: Mapping[Label, float]
    """The score of every seed that there is in all settings."""

    @property
    def coverage(self) -> str:
        """In how many settings of how many there is a result for every attack."""
        return f"{self.num_settings}/{self.num_wanted}" + (f" ({self.refused} refused)" if self.refused else "")


@final
@dataclass(frozen=True, kw_only=True)
class Standing:
    """One rule in one setting."""

    setting: TrialSetting
    rule: str
    worst: WorstCase
    without_attack: Case | None
    """What it reaches where nobody attacks; None if the grid has no such case."""


def standings(results: Iterable[Result]) -> list[Standing]:
    """Return how every rule does in every setting, on the seeds that rules have in common there.

    The oracle is the same with and without an attack.
    """
    every = sweep.cases(sweep.on_common_seeds(results))
    peaceful = {(case.setting, case.rule): case for case in every if case.attack == NO_ATTACK or case.rule == ORACLE}
    return [
        Standing(
            setting=worst.setting,
            rule=worst.rule,
            worst=worst,
            without_attack=peaceful.get((worst.setting, worst.rule)),
        )
        for worst in sweep.worst_of(every)
    ]


def name_of(setting: TrialSetting) -> str | None:
    """Return the name that the grid gives a setting; None if it gives none."""
    name = dict(setting).get(SETTING)
    return None if name is None else str(name)


def varied_keys(results: Iterable[Result]) -> frozenset[str]:
    """Return the keys of settings that differ within the results; a name stands for all that its setting has in common.

    >>> varied_keys([])
    frozenset()
    """
    by_name: dict[Label | None, list[Result]] = defaultdict(list)
    for row in results:
        by_name[row.settings.get(SETTING)].append(row)
    found = frozenset[str]().union(*(_differing(rows) for rows in by_name.values()))
    return found | {SETTING} if by_name.keys() - {None} else found


def _differing(rows: Sequence[Result]) -> frozenset[str]:
    values: dict[str, set[Label | None]] = defaultdict(set)
    keys = {key for row in rows for key in row.settings}
    for row in rows:
        for key in keys:
            values[key].add(row.settings.get(key))
    return frozenset(key for key, seen in values.items() if len(seen) > 1)


def in_words(setting: TrialSetting, keys: Iterable[str] | None = None) -> str:
    """Return a setting in words, its name first; only these keys, or all. What has a name needs no key.

    >>> in_words((("byzantine_fraction", 0.2), ("heterogeneity", "dirichlet alpha=0.1"), ("local_steps", 5)))
    'byzantine fraction 0.2, dirichlet alpha=0.1, local steps 5'
    """
    shown = [(key, value) for key, value in setting if keys is None or key in keys]
    shown.sort(key=lambda pair: pair[0] != SETTING)
    if not shown and keys is not None:
        return in_words(setting)  # there is but one, whose keys do not differ
    return ", ".join(_short(key, value) for key, value in shown) or "as configured"


def _short(key: str, value: Label) -> str:
    return value if isinstance(value, str) else f"{key.replace('_', ' ').replace('.', ' ')} {value:.4g}"


def has_byzantine(setting: TrialSetting) -> bool:
    """Return whether there are Byzantine clients in a setting."""
    return bool(dict(setting).get(FRACTION, 0.0))


def duels(results: Iterable[Result], subject: str = sweep.SUBJECT) -> list[sweep.Duel[Result]]:
    """Return the subject against the strongest other rule in every setting with Byzantine clients."""
    return sweep.duels((row for row in results if has_byzantine(row.setting)), subject)


def ranking(results: Iterable[Result]) -> list[ComparisonRank]:
    """Return every rule on the seeds that rules have in common, the best first; rules that lack settings come last."""
    everything = list(results)
    rows = sweep.on_common_seeds(everything)
    wanted = {row.setting for row in everything if has_byzantine(row.setting)} or {row.setting for row in everything}
    worst = [each for each in sweep.worst_of(sweep.cases(rows)) if each.setting in wanted]
    rules = dict.fromkeys(row.rule for row in everything)
    found = [
        _rank_rule(
            rule, [row for row in rows if row.rule == rule], [each for each in worst if each.rule == rule], wanted
        )
        for rule in rules
    ]
    return sorted(found, key=lambda each: (-each.num_settings, -(each.score.rank if each.score else -math.inf)))


def _rank_rule(
    rule: str, rows: Sequence[Result], worst: Sequence[WorstCase], wanted: set[TrialSetting]
) -> ComparisonRank:
    complete = [each for each in worst if each.complete]
    by_seed = _scores(complete)
    hostile = [row for row in rows if row.attack != NO_ATTACK]
    return ComparisonRank(
        rule=rule,
        score=_score(complete, by_seed),
        by_seed=by_seed,
        lowest=min(worst, key=lambda each: each.value.rank, default=None),
        without_attack=mean_of(row.value for row in rows if row.attack == NO_ATTACK),
        precision=mean_figure(hostile, "precision"),
        recall=mean_figure(hostile, "recall"),
        honest_removed=None if rule == ORACLE else mean_figure(rows, "honest_removed"),
        most_removed=None if rule == ORACLE else mean_figure(rows, "most_removed"),
        worst_client=mean_of(row.figures.of("client_worst") for row in rows if row.figures is not None),
        seconds=mean_figure(rows, "seconds"),
        num_settings=len(complete),
        num_wanted=len(wanted),
        refused=sum(row.state is CellState.REFUSED for row in rows),
    )


def _scores(worst: Sequence[WorstCase]) -> dict[Label, float]:
    """Return the mean over settings of the worst cases, for every seed that is there everywhere."""
    by_seed = [each.case.by_seed for each in worst]
    common = sorted(set.intersection(*map(set, by_seed)) if by_seed else (), key=str)
    return {seed: float(np.mean([each[seed] for each in by_seed])) for seed in common}


def _score(worst: Sequence[WorstCase], by_seed: Mapping[Label, float]) -> Estimate | None:
    """Return the mean over settings of the worst cases; the interval is over seeds that are there everywhere."""
    if not worst:
        return None
    mean, measure = float(np.mean([each.value.mean for each in worst])), worst[0].value.measure
    over_seeds = estimate([*by_seed.values()] or [mean])
    return Estimate(mean=mean, half_width=over_seeds.half_width, number=over_seeds.number, measure=measure)


def leaders(ranked: Sequence[ComparisonRank]) -> list[ComparisonRank]:
    """Return the best rule and those that cannot be told from it over as many settings; the oracle is none of them."""
    rules = [each for each in ranked if each.rule != ORACLE and each.score is not None]
    return [
        each
        for each in rules
        if each is rules[0]
        or (each.num_settings == rules[0].num_settings and sweep.cannot_be_told_apart(rules[0].by_seed, each.by_seed))
    ]


def subject_of(results: Iterable[Result], chosen: str | None = None) -> str:
    """Return the rule that a comparison is about: the one that the grid names, or one's own, or RAGE, or the first.

    >>> subject_of([])
    'rage'
    """
    configs: dict[str, str] = {}
    for row in results:
        if row.rule != ORACLE:
            configs.setdefault(row.rule, row.config)
    own = (rule for rule, config in configs.items() if _is_own(config))
    known = chosen if chosen in configs else next(own, sweep.SUBJECT)
    return known if known in configs else next(iter(configs), sweep.SUBJECT)


def _is_own(config: str) -> bool:
    """Tell whether the rule of a configuration, or one that it wraps, is imported from code of one's own."""
    try:
        table = parse_toml(config).get("rule")
    except SteadfedError:
        return False
    while isinstance(table, Mapping):
        if "import" in table:
            return True
        table = table.get("rule")
    return False


def has_figures(case: Case) -> bool:
    """Return whether there are figures of a case, for any seed."""
    return any(row.figures is not None for row in case.trials)


def mean_figure(results: Iterable[Result], figure: str) -> float | None:
    """Return the mean of precision, recall, honest_removed or seconds; None if none has it."""
    values: list[Any] = [getattr(row.figures, figure) for row in results if row.figures is not None]
    return mean_of(values)
