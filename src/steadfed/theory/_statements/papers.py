"""The paper's Theorems 1 and 2 about one problem and one protocol."""

from __future__ import annotations

import math

import numpy as np

from steadfed._core.arrays import Vector
from steadfed._core.gaps import steps_after
from steadfed.theory import paper
from steadfed.theory._guarantee import Condition, Guarantee
from steadfed.theory._problem import Problem, Protocol
from steadfed.theory._statements import shared


def papers(problem: Problem, protocol: Protocol) -> Guarantee:
    """Return what the paper's Theorem 1 (mini-batches) or 2 (full batches) guarantees, with explicit constants.

    Paper: eq. convex_convergence_rate, nonconvex_convergence_rate, convex-GD_convergence_rate,
    nonconvex-GD_convergence_rate.

    **Deviations from the paper.** C of the filter instead of O(·), the cohort's fraction of Byzantine updates, pathwise
    and at synchronisations only; docs/theory/deviations.md.
    """
    needed, worst_case = _conditions(problem, protocol)
    sound = all(condition.passed for condition in needed) and math.isfinite(protocol.constant)
    return Guarantee(
        source="the paper",
        theorem=f"{'Theorem 2' if _is_full(protocol) else 'Theorem 1'}, {shared.kind(problem)}",
        quantity=shared.quantity(problem, protocol),
        reading=shared.SURELY if _is_full(protocol) else shared.LIKELY,
        conditions=(*needed, worst_case),
        sigma0=_sigma0(problem, protocol, protocol.most_steps) if sound else math.inf,
        sigma0_of=lambda steps: _sigma0(problem, protocol, steps) if sound else math.inf,
        filter_error=math.sqrt(_filter_error(problem, protocol, protocol.most_steps)) if sound else math.inf,
        lr_limit=needed[0].limit,
        floor=_floor(problem, protocol) if sound else math.inf,
        floors=shared.floors_without(problem, protocol, _floor) if sound else {},
        failures=_failures(protocol),
        rests_on=shared.rests_on(protocol),
        rounds=protocol.rounds,
        period=len(protocol.gaps),
        curve=(lambda rounds: _bound(problem, protocol, rounds)) if sound else shared.nothing,
    )


def _is_full(protocol: Protocol) -> bool:
    return protocol.batch_size == "full"


def _conditions(problem: Problem, protocol: Protocol) -> tuple[tuple[Condition, ...], Condition]:
    """Return what the formula rests on, and the worst case that uniform cohorts avoid with high probability."""
    full, slack = _is_full(protocol), protocol.slack
    limit = (paper.full_batch_lr if full else paper.minibatch_lr)(
        local_steps=protocol.local_steps, smoothness=problem.smoothness
    )
    needed = [
        Condition(name="step size", requirement=f"η ≤ 1/({5 if full else 8}HL)", value=protocol.lr, limit=limit),
        Condition(name="distrusted updates", requirement="ε̃ = f/K ≤ 1/4", value=protocol.fraction, limit=0.25),
    ]
    if not full:
        aside = Condition(name="updates set aside", requirement="ε′ > 0", value=slack, limit=0.0, relation=">")
        needed.append(aside)
    if protocol.sigma0 is not None and (full or slack > 0.0):
        asked = f"σ₀ ≥ that of Theorem {4 if full else 3}"
        least = _stated_sigma0(problem, protocol, protocol.most_steps)
        needed.append(
            Condition(name="σ₀ of the rule", requirement=asked, value=protocol.sigma0, limit=least, relation="≥")
        )
    if protocol.coordinates < 1.0:
        needed.append(
            Condition(name="whole updates", requirement="k = d", value=protocol.coordinates, limit=1.0, relation="≥")
        )
    share = protocol.num_byzantine / protocol.num_clients
    tolerated = protocol.cohort_size / (4.0 * protocol.num_clients) - (0.0 if full else slack)
    return tuple(needed), Condition(
        name="worst cohort", requirement=f"ε ≤ K/4R{'' if full else ' − ε′'}", value=share, limit=tolerated
    )


def _failures(protocol: Protocol) -> dict[str, float]:
    failures = shared.cohort_failure(protocol, protocol.assumed_byzantine if _is_full(protocol) else protocol.tolerated)
    if not _is_full(protocol) and 0.0 < protocol.slack and protocol.fraction <= 0.25:
        failures[shared.SPREAD] = paper.failure_probability(
            total_steps=protocol.total_steps,
            local_steps=protocol.local_steps,
            slack=protocol.slack,
            byzantine_fraction=protocol.tolerated / protocol.cohort_size,
            cohort_size=protocol.cohort_size,
        )
    return failures


def _sigma0(problem: Problem, protocol: Protocol, steps: int) -> float:
    """Return σ₀ in a round of so many steps: its own if the rule adapts, else the one that the rule is told."""
    if protocol.sigma0 is not None:
        return protocol.sigma0
    return _stated_sigma0(problem, protocol, steps if protocol.learns else protocol.most_steps)


def _stated_sigma0(problem: Problem, protocol: Protocol, steps: int) -> float:
    """Return σ₀ of a round of so many steps as Theorem 3 or, for full batches, Theorem 4 of the paper has it."""
    apart = problem.dissimilarity
    if _is_full(protocol):
        return math.sqrt(paper.full_batch_honest_spread(dissimilarity=apart, local_steps=steps))
    spread = paper.honest_spread(
        noise=protocol.noise(problem.gradient_variance),
        dissimilarity=apart,
        local_steps=steps,
        slack=protocol.slack,
        dim=problem.dim,
        cohort_size=protocol.cohort_size,
    )
    return math.sqrt(spread)


def _filter_error(problem: Problem, protocol: Protocol, steps: int) -> float:
    """Return Υ² of a round of so many steps."""
    return protocol.constant**2 * protocol.fraction * _sigma0(problem, protocol, steps) ** 2


def _floor(problem: Problem, protocol: Protocol) -> float:
    """Return the last term of the bound: the largest that a gap gives, see docs/theory/deviations.md, 5."""
    return max(_floor_of_gap(problem, protocol, steps) for steps in set(protocol.gaps))


def _floor_of_gap(problem: Problem, protocol: Protocol, steps: int) -> float:
    """Return the last term of the bound if every round had so many steps."""
    error, strength = _filter_error(problem, protocol, steps), problem.strong_convexity
    apart = problem.dissimilarity
    if _is_full(protocol):
        gamma = paper.full_batch_floor(filter_error=error, dissimilarity=apart, local_steps=steps)
        return gamma * (14.0 / strength**2 if strength else 24.0 / 5.0)
    noise = protocol.noise(problem.gradient_variance)
    gamma = paper.floor(filter_error=error, noise=noise, dissimilarity=apart, local_steps=steps)
    return gamma * (13.0 / strength**2 if strength else 9.0 / 2.0)


def _bound(problem: Problem, protocol: Protocol, rounds: Vector) -> Vector:
    """Return the four displayed bounds for many T at once; tests compare them with the functions for one."""
    steps, limit = steps_after(protocol.gaps, rounds), _floor(problem, protocol)
    if problem.strong_convexity:
        left = np.exp(steps * math.log1p(-problem.strong_convexity * protocol.lr / 2.0))
        return left * problem.start + limit
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.where(steps > 0, 2.0 * problem.height / (protocol.lr * steps) + limit, np.inf)
