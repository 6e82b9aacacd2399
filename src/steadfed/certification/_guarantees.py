"""Judging the theorems: whether they speak of the run that was made, and whether it kept to their bounds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from steadfed._core.arrays import Vector
from steadfed._core.wording import percent
from steadfed.certification._assumptions import AWAY, skipped_text
from steadfed.certification._path import ModelPath
from steadfed.certification._plan import Plan
from steadfed.certification._rounds import ROUNDING, RoundFacts
from steadfed.certification._verdicts import Outcome, Verdict, on_guarantee, outcome_of
from steadfed.server._history import Tally
from steadfed.theory import Guarantee, Protocol
from steadfed.theory._statements.shared import EXPECTED, LIKELY, SPREAD

_CHANCE = 0.01
"""An excess contradicts a theorem only if the theorem leaves it this probability at most."""
_UNSEEN = "who was Byzantine is not known, so it may have been more than assumed"
_GUARANTEES_NOTHING = "its failure probability is 1, so nothing was guaranteed"


def obstacles(plan: Plan, tally: Tally, facts: Sequence[RoundFacts], guarantee: Guarantee) -> tuple[str, ...]:
    """Return why a guarantee does not speak of the run that was made; nothing if it does."""
    found = [f"outside the theorems: {name}" for name in plan.outside]
    if tally.skipped:
        found.append(skipped_text(tally))
    if not math.isfinite(guarantee.floor):
        failed = [each for each in guarantee.conditions if not each.passed]
        found += [f"{each.name}: {each}" for each in failed]
        if not failed:
            found.append("no constant is proved for this share of distrusted updates")
    likely = guarantee.reading == LIKELY  # some of the f updates are set aside for unlucky honest ones
    tolerated = plan.protocol.tolerated if likely else plan.protocol.assumed_byzantine
    return (*found, *_excesses(plan.protocol, facts, tolerated))


def _excesses(protocol: Protocol, rounds: Sequence[RoundFacts], bound: int) -> Iterator[str]:
    """Yield in how many rounds more updates were Byzantine than reckoned, or a larger share distrusted."""
    aside = protocol.assumed_byzantine - bound
    limits = [(each.known_byzantine, min(bound, each.assumed - aside)) for each in rounds]
    full = [limit for byzantine, limit in limits if byzantine > limit]
    if full:
        fewest = max(0, min(full))
        missing = "" if fewest == bound else f", or than the {fewest} tolerated if clients are absent"
        yield f"{len(full)} of {len(rounds)} cohorts had more than {bound} Byzantine updates{missing}"
    size, assumed = protocol.cohort_size, protocol.assumed_byzantine
    few = sum(not each.received or each.assumed * size > assumed * each.received for each in rounds)
    if few:
        yield f"in {few} of {len(rounds)} rounds clients were absent, so more than the share f/K was distrusted"


def measured_curve(plan: Plan, path: ModelPath) -> tuple[Vector, Vector]:
    """Return rounds and what the theorems bound there, as far as it is known."""
    return path.distances() if plan.problem.strong_convexity else path.mean_gradients(plan.protocol.gaps)


def judge_guarantee(
    plan: Plan,
    path: ModelPath | None,
    tally: Tally,
    facts: Sequence[RoundFacts],
    guarantee: Guarantee,
    *,
    seen: bool,
) -> Verdict:
    """Judge a theorem: does it speak of the run, does it guarantee anything, did the run keep to its bound.

    Without a path nothing was measured, and the guarantee is stated. Unless it was `seen` who was Byzantine, a bound
    that was exceeded contradicts nothing, as the conditions may not have held.
    """
    why_not = obstacles(plan, tally, facts, guarantee)
    if why_not:
        return on_guarantee(_name(guarantee), Outcome.INAPPLICABLE, "; ".join(why_not))
    return _statement(plan, guarantee) if path is None else _comparison(plan, path, guarantee, seen=seen)


def _statement(plan: Plan, guarantee: Guarantee) -> Verdict:
    name, rounds = _name(guarantee), plan.protocol.rounds
    if _is_vacuous(guarantee):
        return on_guarantee(name, Outcome.VACUOUS, f"{_GUARANTEES_NOTHING}; {AWAY}")
    because = (
        f"{guarantee.quantity} is at most {float(guarantee.bound(rounds)):.4g} after {rounds:,} rounds, in the end "
        f"{guarantee.floor:.4g}, if no cohort has more Byzantine updates than assumed; {AWAY}"
    )
    return on_guarantee(name, Outcome.UNKNOWN, because)


def _comparison(plan: Plan, path: ModelPath, guarantee: Guarantee, *, seen: bool) -> Verdict:
    name = _name(guarantee)
    numbers, values = _judged_curve(plan, path)
    if not np.any(numbers > 0):
        kept = "no models to measure" if not path.places else "no model after its start"
        return on_guarantee(name, Outcome.UNKNOWN, f"the run kept {kept}; set evaluation.measured_rounds")
    bounds = guarantee.bound(numbers)
    allowed = np.square(np.sqrt(bounds * (1.0 + ROUNDING)) + _rounding(plan, path))
    beyond = np.flatnonzero(values > allowed)
    chance = _chance(guarantee, float(np.max(values[beyond] / allowed[beyond]))) if len(beyond) else 1.0
    partly = not plan.problem.strong_convexity and len(numbers) < numbers[-1]
    because = _comparison_text(guarantee, numbers, values, bounds)
    if len(beyond):
        first = f"first in round {numbers[beyond[0]]:.0f}"
        because = f"above the bound at {len(beyond)} of {len(numbers)} models, {first}; {because}"
    because += _reservations(plan, guarantee, numbers, partly=partly, chance=chance)
    if _is_vacuous(guarantee):
        return on_guarantee(name, Outcome.VACUOUS, because)
    because += "" if seen else f"; {_UNSEEN}"
    contradiction = seen and chance <= _CHANCE and plan.everywhere and not partly
    return on_guarantee(name, outcome_of(held=not len(beyond)), because, contradiction=contradiction)


def _name(guarantee: Guarantee) -> str:
    return f"{guarantee.source}, {guarantee.reading}"


def _is_vacuous(guarantee: Guarantee) -> bool:
    """Return whether a theorem leaves a run any freedom, even with cohorts as they should be."""
    return guarantee.failures.get(SPREAD, 0.0) >= 1.0


def _comparison_text(guarantee: Guarantee, numbers: Vector, values: Vector, bounds: Vector) -> str:
    shares = np.divide(values, bounds, out=np.zeros_like(values), where=(numbers > 0) & (bounds > 0.0))
    closest = int(np.argmax(shares))
    return (
        f"{guarantee.quantity}: {percent(shares[closest])} of the bound at most (round {numbers[closest]:.0f}), "
        f"{values[-1]:.4g} against {bounds[-1]:.4g} in the end"
    )


def _judged_curve(plan: Plan, path: ModelPath) -> tuple[Vector, Vector]:
    """Return the measured curve, which goes to infinity where the run left the finite numbers."""
    numbers, values = measured_curve(plan, path)
    if path.diverged is None:
        return numbers, values
    end = path.diverged if plan.problem.strong_convexity else path.diverged + 1
    return np.append(numbers, end), np.append(values, math.inf)


def _rounding(plan: Plan, path: ModelPath) -> float:
    """Return how far from the minimum rounding may keep a run: that of a round, over the share 1 − ρᴴ it forgets.

    Every local step rounds a model once, and so do the accumulated gradients, their mean and the step of the server. If
    rounds have different numbers of steps, the largest such quotient is meant.
    """
    protocol, strength = plan.protocol, plan.problem.strong_convexity
    if not strength:
        return 0.0
    rate = math.log1p(-min(protocol.lr * strength, 0.5))
    return max((steps + 3) * path.rounding / -math.expm1(steps * rate) for steps in set(protocol.gaps))


def _chance(guarantee: Guarantee, excess: float) -> float:
    """Return how likely a theorem lets a run exceed its bound by a factor, given the cohorts, which were looked at.

    A mean is exceeded by a factor c with a probability of at most 1/c (Markov); else it is what the theorem says.
    """
    return 1.0 / excess if guarantee.reading == EXPECTED else min(1.0, guarantee.failures.get(SPREAD, 0.0))


def _reservations(plan: Plan, guarantee: Guarantee, numbers: Vector, *, partly: bool, chance: float) -> str:
    """Return what takes something away from a verdict on a guarantee."""
    said = []
    if _is_vacuous(guarantee):
        said.append(_GUARANTEES_NOTHING)
    if partly:
        said.append(f"the mean is estimated from {len(numbers)} of {numbers[-1]:.0f} rounds")
    if not plan.everywhere:
        said.append("constants measured along the run are no bounds over all x")
    if _CHANCE < chance < 1.0:
        said.append(f"it leaves such a run a probability of {chance:.2g}")
    return "".join(f"; {each}" for each in said)
