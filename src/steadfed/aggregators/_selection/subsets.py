"""What rules that average a subset of the rows have in common."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from steadfed._core.arrays import Matrix, Vector
from steadfed._linalg.columns import Columns
from steadfed._linalg.gram import squared_distances
from steadfed.aggregators._base import scatter_usable, stop_or_too_many
from steadfed.aggregators._evidence import Aggregation, Stop


def pair_distances(gram: Matrix) -> Matrix:
    """Return ‖g_i − g_j‖² as the same number for (i, j) and (j, i): two rows may be each other's only neighbour."""
    squared = squared_distances(gram)
    return np.maximum(squared, squared.T)


def lowest(scores: Vector, number: int) -> Vector:
    """Return equal weights for the `number` lowest scores, those that come first among equal ones.

    >>> lowest(np.array([3.0, 1.0, 2.0, 2.0]), 2)
    array([0. , 0.5, 0.5, 0. ])
    """
    weights = np.zeros(len(scores))
    weights[np.argsort(scores, kind="stable")[:number]] = 1.0 / number
    return weights


def average_of(
    columns: Columns, usable: NDArray[np.bool_], weights: Vector, *, scores: Vector, num_byzantine: int
) -> Aggregation:
    """Return the aggregation of a rule that gave weights and scores to the usable rows without a Gram matrix."""
    share = columns.agree(scatter_usable(weights, usable, 0.0).numpy())
    return Aggregation(
        update=columns.combine(share),
        weights=torch.from_numpy(share),
        kept=torch.from_numpy(share > 0.0),
        usable=torch.from_numpy(usable),
        scores=scatter_usable(scores, usable, np.inf),
        stop=stop_or_too_many(Stop.SUBSET, num_byzantine, usable),
        num_byzantine=num_byzantine,
    )
