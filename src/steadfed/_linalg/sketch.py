r"""A sketch of the columns: the Gram matrix of K rows at the price of one pass over memory.

Column j gets a random sign s_j and one of m buckets, and row x becomes xS, whose entry b is the sum of s_j x_j over the
columns in bucket b. For vectors that were fixed before the key was drawn, E⟨xS, yS⟩ = ⟨x, y⟩ and Var‖xS‖² ≤ 2 ‖x‖⁴ / m,
whatever the dimension d (docs/theory/filter.md, section 8).

Buckets are not drawn column by column, which no memory system likes: a run of m neighbouring columns goes to
neighbouring buckets (modulo m) from a random offset per run. Two columns collide with probability 1/m (different runs)
or never (same run), and the signs are independent, which is all that the variance bound uses. Signs are not multiplied
with columns, either, but with what the buckets hold: before run r is added, bucket b is flipped by t_rb = ±1, and the
sign of a column of run q in bucket b is the product of t_rb over r > q. That of the last run is +1 and the others are
independent; a sign that all columns of a bucket have in common changes no inner product.

The key is a secret of the server, drawn when all rows are in. Who knew it could hide: +a and −a in two columns of one
bucket leave no trace. Without it, that succeeds with probability 1/(2m); and what has cancelled is found, because the
combination that a rule decides on must be as long before the sketch as after it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from steadfed._core.arrays import Matrix, Vector
from steadfed._core.rng import stream
from steadfed._linalg.blocks import Range, add_scaled, subtract
from steadfed._linalg.columns import COMBINE_WIDTH, NUMPY_DTYPE, Columns, DenseColumns, RowColumns
from steadfed._linalg.gram import Gram, dot, pivoted_gram, squared_norms
from steadfed._linalg.threads import in_order, num_workers
from steadfed.errors import NoUsableRowError

Array = TypeVar("Array", Tensor, NDArray[np.floating])

BUCKETS = 32_752
"""m up to 200 rows. Not a power of two, or the rows of the sketch would fight for the same lines of the cache."""
MANY_ROWS = 200
BUCKETS_PER_ROW = 16
FEWEST_BUCKETS = 16_368
"""m above 200 rows is 16 K, between this and `BUCKETS`: the product of the sketch with itself costs K² m there."""
FEWEST_ROWS = {1: 16, 2: 40}
"""Rows from which one sketch, or two, are cheaper than the exact product (measured)."""
SHRINKS_BY = 4
"""A sketch pays if a row has at least this many times as many columns as the sketch."""
MOST_ROWS_AT_ONCE = 24
"""Rows that one task adds up; fewer take longer, as they share what it takes to begin (measured)."""
CANCELLING = 10.0
"""Standard deviations by which the squared length of a combination may change in the sketch."""
LARGEST_ROUNDING = 3e-3
"""Squared distances may err by this share because sums of rows with a common offset are rounded."""


class SketchFailsError(Exception):
    """The sketch does not show these rows as they are: the Gram matrix must be computed exactly. Never seen outside."""


@dataclass(frozen=True)
class SketchKey:
    """Where signs and buckets come from."""

    secret: int
    number: int
    """Keys of one secret are numbered; they are independent of each other."""
    holder: int = 0
    """Which of those that hold columns: each has signs of its own."""

    def flips(self, num_runs: int, num_buckets: int, dtype: torch.dtype) -> Tensor:
        """Return +1 or −1 for every bucket and every run but the first, eight from each byte of the stream."""
        size = (num_runs - 1) * num_buckets
        drawn = stream(self.secret, "sketch", self.number, "signs", self.holder).bytes(-(-size // 8))
        octets = np.frombuffer(drawn, dtype=np.uint8)
        table = 1.0 - 2.0 * np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little")
        flips = np.empty((len(octets), 8), dtype=NUMPY_DTYPE[dtype])
        np.take(table.astype(flips.dtype), octets, axis=0, out=flips, mode="clip")  # "clip" writes in place, no copy
        return torch.from_numpy(flips.reshape(-1)[:size].reshape(num_runs - 1, num_buckets))

    def offsets(self, num_runs: int, num_buckets: int) -> list[int]:
        """Return the bucket at which each run of columns begins."""
        rng = stream(self.secret, "sketch", self.number, "offsets", self.holder)
        return [int(offset) for offset in rng.integers(0, num_buckets, num_runs)]


def buckets_for(num_rows: int) -> int:
    """Return m, by what decisions and spreads were measured to need (benchmarks/README.md)."""
    return BUCKETS if num_rows <= MANY_ROWS else min(BUCKETS, max(FEWEST_BUCKETS, BUCKETS_PER_ROW * num_rows))


def is_cheaper(num_rows: int, num_columns: int, passes: int) -> bool:
    """Tell whether so many sketches of a matrix are cheaper than its exact Gram matrix."""
    return passes > 0 and num_rows >= FEWEST_ROWS[passes] and num_columns >= SHRINKS_BY * buckets_for(num_rows)


def sketch_pays(columns: Columns, passes: int) -> bool:
    """Tell whether so many sketches are cheaper for all that hold columns."""
    here = is_cheaper(columns.num_rows, columns.num_columns, passes)
    return not columns.total(np.array([float(not here)]))[0]


def sketch_rows(columns: Columns, key: SketchKey, num_buckets: int) -> Tensor:
    """Return xS for every row x, K x m, in one pass that reads every number once.

    Each row is summed on its own, run after run, so its bits depend neither on other rows nor on threads. A NaN or an
    Inf reaches the sketch of its own row and no other.
    """
    starts = range(0, columns.num_columns, num_buckets)
    flips = key.flips(len(starts), num_buckets, columns.dtype).to(columns.device)
    pieces = list(_pieces(columns.num_columns, key.offsets(len(starts), num_buckets), num_buckets))
    sums = columns.empty((columns.num_rows, num_buckets))
    if columns.num_columns < num_buckets:
        sums.zero_()

    def work(rows: Range, _: None) -> None:
        parts, out = columns.rows_of(rows), sums[slice(*rows)]
        if out.device.type == "cpu":  # numpy keeps to the calling thread
            _add_runs([part.numpy() for part in parts], flips.numpy(), pieces, out.numpy())
        else:
            _add_runs(parts, flips, pieces, out)

    num_slots = num_workers() if columns.device.type == "cpu" else 1
    height = min(MOST_ROWS_AT_ONCE, -(-columns.num_rows // num_slots))
    groups = [(at, min(at + height, columns.num_rows)) for at in range(0, columns.num_rows, height)]
    in_order(work, groups, [None] * num_slots, lambda *_: None)
    return sums


def _pieces(num_columns: int, offsets: list[int], num_buckets: int) -> Iterator[list[tuple[Range, Range]]]:
    """Yield for every run of m columns which of them go to which buckets: two pieces where it wraps around."""
    for start, offset in zip(range(0, num_columns, num_buckets), offsets, strict=True):
        stop = min(start + num_buckets, num_columns)
        cut = min(start + num_buckets - offset, stop)
        wrapped = [((cut, stop), (0, stop - cut))] if cut < stop else []
        yield [((start, cut), (offset, offset + cut - start)), *wrapped]


def _add_runs(rows: list[Array], flips: Array, pieces: list[list[tuple[Range, Range]]], sums: Array) -> None:
    """Write the signed sums of a few rows: the first run fills the buckets, each other one flips them and is added."""
    with np.errstate(all="ignore"):
        for run, both in enumerate(pieces):
            if run:
                sums *= flips[run - 1]
            for (start, stop), (first, last) in both:
                at = 0
                for part in rows:
                    target = sums[at : at + len(part), first:last]
                    if run:
                        target += part[:, start:stop]
                    else:
                        target[:] = part[:, start:stop]
                    at += len(part)


@final
class SketchedColumns(Columns):
    """Rows whose Gram matrix is that of their sketch. Everything else is read where it lies.

    Every combination of rows that is handed out was compared with the same combination of the sketch.
    """

    def __init__(self, base: Columns, secret: int, number: int = 0) -> None:
        """Sketch the rows of `base` with key `number` of a secret that nobody knew when the rows were sent."""
        self.base, self.secret, self.number = base, secret, number
        self.num_rows, self.num_columns = base.num_rows, base.num_columns
        self.dtype, self.device = base.dtype, base.device
        self.num_buckets = buckets_for(base.num_rows)

    @property
    def key(self) -> SketchKey:
        """Where the signs and buckets of these columns come from."""
        return SketchKey(self.secret, self.number, self.base.holder)

    def with_fresh_key(self) -> SketchedColumns:
        """Return the same rows under the next key, for what was decided with this one."""
        return SketchedColumns(self.base, self.secret, self.number + 1)

    @cached_property
    def sketch(self) -> Columns:
        """The K x m rows of the sketch."""
        return self.base.like(DenseColumns(sketch_rows(self.base, self.key, self.num_buckets)))

    @cached_property
    def _gram(self) -> Gram:
        try:
            return replace(pivoted_gram(self.sketch), num_buckets=self.num_buckets)
        except NoUsableRowError:  # sums of rows overflow before the rows themselves do
            raise SketchFailsError from None

    def derived_gram(self) -> Gram:
        """Return the Gram matrix of the sketch about a pivot of its own.

        Raises:
            SketchFailsError: the rows have so large an offset in common that its rounding shows in their distances.
        """
        if self._gram.pivot != "origin":
            self._check_rounding()
        return self._gram

    def combine(self, weights: Vector) -> Tensor:
        """Return Σ_i weights_i · row_i.

        Raises:
            SketchFailsError: its length differs from that in the sketch by more than chance explains.
        """
        update = self.base.combine(weights)
        centre = int(np.flatnonzero(self._gram.usable)[self._gram.matrix.diagonal().argmin()])
        mass = float(weights.sum())
        before = _squared_distance(self.base, update, self.base.row(centre), mass)
        after = _squared_distance(self.sketch, self.sketch.combine(weights), self.sketch.row(centre), mass)
        if not abs(before - after) <= CANCELLING * np.sqrt(2.0 / self.num_buckets) * after:
            raise SketchFailsError
        return update

    def products(self, pivot: Tensor | None, points: Sequence[Tensor]) -> Matrix:
        """Return ⟨g_i − pivot, point_j − pivot⟩ as the sketch shows them; the pivot may be a row of the sketch."""
        seen = None if pivot is None or len(pivot) == self.num_buckets else self._sketch_of([pivot])[0]
        return self.sketch.products(pivot if seen is None else seen, list(self._sketch_of(points)))

    def like(self, other: Columns) -> Columns:
        """Return `other` as held by all that hold these columns; sketched, if it has the same columns."""
        held = self.base.like(other)
        if other.num_columns != self.num_columns:
            return held
        sketched = SketchedColumns(held, self.secret, self.number)
        sketched.num_buckets = self.num_buckets
        return sketched

    def centred(self, start: int, stop: int, pivot: Tensor | None, out: Tensor) -> None:
        """Write rows[:, start:stop] − pivot[start:stop] into `out`."""
        self.base.centred(start, stop, pivot, out)

    def view(self, start: int, stop: int) -> Tensor | None:
        """Return the columns where they lie, if they lie in one piece of memory."""
        return self.base.view(start, stop)

    def row(self, index: int) -> Tensor:
        """Return row `index`."""
        return self.base.row(index)

    def add_rows(self, weights: Vector, rows: Range, columns: Range, out: Tensor) -> None:
        """Add Σ weights_i · row_i over the consecutive `rows` in `columns` to `out`."""
        self.base.add_rows(weights, rows, columns, out)

    def take(self, indices: NDArray[np.intp]) -> Tensor:
        """Return the columns at `indices`."""
        return self.base.take(indices)

    def total(self, local: Vector) -> Vector:
        """Return the sum over all that hold columns."""
        return self.base.total(local)

    def agree(self, decided: Vector) -> Vector:
        """Return what all that hold columns act on."""
        return self.base.agree(decided)

    def _sketch_of(self, points: Sequence[Tensor]) -> Tensor:
        return sketch_rows(RowColumns(points), self.key, self.num_buckets)

    def _check_rounding(self) -> None:
        """Raise if rounded sums of an offset that all rows share may be taken for distances.

        A bucket is a sum of B numbers of size o with random signs, each partial sum rounded by u/√3 of itself: its
        error has a variance of u² o² B² / 6. That of two rows adds u² B ‖x‖² / 3 to their squared distance.
        """
        runs = float(self.total(np.array([self.num_columns / self.num_buckets]))[0])  # so that all holders agree
        unit = torch.finfo(self.dtype).eps / 2.0
        norm = float(np.median(squared_norms(self.sketch)[self._gram.usable]))
        distance = float(np.median(self._gram.matrix.diagonal()))
        if not unit**2 * runs * norm / 3.0 <= LARGEST_ROUNDING * distance:
            raise SketchFailsError


def _squared_distance(columns: Columns, vector: Tensor, centre: Tensor, mass: float) -> float:
    """Return ‖vector − mass · centre‖² in float64, in one pass over both; not finite where a square overflows."""
    total = 0.0
    with np.errstate(all="ignore"):
        for start in range(0, len(vector), COMBINE_WIDTH):
            span = slice(start, start + COMBINE_WIDTH)
            difference = torch.empty_like(vector[span])
            subtract(vector[span], None, difference)
            add_scaled(centre[span], -mass, difference)
            total += dot(difference)
    return float(columns.total(np.array([total]))[0])
