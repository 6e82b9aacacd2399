"""Lengths of rows that do not underflow, and what shrinks rows to a length."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from steadfed._core.arrays import Vector
from steadfed._linalg.columns import Columns
from steadfed._linalg.gram import MAGNIFICATION, UNDERFLOW, squared_norms, usable_rows
from steadfed._linalg.mixtures import ScaledColumns


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


def clip_factors(norms: Vector, radius: float) -> Vector:
    """Return min(1, radius / ‖g_i‖)."""
    return np.divide(radius, norms, out=np.ones_like(norms), where=norms > radius)
