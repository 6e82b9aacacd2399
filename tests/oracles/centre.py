"""The rules that look for a centre of the rows, iterated in R^d."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tests.oracles.coordinatewise import Array, average_row, middle
from tests.oracles.rules import geometric_median
from tests.oracles.selection import norm


def rfa(rows: Array, smoothing: float, num_iterations: int) -> tuple[Array, list[float]]:
    """Run the smoothed Weiszfeld iteration (Pillutla, Kakade, Harchaoui 2022, Algorithm 2, equal weights).

    β_i = 1 / max(ν, ‖v − g_i‖), v ← Σ β_i g_i / Σ β_i. Ambiguous: the start; it is the mean here. The second result
    are the last weights, equal ones if nothing is iterated.
    """
    point, weights = average_row(rows), [1.0 / len(rows)] * len(rows)
    for _ in range(num_iterations):
        beta = [1.0 / max(smoothing, norm(point - row)) for row in rows]
        weights = [each / sum(beta) for each in beta]
        point = np.sum([weight * row for weight, row in zip(weights, rows, strict=True)], axis=0)
    return point, weights


def median_of_means(rows: Array, groups: Sequence[Sequence[int]]) -> Array:
    """Return the geometric median of the groups' means (Chen, Su, Xu 2017, Algorithm 2).

    Ambiguous: the paper's groups are of one size; here a group may be smaller, and counts as much as any other.
    """
    return geometric_median(np.array([average_row(rows[i] for i in group) for group in groups]))


def centered_clipping(rows: Array, radius: float | None, num_iterations: int, start: Array) -> Array:
    """Iterate v ← v + (1/n) Σ_i (g_i − v) min(1, τ / ‖g_i − v‖) (Karimireddy, He, Jaggi 2021, CenteredClip).

    Without a radius τ is the median of the distances ‖g_i − v‖ at every iteration, which is not the paper's. A row at
    the centre adds nothing.
    """
    point = np.array(start, dtype=np.float64)
    for _ in range(num_iterations):
        distances = [norm(row - point) for row in rows]
        tau = middle(distances) if radius is None else radius
        steps = [
            (row - point) * (1.0 if distance <= tau else tau / distance)
            for row, distance in zip(rows, distances, strict=True)
        ]
        point = point + average_row(steps)
    return point
