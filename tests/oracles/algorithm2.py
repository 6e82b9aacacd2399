"""Algorithm 2 of the paper as it is printed, with K for R: explicit vectors, one semidefinite program per turn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from tests.oracles.saddle import Array, SaddlePoint, solve_saddle_point, tilted

Choose = Callable[[SaddlePoint, Array, Array, float], SaddlePoint]
"""(the solved saddle point, the active vectors, c, cap) -> the one to go on with."""


def as_solved(point: SaddlePoint, *_: object) -> SaddlePoint:
    """Go on with the saddle point as it was solved."""
    return point


@dataclass(frozen=True)
class Estimate:
    """What Algorithm 2 returned, and the saddle points on the way."""

    update: Array
    active: list[int]
    saddle_points: list[SaddlePoint]
    assumption_violated: bool
    """Whether a step would have left no feasible W, which cannot happen under the promise."""


def algorithm_2(rows: Array, num_byzantine: int, sigma0: float, choose: Choose = as_solved) -> Estimate:
    """Run Algorithm 2 (algo:robust-grad-est), lines 1 to 12, on the rows g_1 … g_K."""
    cohort = len(rows)
    c = [1.0] * cohort  # line 1
    alpha = 1.0 - num_byzantine / cohort
    active = list(range(cohort))
    cap = (4.0 - alpha) / (alpha * (2.0 + alpha) * cohort)
    saddle_points = []
    while True:  # line 2
        vectors = rows[active].T
        weights = np.array([c[i] for i in active])
        point = choose(solve_saddle_point(vectors, weights, cap), vectors, weights, cap)  # line 3
        saddle_points.append(point)
        tau = dict(zip(active, point.tau.tolist(), strict=True))  # line 4
        if sum(c[i] * tau[i] for i in active) <= 4.0 * cohort * sigma0**2:  # line 5
            return Estimate(rows[active].mean(axis=0), active, saddle_points, assumption_violated=False)  # lines 9, 12
        largest = max(tau.values())
        for i in active:
            c[i] = (1.0 - tau[i] / largest) * c[i]  # line 6
        left = [i for i in active if c[i] >= 0.5]  # line 7
        if len(left) * cap < 1.0:
            return Estimate(rows[active].mean(axis=0), active, saddle_points, assumption_violated=True)
        active = left


def outcomes(rows: Array, num_byzantine: int, sigma0: float, gap: float) -> set[tuple[int, ...]]:
    """Return the sets 𝒜 with which Algorithm 2 ends if in every turn Y is any of some that are optimal up to `gap`.

    More than one means that a relative gap of this size does not determine the result: the saddle point is so flat, or
    a weight or a value so close to its threshold, that two solutions of line 3 lead to different sets.
    """

    def towards(direction: int) -> Choose:
        return lambda point, vectors, c, cap: tilted(point, vectors, c, cap, direction, gap)

    choices = [as_solved, *(towards(direction) for direction in range(3))]
    return {tuple(algorithm_2(rows, num_byzantine, sigma0, choose).active) for choose in choices}
