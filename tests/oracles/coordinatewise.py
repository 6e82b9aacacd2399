"""The coordinate-wise rules, one coordinate and one python list at a time."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def middle(values: Iterable[float]) -> float:
    """Return the median; of an even number of values the mean of the middle two."""
    ordered = sorted(float(value) for value in values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2.0


def average(values: Iterable[float]) -> float:
    """Return the mean, summed exactly."""
    numbers = [float(value) for value in values]
    return math.fsum(numbers) / len(numbers)


def average_row(rows: Iterable[Array]) -> Array:
    """Return the mean of every coordinate."""
    stacked = list(rows)
    return np.array([average(row[k] for row in stacked) for k in range(len(stacked[0]))])


def nearest_to_the_median(values: Iterable[float], number: int) -> list[float]:
    """Return the `number` values nearest to the median; of two values equally near the smaller one comes first.

    Distances are compared as fractions: whether two of them are equal does not depend on rounding.
    """
    exact = sorted(Fraction(float(value)) for value in values)
    half = len(exact) // 2
    median = exact[half] if len(exact) % 2 else (exact[half - 1] + exact[half]) / 2
    by_distance = sorted(exact, key=lambda value: (abs(value - median), value))
    return [float(value) for value in by_distance[:number]]


def trimmed_mean(rows: Array, num_byzantine: int) -> Array:
    """Drop the f smallest and the f largest values of every coordinate (Yin et al. 2018, Definition 2, β = f/n)."""
    update = []
    for k in range(rows.shape[1]):
        ordered = sorted(float(row[k]) for row in rows)
        update.append(average(ordered[num_byzantine : len(ordered) - num_byzantine]))
    return np.array(update)


def mean_around_median(rows: Array, num_byzantine: int) -> Array:
    """Average the n − f values of every coordinate nearest to its median (Xie, Koyejo, Gupta 2018, MeaMed).

    Ambiguous: the median of an even number of values (the mean of the middle two is taken) and which of two values
    equally near is left out (the larger one).
    """
    number = len(rows) - num_byzantine
    return np.array([average(nearest_to_the_median(rows[:, k], number)) for k in range(rows.shape[1])])


def slsgd(rows: Array, num_byzantine: int, moving_average: float) -> Array:
    """Return α · trimmed mean (Xie, Koyejo, Gupta 2019, Algorithm 1, option 2).

    x ← (1 − α) x + α TrMean(x_i) with x_i = x − g_i is x ← x − α TrMean(g_i): trimming commutes with x − ·.
    """
    return moving_average * trimmed_mean(rows, num_byzantine)


def rsa(rows: Array, penalty: float, weight_decay: float, model: Array) -> Array:
    """Return the direction of RSA's server step with the ℓ₁ penalty (Li et al. 2019, p = 1).

    x ← x − η (∇f₀(x) + λ Σ_i sign(x − x_i)) with x − x_i = g_i and f₀ = weight_decay/2 ‖x‖²; sign(0) = 0, one of the
    subgradients of |·| there.
    """
    update = []
    for k in range(rows.shape[1]):
        signs = sum((float(row[k]) > 0.0) - (float(row[k]) < 0.0) for row in rows)
        update.append(weight_decay * float(model[k]) + penalty * signs)
    return np.array(update)
