r"""Mode "auto": the filter stopped by displacement.

What harms a model is that its update is displaced, not that clients differ. The path of the filter leads from all rows
(c = 1) down to mass n − 2f. On it lies the *anchor* a, the state with the smallest spread λ_a, whose mean errs by
O(√(λ_a ε)) at most. The update is the mean of the first state s whose mean is within that reach of the anchor's and
whose spread is not out of all proportion:

    ‖μ_s − μ_a‖ ≤ ρ √(λ_a f/n)     and     λ_s ≤ κ λ_a .

So clients that are unlike the others but pull nowhere keep their weight. The second condition is there because the
first alone is met by Byzantine rows in pairs about the mean, however far out. By it, Theorem 2 of
docs/theory/filter.md holds with this κ. A guard (`guard`) raises f where a sampled cohort seems to hold more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, partial

import numpy as np

from steadfed._core.arrays import Matrix, Vector
from steadfed.aggregators._rage.anchor import Anchor, Guard
from steadfed.aggregators._rage.constants import REUSE
from steadfed.aggregators._rage.filtering import Filtering, State, run_filter
from steadfed.aggregators._rage.guard import look_beyond


@dataclass(frozen=True)
class Displacement:
    """Where the filter's path was left, and why there."""

    path: Filtering
    """From all rows down to the floor."""
    state: State
    """Whose mean is the update."""
    anchor: Anchor
    guard: Guard | None
    num_byzantine: int
    """f as it was used."""


def stop_by_displacement(
    gram: Matrix, num_byzantine: int, *, rho: float, kappa: float, sampled: bool, confirm: bool = True
) -> Displacement:
    """Return the first state on the filter's path whose mean is within reach of the anchor's.

    Args:
        gram: inner products of the rows.
        num_byzantine: f.
        rho: ρ, how many times √(λ_a f/n) the reach is.
        kappa: κ, how many times the anchor's spread the state's may be.
        sampled: whether the cohort was drawn, so that it may hold more Byzantine rows than f by chance.
        confirm: whether every spread on the path is to be confirmed as λ_max, on which the proof above 128 rows rests.
    """
    path = cache(partial(filter_path, gram, confirm=confirm))
    guard = look_beyond(gram, num_byzantine, lambda f: safest(path(f)).spread) if sampled else None
    alarmed = guard is not None and guard.alarmed
    used = guard.needed if guard is not None and guard.needed is not None else num_byzantine
    way = path(used)
    found = safest(way)
    unit = math.sqrt(found.spread * used / len(gram))
    state = found if alarmed else _first_within(gram, way, found, rho * unit, kappa * found.spread)
    shift = _distance(gram, way.states[0].weights, found.weights)
    anchor = Anchor(
        num_steps=found.num_steps,
        weight_removed=len(gram) - float(found.weights.sum()),
        spread=found.spread,
        distance=_distance(gram, state.weights, found.weights),
        reach=rho * unit,
        displacement=shift / unit if unit > 0.0 and math.isfinite(shift) else None,
    )
    return Displacement(way, state, anchor, guard, used)


def filter_path(gram: Matrix, num_byzantine: int, *, confirm: bool) -> Filtering:
    """Return the filter's way from all rows down to mass n − 2f, every spread on it confirmed if that is asked for."""
    floor = len(gram) - 2.0 * num_byzantine
    return run_filter(gram, floor, lambda _: -math.inf, confirm="each" if confirm else "none", reuse_down_to=REUSE)


def safest(path: Filtering) -> State:
    """Return the anchor: the state with the smallest spread."""
    return min(path.states, key=lambda state: state.spread)


def _first_within(gram: Matrix, path: Filtering, anchor: State, reach: float, limit: float) -> State:
    for state in path.states:
        if state is anchor:
            break
        if state.spread <= limit and _distance(gram, state.weights, anchor.weights) <= reach:
            return state
    return anchor


def _distance(gram: Matrix, weights: Vector, anchor: Vector) -> float:
    """Return ‖μ_c − μ_a‖ for two sets of weights: with z = π_c − π_a, which sums to 0, its square is zᵀ Q z."""
    difference = weights / weights.sum() - anchor / anchor.sum()
    with np.errstate(invalid="ignore"):
        square = float(difference @ (gram @ difference))
    if not math.isfinite(square):  # 0 · Inf is not 0: leave the rows without weight out
        kept = (weights > 0) | (anchor > 0)
        square = float(difference[kept] @ (gram[np.ix_(kept, kept)] @ difference[kept]))
    return math.sqrt(max(0.0, square))
