"""One pass over the K x d matrix: the K x K Gram matrix about a pivot client.

Everything RAGE, Krum and the geometric median need to know of the rows is their inner products. With Q_ij =
⟨g_i − g_p, g_j − g_p⟩ for a pivot client p, one pass of O(K² d) is followed by work that does not depend on d.

Why a pivot: without it the rounding error of an entry is relative to ‖g_i‖‖g_j‖, and a common offset of 1,000 times
the spread destroys every digit of float32. The differences to one of the clients are as small as the spread itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from steadfed._core.arrays import Matrix, Vector
from steadfed._linalg.blocks import Range
from steadfed._linalg.columns import Columns, RowColumns
from steadfed.errors import NoUsableRowError

WORST_PIVOT_RATIO = 64.0
"""A pivot is bad when the median squared distance to it exceeds that to the most central row this often."""
NEAR_ORIGIN = 4.0
"""The origin is tried as pivot if, in a sample, the median squared distance to it exceeds the best by at most this."""
LARGEST_SQUARE = 1e280
"""A row with a larger squared norm is unusable: sums over K² of them must not overflow float64."""
LARGEST_PIVOT = 1e-8
"""A pivot's squared norm must stay below this share of the largest number of the dtype, or differences overflow."""
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
    pivot: int | Literal["origin", "median"]
    """The client that was subtracted, or nothing, or the coordinate-wise median of the clients."""
    pivot_row: Tensor | None
    """What was subtracted; None for the origin."""
    num_passes: int
    """How many Gram matrices were formed: more than 1 if the pivot had to be replaced."""
    num_buckets: int | None = None
    """m, if these are inner products of a sketch of the rows; None if they are those of the rows themselves."""


def pivoted_gram(columns: Columns) -> Gram:
    """Return the Gram matrix of the usable rows about a pivot that lies among them.

    A NaN, an Inf or an overflow of client i touches row and column i of the matrix and nothing else, as every entry
    is its own sum; so a diagonal that is not finite finds the bad clients at no cost. The pivot is the most central
    client in a sample of columns whose whole row is finite; or the origin, which saves copying, if in the sample the
    rows lie about as near to it. A client may look honest in the sample only, so the pivot is checked against all
    columns, and if the rows lie far from it, the coordinate-wise median takes its place: it costs one slow pass more,
    and no minority can move it. If most rows are so close to the pivot that the squares of their differences
    underflow, they are magnified and read again. Rows that are combinations of others need no pass at all.
    """
    derived = columns.derived_gram()
    if derived is not None:
        return derived
    candidates, at_origin = _central_rows(columns)
    passes = 0
    if at_origin:
        passes += 1
        gram = _gram_about(columns, None, "origin", passes)
        if not _is_far(gram):
            return gram
    client = _first_usable(columns, candidates)
    if client is not None:
        passes += 1
        gram = _gram_about(columns, columns.row(client), client, passes)
        if not _is_far(gram):
            return gram
    return _gram_about(columns, coordinate_median(columns), "median", passes + 1)


def coordinate_median(columns: Columns) -> Tensor:
    """Return the median of the usable rows in every coordinate (the lower one of an even number)."""
    usable = all_or_usable(columns)
    median = columns.zero_row()
    found: dict[Range, NDArray[np.floating]] = {}

    def work(span: Range, block: Tensor, _: Tensor) -> None:
        found[span] = _lower_medians(block.cpu().numpy()[usable])

    def consume(span: Range, _: Tensor) -> None:
        median[slice(*span)] = torch.from_numpy(np.ascontiguousarray(found.pop(span))).to(columns.device)

    columns.scan(None, work, consume, ())
    return median


def _lower_medians(rows: NDArray[np.floating]) -> NDArray[np.floating]:
    """Return the median of every column, the lower one of an even number; NaN counts as larger than all else."""
    middle = (len(rows) - 1) // 2
    return np.asarray(np.partition(np.ascontiguousarray(rows.T), middle, axis=1)[:, middle])


def _gram_about(
    columns: Columns, pivot: Tensor | None, name: int | Literal["origin", "median"], num_passes: int
) -> Gram:
    """Return the Gram matrix about a given vector, or the origin."""
    matrix = columns.fold(pivot, self_product, (columns.num_rows, columns.num_rows))
    usable = usable_rows(columns, matrix.diagonal())
    inner = matrix if usable.all() else matrix[np.ix_(usable, usable)]
    return Gram(_without_underflow(columns, pivot, inner, usable), usable, name, pivot, num_passes)


def _without_underflow(columns: Columns, pivot: Tensor | None, inner: Matrix, usable: NDArray[np.bool_]) -> Matrix:
    """Return the Gram matrix with the entries of rows so close to the pivot that squares vanished computed again.

    Those rows' differences are magnified; the others overflow, which touches only their own entries, not used here.
    """
    close = inner.diagonal() < UNDERFLOW
    if columns.dtype != torch.float32 or 2 * close.sum() <= len(inner):
        return inner

    def magnified_product(block: Tensor, out: Tensor) -> None:
        block *= MAGNIFICATION
        self_product(block, out)

    size = (columns.num_rows, columns.num_rows)
    magnified = columns.fold(pivot, magnified_product, size, read_only=False)
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


def gram_with_points(columns: Columns, gram: Gram, points: Sequence[Tensor | None]) -> Matrix:
    """Return the Gram matrix of the usable rows followed by further points, None being the origin.

    A squared distance that is read off it, such as ‖g_i‖² = Q_ii + Q_00 − 2 Q_i0, has a rounding error relative to the
    pivot's squared distance to the point, which is that of a typical row.

    One cheap pass more, O(K r d), and none at all for the origin if that is the pivot. Rules that know a direction or
    a centre (the origin for norms, the server's own row, the last update) see it as one more row that nobody sent.
    """
    known = gram.pivot_row is None and all(point is None for point in points)
    size, number = len(gram.matrix), len(points)
    matrix = np.zeros((size + number, size + number))
    matrix[:size, :size] = gram.matrix
    if known:
        return matrix
    vectors = [columns.zero_row() if point is None else point for point in points]
    cross = columns.products(gram.pivot_row, vectors)[gram.usable]
    matrix[:size, size:], matrix[size:, :size] = cross, cross.T
    matrix[size:, size:] = columns.like(RowColumns(vectors)).products(gram.pivot_row, vectors)
    return matrix


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
    return columns.squares()


def are_usable(squares: Vector) -> NDArray[np.bool_]:
    """Return which squared norms of rows are finite and not too large."""
    return np.asarray(squares <= LARGEST_SQUARE)  # false for NaN


def usable_rows(columns: Columns, squares: Vector) -> NDArray[np.bool_]:
    """Return which rows have a squared norm that is finite and not too large; raise if none has."""
    usable = are_usable(squares)
    if not usable.any():
        dtype = str(columns.dtype).removeprefix("torch.")
        raise NoUsableRowError(
            f"none of the {columns.num_rows} updates is usable: each holds NaN, Inf or values whose square overflows "
            f"{dtype}; at least one finite update is needed"
        )
    return usable


def all_or_usable(columns: Columns) -> NDArray[np.bool_]:
    """Return which rows are usable, from their squared norms unless it is known that all are."""
    if columns.known_usable:
        return np.ones(columns.num_rows, dtype=bool)
    return usable_rows(columns, squared_norms(columns))


def _central_rows(columns: Columns) -> tuple[NDArray[np.intp], bool]:
    """Return the clients in the order of their distance to the coordinate-wise median of a sample of columns.

    Also whether the rows lie about as near to the origin as to that median, by the median of either distance.

    NaN counts as larger than all else, so that fewer than half bad rows cannot move the median of a coordinate out of
    the others.
    """
    sample = columns.sample().cpu().numpy().astype(np.float64)
    with np.errstate(all="ignore"):
        median = _lower_medians(sample)
        squares = columns.total(np.stack([((sample - median) ** 2).sum(axis=1), (sample**2).sum(axis=1)]))
    to_median, to_origin = np.where(np.isnan(squares), np.inf, squares)
    at_origin = bool(np.median(to_origin) <= NEAR_ORIGIN * np.median(to_median))
    return np.argsort(to_median, kind="stable"), at_origin


def _first_usable(columns: Columns, candidates: NDArray[np.intp]) -> int | None:
    """Return the first candidate whose whole row is finite and not so large that differences to it may overflow."""
    largest = LARGEST_PIVOT * torch.finfo(columns.dtype).max
    for candidate in candidates.tolist():
        if _squared_norm(columns, candidate) <= largest:
            return int(candidate)
    return None


def _squared_norm(columns: Columns, index: int) -> float:
    """Return ‖row‖², not finite where it overflows the dtype within a block of columns."""
    row = columns.row(index)
    parts = (row[slice(*span)] for span in columns.ranges(columns.block_width()))
    with np.errstate(all="ignore"):
        return float(columns.total(np.array([sum(dot(part) for part in parts)]))[0])


def dot(part: Tensor) -> float:
    """Return the squared length of a vector, in its own precision."""
    return float(np.dot(part.numpy(), part.numpy())) if part.device.type == "cpu" else float(torch.dot(part, part))


def _is_far(gram: Gram) -> bool:
    """Tell whether the rows lie so far from the pivot that their differences have lost digits.

    What is near is measured from the most central row: its median distance is that of honest rows as long as they are
    the majority, whereas the median over all pairs is the attackers' own once they make up 30 % of the rows.
    """
    if len(gram.matrix) <= 2 and gram.pivot != "origin":
        return False
    nearest = np.median(squared_distances(gram.matrix), axis=1, overwrite_input=True).min()
    return bool(np.median(gram.matrix.diagonal()) > WORST_PIVOT_RATIO * nearest)
