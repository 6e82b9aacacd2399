"""What every statement says in the same words: quantities, failures of the cohorts, what the floor is made of."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from steadfed._core.arrays import Vector
from steadfed._linalg.spectrum import DENSE_UP_TO
from steadfed.theory._problem import Problem, Protocol
from steadfed.theory.sampling import run_excess_probability

SURELY = "surely"
EXPECTED = "in expectation over the batches"
LIKELY = "in every round at once, with high probability"
OVER_COORDINATES = "in expectation over the coordinates"
OVER_BOTH = "in expectation over the batches and the coordinates"
LIKELY_OVER_COORDINATES = "in expectation over the coordinates, with high probability over the batches"
MEANS = frozenset({EXPECTED, OVER_BOTH, OVER_COORDINATES, LIKELY_OVER_COORDINATES})
"""Readings that bound a mean, which a single run may exceed."""
SETTING_ASIDE = frozenset({LIKELY, LIKELY_OVER_COORDINATES})
"""Readings for which some of the f updates are set aside for unlucky honest ones."""
_WITH_COORDINATES = {SURELY: OVER_COORDINATES, EXPECTED: OVER_BOTH, LIKELY: LIKELY_OVER_COORDINATES}
COHORTS = "a cohort has more Byzantine updates than tolerated"
SPREAD = "honest updates spread more than reckoned with"


def quantity(problem: Problem, protocol: Protocol) -> str:
    """Return what is bounded."""
    if problem.strong_convexity:
        return "‖x_k − x*‖² after k rounds"
    weighed = ", each counted by its local steps" if len(protocol.gaps) > 1 else ""
    return f"the mean of ‖∇F(x_k)‖² over the rounds{weighed}"


def kind(problem: Problem) -> str:
    """Return which part of a theorem it is."""
    return "strongly convex" if problem.strong_convexity else "non-convex"


def reading(plain: str, protocol: Protocol) -> str:
    """Return in which sense a statement holds, given in which it would with whole updates."""
    return plain if protocol.coordinates == 1.0 else _WITH_COORDINATES[plain]


def rests_on(protocol: Protocol) -> str:
    """Return what is needed and not proved: that coordinates are a secret, and what filter.md leaves open."""
    found = []
    if protocol.coordinates < 1.0:
        found.append("nobody knows the coordinates of a round before it (compression.md)")
    if protocol.mode == "auto" and protocol.cohort_size < protocol.num_clients:
        found.append("the guard raises f for no honest updates (filter.md, 5.4)")
    if protocol.mode == "spread" and protocol.cohort_size > DENSE_UP_TO:
        found.append(
            f"above {DENSE_UP_TO} updates: Lanczos finds the largest spread of a cohort to 1 % (filter.md, 5.2)"
        )
    return "; ".join(found)


def nothing(rounds: Vector) -> Vector:
    """Return the bound of a theorem that does not apply."""
    return np.full(np.shape(rounds), np.inf)


def cohort_failure(protocol: Protocol, tolerated: int) -> dict[str, float]:
    """Return how likely some cohort of the run has more Byzantine updates than tolerated."""
    if not protocol.uniform:
        return {COHORTS: float(min(protocol.num_byzantine, protocol.cohort_size) > tolerated)}
    chance = run_excess_probability(**protocol.population, tolerated=tolerated, rounds=protocol.rounds)
    return {COHORTS: chance}


def floors_without(
    problem: Problem, protocol: Protocol, floor: Callable[[Problem, Protocol], float]
) -> dict[str, float]:
    """Return the floor without each of its causes that is there: heterogeneity, sampling, distrust."""
    found = {}
    if problem.dissimilarity > 0.0:
        found["if clients were alike"] = floor(problem.model_copy(update={"dissimilarity": 0.0}), protocol)
    if protocol.noise(problem.gradient_variance) > 0.0:
        found["with full batches"] = floor(problem.model_copy(update={"gradient_variance": 0.0}), protocol)
    if protocol.assumed_byzantine:
        found["if nobody were distrusted"] = floor(problem, protocol.model_copy(update={"assumed_byzantine": 0}))
    return found
