"""A critical reading of a comparison, in sentences: where one rule is best, where it is not, and what is only noise."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import final

import numpy as np

from holdfast.comparison.cells import ORACLE
from holdfast.comparison.choices import RULE
from holdfast.comparison.results import Result, State
from holdfast.comparison.standing import (
    Estimate,
    Setting,
    Standing,
    WorstCase,
    attacked,
    estimate,
    in_words,
    standings,
    varied,
    worst_cases,
)

CHAMPION = "rage"
"""The rule that is read about."""


class Verdict(Enum):
    """How the champion does in a setting."""

    BEST = "best"
    WITHIN_NOISE = "within the noise"
    BEATEN = "beaten"


@final
@dataclass(frozen=True, kw_only=True)
class Contest:
    """The champion against the best other rule in a setting."""

    setting: Setting
    own: WorstCase
    other: WorstCase
    difference: Estimate
    """The champion's worst case minus the other's, paired by seed."""

    @property
    def verdict(self) -> Verdict:
        """Whether the difference is more than the seeds explain; one seed explains anything."""
        width = self.difference.half_width
        if width is None or abs(self.difference.mean) <= width:
            return Verdict.WITHIN_NOISE
        return Verdict.BEST if self.difference.mean > 0 else Verdict.BEATEN


def contests(results: Iterable[Result], champion: str = CHAMPION) -> list[Contest]:
    """Return the champion against the best other rule, setting by setting, where both have met every attack."""
    found: dict[Setting, dict[str, WorstCase]] = defaultdict(dict)
    for each in worst_cases(results):
        if each.complete and each.rule != ORACLE and attacked(each.setting):
            found[each.setting][each.rule] = each
    held = []
    for setting, by_rule in found.items():
        own = by_rule.pop(champion, None)
        if own is not None and by_rule:
            other = max(by_rule.values(), key=lambda each: each.accuracy.mean)
            held.append(Contest(setting=setting, own=own, other=other, difference=_difference(own, other)))
    return held


def _difference(own: WorstCase, other: WorstCase) -> Estimate:
    ours, theirs = own.case.by_seed, other.case.by_seed
    common = [seed for seed in ours if seed in theirs]
    if not common:
        return Estimate(mean=own.accuracy.mean - other.accuracy.mean, half_width=None, number=1)
    return estimate([ours[seed] - theirs[seed] for seed in common])


def reading(results: Iterable[Result], champion: str = CHAMPION) -> list[str]:
    """Return what a critical reader would say, a sentence or two each."""
    rows = list(results)
    ranked = [each for each in standings(rows) if each.rule != ORACLE and each.score is not None]
    sentences = [*_completeness(rows), *_ranking(ranked, champion)]
    held = contests(rows, champion)
    keys = varied(rows)
    for verdict in (Verdict.BEATEN, Verdict.WITHIN_NOISE, Verdict.BEST):
        chosen = [each for each in held if each.verdict is verdict]
        sentences += [_sentence(each, champion, keys) for each in sorted(chosen, key=lambda c: c.difference.mean)]
    return [*sentences, *_peace(ranked, champion), *_noise(rows)]


def _completeness(rows: Sequence[Result]) -> list[str]:
    counts = {state: sum(row.state is state for row in rows) for state in State}
    if counts[State.FINISHED] == len(rows):
        return []
    parts = [f"{counts[state]} {state}" for state in State if counts[state]]
    text = f"Not all is there: of {len(rows)} points {', '.join(parts)}. Only settings with every attack are ranked"
    return [f"{text}, and rules may rest on different seeds."]


def _ranking(ranked: Sequence[Standing], champion: str) -> list[str]:
    if not ranked or ranked[0].score is None:
        return ["No rule has met every attack of a setting yet, so there is nothing to rank."]
    best = ranked[0]
    text = f"Over all settings {best.rule} has the best worst case, {best.score} on average."
    own = next((each for each in ranked if each.rule == champion), None)
    if own is None or own is best:
        return [text]
    place = ranked.index(own) + 1
    return [f"{text} {champion} is number {place} of {len(ranked)} with {own.score}."]


def _sentence(contest: Contest, champion: str, keys: frozenset[str]) -> str:
    where = in_words(contest.setting, keys)
    own, other = contest.own, contest.other
    points = f"{100 * abs(contest.difference.mean):.1f} points"
    faced = ", ".join(f"{each.rule} {each.accuracy} (worst under {each.case.attack})" for each in (other, own))
    if contest.verdict is Verdict.BEATEN:
        return f"{champion} is not best at {where}: {faced}; {points} less, more than the seeds explain."
    if contest.verdict is Verdict.BEST:
        return f"{champion} is best at {where}: {faced}; {points} more than the next."
    why = "one seed cannot tell" if contest.difference.half_width is None else "within the noise of the seeds"
    return f"At {where} {champion} and the best other rule cannot be told apart ({why}): {faced}."


def _peace(ranked: Sequence[Standing], champion: str) -> list[str]:
    """Say what the champion costs where nobody attacks."""
    peaceful = {each.rule: each.peace for each in ranked if each.peace is not None}
    own = peaceful.pop(champion, None)
    if own is None or not peaceful:
        return []
    best = max(peaceful, key=lambda rule: peaceful[rule] or 0.0)
    cost = 100 * ((peaceful[best] or 0.0) - own)
    removed = next((each.honest_removed for each in ranked if each.rule == champion), None)
    more = f", and removes {100 * removed:.1f} % of all honest updates" if removed and removed >= 0.0005 else ""
    if cost <= 0:
        return [f"Where nobody attacks {champion} costs nothing: {100 * own:.1f} %, no rule has more{more}."]
    return [f"Where nobody attacks {champion} costs {cost:.1f} points against {best} ({100 * own:.1f} %){more}."]


def _noise(rows: Sequence[Result]) -> list[str]:
    seeds = len({row.settings["seed"] for row in rows if row.figures is not None})
    rules = len({row.settings[RULE] for row in rows})
    worst = [each.accuracy.half_width for each in worst_cases(rows) if each.accuracy.half_width is not None]
    if not worst:
        return ["All of this rests on one seed per cell: differences of a few points mean nothing."] if rows else []
    middle = 100 * float(np.median(worst))
    text = (
        f"Intervals are Student's at 95 % over {seeds} seeds, ± {middle:.1f} points in the middle. The worst of "
        f"several attacks is chosen afterwards, as is the best of {rules} rules: small differences flatter the winner."
    )
    return [text]
