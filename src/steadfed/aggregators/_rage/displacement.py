r"""Mode "auto": the filter stopped by displacement.

What harms a model is that its update is displaced, not that clients differ. The path of the filter leads from all rows
(c = 1) down to mass n − 2f. On it lies the *anchor* a, the state with the smallest spread λ_a, whose mean errs by
O(√(λ_a ε)) at most. For another state s with shares π^s, its displacement δ = μ_s − μ_a is a sum over the rows,

    δ = Σ z_i (g_i − μ_a) ,   z = π^s − π^a ,   h_i = z_i ⟨g_i − μ_a, δ⟩ / ‖δ‖ ,   Σ h_i = ‖δ‖ ,

of which f rows account for D_f = min(‖δ‖, Σ of the f largest h_i) at most, net of what pulls against them. With

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
from dataclasses import dataclass
from functools import cache, partial

import numpy as np

from steadfed._core.arrays import Matrix, Vector
from steadfed.aggregators._rage.anchor import Anchor, Cut, Guard
from steadfed.aggregators._rage.constants import REUSE
from steadfed.aggregators._rage.filtering import Filtering, State, run_filter
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
    num_byzantine: int
    """f as it was used."""


def stop_by_displacement(
    gram: Matrix, num_byzantine: int, reach: Reach, *, sampled: bool, confirm: bool = True
) -> Displacement:
    """Return the first state on the filter's path whose mean is within reach of the anchor's, or can be cut to be.

    Args:
        gram: inner products of the rows.
        num_byzantine: f.
        reach: how far away a mean may be.
        sampled: whether the cohort was drawn, so that it may hold more Byzantine rows than f by chance.
        confirm: whether every spread on the path is to be confirmed as λ_max, on which the proof above 128 rows rests.
    """
    path = cache(partial(filter_path, gram, confirm=confirm))
    guard = look_beyond(gram, num_byzantine, lambda f: safest(path(f)).spread) if sampled else None
    alarmed = guard is not None and guard.alarmed
    used = guard.needed if guard is not None and guard.needed is not None else num_byzantine
    path_used = path(used)
    found = safest(path_used)
    unit = math.sqrt(found.spread * used / len(gram))
    state, share = (found, 1.0) if alarmed else _first_within(gram, path_used, found, reach, unit, used)
    way = way_to(found.weights, state.weights, share)
    weights = state.weights if share == 1.0 else found.weights + way * (state.weights - found.weights)
    cut = None if share == 1.0 else Cut(steps=tuple(path_used.steps[: found.num_steps]), way=way)
    shift, by_few = displaced(gram, path_used.states[0].weights, found.weights, used)
    anchor = Anchor(
        num_steps=found.num_steps,
        weight_removed=len(gram) - float(found.weights.sum()),
        spread=found.spread,
        distance=displaced(gram, weights, found.weights, used)[0],
        reach=reach.rho * unit,
        displacement=_in_units(shift, unit),
        attributable=_in_units(by_few, unit),
        share=share,
    )
    return Displacement(path_used, state, weights, cut, anchor, guard, used)


def filter_path(gram: Matrix, num_byzantine: int, *, confirm: bool) -> Filtering:
    """Return the filter's way from all rows down to mass n − 2f, every spread on it confirmed if that is asked for."""
    floor = len(gram) - 2.0 * num_byzantine
    return run_filter(gram, floor, lambda _: -math.inf, confirm="each" if confirm else "none", reuse_down_to=REUSE)


def safest(path: Filtering) -> State:
    """Return the anchor: the state with the smallest spread."""
    return min(path.states, key=lambda state: state.spread)


def displaced(gram: Matrix, weights: Vector, anchor: Vector, num_byzantine: int) -> tuple[float, float]:
    """Return ‖δ‖ = ‖μ_c − μ_a‖ for two sets of weights, and D_f, how much of it f rows account for.

    With z = π_c − π_a, which sums to 0, ‖δ‖² is zᵀ Q z, and ⟨g_i − μ_a, δ⟩ is (Qz)_i − π_aᵀ Q z.
    """
    share = anchor / anchor.sum()
    difference = weights / weights.sum() - share
    kept = (weights > 0) | (anchor > 0)  # 0 · Inf is not 0: leave the rows without weight out
    difference, share = difference[kept], share[kept]
    with np.errstate(over="ignore", invalid="ignore"):
        along = gram[np.ix_(kept, kept)] @ difference
        parts = np.sort(difference * (along - share @ along))[::-1]
        square = float(difference @ along)
    if not math.isfinite(square):
        return math.inf, math.inf
    if square <= 0.0:
        return 0.0, 0.0
    length = math.sqrt(square)
    return length, min(length, float(parts[:num_byzantine].sum()) / length)


def way_to(anchor: Vector, weights: Vector, share: float) -> float:
    """Return k such that the mean of c_a + k (c − c_a) is (1 − share) μ_a + share μ_c.

    With masses m_a and m_c that is k m_c = share · (m_a + k (m_c − m_a)).
    """
    below, above = float(anchor.sum()), float(weights.sum())
    return share * below / (above - share * (above - below))


def _first_within(
    gram: Matrix, path: Filtering, anchor: State, reach: Reach, unit: float, num_byzantine: int
) -> tuple[State, float]:
    """Return the first state that may be believed, and how much of its displacement; `unit` is √(λ_a f/n)."""
    for state in path.states:
        if state is anchor:
            break
        if state.spread > reach.kappa * anchor.spread:
            continue
        by_few = displaced(gram, state.weights, anchor.weights, num_byzantine)[1]
        if by_few <= reach.rho * unit:
            return state, 1.0
        if by_few <= reach.rejection * unit:
            return state, reach.rho * unit / by_few
    return anchor, 1.0


def _in_units(length: float, unit: float) -> float | None:
    return length / unit if unit > 0.0 and math.isfinite(length) else None
