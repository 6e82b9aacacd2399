"""Sources of columns: where the K x d matrix of updates lives, read in column blocks.

A row is a client, a column is a parameter. A tensor on any device and a numpy array (a memmap on disk among them) are
read where they are, a list of rows is never stacked, and a shard holds its slice of every row.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from steadfed._core.arrays import Matrix, Vector
from steadfed._linalg.blocks import Range, add_and_square, add_scaled, gather, magnification, runs, subtract
from steadfed._linalg.threads import in_order, num_workers

if TYPE_CHECKING:
    from steadfed._linalg.gram import Gram

SCRATCH_SHARE = 0.04
"""Scratch memory of one pass over the columns, as a share of the matrix itself."""
SCRATCH_FLOOR = 8 << 20
"""Bytes of scratch that are always granted, so that a small matrix is not read in slivers."""
SCRATCH_BLOCKS = 2
"""Blocks in memory at a time. The width of a block depends on this and not on the number of threads."""
WIDEST_BLOCK = 8192
"""Columns of one block; wider ones fall out of the cache (measured)."""
COMBINE_WIDTH = 65536
"""Columns of one block of the weighted pass, which needs no K-fold scratch."""
TWICE_READ_WIDTH = 32768
"""Columns of a block that is read from memory once and from the cache again."""
MOST_ROWS_SUMMED = 32
"""Rows of one product of the weighted pass; partial sums keep the rounding error from growing with K."""
SAMPLE_RUNS, SAMPLE_WIDTH = 8, 32
"""A sample is this many runs of this many neighbouring columns; single columns would touch a page of disk each."""
NUMPY_DTYPE = {torch.float32: np.float32, torch.float64: np.float64}


class Columns(ABC):
    """A K x d matrix of float32 or float64 that is read in column blocks."""

    num_rows: int
    num_columns: int
    dtype: torch.dtype
    device: torch.device
    known_usable: bool = False
    """Whether all rows are known to be usable without being read."""
    holder: int = 0
    """Which of those that hold columns this is."""

    @abstractmethod
    def centred(self, start: int, stop: int, pivot: Tensor | None, out: Tensor) -> None:
        """Write rows[:, start:stop] − pivot[start:stop] into `out`; without a pivot, the rows themselves."""

    @abstractmethod
    def row(self, index: int) -> Tensor:
        """Return row `index` as a view."""

    @abstractmethod
    def add_rows(self, weights: Vector, rows: Range, columns: Range, out: Tensor) -> None:
        """Add Σ weights_i · row_i over the consecutive `rows` in `columns` to `out`."""

    def rows_of(self, rows: Range) -> list[Tensor]:
        """Return the consecutive `rows` as matrices, as few as they lie in."""
        return [self.row(index)[None] for index in range(*rows)]

    def view(self, start: int, stop: int) -> Tensor | None:  # noqa: ARG002  none here, whatever the columns
        """Return rows[:, start:stop] where they lie, if they lie in one piece of memory."""
        return None

    def derived_gram(self) -> Gram | None:
        """Return the Gram matrix if it follows from another one without reading the rows: here, it does not."""
        return None

    def total(self, local: Vector) -> Vector:
        """Return the sum of `local` over all that hold columns: here, `local` itself."""
        return local

    def like(self, other: Columns) -> Columns:
        """Return `other` as held by all that hold these columns: here, `other` itself."""
        return other

    def agree(self, decided: Vector) -> Vector:
        """Return what all that hold columns act on: here, what was decided."""
        return decided

    def ranges(self, width: int) -> Iterator[Range]:
        """Yield the column ranges [start, stop) of blocks of `width`."""
        for start in range(0, self.num_columns, width):
            yield start, min(start + width, self.num_columns)

    def block_width(self) -> int:
        """Return the width of a block such that all blocks in memory stay within the scratch memory."""
        column = self.num_rows * self.dtype.itemsize
        budget = max(SCRATCH_FLOOR, int(SCRATCH_SHARE * column * self.num_columns))
        return max(1, min(budget // (SCRATCH_BLOCKS * column), WIDEST_BLOCK, self.num_columns))

    def in_place_width(self) -> int:
        """Return the width of a block that is read where it lies; a matrix of two blocks is one."""
        return self.num_columns if self.num_columns <= 2 * WIDEST_BLOCK else WIDEST_BLOCK

    def scan(
        self,
        pivot: Tensor | None,
        work: Callable[[Range, Tensor, Tensor], None],
        consume: Callable[[Range, Tensor], None],
        result: tuple[int, ...],
        *,
        read_only: bool = False,
    ) -> None:
        """Call `work(range, block − pivot, out)` side by side for every block, then `consume(range, out)` in order.

        `out` is scratch of shape `result`; a `work` with nothing to hand over may change the block and let `consume`
        read it by asking for no result, in which case `out` IS the block. A `work` that is `read_only` and has a result
        is given the rows where they lie if there is no pivot.
        """
        in_place = read_only and pivot is None and bool(result) and self.view(0, 1) is not None
        width = self.in_place_width() if in_place else self.block_width()
        num_slots = min(SCRATCH_BLOCKS, num_workers()) if self.device.type == "cpu" else 1
        size = (0,) if in_place else (self.num_rows * width,)
        slots = [(self.empty(size), self.empty(result) if result else None) for _ in range(num_slots)]

        def run(columns: Range, slot: tuple[Tensor, Tensor | None]) -> None:
            seen = self.view(*columns) if in_place else None
            block = self._block(slot[0], columns) if seen is None else seen
            with np.errstate(all="ignore"):  # NaN, Inf and overflow are what the caller looks for in the result
                if seen is None:
                    self.centred(*columns, pivot, block)
                work(columns, block, block if slot[1] is None else slot[1])

        def hand_over(columns: Range, slot: tuple[Tensor, Tensor | None]) -> None:
            with np.errstate(all="ignore"):
                consume(columns, self._block(slot[0], columns) if slot[1] is None else slot[1])

        in_order(run, self.ranges(width), slots, hand_over)

    def fold(
        self,
        pivot: Tensor | None,
        work: Callable[[Tensor, Tensor], None],
        result: tuple[int, ...],
        *,
        read_only: bool = True,
    ) -> Matrix:
        """Return Σ over all blocks, in float64 and in the order of the blocks, of what `work(block, out)` computes."""
        sums = self._zeros(result, torch.float64)

        def add(_: Range, out: Tensor) -> None:
            if self.device.type == "cpu":
                np.add(sums.numpy(), out.numpy(), out=sums.numpy())
            else:
                sums.add_(out)

        self.scan(pivot, lambda _, block, out: work(block, out), add, result, read_only=read_only)
        return self.total(sums.cpu().numpy())

    def products(self, pivot: Tensor | None, points: Sequence[Tensor]) -> Matrix:
        """Return ⟨g_i − pivot, point_j − pivot⟩ for all rows and points, K x r, in float64, in one pass."""
        size = (self.num_rows, len(points))
        sums = np.zeros(size)
        factors = np.array([magnification(point, pivot) for point in points])
        scale = torch.from_numpy(factors[:, None]).to(dtype=self.dtype, device=self.device)

        def work(columns: Range, block: Tensor, out: Tensor) -> None:
            target = self.empty((len(points), columns[1] - columns[0]))
            for point, row in zip(points, target, strict=True):
                subtract(point[slice(*columns)], None if pivot is None else pivot[slice(*columns)], row)
            if block.device.type == "cpu":
                np.multiply(target.numpy(), scale.numpy(), out=target.numpy())
                np.matmul(block.numpy(), target.numpy().T, out=out.numpy())
            else:
                torch.mm(block, (target * scale).T, out=out)

        def add(_: Range, out: Tensor) -> None:
            np.add(sums, out.cpu().numpy() / factors, out=sums)

        self.scan(pivot, work, add, size, read_only=True)
        return self.total(sums)

    def combine(self, weights: Vector) -> Tensor:
        """Return Σ_i weights_i · row_i over the rows with a weight; the others are never read.

        A weight of zero is not enough to keep a row out: 0 · NaN is NaN.
        """
        update = self.zero_row()
        parts = runs(weights != 0, MOST_ROWS_SUMMED)

        def work(columns: Range, _: None) -> None:
            for rows in parts:
                self.add_rows(weights[slice(*rows)], rows, columns, update[slice(*columns)])

        num_slots = num_workers() if self.device.type == "cpu" else 1
        in_order(work, self.ranges(COMBINE_WIDTH), [None] * num_slots, lambda *_: None)
        return update

    def squares(self) -> Vector:
        """Return ‖g_i‖² of every row, in float64; not finite where a square overflows the dtype of the rows."""

        def work(block: Tensor, out: Tensor) -> None:
            if block.device.type == "cpu":
                np.vecdot(block.numpy(), block.numpy(), out=out.numpy())
            else:
                torch.sum(block * block, dim=1, out=out)

        return self.fold(None, work, (self.num_rows,))

    def combine_with_squares(self, weights: Vector) -> tuple[Tensor, Vector]:
        """Return Σ_i weights_i · row_i over all rows, and ‖g_i‖²: one pass where rows can be read twice from the cache.

        A row that is not finite makes the combination so, as its square shows.
        """
        return self.combine(weights), self.squares()

    def zero_row(self) -> Tensor:
        """Return a row of zeros, where and as the rows are."""
        return self._zeros((self.num_columns,), self.dtype)

    def sample(self) -> Tensor:
        """Return a few runs of columns, evenly spread over the matrix."""
        last = max(0, self.num_columns - SAMPLE_WIDTH)
        starts = sorted({last * k // (SAMPLE_RUNS - 1) for k in range(SAMPLE_RUNS)})
        parts = []
        for start in starts:
            stop = min(start + SAMPLE_WIDTH, self.num_columns)
            parts.append(self.empty((self.num_rows, stop - start)))
            self.centred(start, stop, None, parts[-1])
        if self.device.type == "cpu":
            return torch.from_numpy(np.concatenate([part.numpy() for part in parts], axis=1))
        return torch.cat(parts, dim=1)

    def take(self, indices: NDArray[np.intp]) -> Tensor:
        """Return the columns at the increasing `indices`, K x b, as a tensor of their own."""
        taken = self.empty((self.num_rows, len(indices)))
        for start, stop in self.ranges(self.block_width()):
            first, last = np.searchsorted(indices, [start, stop]).tolist()
            if first < last:
                block = self.empty((self.num_rows, stop - start))
                self.centred(start, stop, None, block)
                gather(block, indices[first:last] - start, taken[:, first:last])
        return taken

    def _zeros(self, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """Return zeros; on a CPU made by numpy, as torch's own threads do not survive a fork of the process."""
        if self.device.type == "cpu":
            return torch.from_numpy(np.zeros(shape, dtype=NUMPY_DTYPE[dtype]))
        return torch.zeros(shape, dtype=dtype, device=self.device)

    def empty(self, shape: tuple[int, ...]) -> Tensor:
        """Return memory for numbers of the rows' kind; on a CPU numpy's, which asks for large pages."""
        if self.device.type == "cpu":
            return torch.from_numpy(np.empty(shape, dtype=NUMPY_DTYPE[self.dtype]))
        return torch.empty(shape, dtype=self.dtype, device=self.device)

    def _block(self, scratch: Tensor, columns: Range) -> Tensor:
        width = columns[1] - columns[0]
        return scratch[: self.num_rows * width].view(self.num_rows, width)


class HeldColumns(Columns, ABC):
    """Rows that lie in memory as they are."""

    def combine_with_squares(self, weights: Vector) -> tuple[Tensor, Vector]:
        """Return Σ_i weights_i · row_i over all rows, and ‖g_i‖²: each number is read from memory once."""
        if self.device.type != "cpu":
            return super().combine_with_squares(weights)
        update, squares = self.zero_row(), np.zeros(self.num_rows)
        parts = runs(np.ones(self.num_rows, dtype=bool), MOST_ROWS_SUMMED)
        blocks = [[part.numpy() for part in self.rows_of(rows)] for rows in parts]
        shares = [weights[slice(*rows)].astype(NUMPY_DTYPE[self.dtype]) for rows in parts]

        def work(columns: Range, slot: tuple[Vector, Vector]) -> None:
            with np.errstate(all="ignore"):
                for rows, arrays, share in zip(parts, blocks, shares, strict=True):
                    into = slot[0][slice(*rows)], slot[1]
                    add_and_square(arrays, share, columns, update.numpy(), into)

        def consume(_: Range, slot: tuple[Vector, Vector]) -> None:
            np.add(squares, slot[0], out=squares)

        slots = [(np.empty(self.num_rows), self.empty((TWICE_READ_WIDTH,)).numpy()) for _ in range(num_workers())]
        in_order(work, self.ranges(TWICE_READ_WIDTH), slots, consume)
        return update, squares


class DenseColumns(HeldColumns):
    """A K x d tensor, on any device."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor
        self.num_rows, self.num_columns = tensor.shape
        self.dtype, self.device = tensor.dtype, tensor.device

    def centred(self, start: int, stop: int, pivot: Tensor | None, out: Tensor) -> None:
        """Write rows[:, start:stop] − pivot[start:stop] into `out`."""
        subtract(self.tensor[:, start:stop], None if pivot is None else pivot[start:stop], out)

    def view(self, start: int, stop: int) -> Tensor | None:
        """Return the columns as a view if each row is one piece of memory, as BLAS wants it."""
        return self.tensor[:, start:stop] if self.tensor.stride(1) == 1 else None

    def row(self, index: int) -> Tensor:
        """Return row `index` as a view."""
        return self.tensor[index]

    def rows_of(self, rows: Range) -> list[Tensor]:
        """Return the consecutive `rows` as a view."""
        return [self.tensor[slice(*rows)]]

    def take(self, indices: NDArray[np.intp]) -> Tensor:
        """Return the columns at `indices`, reading nothing else."""
        taken = self.empty((self.num_rows, len(indices)))
        gather(self.tensor, indices, taken)
        return taken

    def add_rows(self, weights: Vector, rows: Range, columns: Range, out: Tensor) -> None:
        """Add Σ weights_i · row_i over the consecutive `rows` in `columns` to `out`."""
        block = self.tensor[slice(*rows), slice(*columns)]
        factors = torch.from_numpy(weights).to(block)
        if out.device.type == "cpu":
            out.numpy()[:] += factors.numpy() @ block.numpy()
        else:
            out.addmv_(block.T, factors)


class RowColumns(HeldColumns):
    """K tensors of d numbers each, wherever they lie; never stacked."""

    def __init__(self, rows: Sequence[Tensor]) -> None:
        self.rows = list(rows)
        self.num_rows, self.num_columns = len(self.rows), self.rows[0].shape[0]
        self.dtype, self.device = self.rows[0].dtype, self.rows[0].device
        self._arrays = [row.numpy() for row in self.rows] if self.device.type == "cpu" else []

    def centred(self, start: int, stop: int, pivot: Tensor | None, out: Tensor) -> None:
        """Write rows[:, start:stop] − pivot[start:stop] into `out`."""
        shift = None if pivot is None else pivot[start:stop]
        if self.device.type != "cpu":
            for row, target in zip(self.rows, out, strict=True):
                subtract(row[start:stop], shift, target)
            return
        away = 0.0 if shift is None else shift.numpy()
        for array, place in zip(self._arrays, out.numpy(), strict=True):
            np.subtract(array[start:stop], away, out=place)

    def row(self, index: int) -> Tensor:
        """Return row `index` itself."""
        return self.rows[index]

    def take(self, indices: NDArray[np.intp]) -> Tensor:
        """Return the columns at `indices`, reading nothing else."""
        taken = self.empty((self.num_rows, len(indices)))
        for row, target in zip(self.rows, taken, strict=True):
            gather(row, indices, target)
        return taken

    def add_rows(self, weights: Vector, rows: Range, columns: Range, out: Tensor) -> None:
        """Add Σ weights_i · row_i over the consecutive `rows` in `columns` to `out`."""
        part = self._zeros((len(out),), self.dtype)  # summed by itself, so that rounding errors do not grow with K
        for weight, row in zip(weights.tolist(), self.rows[slice(*rows)], strict=True):
            add_scaled(row[slice(*columns)], weight, part)
        add_scaled(part, 1.0, out)
