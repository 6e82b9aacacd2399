"""A critical reading of a comparison, in sentences: where one rule is best, where it is not, and what is only noise."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

from steadfed._core.wording import percent
from steadfed.metrics import ATTACK_SUCCESS
from steadfed.sweeps._measure import ACCURACY
from steadfed.sweeps._ranking import (
    NO_ATTACK,
    ORACLE,
    Duel,
    DuelVerdict,
    Label,
    TrialSetting,
    mean_of,
    worst_cases,
)
from steadfed.sweeps.runs._figures import Figures
from steadfed.sweeps.runs._ranking import ComparisonRank, duels, in_words, leaders, ranking, subject_of, varied_keys
from steadfed.sweeps.runs._results import CellState, Result

_SHOWN = 0.0005
"""The smallest share that is more than 0.0 %."""


def commentary(results: Iterable[Result], about: str | None = None) -> list[str]:
    """Return what a critical reader would say of one rule among the others, a sentence or two each."""
    rows = list(results)
    subject = subject_of(rows, about)
    ranked = [each for each in ranking(rows) if each.rule != ORACLE and each.score is not None]
    sentences = [*_completeness(rows), *_ranking(rows, ranked, subject)]
    sentences += _accuracy_beside(rows, ranked)
    fought = duels(rows, subject)
    keys = varied_keys(rows)
    for verdict in (DuelVerdict.BEATEN, DuelVerdict.WITHIN_NOISE, DuelVerdict.BEST):
        chosen = [each for each in fought if each.verdict is verdict]
        sentences += [_sentence(each, subject, keys) for each in sorted(chosen, key=lambda duel: duel.difference.mean)]
    return [*sentences, *_cost_without_attack(rows, subject), *_noise(rows)]


def _completeness(rows: Sequence[Result]) -> list[str]:
    counts = {state: sum(row.state is state for row in rows) for state in CellState}
    if counts[CellState.FINISHED] == len(rows):
        return []
    parts = [f"{counts[state]} {state}" for state in CellState if counts[state]]
    text = f"Not all is there: of {len(rows)} points {', '.join(parts)}. Only settings with every attack are ranked"
    return [f"{text}, on the seeds that their rules have in common, where there are any."]


def _ranking(rows: Sequence[Result], ranked: Sequence[ComparisonRank], subject: str) -> list[str]:
    if not ranked or ranked[0].score is None:
        if any(row.figures is not None and row.value is None for row in rows):
            measure = rows[0].measure
            return [f"These runs have no {measure.title}, so there is nothing to rank; see `metric` and `metrics`."]
        return ["No rule has met every attack of a setting yet, so there is nothing to rank."]
    best = ranked[0]
    whole = best.num_settings == best.num_wanted
    where = "all settings" if whole else f"the {best.num_settings} of {best.num_wanted} settings that it has whole,"
    first = leaders(ranked)
    by = "" if rows[0].measure == ACCURACY else f" by {rows[0].measure.title}"
    text = f"Over {where} {best.rule} has the best worst case{by}, {best.score} on average."
    if len(first) > 1:
        equals = ", ".join(f"{each.rule} ({each.score})" for each in first)
        text = f"Over {where} nobody leads{by}: seed by seed, {equals} differ by no more than chance explains."
    own = next((each for each in ranked if each.rule == subject), None)
    if own is None or own in first:
        return [text]
    place = ranked.index(own) + 1
    return [f"{text} {subject} is number {place} of {len(ranked)} with {own.score}{_lacking(own)}."]


def _accuracy_beside(rows: Sequence[Result], ranked: Sequence[ComparisonRank]) -> list[str]:
    """Say how accurate the models are, if rules are ranked by the success of attacks."""
    if not ranked or rows[0].measure.name != ATTACK_SUCCESS:
        return []
    accuracies = {
        each.rule: mean_of(row.figures.accuracy for row in rows if row.rule == each.rule and row.figures is not None)
        for each in ranked
    }
    told = ", ".join(f"{rule} {percent(value)}" for rule, value in accuracies.items() if value is not None)
    return (
        [f"Accuracy in the same runs, as a model that learned nothing has no backdoor either: {told}."] if told else []
    )


def _lacking(own: ComparisonRank) -> str:
    return "" if own.num_settings == own.num_wanted else f" over {own.num_settings} of {own.num_wanted} settings"


def _sentence(duel: Duel[Result], subject: str, keys: frozenset[str]) -> str:
    where = in_words(duel.setting, keys)
    own, other = duel.own, duel.other
    points = duel.difference.measure.distance(duel.difference.mean)
    faced = ", ".join(f"{each.rule} {each.value} (worst under {each.case.attack})" for each in (other, own))
    if duel.verdict is DuelVerdict.BEATEN:
        return f"{subject} is not best at {where}: {faced}; {points} worse, more than the seeds explain."
    if duel.verdict is DuelVerdict.BEST:
        return f"{subject} is best at {where}: {faced}; {points} better than the next."
    why = "one seed cannot tell" if duel.difference.half_width is None else "within the noise of the seeds"
    return f"At {where} {subject} and the best other rule cannot be told apart ({why}): {faced}."


def _cost_without_attack(rows: Sequence[Result], subject: str) -> list[str]:
    """Say what the subject costs where nobody attacks, against the best rule on the same settings and seeds."""
    unattacked = _without_attack(rows)
    own = unattacked.pop(subject, {})
    if not own:
        return []
    measure = next(iter(rows)).measure
    costs = {
        rule: float(np.mean([measure.rank(theirs[place][0] - own[place][0]) for place in own if place in theirs]))
        for rule, theirs in unattacked.items()
        if own.keys() & theirs.keys()
    }
    if not costs:
        return []
    best = max(costs, key=lambda rule: costs[rule])
    met = [own[place] for place in own if place in unattacked[best]]
    level = measure.text(float(np.mean([value for value, _ in met])))
    removed = float(np.mean([figures.honest_removed or 0.0 for _, figures in met]))
    more = f", and removes {percent(removed)} of the honest updates there" if removed >= _SHOWN else ""
    if costs[best] <= 0.0 or (measure.is_share and costs[best] < _SHOWN):
        by = "no rule has 0.1 points more" if measure.is_share and measure.higher_is_better else "no rule is better"
        return [f"Where nobody attacks {subject} costs nothing: {level}, {by}{more}."]
    return [f"Where nobody attacks {subject} costs {measure.distance(costs[best])} against {best} ({level}){more}."]


def _without_attack(rows: Iterable[Result]) -> dict[str, dict[tuple[TrialSetting, Label], tuple[float, Figures]]]:
    """Return values and figures without an attack: of every rule, by setting and seed."""
    found: dict[str, dict[tuple[TrialSetting, Label], tuple[float, Figures]]] = defaultdict(dict)
    for row in rows:
        if row.attack == NO_ATTACK and row.rule != ORACLE and row.figures is not None and row.value is not None:
            found[row.rule][row.setting, row.seed] = row.value, row.figures
    return found


def _noise(rows: Sequence[Result]) -> list[str]:
    played = [row for row in rows if row.figures is not None and row.rule != ORACLE]
    if not played:
        return []
    seeds = len({row.seed for row in played})
    rules = len({row.rule for row in played})
    widths = [each.value.half_width for each in worst_cases(played) if each.value.half_width is not None]
    if not widths:
        return ["All of this rests on one seed per cell: differences of a few points mean nothing."]
    middle = played[0].measure.distance(float(np.median(widths)))
    text = (
        f"Intervals are Student's at 95 % over {seeds} seeds, ± {middle} in the "
        f"middle. The worst of several attacks is chosen afterwards, as is the best of {rules} rules: small "
        f"differences flatter the winner."
    )
    return [text]
