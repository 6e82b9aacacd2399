"""Clouds of rows on which fast code is compared with slow code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
from tests.oracles.saddle import Array

Generator = np.random.Generator
Cloud = Callable[[Generator, int, int, int], Array]
"""(generator, number of rows, number of bad rows among them, dimension) -> rows, the bad ones first."""


def isotropic(rng: Generator, number: int, bad: int, dimension: int) -> Array:
    """Return one normal cloud; nobody is bad."""
    return rng.standard_normal((number, dimension))


def far_cluster(rng: Generator, number: int, bad: int, dimension: int) -> Array:
    """Return a normal cloud and bad rows close to one point at some distance."""
    rows = rng.standard_normal((number, dimension))
    rows[:bad] = 0.1 * rows[:bad] + 10.0 ** rng.uniform(0.0, 3.0) * rng.standard_normal(dimension)
    return rows


def spread_attack(rng: Generator, number: int, bad: int, dimension: int) -> Array:
    """Return a normal cloud and bad rows at various distances in different directions."""
    rows = rng.standard_normal((number, dimension))
    rows[:bad] *= 10.0 ** rng.uniform(0.0, 2.0, (bad, 1))
    return rows


def staircase(rng: Generator, number: int, bad: int, dimension: int) -> Array:
    """Return a normal cloud and bad rows each in its own direction, at geometric distances: one step for each."""
    rows = rng.standard_normal((number, dimension))
    for i in range(bad):
        rows[i] = 0.0
        rows[i, i % dimension] = 5.0 * 3.0 ** (i + 1)
    return rows


def power_law(rng: Generator, number: int, bad: int, dimension: int) -> Array:
    """Return rows whose coordinates have geometrically falling scales, the bad ones shifted against the largest."""
    rows = rng.standard_normal((number, dimension)) * np.arange(1.0, dimension + 1.0) ** -0.7
    rows[:bad] += 3.0 * rng.standard_normal(dimension)
    return rows


def groups(rng: Generator, number: int, bad: int, dimension: int) -> Array:
    """Return rows in three groups of different sizes."""
    centres = 3.0 * rng.standard_normal((3, dimension))
    return 0.3 * rng.standard_normal((number, dimension)) + centres[rng.integers(0, 3, number)]


def heavy_tails(rng: Generator, number: int, bad: int, dimension: int) -> Array:
    """Return rows from a Student distribution with two degrees of freedom."""
    return rng.standard_t(2.0, (number, dimension))


def duplicates(rng: Generator, number: int, bad: int, dimension: int) -> Array:
    """Return rows drawn from a few points, so that many are equal."""
    points = rng.standard_normal((max(2, number // 2), dimension))
    return np.asarray(points[rng.integers(0, len(points), number)])


def near_duplicates(rng: Generator, number: int, bad: int, dimension: int) -> Array:
    """Return a normal cloud and bad rows that differ from one far point by a tiny relative amount each."""
    rows = rng.standard_normal((number, dimension))
    far = 10.0 ** rng.uniform(1.0, 8.0) * rng.standard_normal(dimension)
    rows[:bad] = far * (1.0 + 10.0 ** rng.uniform(-15.0, -3.0) * rng.standard_normal((bad, 1)))
    return rows


def mirror_images(rng: Generator, number: int, bad: int, dimension: int) -> Array:
    """Return two clusters that are mirror images of each other: all scores along the main direction are equal."""
    point = 5.0 * rng.standard_normal(dimension)
    signs = np.where(np.arange(number) % 2, 1.0, -1.0)
    return np.asarray(signs[:, None] * point + rng.choice([0.0, 0.1]) * rng.standard_normal((number, dimension)))


def grid(rng: Generator, number: int, bad: int, dimension: int) -> Array:
    """Return rows with small integer coordinates: many ties."""
    return rng.integers(-2, 3, (number, dimension)).astype(np.float64)


def on_a_line(rng: Generator, number: int, bad: int, dimension: int) -> Array:
    """Return rows on one line."""
    return rng.standard_t(1.5, (number, 1)) * rng.standard_normal(dimension)


CLOUDS: Mapping[str, Cloud] = MappingProxyType(
    {
        "isotropic": isotropic,
        "far cluster": far_cluster,
        "spread attack": spread_attack,
        "staircase": staircase,
        "power law": power_law,
        "groups": groups,
        "heavy tails": heavy_tails,
        "duplicates": duplicates,
        "near duplicates": near_duplicates,
        "mirror images": mirror_images,
        "grid": grid,
        "on a line": on_a_line,
    }
)
