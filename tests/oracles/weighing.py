"""Weighted rows by brute force: rows repeated, and all sets that may be the honest ones."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import chain, combinations

import numpy as np
from tests.oracles.saddle import Array


def repeated(rows: Array, times: list[int]) -> Array:
    """Return every row as often as it weighs."""
    return np.repeat(rows, times, axis=0)


def gathered(values: Array, times: list[int]) -> Array:
    """Return the sum over the copies of each row."""
    return np.array([part.sum() for part in np.split(values, np.cumsum(times)[:-1])])


def honest_sets(weights: Array, bad: float) -> Iterator[list[int]]:
    """Yield every set of rows that may be the honest ones: whose weight is at least W − F."""
    number = range(len(weights))
    for chosen in chain.from_iterable(combinations(number, size) for size in range(1, len(weights) + 1)):
        if weights[list(chosen)].sum() >= weights.sum() - bad - 1e-9:
            yield list(chosen)


def mean_and_spread(rows: Array, weights: Array) -> tuple[Array, float]:
    """Return the weighted mean, and √λ_max of the weighted covariance."""
    share = weights / weights.sum()
    mean = share @ rows
    return mean, float(np.linalg.norm(np.sqrt(share)[:, None] * (rows - mean), 2))


def capped(weights: list[float], most: float) -> list[float]:
    """Return shares of at most `most`: what is cut off is dealt to the others in proportion, until nothing is left."""
    shares = [weight / math.fsum(weights) for weight in weights]
    fixed: set[int] = set()
    while over := [i for i, share in enumerate(shares) if i not in fixed and share > most + 1e-15]:
        fixed |= set(over)
        free = [i for i in range(len(weights)) if i not in fixed]
        if not free:
            return [1.0 / len(weights)] * len(weights)
        left, held = 1.0 - most * len(fixed), math.fsum(weights[i] for i in free)
        shares = [most if i in fixed else left * weights[i] / held for i in range(len(weights))]
    return shares
