"""steadfed's theorems (docs/theory/convergence.md, compression.md) about one problem and one protocol."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from steadfed._core.arrays import Vector
from steadfed.aggregators._rage.constants import ALGORITHM_2, EXACT_LIMIT
from steadfed.theory import compression, sharp
from steadfed.theory._guarantee import Condition, Guarantee
from steadfed.theory._problem import Problem, Protocol
from steadfed.theory._statements import shared

Error = Callable[[Problem, Protocol, int], float]
"""s of a round of so many local steps, or how far its honest updates lie apart."""


def expected(problem: Problem, protocol: Protocol) -> Guarantee:
    """Return what is proved in expectation over the batches, and surely for full batches: Lemma 4 (a)."""
    noisy = protocol.noise(problem.gradient_variance) > 0.0
    conditions = [*_conditions(problem, protocol)]

    def deviation(problem: Problem, protocol: Protocol, steps: int) -> float:
        return sharp.client_deviation(**_numbers(problem, protocol, steps))

    if noisy:
        learns = float(protocol.learns)
        conditions.append(
            Condition(name="the rule adapts", requirement="it learns σ₀, mode auto or spread", value=learns)
        )
    else:
        conditions += _sigma0_conditions(protocol, deviation(problem, protocol, protocol.most_steps))
    reading = shared.reading(shared.EXPECTED if noisy else shared.SURELY, protocol)
    failures = shared.cohort_failure(protocol, protocol.assumed_byzantine)
    return _guarantee(
        problem, protocol, tuple(conditions), _expected_error, deviation=deviation, reading=reading, failures=failures
    )


def likely(problem: Problem, protocol: Protocol) -> Guarantee:
    """Return what is proved for every round at once with high probability: Lemma 4 (b).

    Of the f updates that the rule distrusts, ⌈ε′K⌉ are set aside for honest clients with unlucky batches. How far the
    others may lie follows from `protocol.failure`, spread evenly over the rounds.
    """
    chance = sharp.largest_outlier_probability(
        num_honest=protocol.cohort_size - protocol.tolerated,
        spare=protocol.set_aside,
        failure=protocol.failure / protocol.rounds,
    )

    def deviation(problem: Problem, protocol: Protocol, steps: int) -> float:
        return sharp.likely_deviation(**_numbers(problem, protocol, steps), outlier_probability=chance)

    def error(problem: Problem, protocol: Protocol, steps: int) -> float:
        reach = deviation(problem, protocol, steps)
        if protocol.learns:
            return sharp.decoding_error(constant=protocol.constant, fraction=protocol.fraction, deviation=reach)
        return _told_error(protocol, protocol.sigma0 or deviation(problem, protocol, protocol.most_steps), reach)

    least = deviation(problem, protocol, protocol.most_steps)
    conditions = (*_conditions(problem, protocol), *_sigma0_conditions(protocol, least))
    failures = {**shared.cohort_failure(protocol, protocol.tolerated), shared.SPREAD: protocol.failure}
    reading = shared.reading(shared.LIKELY, protocol)
    return _guarantee(problem, protocol, conditions, error, deviation=deviation, reading=reading, failures=failures)


def _expected_error(problem: Problem, protocol: Protocol, steps: int) -> float:
    """Return s of Lemma 5 (a) for a round of so many local steps."""
    numbers = _numbers(problem, protocol, steps)
    deviation = sharp.client_deviation(**numbers)
    mean = sharp.mean_deviation(**numbers, num_honest=max(1, protocol.cohort_size - protocol.assumed_byzantine))
    if protocol.learns:
        return sharp.decoding_error(
            constant=protocol.constant, fraction=protocol.fraction, deviation=deviation, mean=mean
        )
    told = protocol.sigma0 or sharp.client_deviation(**_numbers(problem, protocol, protocol.most_steps))
    return _told_error(protocol, told, mean)


def _told_error(protocol: Protocol, sigma0: float, mean: float) -> float:
    """Return s of a filter that is told σ₀: Lemma 5, or Lemma 2 of compression.md."""
    share = {"coordinates": protocol.coordinates, "constant": protocol.constant, "fraction": protocol.fraction}
    return compression.told_error(**share, sigma0=sigma0, mean=mean)


def _conditions(problem: Problem, protocol: Protocol) -> tuple[Condition, Condition]:
    limit, reach = _lr_limit(problem, protocol), sharp.largest_reach(protocol.most_steps)
    strong = problem.strong_convexity > 0.0
    most = EXACT_LIMIT if protocol.mode in ALGORITHM_2 else 0.5
    return (
        Condition(
            name="step size",
            requirement="η ≤ 2/(L + μ)" if strong else f"η < {reach:.3g}/(HL)",
            value=protocol.lr,
            limit=limit,
            relation="≤" if strong else "<",
        ),
        Condition(
            name="distrusted updates",
            requirement=f"ε̃ = f/K < {most:.4g}",
            value=protocol.fraction,
            limit=most,
            relation="<",
        ),
    )


def _lr_limit(problem: Problem, protocol: Protocol) -> float:
    if problem.strong_convexity:
        return 2.0 / (problem.smoothness + problem.strong_convexity)
    reach = sharp.largest_reach(protocol.most_steps) * (1.0 - 1e-12)  # so that ηHL is below it after rounding, too
    return reach / (problem.smoothness * protocol.most_steps)


def _sigma0_conditions(protocol: Protocol, sigma0: float) -> tuple[Condition, ...]:
    """Return that a σ₀ given to the rule is not too small."""
    if protocol.sigma0 is None:
        return ()
    return (Condition(name="σ₀ of the rule", requirement="σ₀ ≥ τ", value=protocol.sigma0, limit=sigma0, relation="≥"),)


def _numbers(problem: Problem, protocol: Protocol, steps: int) -> dict[str, Any]:
    """Return what the deviation of an honest update depends on; a step size beyond the limit is cut to it."""
    return {
        "local_steps": steps,
        "lr": min(protocol.lr, _lr_limit(problem, protocol)),
        "smoothness": problem.smoothness,
        "strong_convexity": problem.strong_convexity,
        "dissimilarity": problem.dissimilarity,
        "noise": protocol.noise(problem.gradient_variance),
    }


def _guarantee(
    problem: Problem,
    protocol: Protocol,
    conditions: tuple[Condition, ...],
    error: Error,
    *,
    deviation: Error,
    reading: str,
    failures: Mapping[str, float],
) -> Guarantee:
    def floor(problem: Problem, protocol: Protocol) -> float:
        convex = sharp.distance_floor if protocol.coordinates == 1.0 else compression.distance_floor
        level = convex if problem.strong_convexity else sharp.gradient_floor
        return level(error=_errors(error, problem, protocol), **_steps(problem, protocol))

    def curve(rounds: Vector) -> Vector:
        steps = _steps(problem, protocol) | {"error": _errors(error, problem, protocol)}
        share = protocol.coordinates
        if not problem.strong_convexity:
            return compression.gradient_bound(rounds, coordinates=share, gap=problem.height, **steps)
        if share == 1.0:
            return sharp.distance_bound(rounds, distance=problem.start, **steps)
        return compression.distance_bound(rounds, coordinates=share, distance=problem.start, **steps)

    def sigma0_of(steps: int) -> float:
        return deviation(problem, protocol, steps if protocol.learns else protocol.most_steps)

    sigma0 = sigma0_of(protocol.most_steps)
    sound = all(condition.passed for condition in conditions) and math.isfinite(protocol.constant)
    page = "convergence.md" if protocol.coordinates == 1.0 else "compression.md"
    return Guarantee(
        source="steadfed",
        theorem=f"Theorem {1 if problem.strong_convexity else 2} of {page}, {shared.kind(problem)}",
        quantity=shared.quantity(problem, protocol),
        reading=reading,
        conditions=conditions,
        sigma0=sigma0,
        sigma0_of=sigma0_of,
        filter_error=protocol.constant * math.sqrt(protocol.fraction) * (protocol.sigma0 or sigma0),
        lr_limit=conditions[0].limit,
        floor=floor(problem, protocol) if sound else math.inf,
        floors=shared.floors_without(problem, protocol, floor) if sound else {},
        failures=failures,
        rests_on=shared.rests_on(protocol),
        rounds=protocol.rounds,
        period=len(protocol.gaps),
        curve=curve if sound else shared.nothing,
    )


def _errors(error: Error, problem: Problem, protocol: Protocol) -> list[float]:
    """Return s of every gap."""
    found = {steps: error(problem, protocol, steps) for steps in set(protocol.gaps)}
    return [found[steps] for steps in protocol.gaps]


def _steps(problem: Problem, protocol: Protocol) -> dict[str, Any]:
    steps = {"lr": protocol.lr, "local_steps": protocol.local_steps, "smoothness": problem.smoothness}
    return steps | ({"strong_convexity": problem.strong_convexity} if problem.strong_convexity else {})
