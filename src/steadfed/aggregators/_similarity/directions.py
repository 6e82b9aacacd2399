"""Directions of rows: cosines that do not cancel.

Rules that look at directions measure them from the origin, whereas the Gram matrix is formed about a pivot. Turning its
entries into cosines would lose every digit of a row that is much shorter than the pivot, and 1 − cos of two rows that
nearly agree. So the rows are first divided by their norms and the Gram matrix of these unit rows is formed about a
pivot of its own: 1 − cos(g_i, g_j) = ½ ‖u_i − u_j‖².
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from steadfed._core.arrays import Matrix, Vector
from steadfed._linalg.columns import Columns
from steadfed._linalg.gram import pivoted_gram, squared_distances
from steadfed._linalg.mixtures import ScaledColumns
from steadfed.aggregators._base import scatter_usable, stop_or_too_many
from steadfed.aggregators._evidence import Aggregation, Stop

ROUNDING = 16.0
"""Relative rounding errors of a length or an inner product, in units of the dtype's precision, are below this."""


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
    share = columns.agree(scatter_usable(weights, usable, 0.0).numpy())
    stop = Stop.COMBINED if (share[usable] > 0.0).all() else Stop.SUBSET
    return Aggregation(
        update=columns.combine(columns.agree(scatter_usable(weights * factors, usable, 0.0).numpy())),
        weights=torch.from_numpy(share),
        kept=torch.from_numpy(share > 0.0),
        usable=torch.from_numpy(usable),
        scores=scatter_usable(scores, usable, np.inf),
        stop=stop_or_too_many(stop, num_byzantine, usable),
        num_byzantine=num_byzantine,
        **evidence,
    )
