r"""Mode "auto": the filter stopped by displacement.

What harms a model is that its update is displaced, not that clients differ. The path of the filter leads from all rows
(c = 1) down to mass n − 2f. On it lies the *anchor* a, the state with the smallest spread λ_a, whose mean errs by
O(√(λ_a ε)) at most. For another state s with shares π^s, its displacement δ = μ_s − μ_a is a sum over the rows,

    δ = Σ z_i (g_i − μ_a) ,   z = π^s − π^a ,   h_i = z_i ⟨g_i − μ_a, δ⟩ / ‖δ‖ ,   Σ h_i = ‖δ‖ ,

of which f rows account for D_f = min(‖δ‖, Σ of the f largest h_i) at most, net of what pulls against them. (Where row i
counts w_i, weight F accounts for it, taken in decreasing order of h_i/w_i.) With

    r = √(λ_a f/n) ,   Chebyshev's limit of what a mass f/n of rows of variance λ_a can do,

the first state with spread λ_s ≤ κ λ_a and D_f ≤ ρ₂ r is taken, and if D_f > ρ r its displacement is cut: the update is
the mean on the way from μ_a to μ_s at which D_f is ρ r. So clients that are unlike the others but pull nowhere keep
their weight, and those that pull do so up to a limit: an attacker who finds the limit gains ρ r, and going further
gains nothing. Beyond ρ₂ r nothing of a displacement is believed. The condition on spreads is there because that on
displacements alone is met by Byzantine rows in pairs about the mean, however far out. By it, Theorem 2 of
docs/theory/filter.md holds with this κ. A guard (`guard`) raises f where a sampled cohort seems to hold more.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial

import numpy as np

from steadfed._core.arrays import Matrix, Vector
from steadfed.aggregators._rage.anchor import Anchor, Cut, Guard
from steadfed.aggregators._rage.constants import REUSE
from steadfed.aggregators._rage.filtering import Filtering, State, run_filter, total_weight
from steadfed.aggregators._rage.guard import look_beyond


@dataclass(frozen=True)
class Reach:
    """How far a state's mean may be from the anchor's, in units of √(λ_a f/n)."""

    rho: float
    """ρ, what f rows may account for."""
    rejection: float
    """ρ₂, beyond which a displacement is not even cut, but not believed at all."""
    kappa: float
    """κ, how many times the anchor's spread a state's may be."""


@dataclass(frozen=True)
class Displacement:
    """Where the filter's path was left, and why there."""

    path: Filtering
    """From all rows down to the floor."""
    state: State
    """Whose mean the update is, or towards whose mean it lies from the anchor's."""
    weights: Vector
    """Those of the update: the state's, or, cut, between them and the anchor's."""
    cut: Cut | None
    """How these lie between; None if they are the state's."""
    anchor: Anchor
    guard: Guard | None
    num_byzantine: float
    """f as it was used, or F."""


def stop_by_displacement(
    gram: Matrix,
    num_byzantine: float,
    reach: Reach,
    *,
    sampled: bool,
    confirm: bool = True,
    start: Vector | None = None,
) -> Displacement:
    """Return the first state on the filter's path whose mean is within reach of the anchor's, or can be cut to be.

    Args:
        gram: inner products of the rows.
        num_byzantine: f; or, with a start, F.
        reach: how far away a mean may be.
        sampled: whether the cohort was drawn, so that it may hold more Byzantine rows than f by chance; a whole f.
        confirm: whether every spread on the path is to be confirmed as λ_max, on which the proof above 128 rows rests.
        start: the weights that the filter starts from, if not 1.
    """
    path = cache(partial(filter_path, gram, confirm=confirm, start=start))
    guard = look_beyond(gram, int(num_byzantine), lambda f: safest(path(f)).spread) if sampled else None
    alarmed = guard is not None and guard.alarmed
    used = guard.needed if guard is not None and guard.needed is not None else num_byzantine
    whole, total = np.ones(len(gram)) if start is None else start, total_weight(gram, start)
    path_used = path(used)
    found = safest(path_used)
    unit = math.sqrt(found.spread * used / total)
    by_few = partial(displaced, gram, anchor=found.weights, num_byzantine=used, start=start)
    state, share = (found, 1.0) if alarmed else _first_within(path_used, found, reach, unit, by_few)
    way = way_to(found.weights, state.weights, share)
    weights = state.weights if share == 1.0 else found.weights + way * (state.weights - found.weights)
    cut = None if share == 1.0 else Cut(steps=tuple(path_used.steps[: found.num_steps]), way=way)
    shift, attributable = by_few(whole)
    anchor = Anchor(
        num_steps=found.num_steps,
        weight_removed=total - float(found.weights.sum()),
        spread=found.spread,
        distance=by_few(weights)[0],
        reach=reach.rho * unit,
        displacement=_in_units(shift, unit),
        attributable=_in_units(attributable, unit),
        share=share,
    )
    return Displacement(path_used, state, weights, cut, anchor, guard, used)


def filter_path(gram: Matrix, num_byzantine: float, *, confirm: bool, start: Vector | None = None) -> Filtering:
    """Return the filter's way from all rows down to mass n − 2f, every spread on it confirmed if that is asked for."""
    floor = total_weight(gram, start) - 2.0 * num_byzantine
    return run_filter(
        gram, floor, lambda _: -math.inf, start=start, confirm="each" if confirm else "none", reuse_down_to=REUSE
    )


def safest(path: Filtering) -> State:
    """Return the anchor: the state with the smallest spread."""
    return min(path.states, key=lambda state: state.spread)


def displaced(
    gram: Matrix, weights: Vector, anchor: Vector, num_byzantine: float, start: Vector | None = None
) -> tuple[float, float]:
    """Return ‖δ‖ = ‖μ_c − μ_a‖ for two sets of weights, and D_f, how much of it f rows account for.

    With z = π_c − π_a, which sums to 0, ‖δ‖² is zᵀ Q z, and ⟨g_i − μ_a, δ⟩ is (Qz)_i − π_aᵀ Q z.
    """
    share = anchor / anchor.sum()
    difference = weights / weights.sum() - share
    kept = (weights > 0) | (anchor > 0)  # 0 · Inf is not 0: leave the rows without weight out
    difference, share = difference[kept], share[kept]
    with np.errstate(over="ignore", invalid="ignore"):
        along = gram[np.ix_(kept, kept)] @ difference
        parts = difference * (along - share @ along)
        square = float(difference @ along)
    if not math.isfinite(square):
        return math.inf, math.inf
    if square <= 0.0:
        return 0.0, 0.0
    length = math.sqrt(square)
    most = most_of(parts, num_byzantine, None if start is None else start[kept])
    return length, min(length, most / length)


def most_of(parts: Vector, weight: float, weights: Vector | None = None) -> float:
    """Return how much of a sum rows of so much weight account for at the most, a part of the last one among them.

    >>> most_of(np.array([1.0, 4.0, -2.0, 3.0]), 2), most_of(np.array([1.0, 4.0, 3.0]), 2.5, np.array([1.0, 4.0, 1.0]))
    (7.0, 4.5)
    """
    if weights is None and weight == int(weight):
        return float(np.sort(parts)[::-1][: int(weight)].sum())
    held = np.ones(len(parts)) if weights is None else weights
    order = np.argsort(-parts / held, kind="stable")
    before = np.cumsum(held[order]) - held[order]
    taken = np.clip((weight - before) / held[order], 0.0, 1.0)
    return float(taken @ parts[order])


def way_to(anchor: Vector, weights: Vector, share: float) -> float:
    """Return k such that the mean of c_a + k (c − c_a) is (1 − share) μ_a + share μ_c.

    With masses m_a and m_c that is k m_c = share · (m_a + k (m_c − m_a)).
    """
    below, above = float(anchor.sum()), float(weights.sum())
    return share * below / (above - share * (above - below))


def _first_within(
    path: Filtering, anchor: State, reach: Reach, unit: float, moved: Callable[[Vector], tuple[float, float]]
) -> tuple[State, float]:
    """Return the first state that may be believed, and how much of its displacement; `unit` is √(λ_a f/n)."""
    for state in path.states:
        if state is anchor:
            break
        if state.spread > reach.kappa * anchor.spread:
            continue
        by_few = moved(state.weights)[1]
        if by_few <= reach.rho * unit:
            return state, 1.0
        if by_few <= reach.rejection * unit:
            return state, reach.rho * unit / by_few
    return anchor, 1.0


def _in_units(length: float, unit: float) -> float | None:
    return length / unit if unit > 0.0 and math.isfinite(length) else None
