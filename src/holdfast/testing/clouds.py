r"""Clouds of honest updates and forged rows that hide in them, for tests, benchmarks and the demo.

A scene is a K x d matrix whose first f rows are Byzantine, with what only an onlooker knows: the honest mean, the
honest spread σ₀ = √λ_max(Cov of the honest rows), and hence the error of an update in units of σ₀ √ε, ε = f / K.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from holdfast.errors import ParameterError, find
from holdfast.rng import stream

Rows = NDArray[np.float64]
Model = Callable[[np.random.Generator, int, int], Rows]
"""(generator, number of rows, dimension) → honest rows."""
Forgery = Callable[["Honest", int, float, np.random.Generator], Rows]
"""(what the adversary sees, number of rows, strength in units of σ₀, generator) → forged rows."""


@dataclass(frozen=True)
class Honest:
    """The honest rows and what follows from them; the adversary sees all of it."""

    rows: Rows
    mean: Rows
    sigma0: float
    direction: Rows
    """The unit direction of the largest honest spread."""

    @classmethod
    def of(cls, rows: Rows) -> Honest:
        """Measure the mean, the largest spread and its direction, in the smaller of the two Gram matrices."""
        mean = rows.mean(axis=0)
        centred = rows - mean
        values, vectors = np.linalg.eigh(centred @ centred.T)
        direction = vectors[:, -1] @ centred
        norm = float(np.linalg.norm(direction))
        sigma0 = float(np.sqrt(max(values[-1], 0.0) / len(rows)))
        return cls(rows, mean, sigma0, direction / norm if norm else direction)


@dataclass(frozen=True)
class Scene:
    """A matrix of updates and the truth about it."""

    updates: Float[Tensor, "K d"]
    num_byzantine: int
    honest: Honest

    @property
    def epsilon(self) -> float:
        """The share of Byzantine rows."""
        return self.num_byzantine / len(self.updates)

    def error(self, update: Float[Tensor, " d"]) -> float:
        """Return ‖update − honest mean‖ in units of σ₀ √ε (of σ₀ if nobody is Byzantine)."""
        distance = float(np.linalg.norm(update.double().numpy() - self.honest.mean))
        return distance / (self.honest.sigma0 * (np.sqrt(self.epsilon) or 1.0))

    def honest_weight_lost(self, weights: Float[Tensor, " K"]) -> float:
        """Return the share of their weight that honest rows lost, relative to the best-kept row; 0 for a plain mean."""
        relative = weights / weights.max()
        return float(1.0 - relative[self.num_byzantine :].mean())


def scene(
    model: str, forgery: str, *, cohort_size: int, dim: int, num_byzantine: int, strength: float = 3.0, seed: int = 0
) -> Scene:
    """Return honest rows of `model` with `num_byzantine` rows of `forgery` in front of them, as float32.

    >>> scene("iso", "cluster", cohort_size=10, dim=4, num_byzantine=2).updates.shape
    torch.Size([10, 4])
    """
    if not 0 <= num_byzantine < cohort_size:
        msg = f"num_byzantine must lie in 0 .. {cohort_size - 1} for {cohort_size} rows, got {num_byzantine}"
        raise ParameterError(msg)
    honest = honest_rows(model, cohort_size - num_byzantine, dim, seed)
    return with_forged(honest, forgery, num_byzantine, strength, seed)


def honest_rows(model: str, number: int, dim: int, seed: int) -> Honest:
    """Return honest rows of a model about a common mean of three standard deviations."""
    rng = stream(seed, "honest", model, number, dim)
    rows = find("model", model, MODELS)(rng, number, dim)
    offset = rng.standard_normal(dim)
    return Honest.of((rows + 3.0 * offset / np.linalg.norm(offset)).astype(np.float32).astype(np.float64))


def with_forged(honest: Honest, forgery: str, number: int, strength: float, seed: int) -> Scene:
    """Return the honest rows with forged ones in front."""
    forged = find("forgery", forgery, FORGERIES)(honest, number, strength, stream(seed, "forged", forgery))
    updates = torch.from_numpy(np.concatenate([forged.astype(np.float32), honest.rows.astype(np.float32)]))
    return Scene(updates, number, honest)


def _iso(rng: np.random.Generator, number: int, dim: int) -> Rows:
    return rng.standard_normal((number, dim))


def _power(rng: np.random.Generator, number: int, dim: int) -> Rows:
    """Spread that falls like 1/√j over the coordinates, as gradients of neural networks have."""
    return rng.standard_normal((number, dim)) / np.sqrt(np.arange(1, dim + 1))


def _clusters(rng: np.random.Generator, number: int, dim: int) -> Rows:
    """Four groups of clients, as far apart as their noise is wide."""
    centres = rng.standard_normal((4, dim))
    return rng.standard_normal((number, dim)) + centres[rng.integers(4, size=number)]


def _heavy(rng: np.random.Generator, number: int, dim: int) -> Rows:
    """Student's t with three degrees of freedom: the rows' lengths are heavy-tailed."""
    return rng.standard_normal((number, dim)) * np.sqrt(3.0 / rng.chisquare(3, (number, 1)))


def _rare(rng: np.random.Generator, number: int, dim: int) -> Rows:
    """One client in twenty holds other data than the rest."""
    rows = rng.standard_normal((number, dim))
    other = rng.standard_normal(dim)
    rows[: max(1, number // 20)] += 3.0 * np.sqrt(dim) * other / np.linalg.norm(other)
    return rows


def _random_direction(rng: np.random.Generator, dim: int) -> Rows:
    direction = rng.standard_normal(dim)
    return np.asarray(direction / np.linalg.norm(direction))


def _cluster(honest: Honest, number: int, strength: float, rng: np.random.Generator) -> Rows:
    """All at one point, in a random direction."""
    return np.tile(honest.mean + strength * honest.sigma0 * _random_direction(rng, honest.mean.size), (number, 1))


def _cluster_along(honest: Honest, number: int, strength: float, _: np.random.Generator) -> Rows:
    """All at one point, in the direction of the largest honest spread."""
    return np.tile(honest.mean + strength * honest.sigma0 * honest.direction, (number, 1))


def _little(honest: Honest, number: int, strength: float, _: np.random.Generator) -> Rows:
    """A little is enough (Baruch et al. 2019): mean minus a multiple of the standard deviation of every coordinate."""
    return np.tile(honest.mean - strength * honest.rows.std(axis=0), (number, 1))


def _inner_product(honest: Honest, number: int, strength: float, _: np.random.Generator) -> Rows:
    """Inner-product manipulation (Xie et al. 2020): a negative multiple of the honest mean."""
    return np.tile(-strength * honest.mean, (number, 1))


def _spread(number_of_directions: int) -> Forgery:
    def forge(honest: Honest, number: int, strength: float, rng: np.random.Generator) -> Rows:
        """Spread over several orthogonal directions, so that no single one shows much."""
        count = min(number_of_directions, honest.mean.size)
        basis = np.linalg.qr(rng.standard_normal((honest.mean.size, count)))[0].T
        return np.asarray(honest.mean + strength * honest.sigma0 * basis[np.arange(number) % count])

    return forge


def _covariance_preserving(honest: Honest, number: int, strength: float, rng: np.random.Generator) -> Rows:
    """Honest rows, all shifted alike."""
    shift = strength * honest.sigma0 * _random_direction(rng, honest.mean.size)
    return np.asarray(honest.rows[rng.integers(len(honest.rows), size=number)] + shift)


def _mimic(honest: Honest, number: int, _: float, __: np.random.Generator) -> Rows:
    """All copy the honest client that lies farthest out along the largest spread (Karimireddy et al. 2022)."""
    farthest = int(np.argmax((honest.rows - honest.mean) @ honest.direction))
    return np.tile(honest.rows[farthest], (number, 1))


def _duplicates(honest: Honest, number: int, _: float, __: np.random.Generator) -> Rows:
    """Copies of the honest clients that lie farthest out along the largest spread, each once."""
    order = np.argsort(-((honest.rows - honest.mean) @ honest.direction))
    return honest.rows[order[np.arange(number) % len(order)]]


def _staircase(honest: Honest, number: int, strength: float, rng: np.random.Generator) -> Rows:
    """Each in its own direction, at distances that grow geometrically: the most filter steps per attacker."""
    rows = rng.standard_normal((number, honest.mean.size))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    scale = strength * honest.sigma0 * np.sqrt(len(honest.rows)) * 1.5 ** np.arange(number)
    return np.asarray(honest.mean + scale[:, None] * rows)


MODELS: Mapping[str, Model] = MappingProxyType(
    {"iso": _iso, "power": _power, "clusters": _clusters, "heavy": _heavy, "rare": _rare}
)
FORGERIES: Mapping[str, Forgery] = MappingProxyType(
    {
        "cluster": _cluster,
        "cluster-along": _cluster_along,
        "little": _little,
        "inner-product": _inner_product,
        "spread-2": _spread(2),
        "spread-5": _spread(5),
        "spread-10": _spread(10),
        "covariance": _covariance_preserving,
        "mimic": _mimic,
        "duplicates": _duplicates,
        "staircase": _staircase,
    }
)
