"""Trimmed k-means, from the Gram matrix."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steadfed._core.arrays import Matrix, Vector
from steadfed._linalg.gram import squared_distances


@dataclass(frozen=True)
class Clusters:
    """How n rows were divided."""

    labels: NDArray[np.intp]
    """n: the cluster of each row, the trimmed ones too."""
    distances: Vector
    """n: how far each row is from the centre of its cluster."""
    trimmed: NDArray[np.bool_]
    """n: the rows that no centre follows."""
    num_iterations: int
    converged: bool
    """Whether nothing changed any more before the iterations ran out."""


def trimmed_k_means(gram: Matrix, num_clusters: int, num_trimmed: int, max_iterations: int) -> Clusters:
    """Divide rows into clusters whose centres ignore the farthest rows (Cuesta-Albertos, Gordaliza, Matrán 1997).

    Until nothing changes: each row belongs to the nearest centre, the first of equally near ones; the `num_trimmed`
    rows farthest from theirs are trimmed; a centre moves to the mean of its other rows, and stays if it has none. The
    centres are Σ_j W_cj g_j, so ‖g_i − centre_c‖² = Q_ii − 2 (W Q)_ci + (W Q Wᵀ)_cc. The sum of the squared distances
    of the rows that are not trimmed never grows, so there is an end but for ties, which the limit is for.
    """
    n = len(gram)
    share = np.eye(n)[starting_rows(squared_distances(gram), num_clusters, num_trimmed)]
    labels, kept = np.full(n, -1), np.empty(0, dtype=np.intp)
    distances, iteration, converged = np.zeros(n), 0, False
    while not converged and iteration < max_iterations:
        iteration += 1
        before = labels, kept
        labels, distances = _nearest_centres(gram, share)
        kept = np.sort(np.argsort(distances, kind="stable")[: max(1, n - num_trimmed)])
        converged = np.array_equal(labels, before[0]) and np.array_equal(kept, before[1])
        counted = np.zeros((len(share), n))
        counted[labels[kept], kept] = 1.0
        sizes = counted.sum(axis=1, keepdims=True)
        share = np.where(sizes > 0.0, counted / np.maximum(sizes, 1.0), share)
    trimmed: NDArray[np.bool_] = np.ones(n, dtype=bool)
    trimmed[kept] = False
    return Clusters(labels, distances, trimmed, iteration, converged)


def starting_rows(squared: Matrix, num_clusters: int, num_trimmed: int) -> NDArray[np.intp]:
    """Return the rows from which the centres start: the most central one, then each time one far from all so far.

    The most central row has the smallest sum of squared distances to the half of the other rows nearest to it, which
    are honest for an honest row. The farthest rows may all be Byzantine, and a centre that starts on one of them keeps
    it, for its distance is 0 and it is never trimmed: so the `num_trimmed` farthest are passed over. With fewer than
    `num_clusters` rows every row is a start.
    """
    n = len(squared)
    neighbours = max(2, n // 2)  # two rows are often nearest to each other and would tie
    starts = [int(np.argmin(np.sort(squared, axis=1)[:, 1 : neighbours + 1].sum(axis=1)))]
    nearest = squared[starts[0]].copy()
    for _ in range(min(num_clusters, n) - 1):
        passed_over = min(num_trimmed, n - len(starts) - 1)
        starts.append(int(np.argsort(-nearest, kind="stable")[passed_over]))
        np.minimum(nearest, squared[starts[-1]], out=nearest)
    return np.array(starts, dtype=np.intp)


def _nearest_centres(gram: Matrix, share: Matrix) -> tuple[NDArray[np.intp], Vector]:
    """Return the nearest centre of every row, and how far it is."""
    products = share @ gram
    squared = gram.diagonal()[:, None] - 2.0 * products.T + np.einsum("cn,cn->c", products, share)
    labels = np.argmin(squared, axis=1)
    return labels, np.sqrt(np.maximum(squared[np.arange(len(gram)), labels], 0.0))
