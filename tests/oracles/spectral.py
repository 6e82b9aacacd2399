"""The filter without a bound on the covariance, with d x d matrices."""

from __future__ import annotations

import numpy as np
from tests.oracles.coordinatewise import Array


def weighted_mean(rows: Array, weights: Array) -> Array:
    """Return Σ c_i g_i / Σ c_i."""
    total = np.zeros(rows.shape[1])
    for weight, row in zip(weights, rows, strict=True):
        total += weight * row
    return np.asarray(total / weights.sum())


def weighted_covariance(rows: Array, weights: Array) -> Array:
    """Return Σ c_i (g_i − μ_c)(g_i − μ_c)ᵀ / Σ c_i."""
    centre = weighted_mean(rows, weights)
    total = np.zeros((rows.shape[1], rows.shape[1]))
    for weight, row in zip(weights, rows, strict=True):
        total += weight * np.outer(row - centre, row - centre)
    return np.asarray(total / weights.sum())


def caf(rows: Array, num_byzantine: int) -> tuple[Array, Array]:
    """Filter down to mass n − 2f and return the mean with the smallest spread (Allouah, Guerraoui, Stephan 2025, CAF).

    c = 1; while Σ c > n − 2f: (λ, v) the top eigenpair of Σ_c, μ_c is remembered if λ is the smallest so far,
    τ_i = ⟨v, g_i − μ_c⟩², c_i ← c_i (1 − τ_i / τ_max). The second result are the remembered weights, summing to 1.

    Ambiguous: τ_max is the maximum over rows that still have weight (over all rows, a removed row could keep the
    filter from removing anybody); with f = 0 the loop does not start and the mean is returned; rows that agree, τ = 0,
    end the loop; of equal λ the first mean stays.
    """
    c = np.ones(len(rows))
    best, remembered = np.inf, c
    while c.sum() > len(rows) - 2 * num_byzantine:
        values, vectors = np.linalg.eigh(weighted_covariance(rows, c))
        if values[-1] < best:
            best, remembered = float(values[-1]), c
        centre = weighted_mean(rows, c)
        tau = np.array([float(vectors[:, -1] @ (row - centre)) ** 2 for row in rows])
        largest = max(float(each) for each, weight in zip(tau, c, strict=True) if weight > 0.0)
        if largest == 0.0:
            break
        c = np.array([w * (1.0 - t / largest) if w > 0.0 else 0.0 for w, t in zip(c, tau, strict=True)])
    return weighted_mean(rows, remembered), remembered / remembered.sum()
