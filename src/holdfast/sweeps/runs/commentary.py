"""A critical reading of a comparison, in sentences: where one rule is best, where it is not, and what is only noise."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import final

import numpy as np

from holdfast.sweeps.runs.choices import ATTACK, ORACLE, RULE, SEED, Label
from holdfast.sweeps.runs.figures import Figures
from holdfast.sweeps.runs.ranking import (
    NO_ATTACK,
    Estimate,
    Setting,
    Standing,
    WorstCase,
    attacked,
    estimate,
    in_words,
    setting_of,
    standings,
    varied,
    worst_cases,
)
from holdfast.sweeps.runs.results import Result, State

CHAMPION = "rage"
"""The rule that is read about."""
_SHOWN = 0.0005
"""The smallest share that is more than 0.0 %."""


class Verdict(Enum):
    """How the champion does in a setting."""

    BEST = "best"
    WITHIN_NOISE = "within the noise"
    BEATEN = "beaten"


@final
@dataclass(frozen=True, kw_only=True)
class Contest:
    """The champion against another rule in a setting, on the seeds that both have."""

    setting: Setting
    own: WorstCase
    other: WorstCase
    difference: Estimate
    """The champion's worst case minus the other's, paired by seed."""

    @property
    def verdict(self) -> Verdict:
        """Whether the difference is more than the seeds explain; what one seed shows may be chance."""
        width = self.difference.half_width
        if width is None or abs(self.difference.mean) <= width:
            return Verdict.WITHIN_NOISE
        return Verdict.BEST if self.difference.mean > 0 else Verdict.BEATEN


def contests(results: Iterable[Result], champion: str = CHAMPION) -> list[Contest]:
    """Return the champion against the strongest other rule, setting by setting, where both have met every attack.

    The strongest is the best of those that beat the champion beyond the seeds; if none does, the best.
    """
    found: dict[Setting, dict[str, WorstCase]] = defaultdict(dict)
    for each in worst_cases(results):
        if each.complete and each.rule != ORACLE and attacked(each.setting):
            found[each.setting][each.rule] = each
    held = []
    for by_rule in found.values():
        own = by_rule.pop(champion, None)
        if own is not None and by_rule:
            met = [_contest(own, other) for other in by_rule.values()]
            lost = [each for each in met if each.verdict is Verdict.BEATEN]
            held.append(min(lost or met, key=lambda each: each.difference.mean))
    return held


def _contest(own: WorstCase, other: WorstCase) -> Contest:
    ours, theirs = own.case.by_seed, other.case.by_seed
    common = [seed for seed in ours if seed in theirs]
    if not common:
        difference = Estimate(mean=own.accuracy.mean - other.accuracy.mean, half_width=None, number=1)
        return Contest(setting=own.setting, own=own, other=other, difference=difference)
    return Contest(
        setting=own.setting,
        own=replace(own, accuracy=estimate([ours[seed] for seed in common])),
        other=replace(other, accuracy=estimate([theirs[seed] for seed in common])),
        difference=estimate([ours[seed] - theirs[seed] for seed in common]),
    )


def reading(results: Iterable[Result], champion: str = CHAMPION) -> list[str]:
    """Return what a critical reader would say, a sentence or two each."""
    rows = list(results)
    ranked = [each for each in standings(rows) if each.rule != ORACLE and each.score is not None]
    sentences = [*_completeness(rows), *_ranking(rows, ranked, champion)]
    held = contests(rows, champion)
    keys = varied(rows)
    for verdict in (Verdict.BEATEN, Verdict.WITHIN_NOISE, Verdict.BEST):
        chosen = [each for each in held if each.verdict is verdict]
        sentences += [_sentence(each, champion, keys) for each in sorted(chosen, key=lambda c: c.difference.mean)]
    return [*sentences, *_peace(rows, champion), *_noise(rows)]


def _completeness(rows: Sequence[Result]) -> list[str]:
    counts = {state: sum(row.state is state for row in rows) for state in State}
    if counts[State.FINISHED] == len(rows):
        return []
    parts = [f"{counts[state]} {state}" for state in State if counts[state]]
    text = f"Not all is there: of {len(rows)} points {', '.join(parts)}. Only settings with every attack are ranked"
    return [f"{text}, on the seeds that their rules have in common, where there are any."]


def _ranking(rows: Sequence[Result], ranked: Sequence[Standing], champion: str) -> list[str]:
    if not ranked or ranked[0].score is None:
        if any(row.figures is not None and row.figures.accuracy is None for row in rows):
            return ["These runs have no accuracy, as their data have no classes, so there is nothing to rank."]
        return ["No rule has met every attack of a setting yet, so there is nothing to rank."]
    best = ranked[0]
    whole = best.num_settings == best.num_wanted
    where = "all settings" if whole else f"the {best.num_settings} of {best.num_wanted} settings that it has whole,"
    text = f"Over {where} {best.rule} has the best worst case, {best.score} on average."
    own = next((each for each in ranked if each.rule == champion), None)
    if own is None or own is best:
        return [text]
    place = ranked.index(own) + 1
    return [f"{text} {champion} is number {place} of {len(ranked)} with {own.score}{_lacking(own)}."]


def _lacking(own: Standing) -> str:
    return "" if own.num_settings == own.num_wanted else f" over {own.num_settings} of {own.num_wanted} settings"


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


def _peace(rows: Sequence[Result], champion: str) -> list[str]:
    """Say what the champion costs where nobody attacks, against the best rule on the same settings and seeds."""
    peaceful = _peaceful(rows)
    own = peaceful.pop(champion, {})
    costs = {
        rule: float(np.mean([theirs[place][0] - own[place][0] for place in own if place in theirs]))
        for rule, theirs in peaceful.items()
        if own.keys() & theirs.keys()
    }
    if not costs:
        return []
    best = max(costs, key=lambda rule: costs[rule])
    met = [own[place] for place in own if place in peaceful[best]]
    level = f"{100 * float(np.mean([accuracy for accuracy, _ in met])):.1f} %"
    removed = float(np.mean([figures.honest_removed or 0.0 for _, figures in met]))
    more = f", and removes {100 * removed:.1f} % of the honest updates there" if removed >= _SHOWN else ""
    if costs[best] < _SHOWN:
        return [f"Where nobody attacks {champion} costs nothing: {level}, no rule has 0.1 points more{more}."]
    return [f"Where nobody attacks {champion} costs {100 * costs[best]:.1f} points against {best} ({level}){more}."]


def _peaceful(rows: Iterable[Result]) -> dict[str, dict[tuple[Setting, Label], tuple[float, Figures]]]:
    """Return accuracies and figures without an attack: of every rule, by setting and seed."""
    found: dict[str, dict[tuple[Setting, Label], tuple[float, Figures]]] = defaultdict(dict)
    for row in rows:
        if row.settings[ATTACK] == NO_ATTACK and row.settings[RULE] != ORACLE:
            figures = row.figures
            if figures is not None and figures.accuracy is not None:
                place = setting_of(row.settings), row.settings[SEED]
                found[str(row.settings[RULE])][place] = figures.accuracy, figures
    return found


def _noise(rows: Sequence[Result]) -> list[str]:
    played = [row for row in rows if row.figures is not None and row.settings[RULE] != ORACLE]
    if not played:
        return []
    seeds = len({row.settings[SEED] for row in played})
    rules = len({row.settings[RULE] for row in played})
    widths = [each.accuracy.half_width for each in worst_cases(played) if each.accuracy.half_width is not None]
    if not widths:
        return ["All of this rests on one seed per cell: differences of a few points mean nothing."]
    text = (
        f"Intervals are Student's at 95 % over {seeds} seeds, ± {100 * float(np.median(widths)):.1f} points in the "
        f"middle. The worst of several attacks is chosen afterwards, as is the best of {rules} rules: small "
        f"differences flatter the winner."
    )
    return [text]
