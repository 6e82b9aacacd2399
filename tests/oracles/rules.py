"""The rules around the filter, written out as their papers define them, with loops and python lists."""

from __future__ import annotations

import math

import numpy as np
from tests.oracles.saddle import Array


def gram_matrix(rows: Array) -> Array:
    """Return ⟨g_i, g_j⟩ in float64, one product at a time."""
    return np.array([[float(np.dot(left, right)) for right in rows] for left in rows])


def pairwise_squared_distances(rows: Array) -> Array:
    """Return ‖g_i − g_j‖² in float64 from the differences themselves."""
    wide = np.asarray(rows, dtype=np.float64)
    return np.array([[float(((left - right) ** 2).sum()) for right in wide] for left in wide])


def krum_choice(rows: Array, num_byzantine: int) -> tuple[int, list[float]]:
    """Return the chosen row and all scores (Blanchard et al. 2017, section 4).

    score(i) = Σ_{i → j} ‖V_i − V_j‖², where i → j says that V_j is among the n − f − 2 vectors closest to V_i; the
    choice is the first row with the smallest score.
    """
    number = len(rows)
    scores = []
    for i in range(number):
        others = [row for j, row in enumerate(rows) if j != i]
        distances = [sum((float(x) - float(y)) ** 2 for x, y in zip(rows[i], row, strict=True)) for row in others]
        scores.append(sum(sorted(distances)[: number - num_byzantine - 2]))
    return scores.index(min(scores)), scores


def coordinate_median(rows: Array) -> list[float]:
    """Return the median of every coordinate (Yin et al. 2018, Definition 1); the middle two are averaged."""
    medians = []
    for k in range(rows.shape[1]):
        ordered = sorted(float(row[k]) for row in rows)
        middle = len(ordered) // 2
        medians.append(ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2.0)
    return medians


def geometric_median(rows: Array, iterations: int = 20_000) -> Array:
    """Return the minimiser of Σ_i ‖x − g_i‖ by Weiszfeld's iteration in R^d (Weiszfeld 1937), x ← Σ g_i/r_i / Σ 1/r_i.

    A row that the iteration runs into is the minimiser iff the unit vectors to the other rows sum to at most the
    number of rows there (Kuhn 1973); it is tested first.
    """
    for candidate in rows:
        others = [row - candidate for row in rows if np.any(row != candidate)]
        pull = sum((other / np.linalg.norm(other) for other in others), np.zeros(rows.shape[1]))
        if float(np.linalg.norm(pull)) <= len(rows) - len(others):
            return np.array(candidate)
    point = rows.mean(axis=0)
    for _ in range(iterations):
        inverse = [1.0 / float(np.linalg.norm(row - point)) for row in rows]
        new = sum((weight * row for weight, row in zip(inverse, rows, strict=True)), np.zeros(rows.shape[1]))
        new = new / math.fsum(inverse)
        if float(np.linalg.norm(new - point)) <= 1e-15 * float(np.linalg.norm(point)):
            break
        point = new
    return np.asarray(point)


def mean(rows: Array) -> list[float]:
    """Return the average of every coordinate, summed exactly."""
    return [math.fsum(float(row[k]) for row in rows) / len(rows) for k in range(rows.shape[1])]
