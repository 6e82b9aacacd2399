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


def rests_on(protocol: Protocol) -> str:
    """Return what mode auto needs above 128 updates that is not proved: section 5.2 of docs/theory/filter.md."""
    if protocol.mode != "auto" or protocol.cohort_size <= DENSE_UP_TO:
        return ""
    return f"above {DENSE_UP_TO} updates: Lanczos finds the largest spread of a cohort to 1 % (filter.md, 5.2)"


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
