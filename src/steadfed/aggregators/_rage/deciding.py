"""What each mode of RAGE makes of a Gram matrix: weights, and everything worth knowing of how they came about."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from steadfed._core.arrays import Matrix, Vector
from steadfed._linalg.spectrum import eigen_directions, negligible_scatter
from steadfed.aggregators._evidence import Stop
from steadfed.aggregators._rage.anchor import Anchor, Cut, Guard
from steadfed.aggregators._rage.certificate import SLACK
from steadfed.aggregators._rage.constants import REUSE, theta
from steadfed.aggregators._rage.displacement import Reach, filter_path, safest, stop_by_displacement
from steadfed.aggregators._rage.exact import ExactFiltering
from steadfed.aggregators._rage.filtering import (
    Filtering,
    State,
    Step,
    confirmed,
    measured,
    run_filter,
    scatter_along,
    total_weight,
)


@dataclass(frozen=True, kw_only=True)
class Decision:
    """Everything about the usable rows that the filter decided."""

    weights: Vector
    scores: Vector
    stop: Stop
    sigma0: float
    spread: float
    spread_before: float
    largest_sigma0: float
    """√(n λ/(n − f)), λ the spread before; infinite if that is a Ritz value nobody confirmed."""
    threshold: float | None
    """In units of a variance; None for Algorithm 2, which compares the value of a saddle point with its threshold."""
    coefficients: Vector
    num_byzantine: float
    """f, or F where rows count as they are weighted."""
    steps: tuple[Step, ...]
    probe: tuple[Step, ...]
    probe_scatter: float
    num_eigensolves: int
    anchor: Anchor | None = None
    cut: Cut | None = None
    guard: Guard | None = None
    algorithm_2: ExactFiltering | None = None


def decide_known(gram: Matrix, num_byzantine: float, sigma0: float, start: Vector | None = None) -> Decision:
    """Filter until the scatter is at most θ(ε) n σ₀² (without Byzantine rows: check that it is at most n σ₀²)."""
    n = total_weight(gram, start)
    factor = theta(num_byzantine / n) if num_byzantine else 1.0 + SLACK
    limit = factor * n * sigma0**2
    run = run_filter(gram, n - 2.0 * num_byzantine, lambda _: limit, start=start)
    return _of_filter(gram, run, run, num_byzantine, limit / float(run.last.weights.sum()), sigma0=sigma0, start=start)


def decide_by_displacement(
    gram: Matrix,
    num_byzantine: float,
    reach: Reach,
    *,
    sampled: bool,
    confirm: bool,
    start: Vector | None = None,
) -> Decision:
    """Take the first state on the path whose mean is, or can be cut to be, within reach of the safest one's."""
    found = stop_by_displacement(gram, num_byzantine, reach, sampled=sampled, confirm=confirm, start=start)
    path, state, anchor = found.path, found.state, found.anchor
    taken = state if found.cut is None else measured(gram, found.weights, state.num_steps, confirm=confirm)
    run = replace(
        path,
        states=[taken],
        steps=path.steps[: state.num_steps],
        looked_along=path.looked_along[: state.num_steps + 1],
        below_limit=True,
    )
    decision = _of_filter(gram, run, path, found.num_byzantine, reach.kappa * anchor.spread, start=start)
    stop = decision.stop
    if found.guard is not None and found.guard.alarmed:
        stop = Stop.MORE_THAN_ASSUMED
    elif stop is Stop.SPREAD_IS_SMALL:
        stop = _within_reach(state, anchor)
    return replace(decision, stop=stop, anchor=anchor, cut=found.cut, guard=found.guard)


def _within_reach(state: State, anchor: Anchor) -> Stop:
    if state.num_steps == anchor.num_steps:
        return Stop.SMALLEST_SPREAD
    return Stop.WITHIN_REACH if anchor.share == 1.0 else Stop.CUT_TO_REACH


def decide_by_spread(gram: Matrix, num_byzantine: float, kappa: float, start: Vector | None = None) -> Decision:
    """Learn λ_min by filtering down to mass n − 2f, then filter from the start until the spread is at most κ λ_min.

    With few rows both runs take the same steps, so the second one gets there. With many, the first may have stopped at
    Ritz values that are too low; if the second ends at the mass floor, the state with the smaller spread is used.
    """
    floor = total_weight(gram, start) - 2.0 * num_byzantine
    probe = filter_path(gram, num_byzantine, confirm=False, start=start)
    smallest = safest(probe)
    limit = kappa * smallest.spread
    run = run_filter(gram, floor, lambda mass: limit * mass, probe, start=start, reuse_down_to=REUSE)
    run.num_eigensolves += probe.num_eigensolves
    if not run.below_limit:
        other = confirmed(gram, smallest)
        if other.spread < run.last.spread:
            run.steps, run.states = probe.steps[: other.num_steps], [other]
        run.below_limit = run.last.spread <= limit
    return _of_filter(gram, run, probe, num_byzantine, limit, start=start)


def _of_filter(
    gram: Matrix,
    run: Filtering,
    probe: Filtering,
    num_byzantine: float,
    threshold: float,
    *,
    sigma0: float | None = None,
    start: Vector | None = None,
) -> Decision:
    state, first, honest = run.last, probe.states[0], total_weight(gram, start) - num_byzantine
    return Decision(
        weights=state.weights,
        scores=_scores(run.looked_along, state.weights, state.spread),
        stop=_stop(gram, run, num_byzantine),
        sigma0=math.sqrt(state.spread) if sigma0 is None else sigma0,
        spread=state.spread,
        spread_before=first.spread,
        largest_sigma0=math.sqrt(first.scatter / honest) if first.confirmed else math.inf,
        threshold=threshold,
        coefficients=state.coefficients,
        num_byzantine=num_byzantine,
        steps=tuple(run.steps),
        probe=tuple(probe.steps),
        probe_scatter=probe.last.found,
        num_eigensolves=run.num_eigensolves,
    )


def _stop(gram: Matrix, run: Filtering, num_byzantine: float) -> Stop:
    if run.last.scatter <= negligible_scatter(gram, run.last.weights):
        return Stop.ROWS_AGREE
    if not run.below_limit:
        return Stop.SPREAD_STAYS_LARGE
    return Stop.SPREAD_IS_SMALL if num_byzantine else Stop.NOTHING_TO_FILTER


def decide_by_algorithm_2(gram: Matrix, num_byzantine: int, sigma0: float, run: ExactFiltering) -> Decision:
    weights = run.active.astype(float)
    directions = eigen_directions(gram, weights, 1)
    spread, before = directions.top / float(weights.sum()), eigen_directions(gram, np.ones(len(gram)), 1).top
    stop = Stop.SADDLE_UNDECIDED if run.undecided else Stop.SPREAD_IS_SMALL
    if run.refused is not None:
        stop = Stop.SPREAD_STAYS_LARGE
    elif directions.top <= negligible_scatter(gram, weights):
        stop = Stop.ROWS_AGREE
    return Decision(
        weights=weights,
        scores=_scores([*run.looked_along, directions.coordinates[:, 0]], weights, spread),
        stop=stop,
        sigma0=sigma0,
        spread=spread,
        spread_before=before / len(gram),
        largest_sigma0=math.sqrt(before / (len(gram) - num_byzantine)),
        threshold=None,
        coefficients=directions.coefficients[:, 0],
        num_byzantine=num_byzantine,
        steps=tuple(run.steps),
        probe=tuple(run.steps) if run.refused is None else (*run.steps, run.refused),
        probe_scatter=directions.top,
        num_eigensolves=run.num_eigensolves + 2,
        algorithm_2=run,
    )


def _scores(looked_along: list[Vector], weights: Vector, spread: float) -> Vector:
    """Return each row's largest squared deviation from the kept mean along the filter's directions, over the spread.

    A score of 9 means: three standard deviations of the kept rows, in the worst direction the filter looked along.
    """
    _, deviations = scatter_along(np.stack(looked_along, axis=1), weights)
    largest: Vector = (deviations**2).max(axis=1)
    if spread > 0.0:
        with np.errstate(over="ignore"):  # a row may be farther out than a float can say in such units
            return np.asarray(np.minimum(largest / spread, np.finfo(float).max))
    return np.where(largest > 0.0, np.inf, 0.0)
