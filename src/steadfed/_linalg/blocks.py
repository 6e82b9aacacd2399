"""What is done with blocks of columns: numpy on a CPU, which keeps to the calling thread, torch elsewhere."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg.blas import daxpy, saxpy
from torch import Tensor

from steadfed._core.arrays import Vector

Range = tuple[int, int]

MAGNIFIED_BELOW = 2.0**-50
"""Vectors of float32 whose numbers are all below this are magnified before they are multiplied."""
POINT_MAGNIFICATION = 2.0**96
"""By how much; a power of two, so that nothing is rounded."""


def add_and_square(
    arrays: list[NDArray[np.floating]],
    share: NDArray[np.floating],
    columns: Range,
    update: NDArray[np.floating],
    into: tuple[Vector, NDArray[np.floating]],
) -> None:
    """Add share @ rows to the columns of the update, and write the squared lengths of the rows there.

    `arrays` is one matrix, or rows that lie by themselves. `into` is where the squares go, and scratch for a row of
    these columns: new memory would cost page faults.
    """
    span, at = slice(*columns), 0
    squares, part = into[0], into[1][: columns[1] - columns[0]]
    if len(arrays) > 1:
        part[:] = 0.0
    for array in arrays:
        block = array[:, span]
        np.vecdot(block, block, out=squares[at : at + len(block)])
        if len(arrays) == 1:
            np.matmul(share, block, out=part)
        else:
            _axpy(block[0], part, share[at])
        at += len(block)
    update[span] += part


def add_scaled(row: Tensor, weight: float, out: Tensor) -> None:
    """Add weight · row to `out`, on a CPU with BLAS, which reads and writes every number once."""
    if out.device.type == "cpu":
        _axpy(row.numpy(), out.numpy(), weight)
    else:
        out.add_(row, alpha=weight)


def _axpy(row: NDArray[np.floating], out: NDArray[np.floating], weight: float) -> None:
    """Add weight · row to `out`, wherever it lies: BLAS returns a copy if it is not one piece of memory."""
    axpy = saxpy if out.dtype == np.float32 else daxpy
    found = axpy(row, out, a=weight)
    if found is not out:
        out[:] = found


def subtract(block: Tensor, shift: Tensor | None, out: Tensor) -> None:
    """Write block − shift into `out`, on a CPU with numpy, which keeps to the calling thread."""
    if out.device.type != "cpu":
        out.copy_(block if shift is None else block - shift)
    elif shift is None:
        np.copyto(out.numpy(), block.numpy())
    else:
        np.subtract(block.numpy(), shift.numpy(), out=out.numpy())


def magnification(point: Tensor, pivot: Tensor | None) -> float:
    """Return by what a point's difference to the pivot must be multiplied so that products with it do not vanish.

    Products of float32 numbers below 2^-63 underflow. 1 unless all numbers are below 2^-50: then products with the
    largest usable row, whose numbers are below 2^64, stay far from overflow.
    """
    if point.dtype != torch.float32:
        return 1.0
    largest = max(_largest(vector) for vector in (point, pivot) if vector is not None)
    return POINT_MAGNIFICATION if largest < MAGNIFIED_BELOW else 1.0


def _largest(vector: Tensor) -> float:
    """Return the largest absolute value."""
    values = vector.numpy() if vector.device.type == "cpu" else vector
    return max(float(values.max()), -float(values.min()))


def gather(source: Tensor, indices: NDArray[np.intp], out: Tensor) -> None:
    """Write the entries at `indices` of the last axis into `out`, on a CPU with numpy."""
    if out.device.type == "cpu":
        out.numpy()[...] = source.numpy()[..., indices]
    else:
        out.copy_(source[..., torch.from_numpy(indices).to(out.device)])


def runs(mask: NDArray[np.bool_], longest: int) -> list[Range]:
    """Return ranges [start, stop) of consecutive True, none longer than `longest`.

    >>> runs(np.array([True, True, True, False, True]), 2)
    [(0, 2), (2, 3), (4, 5)]
    """
    edges = np.flatnonzero(np.diff(np.concatenate(([False], mask, [False])).astype(np.int8))).tolist()
    return [
        (start, min(start + longest, stop))
        for begin, stop in zip(edges[::2], edges[1::2], strict=True)
        for start in range(begin, stop, longest)
    ]
