"""The weighted-mean filter with explicit d x d covariances and one exact eigenvector per step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from tests.oracles.saddle import Array


@dataclass(frozen=True)
class Trail:
    """The weights and the spread at every turn of the filter, the first with c = 1, and why it ended."""

    weights: list[Array]
    spreads: list[float]
    below: bool
    """Whether the scatter fell to the limit; otherwise the mass fell to its floor."""


def filter_until(rows: Array, floor: float, limit_per_mass: float, limit: float) -> Trail:
    """Take weight along the top eigenvector until the scatter is at most limit_per_mass · mass + limit.

    docs/theory/filter.md, section 4: μ_c and Σ_c are the weighted mean and covariance, v the top eigenvector of Σ_c,
    τ_i = ⟨g_i − μ_c, v⟩², and c_i ← c_i (1 − s τ_i / τ_max) with s = 1, or the s that leaves `floor` if a full step
    would leave less. Rows that agree to rounding are not filtered.
    """
    weights = np.ones(len(rows))
    trail = Trail([], [], below=False)
    while True:
        mass = weights.sum()
        spread, direction, mean = top_eigenpair(rows, weights)
        trail.weights.append(weights)
        trail.spreads.append(spread)
        kept = weights > 0.0
        rounding = 1e-12 * float((weights[kept, None] * rows[kept] ** 2).sum())
        if spread * mass <= max(limit_per_mass * mass + limit, rounding):
            return Trail(trail.weights, trail.spreads, below=True)
        if mass - floor <= 1e-9:
            return trail
        tau = np.array([float((row - mean) @ direction) ** 2 for row in rows])
        taken = weights * tau / tau[kept].max()
        taken[~kept] = 0.0
        if taken.sum() > mass - floor:
            taken *= (mass - floor) / taken.sum()
        weights = weights - taken
        weights[weights <= len(rows) * np.finfo(float).eps] = 0.0


def top_eigenpair(rows: Array, weights: Array) -> tuple[float, Array, Array]:
    """Return λ_max of Σ_c, its eigenvector and μ_c; rows without weight are not looked at."""
    kept = weights > 0.0
    share = weights[kept] / weights[kept].sum()
    mean = share @ rows[kept]
    covariance = np.zeros((rows.shape[1], rows.shape[1]))
    for portion, row in zip(share, rows[kept], strict=True):
        covariance += portion * np.outer(row - mean, row - mean)
    values, vectors = np.linalg.eigh(covariance)
    return float(values[-1]), vectors[:, -1], mean


def filter_known(rows: Array, num_byzantine: int, sigma0: float) -> Array:
    """Return the weights of mode "known": threshold θ(ε) K σ₀², θ(ε) = (1−ε)/(1/2−ε), equation (4.3), floor K − 2f."""
    cohort = len(rows)
    epsilon = num_byzantine / cohort
    theta = (1.0 - epsilon) / (0.5 - epsilon) if num_byzantine else 1.0
    trail = filter_until(rows, cohort - 2.0 * num_byzantine, 0.0, theta * cohort * sigma0**2)
    return np.asarray(trail.weights[-1] / trail.weights[-1].sum())


def filter_by_spread(rows: Array, num_byzantine: int, kappa: float) -> Array:
    """Return the weights of mode "spread": docs/theory/filter.md, section 5.

    Phase 1 filters down to mass K − 2f for λ_min = min λ_max(Σ_c); phase 2 starts again from c = 1 and filters until
    λ_max(Σ_c) ≤ κ λ_min.
    """
    floor = len(rows) - 2.0 * num_byzantine
    smallest = min(filter_until(rows, floor, 0.0, 0.0).spreads)
    trail = filter_until(rows, floor, kappa * smallest, 0.0)
    return np.asarray(trail.weights[-1] / trail.weights[-1].sum())
