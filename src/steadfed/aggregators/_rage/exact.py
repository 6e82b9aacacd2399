r"""Algorithm 2 of the paper, with K in place of R: line 3 solved (mode "exact") or decided (mode "lazy")."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from steadfed._core.arrays import Matrix, Vector
from steadfed.aggregators._rage.constants import resilience
from steadfed.aggregators._rage.decided import decide_cheaply
from steadfed.aggregators._rage.filtering import Step
from steadfed.aggregators._rage.saddle import Saddle
from steadfed.aggregators._rage.solved import solve

LineThree = Callable[[Matrix, Vector, float, float, float], Saddle]
"""(Gram matrix of the active rows, c, cap, threshold, α) -> what is known of the saddle point."""


@dataclass
class ExactFiltering:
    """What Algorithm 2 did."""

    active: NDArray[np.bool_]
    """The set 𝒜."""
    steps: list[Step] = field(default_factory=list)
    looked_along: list[Vector] = field(default_factory=list)
    saddles: list[Saddle] = field(default_factory=list)
    """What line 3 found in every turn; the matrices of the last turn only."""
    num_eigensolves: int = 0
    refused: Step | None = None
    """The step that would have left fewer than t·n rows: the assumption is violated."""
    undecided: bool = False


def run_exact(gram: Matrix, num_byzantine: int, sigma0: float) -> ExactFiltering:
    """Run Algorithm 2 on the Gram matrix of the usable rows.

    Deviations from the paper: R reads K in the cap and in the threshold (the proof of its cap needs it; with R > K the
    set of W can be empty). Line 3 is solved to a relative gap of 1e-3; see `solved`. When a step would leave fewer than
    t·K rows, which cannot happen under the assumption, the loop ends with "assumption violated" instead of emptying 𝒜.
    """
    return _run(gram, num_byzantine, sigma0, solve)


def run_lazy(gram: Matrix, num_byzantine: int, sigma0: float) -> ExactFiltering:
    """Run Algorithm 2 with line 3 decided, not solved; see `decided`. The guarantee is the same."""
    return _run(gram, num_byzantine, sigma0, decide_cheaply)


def _run(gram: Matrix, num_byzantine: int, sigma0: float, line_three: LineThree) -> ExactFiltering:
    n = len(gram)
    alpha = 1.0 - num_byzantine / n  # line 1
    cap = 1.0 / (resilience(num_byzantine / n) * n)
    threshold = 4.0 * n * sigma0**2
    c = np.ones(n)
    run = ExactFiltering(active=np.ones(n, dtype=bool))
    while True:  # line 2
        active = np.flatnonzero(run.active)
        saddle = line_three(gram[np.ix_(active, active)], c[active], cap, threshold, alpha)  # line 3
        _note(run, gram, saddle)
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


def _note(run: ExactFiltering, gram: Matrix, saddle: Saddle) -> None:
    """Write down what line 3 found and where it looked first."""
    run.saddles = [each.without_matrices() for each in run.saddles]
    run.saddles.append(saddle)
    run.num_eigensolves += 1 + saddle.num_iterations
    if saddle.coefficients is not None:
        run.looked_along.append(gram[:, run.active] @ saddle.coefficients[:, 0])
