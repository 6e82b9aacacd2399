r"""Rows that are combinations of other rows: what pre-aggregation hands to a rule, without building it.

With points p_1 … p_n (the usable rows) and p_0 = 0 (the origin), a mixture has the rows m_i = Σ_j A_ij p_j where each
row of A sums to 1 over the points and the origin. Averaging neighbours or buckets has no share of the origin; shrinking
a row by s is s · g + (1 − s) · 0. Because the rows of A sum to 1, a common shift of the points shifts the mixture, so

    Gram of the mixture about any pivot = A Q Aᵀ ,     Q the Gram matrix of points and origin about that pivot,

and a weighted sum Σ_i w_i m_i is Σ_j (Aᵀ w)_j p_j. A rule that works in the Gram matrix therefore never reads the
mixture, and the pass over the K x d matrix is shared by all that are wrapped around each other. Other rules read
A · block, one block of columns at a time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from steadfed._core.arrays import Matrix, Vector
from steadfed._linalg.blocks import Range, runs, subtract
from steadfed._linalg.columns import MOST_ROWS_SUMMED, Columns, RowColumns
from steadfed._linalg.gram import Gram, squared_distances


def averages(groups: NDArray[np.intp]) -> Matrix:
    """Return the shares of the rows in the means of groups, groups x n, given the group of every row.

    >>> averages(np.array([1, 0, 1]))
    array([[0. , 1. , 0. ],
           [0.5, 0. , 0.5]])
    """
    sizes = np.bincount(groups)
    shares = np.zeros((len(sizes), len(groups)))
    shares[groups, np.arange(len(groups))] = 1.0 / sizes[groups]
    return shares


class DerivedColumns(Columns, ABC):
    """Rows that are combinations of the usable rows of other columns, read in column blocks and never stored."""

    def __init__(self, base: Columns, usable: NDArray[np.bool_], num_rows: int) -> None:
        self.base, self.usable = base, usable
        self.num_rows, self.num_columns = num_rows, base.num_columns
        self.dtype, self.device = base.dtype, base.device

    @abstractmethod
    def shares(self, weights: Vector) -> Vector:
        """Return what multiplies each row of `base` in Σ_i w_i m_i; zero for unusable rows."""

    @abstractmethod
    def derive(self, block: Tensor, out: Tensor) -> None:
        """Write these rows of a block of `base` into `out`; a row that is not usable is not multiplied."""

    def combine(self, weights: Vector) -> Tensor:
        """Return Σ_i w_i m_i as a combination of the rows of `base`."""
        return self.base.combine(self.shares(weights))

    def centred(self, start: int, stop: int, pivot: Tensor | None, out: Tensor) -> None:
        """Write the rows minus the pivot into `out`."""
        block = self.base.view(start, stop)
        if block is None:
            block = torch.empty((self.base.num_rows, stop - start), dtype=self.dtype, device=self.device)
            self.base.centred(start, stop, None, block)
        self.derive(block, out)
        if pivot is not None:
            subtract(out, pivot[start:stop], out)

    def take(self, indices: NDArray[np.intp]) -> Tensor:
        """Return the columns at `indices`, m x b."""
        out = torch.empty((self.num_rows, len(indices)), dtype=self.dtype, device=self.device)
        self.derive(self.base.take(indices), out)
        return out

    def row(self, index: int) -> Tensor:
        """Return row `index`."""
        chosen = np.zeros(self.num_rows)
        chosen[index] = 1.0
        return self.combine(chosen)

    def add_rows(self, weights: Vector, rows: Range, columns: Range, out: Tensor) -> None:
        """Add Σ weights_i · m_i over the consecutive `rows` in `columns` to `out`."""
        among = np.zeros(self.num_rows)
        among[slice(*rows)] = weights
        shares = self.shares(among)
        for run in runs(shares != 0, MOST_ROWS_SUMMED):
            self.base.add_rows(shares[slice(*run)], run, columns, out)

    def total(self, local: Vector) -> Vector:
        """Return the sum over all that hold columns of `base`."""
        return self.base.total(local)

    def like(self, other: Columns) -> Columns:
        """Return `other` as held by all that hold columns of `base`."""
        return self.base.like(other)

    def agree(self, decided: Vector) -> Vector:
        """Return what all that hold columns of `base` act on."""
        return self.base.agree(decided)

    def block_width(self) -> int:
        """Return a width at which three blocks stay within the scratch memory of one.

        They are the block of `base`, its usable rows and what is made of them.
        """
        return max(1, self.base.block_width() // 3)


@final
class MixedColumns(DerivedColumns):
    """The rows A · [usable rows of `base`; origin]."""

    def __init__(self, base: Columns, mixing: Matrix, gram: Gram, with_origin: Matrix) -> None:
        """Mix the usable rows of `base`.

        Args:
            base: the rows that are mixed.
            mixing: A, m x (n + 1): the last column is the share of the origin.
            gram: the Gram matrix of `base`, whose n usable rows are the points.
            with_origin: the Gram matrix of these points and the origin about the same pivot.
        """
        super().__init__(base, gram.usable, len(mixing))
        self.mixing, self.gram, self.with_origin = mixing, gram, with_origin
        self.known_usable = True
        self._factors = torch.from_numpy(np.ascontiguousarray(mixing[:, :-1])).to(dtype=base.dtype, device=base.device)

    def derived_gram(self) -> Gram:
        """Return A Q Aᵀ; every row of a mixture of usable rows is usable.

        Rows that were drawn to the origin may lie so far from the old pivot, compared with their distances to each
        other, that float64 loses these. They are seen from the most central of them instead. As the rows of A sum to
        1, A minus any of its rows gives the differences to that row of the mixture, exactly.
        """
        usable: NDArray[np.bool_] = np.ones(self.num_rows, dtype=bool)
        if not self.mixing[:, -1].any():
            return Gram(
                _congruence(self.mixing, self.with_origin),
                usable,
                self.gram.pivot,
                self.gram.pivot_row,
                self.gram.num_passes,
                self.gram.num_buckets,
            )
        matrix = _congruence(self.mixing - self.mixing[0], self.with_origin)
        pivot = int(np.argmin(np.median(squared_distances(matrix), axis=1)))
        return Gram(_about(matrix, pivot), usable, pivot, self.row(pivot), self.gram.num_passes, self.gram.num_buckets)

    def products(self, pivot: Tensor | None, points: Sequence[Tensor]) -> Matrix:
        """Return ⟨m_i − pivot, point_j − pivot⟩ from those of the rows and the origin."""
        rows = self.base.products(pivot, points)[self.usable]
        origin = self.like(RowColumns([self.base.zero_row()])).products(pivot, points)
        return np.asarray(self.mixing @ np.concatenate([rows, origin]))

    def shares(self, weights: Vector) -> Vector:
        """Return Aᵀ w, zero for unusable rows."""
        shares = np.zeros(self.base.num_rows)
        shares[self.usable] = weights @ self.mixing[:, :-1]
        return shares

    def derive(self, block: Tensor, out: Tensor) -> None:
        """Write A times the usable rows of a block of `base` into `out`."""
        if block.device.type == "cpu":
            rows = block.numpy() if self.usable.all() else block.numpy()[self.usable]
            np.matmul(self._factors.numpy(), rows, out=out.numpy())
        else:
            torch.mm(self._factors, block[torch.from_numpy(self.usable).to(block.device)], out=out)


@final
class ScaledColumns(DerivedColumns):
    """Some rows of `base`, each times a factor of its own."""

    def __init__(self, base: Columns, chosen: NDArray[np.bool_], factors: Vector) -> None:
        """Scale rows of `base`.

        Args:
            base: where the rows lie.
            chosen: which of its K rows are there, m of them.
            factors: what each of the m rows is multiplied by.
        """
        super().__init__(base, chosen, len(factors))
        self.factors = factors
        self._column = torch.from_numpy(factors[:, None].copy()).to(dtype=base.dtype, device=base.device)

    def shares(self, weights: Vector) -> Vector:
        """Return weight times factor, zero for the rows that were not chosen."""
        shares = np.zeros(self.base.num_rows)
        shares[self.usable] = weights * self.factors
        return shares

    def derive(self, block: Tensor, out: Tensor) -> None:
        """Write the chosen rows of a block of `base`, scaled, into `out`."""
        if block.device.type == "cpu":
            rows = block.numpy() if self.usable.all() else block.numpy()[self.usable]
            np.multiply(rows, self._column.numpy(), out=out.numpy())
        else:
            torch.mul(block[torch.from_numpy(self.usable).to(block.device)], self._column, out=out)


def _congruence(mixing: Matrix, gram: Matrix) -> Matrix:
    """Return A Q Aᵀ."""
    return _clean(mixing @ gram @ mixing.T)


def _about(gram: Matrix, pivot: int) -> Matrix:
    """Return the Gram matrix of the same points about one of them."""
    to_pivot = gram[pivot] - gram[pivot, pivot] / 2.0
    moved = _clean(gram - to_pivot - to_pivot[:, None])
    moved[pivot] = moved[:, pivot] = 0.0
    return moved


def _clean(gram: Matrix) -> Matrix:
    """Return a Gram matrix without what rounding may have done: symmetric to the bit, its diagonal not negative."""
    symmetric: Matrix = (gram + gram.T) / 2.0
    np.fill_diagonal(symmetric, np.maximum(symmetric.diagonal(), 0.0))
    return symmetric
