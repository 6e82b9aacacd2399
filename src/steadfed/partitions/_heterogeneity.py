"""How different the clients of a partition are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from steadfed._core.arrays import Indices
from steadfed.data._base import Dataset
from steadfed.partitions._base import Shares


@dataclass(frozen=True, kw_only=True)
class Heterogeneity:
    """Sizes of the clients, and how far their label distributions are from that of all points given out.

    The distance is total variation, ½ Σ_c |q_rc − p_c|: 0 for the same labels, near 1 for labels nobody else has. What
    is about labels is None if the points have no class each.
    """

    num_clients: int
    """R, how many clients there are."""
    num_points: int
    """How many points they hold together."""
    smallest: int
    """Points of the client that holds fewest."""
    median: float
    """Points of the client in the middle."""
    largest: int
    """Points of the client that holds most."""
    mean_distance: float | None = None
    """Mean over the clients of the distance."""
    max_distance: float | None = None
    """The distance of the client that is farthest."""
    iid_distance: float | None = None
    """What `mean_distance` would be on average if points were dealt at random to clients of the same sizes."""
    mean_classes: float | None = None
    """Mean over the clients of how many classes they hold."""


def heterogeneity(dataset: Dataset, shares: Shares) -> Heterogeneity:
    """Return how different the clients are; the clients × classes table is formed at once.

    >>> import torch
    >>> x, y = torch.rand(4, 1), torch.tensor([0, 0, 1, 1])
    >>> data = Dataset(name="x", features=x, labels=y, test_features=x, test_labels=y, num_classes=2)
    >>> found = heterogeneity(data, Shares(np.arange(4), np.array([0, 2, 4])))
    >>> found.mean_distance, round(found.iid_distance, 4), found.mean_classes
    (0.5, 0.1667, 1.0)
    """
    sizes = shares.sizes
    about_sizes: dict[str, Any] = {
        "num_clients": shares.num_clients,
        "num_points": len(shares.order),
        "smallest": int(sizes.min()),
        "median": float(np.median(sizes)),
        "largest": int(sizes.max()),
    }
    if dataset.num_classes is None or dataset.labels.ndim != 1:
        return Heterogeneity(**about_sizes)
    counts = _class_counts(dataset.labels.cpu().numpy()[shares.order], dataset.num_classes, shares)
    pooled = counts.sum(axis=0)
    distances = 0.5 * np.abs(counts / sizes[:, None] - pooled / pooled.sum()).sum(axis=1)
    return Heterogeneity(
        **about_sizes,
        mean_distance=float(distances.mean()),
        max_distance=float(distances.max()),
        iid_distance=_iid_distance(sizes, pooled),
        mean_classes=float(np.count_nonzero(counts, axis=1).mean()),
    )


def _class_counts(labels: Indices, num_classes: int, shares: Shares) -> Indices:
    """Return how many points of each class every client holds."""
    cells = np.repeat(np.arange(shares.num_clients) * num_classes, shares.sizes) + labels
    return np.bincount(cells, minlength=shares.num_clients * num_classes).reshape(shares.num_clients, num_classes)


def _iid_distance(sizes: Indices, pooled: Indices) -> float:
    r"""Return the mean distance of clients of these sizes when every deal of the points is equally likely.

    The number X of points of a class with K of the N points that a client with n points gets is then hypergeometric,
    and E|X − μ| = 2 T(m) with μ = n K / N, m = ⌊μ⌋ + 1 and T(k) = k (N − K − n + k) P(X = k) / N.

    *Proof.* P(k + 1) / P(k) = (K − k)(n − k) / ((k + 1)(N − K − n + k + 1)), so T(k + 1) = (K − k)(n − k) P(k) / N and
    T(k) − T(k + 1) = (k N − n K) P(k) / N = (k − μ) P(k). Summing over k ≥ m gives E(X − μ)⁺ = T(m), and E|X − μ| is
    twice that, because E(X − μ) = 0. ∎
    """
    unique, how_often = np.unique(sizes, return_counts=True)
    total, n, of_class = pooled.sum(), unique[:, None].astype(np.float64), pooled[None, :].astype(np.float64)
    m = np.floor(n * of_class / total) + 1
    possible = (m <= n) & (m <= of_class)
    m = np.where(possible, m, 0.0)  # T(0) = 0, and no logarithm of what cannot be
    others = total - of_class - n + m
    ways = _log_choose(of_class, m) + _log_choose(total - of_class, np.minimum(n - m, total - of_class))
    chances = np.exp(ways - _log_choose(np.full_like(n, total), n))
    distances = (m * others / total * chances / n).sum(axis=1)
    return float((distances * how_often).sum() / how_often.sum())


def _log_choose(n: NDArray[np.float64], k: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return log C(n, k)."""
    return np.asarray(gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0))
