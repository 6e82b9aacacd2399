"""Judging a run: did the assumptions hold, did the filter keep its promise, did the theorems."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import final

import numpy as np

from holdfast.certification.constants import SYMBOLS, Vector
from holdfast.certification.path import Path
from holdfast.certification.planning import Plan
from holdfast.certification.protocol import Outside
from holdfast.certification.rounds import ROUNDING, RoundFacts
from holdfast.theory import Guarantee, Protocol
from holdfast.theory.statements.shared import EXPECTED, LIKELY, SPREAD

Rounds = tuple[RoundFacts, ...]

_CHANCE = 0.01
"""An excess contradicts a theorem only if the theorem leaves it this probability at most."""
_DOUBLE = 1e-18
"""By which part of ‖∇F‖² rounding may move squared distances of gradients."""


class Outcome(StrEnum):
    """What became of an assumption or a promise."""

    HELD = "held"
    FAILED = "did not hold"
    UNKNOWN = "not measured"
    INAPPLICABLE = "does not apply"


class Subject(StrEnum):
    """What is judged."""

    ASSUMPTION = "assumption"
    FILTER = "filter"
    GUARANTEE = "guarantee"


@final
@dataclass(frozen=True, kw_only=True)
class Verdict:
    """One judgement with its reason."""

    subject: Subject
    name: str
    outcome: Outcome
    because: str
    contradiction: bool = False
    """Whether something was proved and measured not to be so."""


def verdicts(plan: Plan, path: Path, rounds: Rounds, *, skipped: int) -> tuple[Verdict, ...]:
    """Return all judgements of a run, the assumptions first."""
    return (
        algorithm(plan.outside, skipped),
        *_constants(plan, path),
        _cohorts(plan, rounds),
        *_spreads(plan, rounds),
        *_filter(rounds),
        *(_kept(plan, path, rounds, each, skipped=skipped) for each in plan.guarantees),
    )


def tolerated(plan: Plan, guarantee: Guarantee) -> int:
    """Return how many Byzantine rows of a cohort a guarantee allows: f, less what is set aside for unlucky rows."""
    return plan.protocol.tolerated if guarantee.reading == LIKELY else plan.protocol.assumed_byzantine


def obstacles(plan: Plan, rounds: Rounds, guarantee: Guarantee, *, skipped: int) -> tuple[str, ...]:
    """Return why a guarantee does not speak of the run that was played; nothing if it does."""
    found = [f"outside the theorems: {each.name}" for each in plan.outside]
    if skipped:
        found.append(_nothing(skipped))
    if not math.isfinite(guarantee.floor):
        failed = [each for each in guarantee.conditions if not each.passed]
        found += [f"{each.name}: {each}" for each in failed]
        if not failed:
            found.append("no constant is proved for this share of distrusted rows")
    return (*found, *_unlike(plan.protocol, rounds, tolerated(plan, guarantee)))


def _nothing(skipped: int) -> str:
    return f"{skipped} round{'' if skipped == 1 else 's'} changed nothing, as rows could not be aggregated"


def _unlike(protocol: Protocol, rounds: Rounds, bound: int) -> Iterator[str]:
    """Yield in how many rounds more rows lied, or a larger share was distrusted as rows were missing, than reckoned."""
    aside = protocol.assumed_byzantine - bound
    limits = [(each.byzantine, min(bound, each.assumed - aside)) for each in rounds]
    full = [limit for byzantine, limit in limits if byzantine > limit]
    if full:
        fewest = max(0, min(full))
        missing = "" if fewest == bound else f", or than the {fewest} tolerated if rows are missing"
        yield f"{len(full)} of {len(rounds)} cohorts had more than {bound} Byzantine rows{missing}"
    few = sum(each.assumed * protocol.cohort_size > protocol.assumed_byzantine * each.received for each in rounds)
    if few:
        yield f"in {few} of {len(rounds)} rounds rows were missing, so more than the share f/K was distrusted"


def measured_curve(plan: Plan, path: Path) -> tuple[Vector, Vector]:
    """Return rounds and what the theorems bound there, as far as it is known."""
    return path.distances() if plan.problem.strong_convexity else path.mean_gradients()


def algorithm(outside: tuple[Outside, ...], skipped: int) -> Verdict:
    """Judge whether the run was Algorithm 1 with RAGE and nothing else."""
    reasons = [f"{each.name}: {each.because}" for each in outside]
    reasons += [_nothing(skipped)] if skipped else []
    outcome = Outcome.FAILED if reasons else Outcome.HELD
    because = "; ".join(reasons) or "nothing in the configuration goes beyond it"
    return Verdict(subject=Subject.ASSUMPTION, name="Algorithm 1 with RAGE", outcome=outcome, because=because)


def _constants(plan: Plan, path: Path) -> Iterator[Verdict]:
    for name in ("gradient_variance", "dissimilarity", "smoothness"):
        constant = next(each for each in plan.constants if each.name == name)
        values = {place.round: getattr(place, name) for place in path.places if getattr(place, name) is not None}
        symbol = SYMBOLS[name]
        sampled = name == "gradient_variance" and any(place.variance_error for place in path.places)
        if constant.everywhere and sampled:
            because = (
                f"{constant.value:.4g} is proved for all x; samples of points give up to {max(values.values()):.4g}"
            )
            yield Verdict(subject=Subject.ASSUMPTION, name=symbol, outcome=Outcome.HELD, because=because)
        elif constant.everywhere:
            steep = max((place.gradient for place in path.places), default=0.0)
            yield _bounded(symbol, constant.value, values, rounding=_DOUBLE * steep)
        elif not values:
            because = "the run kept no models; set evaluation.measured_rounds"
            yield Verdict(subject=Subject.ASSUMPTION, name=symbol, outcome=Outcome.UNKNOWN, because=because)
        else:
            yield _as_planned(symbol, values)


def _bounded(symbol: str, limit: float, values: dict[int, float], *, rounding: float) -> Verdict:
    """Judge a constant that is proved for all x."""
    if not values:
        because = f"{limit:.4g} is proved for all x"
        return Verdict(subject=Subject.ASSUMPTION, name=symbol, outcome=Outcome.HELD, because=because)
    top = max(values.values())
    broken = top > limit * (1.0 + ROUNDING) + rounding
    because = f"at most {top:.4g} at {_models(len(values))} of the run; {limit:.4g} is proved for all x"
    outcome = Outcome.FAILED if broken else Outcome.HELD
    return Verdict(subject=Subject.ASSUMPTION, name=symbol, outcome=outcome, because=because, contradiction=broken)


def _as_planned(symbol: str, values: dict[int, float]) -> Verdict:
    """Judge a constant that a plan could only measure at the start."""
    where, top = max(values.items(), key=lambda item: item[1])
    first = values[min(values)]
    if top <= first * (1.0 + ROUNDING):
        outcome, because = Outcome.HELD, f"largest at the start, {first:.4g}, of {_models(len(values))} looked at"
    else:
        grown = f"{top / first:.3g} times" if first else "more than"
        because = f"{top:.4g} in round {where}, {grown} the {first:.4g} at the start, with which a plan reckons"
        outcome = Outcome.FAILED
    name = f"{symbol} as at the start"
    return Verdict(subject=Subject.ASSUMPTION, name=name, outcome=outcome, because=because)


def _cohorts(plan: Plan, rounds: Rounds) -> Verdict:
    name = "Byzantine rows in a cohort"
    if not rounds:
        return Verdict(subject=Subject.ASSUMPTION, name=name, outcome=Outcome.UNKNOWN, because="no round was played")
    most = max(each.byzantine for each in rounds)
    worst = max(each.byzantine / each.received for each in rounds)
    broken = [each for each in rounds if not each.promise_kept]
    share = f"at most {most} ({100 * worst:.1f} % of the rows)"
    if not broken:
        aside = plan.protocol.tolerated
        left = "" if aside == plan.protocol.assumed_byzantine else f", of which {aside} are left for Byzantine ones"
        because = f"{share} in {len(rounds)} rounds; the rule assumes {plan.protocol.assumed_byzantine}{left}"
        return Verdict(subject=Subject.ASSUMPTION, name=name, outcome=Outcome.HELD, because=because)
    because = (
        f"{share}; more than the rule assumed in {len(broken)} of {len(rounds)} rounds, first in round "
        f"{broken[0].round} with {broken[0].byzantine} instead of {broken[0].assumed}"
    )
    return Verdict(subject=Subject.ASSUMPTION, name=name, outcome=Outcome.FAILED, because=because)


def _spreads(plan: Plan, rounds: Rounds) -> Iterator[Verdict]:
    """Judge the honest spread against each theorem's; a theorem in expectation speaks of the mean."""
    spreads = [each.spread for each in rounds if each.spread is not None]
    for guarantee in plan.guarantees:
        name = f"σ₀ of {guarantee.source}, {guarantee.reading}"
        if not math.isfinite(guarantee.sigma0):
            continue
        if not spreads:
            because = "no round was measured; set evaluation.measured_rounds"
            yield Verdict(subject=Subject.ASSUMPTION, name=name, outcome=Outcome.UNKNOWN, because=because)
            continue
        average = guarantee.reading == EXPECTED
        found = math.sqrt(float(np.mean(spreads)) if average else max(spreads))
        kept = found <= guarantee.sigma0 * (1.0 + ROUNDING)
        what = "on average (root mean square)" if average else "at most"
        because = (
            f"{found:.4g} {what} in {len(spreads)} measured rounds; the theorem reckons with {guarantee.sigma0:.4g}"
        )
        if not kept:
            because += "; the best subset of the rows, of which it speaks, may still keep to it"
        outcome = Outcome.HELD if kept else Outcome.FAILED
        yield Verdict(subject=Subject.ASSUMPTION, name=name, outcome=outcome, because=because)


def _filter(rounds: Rounds) -> Iterator[Verdict]:
    if not any(each.constant is not None for each in rounds):
        because = "the rule gives no certificate" if rounds else "no round was played"
        yield Verdict(subject=Subject.FILTER, name="error", outcome=Outcome.INAPPLICABLE, because=because)
        return
    yield _proved_error(rounds)
    yield _certified_error(rounds)


def _certified_error(rounds: Rounds) -> Verdict:
    """Judge the certificate as the server sees it: it is about honest rows that spread no more than some σ₀."""
    name = "error against the certificate"
    certified = [each for each in rounds if each.certificate is not None and each.error is not None]
    if not certified:
        because = "no round has a certificate that proves anything"
        return Verdict(subject=Subject.FILTER, name=name, outcome=Outcome.UNKNOWN, because=because)
    beyond = [each for each in certified if each.exceeds_certificate]
    wrong = [each for each in beyond if each.exceeds_honest_bound]
    looked = [each for each in rounds if each.spread_kept is not None]
    wide = sum(not each.spread_kept for each in looked)
    share = _largest_share([(each.error, each.certificate) for each in certified])
    because = f"{len(beyond)} of {len(certified)} rounds above it{share}"
    because += "; it rests on " + ("the rule's own σ₀" if certified[0].own_sigma0 else f"σ₀ = {certified[0].sigma0:g}")
    because += f", which honest rows exceeded in {wide} of {len(looked)} measured rounds" if looked else ""
    outcome = Outcome.FAILED if beyond else Outcome.HELD
    return Verdict(subject=Subject.FILTER, name=name, outcome=outcome, because=because, contradiction=bool(wrong))


def _proved_error(rounds: Rounds) -> Verdict:
    """Judge what is proved without any estimate: the certificate at the true honest spread."""
    name = "error against the certificate at the true σ₀"
    judged = [each for each in rounds if each.honest_bound is not None and each.error is not None]
    if not judged:
        because = "no measured round in which the promise was kept and something is proved"
        return Verdict(subject=Subject.FILTER, name=name, outcome=Outcome.UNKNOWN, because=because)
    beyond = [each for each in judged if each.exceeds_honest_bound]
    share = _largest_share([(each.error, each.honest_bound) for each in judged])
    because = f"{len(beyond)} of {len(judged)} measured rounds above it{share}"
    constants = [(each.measured_constant, each.constant) for each in judged if each.measured_constant is not None]
    if constants:
        largest, proved = max(constants, key=lambda pair: pair[0] or 0.0)
        because += f"; error / (σ₀√ε̃) is at most {largest:.3g}, proved is C = {proved:.3g}"
    outcome = Outcome.FAILED if beyond else Outcome.HELD
    return Verdict(subject=Subject.FILTER, name=name, outcome=outcome, because=because, contradiction=bool(beyond))


def _kept(plan: Plan, path: Path, rounds: Rounds, guarantee: Guarantee, *, skipped: int) -> Verdict:
    name = f"{guarantee.source}, {guarantee.reading}"
    why_not = obstacles(plan, rounds, guarantee, skipped=skipped)
    if why_not:
        because = "; ".join(why_not)
        return Verdict(subject=Subject.GUARANTEE, name=name, outcome=Outcome.INAPPLICABLE, because=because)
    numbers, values = _judged(plan, path)
    if not np.any(numbers > 0):
        kept = "no models to measure" if not path.places else "no model after its start"
        because = f"the run kept {kept}; set evaluation.measured_rounds"
        return Verdict(subject=Subject.GUARANTEE, name=name, outcome=Outcome.UNKNOWN, because=because)
    bounds = guarantee.bound(numbers)
    allowed = np.square(np.sqrt(bounds * (1.0 + ROUNDING)) + _rounding(plan, path))
    beyond = np.flatnonzero(values > allowed)
    shares = np.divide(values, bounds, out=np.zeros_like(values), where=(numbers > 0) & (bounds > 0.0))
    closest = int(np.argmax(shares))
    because = (
        f"{guarantee.quantity}: {100 * shares[closest]:.3g} % of the bound at most (round {numbers[closest]:.0f}), "
        f"{values[-1]:.4g} against {bounds[-1]:.4g} in the end"
    )
    if len(beyond):
        first = f"first in round {numbers[beyond[0]]:.0f}"
        because = f"above the bound at {len(beyond)} of {len(numbers)} models, {first}; {because}"
    chance = _chance(guarantee, float(np.max(values[beyond] / allowed[beyond]))) if len(beyond) else 1.0
    partly = not plan.problem.strong_convexity and len(numbers) < numbers[-1]
    because += _reservations(plan, guarantee, numbers, partly=partly, chance=chance)
    return Verdict(
        subject=Subject.GUARANTEE,
        name=name,
        outcome=Outcome.FAILED if len(beyond) else Outcome.HELD,
        because=because,
        contradiction=chance <= _CHANCE and plan.everywhere and not partly,
    )


def _judged(plan: Plan, path: Path) -> tuple[Vector, Vector]:
    """Return the measured curve, which goes to infinity where the run left the finite numbers."""
    numbers, values = measured_curve(plan, path)
    if path.diverged is None:
        return numbers, values
    end = path.diverged if plan.problem.strong_convexity else path.diverged + 1
    return np.append(numbers, end), np.append(values, math.inf)


def _rounding(plan: Plan, path: Path) -> float:
    """Return how far from the minimum rounding may keep a run: that of a round, over the share 1 − ρᴴ it forgets.

    Every local step rounds a model once, and so do the accumulated gradients, their mean and the step of the server.
    """
    protocol, strength = plan.protocol, plan.problem.strong_convexity
    if not strength:
        return 0.0
    forgotten = -math.expm1(protocol.local_steps * math.log1p(-min(protocol.lr * strength, 0.5)))
    return (protocol.local_steps + 3) * path.rounding / forgotten


def _chance(guarantee: Guarantee, excess: float) -> float:
    """Return how likely a theorem lets a run exceed its bound by a factor, given the cohorts, which were looked at.

    A mean is exceeded by a factor c with a probability of at most 1/c (Markov); else it is what the theorem says.
    """
    return 1.0 / excess if guarantee.reading == EXPECTED else min(1.0, guarantee.failures.get(SPREAD, 0.0))


def _reservations(plan: Plan, guarantee: Guarantee, numbers: Vector, *, partly: bool, chance: float) -> str:
    """Return what takes something away from a verdict on a guarantee."""
    said = []
    if guarantee.failures.get(SPREAD, 0.0) >= 1.0:
        said.append("its failure probability is 1, so nothing was promised")
    if partly:
        said.append(f"the mean is estimated from {len(numbers)} of {numbers[-1]:.0f} rounds")
    if not plan.everywhere:
        said.append("constants measured along the run are no bounds over all x")
    if _CHANCE < chance < 1.0:
        said.append(f"it leaves such a run a probability of {chance:.2g}")
    return "".join(f"; {each}" for each in said)


def _models(count: int) -> str:
    return "1 model" if count == 1 else f"{count} models"


def _largest_share(pairs: list[tuple[float | None, float | None]]) -> str:
    shares = [error / bound for error, bound in pairs if error is not None and bound]
    return f", at most {100 * max(shares):.3g} % of it" if shares else ""
