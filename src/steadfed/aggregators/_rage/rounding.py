r"""How far rounding may have moved what the filter saw, and the update: docs/theory/filter.md, section 7.

Both are small against σ₀ unless the rows agree to about as many digits as their dtype has.
"""

from __future__ import annotations

import math

import numpy as np
import torch

from steadfed._core.arrays import Vector
from steadfed._linalg.blocks import runs
from steadfed._linalg.columns import MOST_ROWS_SUMMED, Columns
from steadfed._linalg.gram import Gram

SCATTER = 32.0
"""Error of a computed scatter in units of u · Σ c_i ‖g_i − pivot‖²; up to 22 was measured, on rows of equal numbers."""

WIDTH = 65536
"""Numbers of a row that are brought to float64 at a time."""


def row_rounding(columns: Columns, gram: Gram, weights: Vector) -> float:
    r"""Return ρ such that ρ² bounds the error of a computed variance of the weighted rows in any direction.

    The inner products are known to a few u ‖g_i − pivot‖ ‖g_j − pivot‖, u the unit roundoff, so a scatter of weights c
    is known to 32 u Σ c_i ‖g_i − pivot‖², and the variance to that over Σ c_i.
    """
    kept = weights > 0.0
    squares = float(weights[kept] @ gram.matrix.diagonal()[kept])
    return math.sqrt(SCATTER * _unit(columns) * max(0.0, squares) / float(weights.sum()))


def update_rounding(columns: Columns, gram: Gram, weights: Vector) -> float:
    r"""Return a bound of ‖computed update − Σ w_i g_i‖, w the weights over their sum.

    A weight is rounded once, a product once, and every sum at most as often as sums follow each other: so often u times
    Σ w_i ‖g_i‖ ≤ ‖pivot‖ + Σ w_i ‖g_i − pivot‖ bounds the error.
    """
    everywhere = np.zeros(columns.num_rows)
    everywhere[gram.usable] = weights
    parts = len(runs(everywhere != 0.0, MOST_ROWS_SUMMED))
    share = weights / weights.sum()
    size = _norm(columns, gram.pivot_row) + float(share @ np.sqrt(np.maximum(gram.matrix.diagonal(), 0.0)))
    return (min(MOST_ROWS_SUMMED, len(weights)) + parts + 2) * _unit(columns) * size


def _unit(columns: Columns) -> float:
    """Return the unit roundoff of the rows' dtype, half of the distance from 1 to the next number."""
    return float(torch.finfo(columns.dtype).eps) / 2.0


def _norm(columns: Columns, row: torch.Tensor | None) -> float:
    """Return the norm of a row of these columns, summed in float64; 0 for the origin."""
    if row is None:
        return 0.0
    parts = (row[start : start + WIDTH].double() for start in range(0, len(row), WIDTH))
    return float(np.sqrt(columns.total(np.array([sum(float(part @ part) for part in parts)]))[0]))
