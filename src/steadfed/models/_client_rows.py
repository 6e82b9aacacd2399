"""Rows of numbers sorted by client: means and second moments in which every client counts the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steadfed._core.arrays import Matrix, Vector
from steadfed.data._base import Dataset
from steadfed.partitions._base import Shares


@dataclass(frozen=True, eq=False)
class ClientRows:
    """Rows of numbers sorted by client.

    >>> clients = ClientRows.of(np.array([[1.0], [3.0], [5.0]]), Shares(np.arange(3), np.array([0, 2, 3])))
    >>> clients.means(clients.rows).ravel(), float(clients.weights @ clients.rows[:, 0])
    (array([2., 5.]), 3.5)
    """

    rows: Matrix
    starts: NDArray[np.int64]
    sizes: NDArray[np.int64]

    @classmethod
    def of(cls, rows: Matrix, shares: Shares) -> ClientRows:
        """Return rows that are in the order of the shares."""
        return cls(rows, shares.offsets[:-1], shares.sizes)

    @property
    def weights(self) -> Vector:
        """1 / (R n_r) for every row, so that every client counts the same."""
        return np.repeat(1.0 / (len(self.sizes) * self.sizes), self.sizes)

    def means(self, values: Matrix) -> Matrix:
        """Return the mean of a client's values, for every client."""
        sums = np.add.reduceat(values, self.starts, axis=0)
        return sums / self.sizes.reshape(-1, *[1] * (values.ndim - 1))

    def moment(self, factors: Vector) -> Matrix:
        """Return Σ_i p_i c_i z_i z_iᵀ for factors c ≥ 0 and p_i = 1 / (R n_r)."""
        scaled = self.rows * np.sqrt(self.weights * factors)[:, None]
        gram: Matrix = scaled.T @ scaled
        return gram

    def top_moments(self) -> Vector:
        """Return λ_max of the mean of z zᵀ of every client, from the smaller of the two Gram matrices."""
        tops = []
        for rows in np.split(self.rows, self.starts[1:]):
            gram = rows @ rows.T if len(rows) < rows.shape[1] else rows.T @ rows
            tops.append(np.linalg.eigvalsh(gram)[-1] / len(rows))
        return np.array(tops)

    def reaches(self) -> Vector:
        """Return (1 − 2/R) A_r + Ā with A_r = min(E_r‖z‖, λ_max(E_r[z zᵀ])^½) of every client, Ā the mean of the A_r.

        For |u| ≤ 1 no E_r[u z] is further from the mean of all E_q[u z] than this, see `dissimilarity_bound`.
        """
        lengths = self.means(np.linalg.norm(self.rows, axis=1))
        longest = np.minimum(lengths, np.sqrt(self.top_moments()))
        reaches: Vector = (1 - 2 / len(longest)) * longest + longest.mean()
        return reaches

    def mean_products(self, values: Matrix) -> Iterator[Matrix]:
        """Yield E_r[v zᵀ], the mean over a client's rows z and values v, for one client after the other."""
        for start, size in zip(self.starts.tolist(), self.sizes.tolist(), strict=True):
            yield values[start : start + size].T @ self.rows[start : start + size] / size


def point_rows(dataset: Dataset, *, bias: bool = False) -> Matrix:
    """Return the training points as rows of doubles, followed by a 1 if there is a bias."""
    rows: Matrix = dataset.features.flatten(1).double().cpu().numpy()
    return np.concatenate([rows, np.ones((len(rows), 1))], axis=1) if bias else rows
