r"""A count-sketch of the columns: K² m instead of K² d multiplications, for cohorts of many clients.

Column j is multiplied by a random sign and added to one of m buckets. For the sketch matrix S (d x m),
E⟨xS, yS⟩ = ⟨x, y⟩ and Var‖xS‖² ≤ 2 ‖x‖⁴ / m, whatever the dimension d.

Buckets are not drawn column by column, which no memory system likes: a run of at most m neighbouring columns goes to
neighbouring buckets (modulo m) from a random offset per run. Then two columns collide with probability 1/m (different
runs) or never (same run), and the signs are independent, which is all that the variance bound uses: in
E(‖xS‖² − ‖x‖²)² = E(Σ_{j≠k} s_j s_k 1[h_j = h_k] x_j x_k)² only the terms with equal pairs survive the signs, and they
sum to 2 Σ_{j≠k} Pr[h_j = h_k] x_j² x_k² ≤ 2 ‖x‖⁴ / m.
"""

from __future__ import annotations

import hashlib

import numpy as np
import torch
from torch import Tensor

from steadfed._core.rng import stream
from steadfed._linalg.columns import Columns, DenseColumns, Range
from steadfed._linalg.gram import Gram, pivoted_gram, squared_norms


def sketched_gram(columns: Columns, buckets_per_row: int) -> Gram:
    """Return the Gram matrix of the rows after a count-sketch to m = buckets_per_row · K columns.

    The signs are keyed by what the rows hold in a sample of columns, so they are not known to a client before every
    update has arrived; a client who sees all other updates can compute them. Rows that cancel in the sketch are found
    by their norm, and bring back the exact Gram matrix.
    """
    num_buckets = buckets_per_row * columns.num_rows
    too_wide = columns.total(np.array([float(columns.num_columns > num_buckets)]))[0]
    if not too_wide:  # on every holder of columns, so that all take the same way
        return pivoted_gram(columns)
    rng = stream(_fingerprint(columns), "sketch")
    signs = torch.from_numpy(rng.integers(0, 2, columns.num_columns, dtype=np.int8) * np.int8(2) - np.int8(1))
    signs = signs.to(columns.dtype).to(columns.device)
    sums = torch.zeros((columns.num_rows, num_buckets), dtype=columns.dtype, device=columns.device)

    def multiply(columns_range: Range, block: Tensor, _: Tensor) -> None:
        sign = signs[slice(*columns_range)]
        if block.device.type == "cpu":
            np.multiply(block.numpy(), sign.numpy(), out=block.numpy())
        else:
            block.mul_(sign)

    def add(_: Range, block: Tensor) -> None:
        for start in range(0, block.shape[1], num_buckets):
            run = block[:, start : start + num_buckets]
            offset = int(rng.integers(num_buckets))
            before = min(run.shape[1], num_buckets - offset)
            sums[:, offset : offset + before] += run[:, :before]
            sums[:, : run.shape[1] - before] += run[:, before:]

    columns.scan(None, multiply, add, ())
    sketched = columns.like(DenseColumns(sums))
    return pivoted_gram(sketched if _keeps_norms(columns, sketched) else columns)


def _keeps_norms(columns: Columns, sketched: Columns) -> bool:
    """Tell whether every row has about the same norm before and after.

    Large numbers of opposite sign in one bucket cancel. By chance the squared norm errs by √(2/m); a row that errs far
    more was made to fit the sketch, and the Gram matrix is computed exactly.
    """
    before, after = squared_norms(columns), squared_norms(sketched)
    finite = np.isfinite(before)
    if not np.array_equal(finite, np.isfinite(after)):
        return False
    allowed = 10.0 * np.sqrt(2.0 / sketched.num_columns) * before[finite]
    return bool((np.abs(after[finite] - before[finite]) <= allowed).all())


def _fingerprint(columns: Columns) -> int:
    """Return a number that depends on every row."""
    sample = np.ascontiguousarray(columns.sample().cpu().numpy())
    return int.from_bytes(hashlib.blake2b(sample.tobytes(), digest_size=8).digest(), "little")
