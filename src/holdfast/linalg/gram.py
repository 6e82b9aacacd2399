"""One pass over the K x d matrix: the K x K Gram matrix about a pivot client.

Everything RAGE, Krum and the geometric median need to know of the rows is their inner products. With Q_ij =
⟨g_i − g_p, g_j − g_p⟩ for a pivot client p, one pass of O(K² d) is followed by work that does not depend on d.

Why a pivot: without it the rounding error of an entry is relative to ‖g_i‖‖g_j‖, and a common offset of 1,000 times
the spread destroys every digit of float32. The differences to one of the clients are as small as the spread itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from holdfast.errors import NoUsableRowError
from holdfast.linalg.columns import Columns, Matrix, Vector

WORST_PIVOT_RATIO = 64.0
"""A pivot is bad when the median squared distance to it exceeds the median squared distance of the rows this often."""
MOST_PIVOTS = 8
"""Passes at the most. Each replaced pivot is nearer to the rows by the resolution of the dtype, so few are enough."""


@dataclass(frozen=True)
class Gram:
    """Inner products of the usable rows about a pivot."""

    matrix: Matrix
    """n x n, float64, over the usable rows only, in their order."""
    usable: NDArray[np.bool_]
    """K: the rows that are finite and whose squared norm is finite."""
    pivot: int
    """The client that was subtracted."""
    num_passes: int
    """How often the matrix was read: 1 unless the pivot had to be replaced."""


def pivoted_gram(columns: Columns) -> Gram:
    """Return the Gram matrix of the usable rows about a pivot that lies among them.

    A NaN, an Inf or an overflow of client i touches row and column i of the matrix and nothing else, as every entry
    is its own sum; so a non-finite diagonal finds exactly the bad clients, at no cost. The pivot is chosen from a
    sample of columns and must be finite itself; afterwards it is checked against all columns (a client may look
    honest in the sample) and replaced if the rows lie far from it.
    """
    candidates = _candidates(columns.sample(), columns)
    tried: set[int] = set()
    for num_passes in range(1, MOST_PIVOTS + 1):
        pivot = _first_usable(columns, candidates, tried)
        tried.add(pivot)
        matrix = _symmetric(columns.fold(columns.row(pivot), self_product, (columns.num_rows, columns.num_rows)))
        usable = np.isfinite(matrix.diagonal())
        squared = squared_distances(matrix[np.ix_(usable, usable)])
        if num_passes == MOST_PIVOTS or len(tried) == usable.sum() or not _is_far(matrix.diagonal()[usable], squared):
            return Gram(matrix[np.ix_(usable, usable)], usable, pivot, num_passes)
        candidates = np.flatnonzero(usable)[np.argsort(_median_rows(squared), kind="stable")]
    raise AssertionError  # pragma: no cover  the loop returns in its last turn


def self_product(block: Tensor, out: Tensor) -> None:
    """Write block · blockᵀ into `out`.

    numpy recognises the product of a matrix with its own transpose and computes one triangle of it (syrk), half of
    the work of a general product.
    """
    if block.device.type == "cpu":
        np.matmul(block.numpy(), block.numpy().T, out=out.numpy())
    else:
        torch.mm(block, block.T, out=out)


def squared_distances(gram: Matrix) -> Matrix:
    """Return D_ij = ‖g_i − g_j‖² = Q_ii + Q_jj − 2 Q_ij, never negative, with an exact zero diagonal."""
    diagonal = gram.diagonal()
    squared = diagonal[:, None] + diagonal[None, :] - 2.0 * gram
    np.maximum(squared, 0.0, out=squared)
    np.fill_diagonal(squared, 0.0)
    return squared


def squared_norms(columns: Columns) -> Vector:
    """Return ‖g_i‖² of every row, in float64; not finite where a square overflows the dtype of the rows."""

    def work(block: Tensor, out: Tensor) -> None:
        if block.device.type == "cpu":
            np.einsum("ij,ij->i", block.numpy(), block.numpy(), out=out.numpy())
        else:
            torch.sum(block * block, dim=1, out=out)

    return columns.fold(None, work, (columns.num_rows,))


def no_usable_row(num_rows: int, dtype: torch.dtype) -> NoUsableRowError:
    """Return the error for a matrix in which every row is bad."""
    return NoUsableRowError(
        f"none of the {num_rows} rows is usable: each holds NaN, Inf or values whose square overflows "
        f"{str(dtype).removeprefix('torch.')}; at least one finite row is needed"
    )


def _candidates(sample: Tensor, columns: Columns) -> NDArray[np.intp]:
    """Return the clients in the order in which they should be tried as pivot: most central in the sample first."""
    with np.errstate(all="ignore"):
        values = sample.cpu().numpy().astype(np.float64)
        gram = columns.total(values @ values.T)
        centrality = _median_rows(squared_distances(gram))
    return np.argsort(np.where(np.isfinite(gram.diagonal()), centrality, np.inf), kind="stable")


def _first_usable(columns: Columns, candidates: NDArray[np.intp], tried: set[int]) -> int:
    """Return the first candidate not tried yet whose whole row is finite with a finite squared norm."""
    for candidate in candidates.tolist():
        if candidate not in tried and np.isfinite(_squared_norm(columns, candidate)):
            return int(candidate)
    raise no_usable_row(columns.num_rows, columns.dtype)


def _squared_norm(columns: Columns, index: int) -> float:
    row = columns.row(index)
    with np.errstate(all="ignore"):
        local = np.array([float(torch.dot(row, row))])
        return float(columns.total(local)[0])


def _symmetric(matrix: Matrix) -> Matrix:
    """Return the matrix with its upper triangle mirrored below, so that it is symmetric to the bit."""
    return np.triu(matrix) + np.triu(matrix, 1).T


def _median_rows(squared: Matrix) -> Vector:
    """Return the median distance of every row to the rows, NaN counted as far."""
    return np.median(np.where(np.isnan(squared), np.inf, squared), axis=1)


def _is_far(to_pivot: Vector, squared: Matrix) -> bool:
    """Tell whether the rows lie so far from the pivot that their differences have lost digits."""
    above_diagonal = squared[np.triu_indices(len(squared), 1)]
    if len(above_diagonal) == 0:
        return False
    return bool(np.median(to_pivot) > WORST_PIVOT_RATIO * np.median(above_diagonal))
