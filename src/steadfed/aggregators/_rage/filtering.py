r"""The weighted-mean filter: take weight from the clients that cause the largest spread, until it is small enough.

Notation of the proof (docs/theory/filter.md): n rows, f assumed Byzantine, S the n − f honest rows whose covariance
has λ_max ≤ σ₀², B the others. Weights c start at 1, or at anything in (0, 1]. Along ANY unit direction v with
scatter ℓ = Σ c_i (p_i − p̄)² and τ_i = (p_i − p̄)²,

    Σ_S c_i τ_i ≤ |S| σ₀² + ℓ · (Σ_B c) / (Σ c) ,

so c_i ← c_i (1 − τ_i / τ_max) takes at least as much weight from B as from S whenever ℓ > θ(ε) n σ₀². Since any
direction with enough scatter will do, one eigen-solve serves many steps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from steadfed._core.arrays import Matrix, Vector
from steadfed._linalg.spectrum import (
    BOUND_SLACK,
    Directions,
    leading_directions,
    negligible_scatter,
    scatter_is_below,
)

Limit = Callable[[float], float]
"""The largest scatter at which the filter stops, as a function of the mass."""

MASS_ROUNDING = 1e-9
"""Mass above the floor that is rounding."""


@dataclass(frozen=True)
class Step:
    """One filter step, as the certificate needs it."""

    scatter: float
    """ℓ along the direction of the step, before it (for Algorithm 2: Σ c_i τ_i)."""
    mass: float
    """Σ c before the step."""
    removed: float
    """How much weight the step took."""
    excess: float = 0.0
    """How far Σ c_i τ_i may lie above the best response to Y (Algorithm 2 with an approximate saddle point)."""
    dropped: int = 0
    """How many rows the step dropped for having lost half their weight (Algorithm 2, line 7)."""


@dataclass(frozen=True)
class State:
    """Weights at which the spread was measured."""

    weights: Vector
    found: float
    """The largest scatter found along any direction."""
    scatter: float
    """λ_max of the scatter matrix: `found`, or a bound slightly above it that holds if `confirmed`."""
    coefficients: Vector
    """The direction of the largest scatter found, as coefficients of the rows."""
    num_steps: int
    confirmed: bool

    @property
    def spread(self) -> float:
        """λ_max of the weighted covariance."""
        return self.scatter / float(self.weights.sum())


@dataclass
class Filtering:
    """What one run of the filter did."""

    states: list[State] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    looked_along: list[Vector] = field(default_factory=list)
    """Coordinates of the rows along every direction that a step used or a state measured."""
    below_limit: bool = False
    num_eigensolves: int = 0
    solved: dict[int, Directions] = field(default_factory=dict)
    """What was found after how many steps."""

    @property
    def last(self) -> State:
        """Where the filter stopped."""
        return self.states[-1]


def run_filter(
    gram: Matrix,
    floor: float,
    limit: Limit,
    before: Filtering | None = None,
    *,
    start: Vector | None = None,
    confirm: Literal["none", "stop", "each"] = "stop",
    reuse_down_to: float = 0.0,
) -> Filtering:
    """Filter from c = 1 until the scatter is at most `limit(mass)` or the mass has fallen to `floor`.

    The scatter at the stop, or at each state, is confirmed as λ_max of the scatter matrix. Directions are found anew
    when the scatter along the best of them falls below `reuse_down_to` times what it was when they were found. As the
    scatter matrix never grows, every step then looks along a direction with at least that share of its λ_max.

    Weights may `start` at anything in (0, 1]: see section 5.5 of docs/theory/filter.md. Weight that rounding leaves is
    told by where a row started.

    A run `before` this one, on the same rows with the same floor and the same reuse, has taken the same steps as long
    as both looked for directions after the same steps. Until then, what it found is not looked for again.

    Each full step zeroes at least one client, so there are at most n − floor + 1 steps. The last step is scaled so
    that the mass ends at the floor exactly: a scaled step takes weight in the same proportions, so the inequality
    above holds for it too, and two symmetric clusters cannot empty the cohort.
    """
    run = Filtering()
    whole = weights = np.ones(len(gram)) if start is None else start
    known = dict(before.solved) if before else {}
    directions, fresh = _solve(gram, weights, run, known), True
    while True:
        scatters, deviations = scatter_along(directions.coordinates, weights)
        best, mass = int(np.argmax(scatters)), float(weights.sum())
        margin = 1.0 if directions.exact else 1.0 + BOUND_SLACK
        below = bool(scatters[best] * margin <= max(limit(mass), negligible_scatter(gram, weights)))
        ends = below or mass - floor <= MASS_ROUNDING
        stale = directions.exact or scatters[best] < reuse_down_to * directions.top
        if not fresh and (ends or stale):
            directions, fresh = _solve(gram, weights, run, known), True
            continue
        if fresh:
            sure = confirm == "each" or (confirm == "stop" and ends)
            state, better = _measure(gram, weights, directions, len(run.steps), confirm=sure)
            if better is not None:
                run.num_eigensolves += 1
                directions = better
                known.clear()
                continue
            run.states.append(state)
        run.looked_along.append(directions.coordinates[:, 0 if ends else best])
        if ends:
            run.below_limit = below
            return run
        taken = _step(weights, deviations[:, best] ** 2, mass - floor)
        run.steps.append(Step(float(scatters[best]), mass, float(taken.sum())))
        weights, fresh = _without(weights, taken, floor, whole), False


def total_weight(gram: Matrix, start: Vector | None) -> float:
    """Return W, the weight at the start: n if every row counts alike."""
    return float(len(gram)) if start is None else float(start.sum())


def confirmed(gram: Matrix, state: State) -> State:
    """Return the same state with its scatter measured exactly."""
    if state.confirmed:
        return state
    exact = leading_directions(gram, state.weights, dense=True)
    return State(state.weights, exact.top, exact.top, exact.coefficients[:, 0], state.num_steps, confirmed=True)


def measured(gram: Matrix, weights: Vector, num_steps: int, *, confirm: bool) -> State:
    """Return the state of weights that lie between two of a path, confirmed as λ_max if that is asked for."""
    state, better = _measure(gram, weights, leading_directions(gram, weights), num_steps, confirm=confirm)
    return state if better is None else _measure(gram, weights, better, num_steps, confirm=True)[0]


def scatter_along(coordinates: Matrix, weights: Vector) -> tuple[Vector, Matrix]:
    """Return Σ c_i (p_i − p̄)² for every column p, and the deviations p_i − p̄; rows without weight do not matter."""
    share = weights / weights.sum()
    kept = weights > 0
    deviations = coordinates - share[kept] @ coordinates[kept]
    return weights[kept] @ deviations[kept] ** 2, deviations


def _step(weights: Vector, tau: Vector, allowed: float) -> Vector:
    """Return how much weight to take from each client: c_i τ_i / τ_max, scaled down to `allowed` in all."""
    taken = np.where(weights > 0, weights * tau / tau[weights > 0].max(), 0.0)
    total = float(taken.sum())
    return taken * (allowed / total) if total > allowed else taken


def _without(weights: Vector, taken: Vector, floor: float, whole: Vector) -> Vector:
    """Return the weights after the step, with rounding debris removed and the floor kept exactly."""
    left = weights - taken
    left[left <= np.finfo(float).eps * len(left) * whole] = 0.0
    mass = float(left.sum())
    return left * (floor / mass) if mass < floor else left


def _solve(gram: Matrix, weights: Vector, run: Filtering, known: dict[int, Directions]) -> Directions:
    """Return the leading directions here; those of the run before if it has looked for them after the same steps."""
    number = len(run.steps)
    if number in known:
        found = known[number]
    else:
        known.clear()  # from here on the runs may take different steps
        found = leading_directions(gram, weights)
        run.num_eigensolves += 1
    run.solved[number] = found
    return found


def _measure(
    gram: Matrix, weights: Vector, directions: Directions, num_steps: int, *, confirm: bool
) -> tuple[State, Directions | None]:
    """Return the state here; or, where a Ritz value turns out too low, also exact directions to go on with."""
    bound = directions.top if directions.exact else directions.top * (1.0 + BOUND_SLACK)
    state = State(weights, directions.top, bound, directions.coefficients[:, 0], num_steps, confirm or directions.exact)
    if directions.exact or not confirm or scatter_is_below(gram, weights, bound):
        return state, None
    return state, leading_directions(gram, weights, dense=True)
