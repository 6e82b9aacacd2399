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
UNDERFLOW = 1e-30
"""Squared distance to the pivot below which squares of float32 coordinates may have vanished."""
MAGNIFICATION = 2.0**96
"""What such rows are multiplied by; a power of two, so that nothing is rounded."""


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
    honest in the sample) and replaced if the rows lie far from it. If most rows are so close to the pivot that the
    squares of their differences underflow, they are magnified and read again.
    """
    candidates = _central_rows(columns)
    tried: set[int] = set()
    while True:
        pivot = _first_usable(columns, candidates, tried)
        tried.add(pivot)
        matrix = columns.fold(columns.row(pivot), self_product, (columns.num_rows, columns.num_rows))
        usable = np.isfinite(matrix.diagonal())
        inner = matrix if usable.all() else matrix[np.ix_(usable, usable)]
        centrality = np.median(squared_distances(inner), axis=1, overwrite_input=True)
        if len(tried) in {MOST_PIVOTS, len(inner)} or not _is_far(inner.diagonal(), centrality):
            return Gram(_without_underflow(columns, pivot, inner, usable), usable, pivot, len(tried))
        candidates = np.flatnonzero(usable)[np.argsort(centrality, kind="stable")]


def _without_underflow(columns: Columns, pivot: int, inner: Matrix, usable: NDArray[np.bool_]) -> Matrix:
    """Return the Gram matrix with the entries of rows so close to the pivot that squares vanished computed again.

    Those rows' differences are magnified; the others overflow, which touches only their own entries, not used here.
    """
    close = inner.diagonal() < UNDERFLOW
    if columns.dtype != torch.float32 or 2 * close.sum() <= len(inner):
        return inner

    def magnified_product(block: Tensor, out: Tensor) -> None:
        block *= MAGNIFICATION
        self_product(block, out)

    magnified = columns.fold(columns.row(pivot), magnified_product, (columns.num_rows, columns.num_rows))
    rows, among = np.flatnonzero(usable)[close], np.flatnonzero(close)
    inner[np.ix_(among, among)] = magnified[np.ix_(rows, rows)] / MAGNIFICATION**2
    return inner


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
    squared = -2.0 * gram
    squared += diagonal
    squared += diagonal[:, None]
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


def _central_rows(columns: Columns) -> NDArray[np.intp]:
    """Return the clients in the order of their distance to the coordinate-wise median of a sample of columns.

    Sorting puts NaN last, so that fewer than half bad rows cannot move the median of a coordinate out of the others.
    """
    sample = columns.sample().cpu().numpy().astype(np.float64)
    with np.errstate(all="ignore"):
        median = np.sort(sample, axis=0)[(len(sample) - 1) // 2]
        distances = columns.total(((sample - median) ** 2).sum(axis=1))
    return np.argsort(np.where(np.isnan(distances), np.inf, distances), kind="stable")


def _first_usable(columns: Columns, candidates: NDArray[np.intp], tried: set[int]) -> int:
    """Return the first candidate not tried yet whose whole row is finite with a finite squared norm."""
    for candidate in candidates.tolist():
        if candidate not in tried and np.isfinite(_squared_norm(columns, candidate)):
            return int(candidate)
    raise no_usable_row(columns.num_rows, columns.dtype)


def _squared_norm(columns: Columns, index: int) -> float:
    """Return ‖row‖², not finite where it overflows the dtype within a block of columns."""
    row = columns.row(index)
    parts = (row[slice(*span)] for span in columns.ranges(columns.block_width()))
    return float(columns.total(np.array([sum(float(torch.dot(part, part)) for part in parts)]))[0])


def _is_far(to_pivot: Vector, centrality: Vector) -> bool:
    """Tell whether the rows lie so far from the pivot that their differences have lost digits.

    What is near is measured from the most central row: its median distance is that of honest rows as long as they are
    the majority, whereas the median over all pairs is the attackers' own once they make up 30 % of the rows.
    """
    return len(to_pivot) > 2 and bool(np.median(to_pivot) > WORST_PIVOT_RATIO * centrality.min())
