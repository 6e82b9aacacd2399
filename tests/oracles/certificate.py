"""What the certificate bounds, by trying every set of rows that could be the promised one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from tests.oracles.saddle import Array


@dataclass(frozen=True)
class Promised:
    """One candidate for the promised set S: its mean and its spread √λ_max(Cov_S)."""

    mean: Array
    sigma: float


def candidates(rows: Array, num_byzantine: int) -> list[Promised]:
    """Return every subset of n − f rows: each may be the S of Lemma "poly-time_grad-est" if its spread allows it."""
    found = []
    for subset in combinations(range(len(rows)), len(rows) - num_byzantine):
        inside = rows[list(subset)]
        mean = inside.mean(axis=0)
        top = float(np.linalg.norm(inside - mean, 2)) ** 2 / len(inside)
        found.append(Promised(mean, math.sqrt(top)))
    return found


def smallest_spread(subsets: list[Promised]) -> float:
    """Return the smallest σ₀ for which the promise holds."""
    return min(subset.sigma for subset in subsets)


def largest_error(update: Array, subsets: list[Promised], sigma0: float) -> float:
    """Return max ‖update − mean(S)‖ over every S with λ_max(Cov_S) ≤ σ₀²; minus infinity if there is none."""
    errors = [float(np.linalg.norm(update - subset.mean)) for subset in subsets if subset.sigma <= sigma0]
    return max(errors, default=-math.inf)
