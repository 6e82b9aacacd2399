r"""Algorithm 2 of the paper, with K in place of R, solved lazily with certificates (`saddle.py`)."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from steadfed._core.arrays import Matrix, Vector
from steadfed._linalg.spectrum import eigen_directions, negligible_scatter
from steadfed.aggregators._rage.constants import resilience
from steadfed.aggregators._rage.filtering import Step
from steadfed.aggregators._rage.saddle import Saddle, decide, rank_one_scores

RANK_ONE_DIRECTIONS = 32
"""Leading directions tried as rank-one Y before the saddle point is approached in earnest."""


@dataclass
class ExactFiltering:
    """What Algorithm 2 did."""

    active: NDArray[np.bool_]
    """The set 𝒜."""
    steps: list[Step] = field(default_factory=list)
    looked_along: list[Vector] = field(default_factory=list)
    num_eigensolves: int = 0
    refused: Step | None = None
    """The step that would have left fewer than t·n rows: the assumption is violated."""
    undecided: bool = False


def run_exact(gram: Matrix, num_byzantine: int, sigma0: float) -> ExactFiltering:
    """Run Algorithm 2 on the Gram matrix of the usable rows.

    Deviations from the paper: R reads K in the cap and in the threshold (the proof of its cap needs it; with R > K the
    set of W can be empty). Line 3 is decided, not solved; see `saddle`. When a step would leave fewer than t·K rows,
    which cannot happen under the assumption, the loop ends with "assumption violated" instead of emptying 𝒜.
    """
    n = len(gram)
    alpha = 1.0 - num_byzantine / n  # line 1
    cap = 1.0 / (resilience(num_byzantine / n) * n)
    threshold = 4.0 * n * sigma0**2
    c = np.ones(n)
    run = ExactFiltering(active=np.ones(n, dtype=bool))
    while True:  # line 2
        active = np.flatnonzero(run.active)
        saddle = _saddle(gram, c, cap, threshold, alpha, run)  # line 3
        if saddle.tau is None:  # line 5, decided by the upper bound
            run.undecided = not saddle.decided
            return run
        scatter = float(c[active] @ saddle.tau)
        left = c.copy()
        left[active] *= 1.0 - saddle.tau / saddle.tau.max()  # line 6
        still = run.active & (left >= 0.5)  # line 7
        dropped = int(run.active.sum() - still.sum())
        step = Step(scatter, float(c[active].sum()), float((c - left)[active].sum()), saddle.excess, dropped)
        if still.sum() * cap < 1.0 - 1e-12:
            run.refused = step
            return run
        run.steps.append(step)
        c, run.active = left, still


def _saddle(gram: Matrix, c: Vector, cap: float, threshold: float, alpha: float, run: ExactFiltering) -> Saddle:
    """Decide line 3 with the cheapest certificate that does: rank-one Y, mean as W, ADMM."""
    inner, c = gram[np.ix_(run.active, run.active)], c[run.active]
    directions = eigen_directions(inner, c, RANK_ONE_DIRECTIONS)
    run.num_eigensolves += 1
    run.looked_along.append(gram[:, run.active] @ directions.coefficients[:, 0])
    if directions.top <= negligible_scatter(inner, c):
        return Saddle(0.0, directions.top, None)
    lower, tau = rank_one_scores(directions.coordinates, c, cap)
    upper = _mean_bound(inner, c, cap, directions.top)
    if lower > threshold:
        return Saddle(lower, upper, tau)
    if upper <= threshold:
        return Saddle(lower, upper, None)
    saddle = decide(inner, c, cap, threshold, alpha)
    run.num_eigensolves += saddle.num_iterations
    return saddle


def _mean_bound(gram: Matrix, c: Vector, cap: float, weighted: float) -> float:
    """Return max_Y Φ for the better of two feasible W: the plain mean and, if the cap allows, the weighted one."""
    centred = gram - gram.mean(axis=0) - gram.mean(axis=1)[:, None] + gram.mean()
    plain = float(np.linalg.eigvalsh(np.sqrt(c)[:, None] * centred * np.sqrt(c))[-1])
    return min(plain, weighted) if c.max() / c.sum() <= cap * (1.0 + 1e-12) else plain
