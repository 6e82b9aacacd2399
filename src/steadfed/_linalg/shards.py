"""Columns spread over the processes of `torch.distributed`: each rank holds its slice of all K rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor

from steadfed._core.arrays import Vector
from steadfed._linalg.blocks import Range
from steadfed._linalg.columns import Columns
from steadfed._linalg.sources import as_columns
from steadfed.errors import DtypeError, InputError, ShapeError


class ShardedColumns(Columns):
    """This rank's slice of the columns. Every rank calls the aggregator and gets its slice of the update.

    The K x K matrix is the sum of the ranks' own and is all-reduced in float64; the rest of the work is repeated by
    every rank on the same bits, and the weights of rank 0 are the ones all ranks apply.
    """

    def __init__(self, local: Any, group: dist.ProcessGroup | None = None) -> None:
        if not dist.is_available() or not dist.is_initialized():
            raise InputError("ShardedColumns needs torch.distributed.init_process_group first")
        self.group = group
        self.holder = dist.get_rank(group)
        self._first = 0 if group is None else dist.get_global_rank(group, 0)
        self.device = torch.device("cpu")
        failure: InputError | None = None
        try:
            self.local = as_columns(local)
            self.num_rows, self.num_columns = self.local.num_rows, self.local.num_columns
            self.dtype, self.device = self.local.dtype, self.local.device
        except InputError as error:
            failure = error  # raised below: the other ranks must not wait for this one
        self._check_ranks(failure)

    def centred(self, start: int, stop: int, pivot: Tensor | None, out: Tensor) -> None:
        """Write this rank's rows[:, start:stop] − pivot[start:stop] into `out`."""
        self.local.centred(start, stop, pivot, out)

    def view(self, start: int, stop: int) -> Tensor | None:
        """Return this rank's columns where they lie, if they lie in one piece of memory."""
        return self.local.view(start, stop)

    def row(self, index: int) -> Tensor:
        """Return this rank's slice of row `index`."""
        return self.local.row(index)

    def add_rows(self, weights: Vector, rows: Range, columns: Range, out: Tensor) -> None:
        """Add Σ weights_i · row_i over the consecutive `rows` in this rank's `columns` to `out`."""
        self.local.add_rows(weights, rows, columns, out)

    def take(self, indices: NDArray[np.intp]) -> Tensor:
        """Return this rank's columns at `indices` of its slice."""
        return self.local.take(indices)

    def combine_with_squares(self, weights: Vector) -> tuple[Tensor, Vector]:
        """Return this rank's slice of Σ_i weights_i · row_i, and ‖g_i‖² over all ranks."""
        update, squares = self.local.combine_with_squares(weights)
        return update, self.total(squares)

    def total(self, local: Vector) -> Vector:
        """Return the sum over all ranks, the same bits on each."""
        summed = self._carried(local)
        dist.all_reduce(summed, group=self.group)
        return self._from_first(summed)

    def like(self, other: Columns) -> Columns:
        """Return this rank's `other` as a shard of the same group."""
        return ShardedColumns(other, self.group)

    def agree(self, decided: Vector) -> Vector:
        """Return what rank 0 decided."""
        return self._from_first(self._carried(decided))

    def _from_first(self, carried: Tensor) -> Vector:
        dist.broadcast(carried, src=self._first, group=self.group)
        return np.asarray(carried.cpu().numpy())

    def _carried(self, array: Vector) -> Tensor:
        """Return a copy where the group's backend can reach it: NCCL wants the accelerator, gloo the CPU."""
        backend = dist.get_backend(self.group)
        return torch.from_numpy(np.array(array)).to(self.device if backend == "nccl" else "cpu")

    def _check_ranks(self, failure: InputError | None) -> None:
        """Raise on every rank if one has no valid slice, or the ranks hold different numbers of rows or dtypes."""
        here = np.zeros(2) if failure else np.array([self.num_rows, self.dtype.itemsize], dtype=float)
        ranks = dist.get_world_size(self.group)
        mean, square = self.total(here) / ranks, self.total(here**2) / ranks
        if failure is not None:
            raise failure
        if not np.allclose(square, mean**2, rtol=1e-12):
            raise (ShapeError if square[0] != mean[0] ** 2 else DtypeError)(
                f"every rank must hold a slice of the same updates in one dtype; here {self.num_rows} x {self.dtype}"
            )
