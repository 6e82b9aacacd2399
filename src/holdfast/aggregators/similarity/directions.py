"""Lengths and directions of rows: norms that do not underflow, and cosines that do not cancel.

Rules that look at directions measure them from the origin, whereas the Gram matrix is formed about a pivot. Turning its
entries into cosines would lose every digit of a row that is much shorter than the pivot, and 1 − cos of two rows that
nearly agree. So the rows are first divided by their norms and the Gram matrix of these unit rows is formed about a
pivot of its own: 1 − cos(g_i, g_j) = ½ ‖u_i − u_j‖².
"""

from __future__ import annotations

from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from holdfast.aggregators.base import scattered, stop_or_too_many
from holdfast.aggregators.evidence import Aggregation, Stop
from holdfast.linalg.columns import Columns, Matrix, Range, Vector
from holdfast.linalg.gram import (
    MAGNIFICATION,
    UNDERFLOW,
    pivoted_gram,
    squared_distances,
    squared_norms,
    usable_rows,
)

ROUNDING = 16.0
"""Relative rounding errors of a length or an inner product, in units of the dtype's precision, are below this."""


@final
class ScaledColumns(Columns):
    """Some rows of `base`, each times a factor of its own, read in column blocks and never stored."""

    def __init__(self, base: Columns, chosen: NDArray[np.bool_], factors: Vector) -> None:
        """Scale rows of `base`.

        Args:
            base: where the rows lie.
            chosen: which of its K rows are there, m of them.
            factors: what each of the m rows is multiplied by.
        """
        self.base, self.chosen, self.factors = base, chosen, factors
        self.num_rows, self.num_columns = len(factors), base.num_columns
        self.dtype, self.device = base.dtype, base.device

    def centred(self, start: int, stop: int, pivot: Tensor | None, out: Tensor) -> None:
        """Write factor · row − pivot into `out`."""
        block = self.base.view(start, stop)
        if block is None:
            block = torch.empty((self.base.num_rows, stop - start), dtype=self.dtype, device=self.device)
            self.base.centred(start, stop, None, block)
        factors = torch.from_numpy(self.factors[:, None]).to(block)
        if block.device.type == "cpu":
            rows = block.numpy() if self.chosen.all() else block.numpy()[self.chosen]
            np.multiply(rows, factors.numpy(), out=out.numpy())
            if pivot is not None:
                np.subtract(out.numpy(), pivot[start:stop].numpy(), out=out.numpy())
        else:
            torch.mul(block[torch.from_numpy(self.chosen).to(block.device)], factors, out=out)
            if pivot is not None:
                out.sub_(pivot[start:stop])

    def row(self, index: int) -> Tensor:
        """Return row `index`, scaled."""
        coefficients = np.zeros(self.base.num_rows)
        coefficients[np.flatnonzero(self.chosen)[index]] = self.factors[index]
        return self.base.combine(coefficients)

    def add_rows(self, weights: Vector, rows: Range, columns: Range, out: Tensor) -> None:
        """Add Σ weights_i · factor_i · row_i over the consecutive `rows` in `columns` to `out`."""
        block = torch.empty((self.num_rows, columns[1] - columns[0]), dtype=self.dtype, device=self.device)
        self.centred(*columns, None, block)
        out.add_(torch.from_numpy(weights).to(block) @ block[slice(*rows)])

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
        """Return a width at which a block of `base`, its chosen rows and the scaled ones stay within the scratch."""
        return max(1, self.base.block_width() // 3)


def row_norms(columns: Columns) -> tuple[Vector, NDArray[np.bool_]]:
    """Return the norms of the n usable rows, and which of the K rows these are.

    Rows so short that squares of their float32 coordinates may have vanished are magnified and read again; those that
    are still too short to be divided by have norm 0.
    """
    squares = squared_norms(columns)
    usable = usable_rows(columns, squares)
    short: NDArray[np.bool_] = usable & (squares < UNDERFLOW)
    if columns.dtype == torch.float32 and short.any():
        magnified = ScaledColumns(columns, short, np.full(int(short.sum()), MAGNIFICATION))
        squares[short] = squared_norms(magnified) / MAGNIFICATION**2
    norms = np.sqrt(squares[usable])
    norms[norms < 4.0 * torch.finfo(columns.dtype).tiny] = 0.0
    return norms, usable


def inverse_or_zero(norms: Vector) -> Vector:
    """Return 1 / norm, and 0 for rows of zeros."""
    return np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0.0)


def cosine_distances(columns: Columns, norms: Vector, usable: NDArray[np.bool_]) -> Matrix:
    """Return 1 − cos(g_i, g_j) = ½ ‖u_i − u_j‖² for the usable rows with these norms; 1 for rows of zeros.

    What is below the rounding error of the Gram matrix of the unit rows is 0: directions that agree to the precision of
    the dtype are the same direction.
    """
    gram = pivoted_gram(ScaledColumns(columns, usable, inverse_or_zero(norms))).matrix
    epsilon = ROUNDING * torch.finfo(columns.dtype).eps
    squared = squared_distances(gram)
    lengths = gram.diagonal()
    squared[squared <= epsilon * (lengths + lengths[:, None]) + epsilon**2] = 0.0
    distances = squared / 2.0
    zero = norms == 0.0
    distances[zero, :] = distances[:, zero] = 1.0
    np.fill_diagonal(distances, 0.0)
    return distances


def clip_factors(norms: Vector, radius: float) -> Vector:
    """Return min(1, radius / ‖g_i‖)."""
    return np.divide(radius, norms, out=np.ones_like(norms), where=norms > radius)


def scaled_aggregation(
    columns: Columns,
    usable: NDArray[np.bool_],
    weights: Vector,
    factors: Vector,
    *,
    scores: Vector,
    num_byzantine: int,
    **evidence: Any,
) -> Aggregation:
    """Return the aggregation Σ w_i · factor_i · g_i of a rule that gave the usable rows weights w and factors."""
    share = columns.agree(scattered(weights, usable, 0.0).numpy())
    stop = Stop.COMBINED if (share[usable] > 0.0).all() else Stop.SUBSET
    return Aggregation(
        update=columns.combine(columns.agree(scattered(weights * factors, usable, 0.0).numpy())),
        weights=torch.from_numpy(share),
        kept=torch.from_numpy(share > 0.0),
        usable=torch.from_numpy(usable),
        scores=scattered(scores, usable, np.inf),
        stop=stop_or_too_many(stop, num_byzantine, usable),
        num_byzantine=num_byzantine,
        **evidence,
    )
