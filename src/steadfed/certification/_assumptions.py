"""Judging the theorems' assumptions: what was run, the constants, who was in the cohorts, how honest updates spread."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from steadfed._core.wording import percent, plural
from steadfed.aggregators._rage.certificate import Certificate
from steadfed.certification._constants import SYMBOLS
from steadfed.certification._path import ModelPath
from steadfed.certification._plan import Plan
from steadfed.certification._rounds import ROUNDING, RoundFacts
from steadfed.certification._verdicts import Outcome, Verdict, on_assumption, outcome_of
from steadfed.server._history import Fate, Rounds, Tally, fate_of_fault
from steadfed.server._record import RoundRecord
from steadfed.theory import Guarantee
from steadfed.theory._statements.shared import EXPECTED, OVER_BOTH

AWAY = "the points are with the clients or were not loaded, so it cannot be measured"
COHORTS = "Byzantine updates in a cohort"
_DOUBLE = 1e-18
"""By which part of ‖∇F‖² rounding may move squared distances of gradients."""


def judge_algorithm(outside: Mapping[str, str], rounds: Rounds) -> Verdict:
    """Judge whether the run was Algorithm 1 with RAGE and nothing else."""
    reasons = [f"{name}: {because}" for name, because in outside.items()]
    if rounds.tally.skipped:
        reasons.append(f"{skipped_text(rounds.tally)} ({rounds.skips_text})")
    because = "; ".join(reasons) or "nothing in the configuration goes beyond it"
    return on_assumption("Algorithm 1 with RAGE", outcome_of(held=not reasons), because)


def skipped_text(tally: Tally) -> str:
    """Say how many rounds were skipped."""
    return f"{plural(tally.skipped, 'round')} changed nothing"


def judge_absent_constants(given: Mapping[str, float]) -> Iterator[Verdict]:
    """Say that nothing can be measured where the points are not here."""
    for name in ("gradient_variance", "dissimilarity", "smoothness", "strong_convexity"):
        told = f"{given[name]:.4g} was given; " if name in given else ""
        yield on_assumption(SYMBOLS[name], Outcome.UNKNOWN, f"{told}{AWAY}")


def judge_constants(plan: Plan, path: ModelPath) -> Iterator[Verdict]:
    """Judge the constants that a plan reckons with by what was measured along the run."""
    for name in ("gradient_variance", "dissimilarity", "smoothness"):
        constant = next(each for each in plan.constants if each.name == name)
        values = {place.round: getattr(place, name) for place in path.places if getattr(place, name) is not None}
        symbol = SYMBOLS[name]
        sampled = name == "gradient_variance" and any(place.variance_error for place in path.places)
        if constant.everywhere and sampled:
            because = (
                f"{constant.value:.4g} is proved for all x; samples of points give up to {max(values.values()):.4g}"
            )
            yield on_assumption(symbol, Outcome.HELD, because)
        elif constant.everywhere:
            steep = max((place.gradient for place in path.places), default=0.0)
            yield _judge_bound(symbol, constant.value, values, rounding=_DOUBLE * steep)
        elif not values:
            yield on_assumption(symbol, Outcome.UNKNOWN, "the run kept no models; set evaluation.measured_rounds")
        else:
            yield _judge_start(symbol, values)


def _judge_bound(symbol: str, limit: float, values: dict[int, float], *, rounding: float) -> Verdict:
    """Judge a constant that is proved for all x."""
    if not values:
        return on_assumption(symbol, Outcome.HELD, f"{limit:.4g} is proved for all x")
    top = max(values.values())
    broken = top > limit * (1.0 + ROUNDING) + rounding
    because = f"at most {top:.4g} at {plural(len(values), 'model')} of the run; {limit:.4g} is proved for all x"
    return on_assumption(symbol, outcome_of(held=not broken), because, contradiction=broken)


def _judge_start(symbol: str, values: dict[int, float]) -> Verdict:
    """Judge a constant that a plan could only measure at the start."""
    where, top = max(values.items(), key=lambda item: item[1])
    first = values[min(values)]
    kept = top <= first * (1.0 + ROUNDING)
    grown = f"{top / first:.3g} times" if first else "more than"
    because = (
        f"largest at the start, {first:.4g}, of {plural(len(values), 'model')} looked at"
        if kept
        else f"{top:.4g} in round {where}, {grown} the {first:.4g} at the start, with which a plan reckons"
    )
    return on_assumption(f"{symbol} as at the start", outcome_of(held=kept), because)


def judge_cohorts(plan: Plan, rounds: Sequence[RoundFacts]) -> Verdict:
    """Judge the assumed number of Byzantine updates, where it is known who was Byzantine."""
    replied = [each for each in rounds if each.received]
    if not replied:
        return on_assumption(COHORTS, Outcome.UNKNOWN, "no round with an update was run")
    most = max(each.known_byzantine for each in replied)
    worst = max(each.known_byzantine / each.received for each in replied)
    broken = [each for each in replied if not each.assumption_held]
    share = f"at most {most} ({percent(worst)} of the updates)"
    if not broken:
        aside = plan.protocol.tolerated
        left = "" if aside == plan.protocol.assumed_byzantine else f", of which {aside} are left for Byzantine ones"
        because = (
            f"{share} in {plural(len(replied), 'round')}; the rule assumes {plan.protocol.assumed_byzantine}{left}"
        )
        return on_assumption(COHORTS, Outcome.HELD, because)
    because = (
        f"{share}; more than the rule assumed in {len(broken)} of {plural(len(replied), 'round')}, first in round "
        f"{broken[0].round} with {broken[0].known_byzantine} instead of {broken[0].assumed}"
    )
    return on_assumption(COHORTS, Outcome.FAILED, because)


def judge_spreads(plan: Plan, rounds: Sequence[RoundFacts]) -> Iterator[Verdict]:
    """Judge the honest spread of each round against each theorem's for its own local steps.

    A theorem in expectation speaks of the mean: of the spreads, and of what it reckons with in the same rounds.
    """
    gaps = plan.protocol.gaps
    measured = [(each.spread, gaps[each.round % len(gaps)]) for each in rounds if each.spread is not None]
    for guarantee in plan.guarantees:
        name = f"σ₀ of {guarantee.source}, {guarantee.reading}"
        if not math.isfinite(guarantee.sigma0):
            continue
        if not measured:
            yield on_assumption(name, Outcome.UNKNOWN, "no round was measured; set evaluation.measured_rounds")
            continue
        average = guarantee.reading in {EXPECTED, OVER_BOTH}
        found, limit = _spread_and_limit(measured, guarantee, average=average)
        kept = found <= limit * (1.0 + ROUNDING)
        what = "on average (root mean square)" if average else "at most"
        because = f"{found:.4g} {what} in {len(measured)} measured rounds; the theorem reckons with {limit:.4g}"
        if len(set(gaps)) > 1:
            because += " in these rounds" if average else " in a round of as many steps, where the two are closest"
        if not kept:
            because += "; the best subset of the updates, of which it speaks, may still keep to it"
        yield on_assumption(name, outcome_of(held=kept), because)


def _spread_and_limit(
    measured: Sequence[tuple[float, int]], guarantee: Guarantee, *, average: bool
) -> tuple[float, float]:
    """Return the root of the honest spread and σ₀: their means over the rounds, or both where they are closest."""
    own = {steps: guarantee.sigma0_of(steps) ** 2 for _, steps in measured}
    squares, limits = np.array([spread for spread, _ in measured]), np.array([own[steps] for _, steps in measured])
    if average:
        return math.sqrt(squares.mean()), math.sqrt(limits.mean())
    # of equal limits the largest spread; where σ₀ is 0, any spread is too large
    worst = max(range(len(measured)), key=lambda place: squares[place] / limits[place] if limits[place] else math.inf)
    return math.sqrt(squares[worst]), math.sqrt(limits[worst])


def judge_unseen_cohorts(records: Sequence[RoundRecord], sigma0: float | None = None) -> Verdict:
    """Judge the assumed number of Byzantine updates of a deployment, whose server does not know who was Byzantine.

    Malformed replies and contradictions to the assumption disprove it; nothing proves it.
    """
    rounds = [record for record in records if record.received]
    if not rounds:
        return on_assumption(COHORTS, Outcome.UNKNOWN, "no round with a reply was run")
    bad = [Tally.of(record).known_byzantine for record in rounds]
    reasons = [_disproof(record, number, sigma0) for record, number in zip(rounds, bad, strict=True)]
    broken = [(record.round, why) for record, why in zip(rounds, reasons, strict=True) if why]
    seen = f"at most {plural(max(bad), 'malformed reply', 'malformed replies')} in a round"
    if broken:
        number, why = broken[0]
        because = (
            f"{seen}; disproved in {len(broken)} of {plural(len(rounds), 'round')}, first in round {number}: {why}"
        )
        return on_assumption(COHORTS, Outcome.FAILED, because)
    assumed = [record.num_byzantine for record in rounds if record.num_byzantine is not None]
    told = f"; the rule assumes {max(assumed)}" if assumed else ""
    because = f"{seen}{told}, which no round disproves; how many well-formed updates were Byzantine is not known"
    return on_assumption(COHORTS, Outcome.UNKNOWN, because)


def judge_arrivals(rounds: Rounds) -> Verdict:
    """Judge whether every client that was asked replied, as in Algorithm 1."""
    name = "all K updates arrive"
    if not len(rounds):
        return on_assumption(name, Outcome.UNKNOWN, "no round was run")
    asked, absent, run = rounds.tally.asked, rounds.tally.absent, plural(len(rounds), "round")
    if not absent:
        return on_assumption(name, Outcome.HELD, f"{asked:,} of {asked:,} replies in {run}")
    causes = {fault: count for fault, count in rounds.fault_counts.items() if fate_of_fault(fault) is Fate.ABSENT}
    listed = ", ".join(f"{fault} {count:,}×" for fault, count in Counter(causes).most_common())
    because = f"{absent:,} of {asked:,} clients absent, in {np.count_nonzero(rounds['absent'])} of {run}"
    return on_assumption(name, Outcome.FAILED, because + (f" ({listed})" if listed else ""))


def _disproof(record: RoundRecord, bad: int, sigma0: float | None) -> str:
    """Return why a round cannot have kept to the assumed number of Byzantine updates; nothing if it may have."""
    if record.num_byzantine is not None and bad > record.num_byzantine:
        return f"{plural(bad, 'malformed reply', 'malformed replies')}, {record.num_byzantine} assumed"
    if record.assumption_violated:
        return record.reason or "the rule found its assumption violated"
    if not record.certificate or _fits(record.certificate, sigma0):
        return ""
    return "the updates cannot have so few Byzantine ones and honest ones that spread no more than σ₀"


def _fits(proof: Mapping[str, Any], sigma0: float | None) -> bool:
    """Tell whether the updates of a certificate may have kept to its assumption, at its own σ₀ or at the given one."""
    if sigma0 is None:
        return bool(proof.get("consistent", True))
    return Certificate.from_evidence(proof).is_consistent(sigma0)
