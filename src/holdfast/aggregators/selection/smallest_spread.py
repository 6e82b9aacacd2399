"""Smallest-maximum-eigenvalue averaging, over all subsets."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import combinations, islice
from typing import ClassVar, final

import numpy as np
from numpy.typing import NDArray

from holdfast.aggregators.base import BoundedAggregator, aggregation_of, usable_bound
from holdfast.aggregators.centre.weiszfeld import distances_to_combination
from holdfast.aggregators.evidence import Aggregation, Stop
from holdfast.aggregators.view import ServerView
from holdfast.errors import TooManySubsetsError
from holdfast.linalg.columns import Columns, Matrix, Vector
from holdfast.linalg.gram import pivoted_gram

MOST_SUBSETS = 200_000
"""Subsets that are looked at, before the rule refuses."""
BATCH_ENTRIES = 1 << 20
"""Entries of the matrices that are looked at together."""

ROUNDING = 1e-9
"""By this share a bound may lie above the eigenvalue that it bounds."""

Subset = NDArray[np.intp]


@final
class SmallestSpread(BoundedAggregator):
    """The average of the n − f rows whose covariance has the smallest top eigenvalue (Allouah et al. 2023, SMEA).

    Of all subsets S of n − f rows the one with the smallest λ(S), the largest eigenvalue of the covariance of its rows.
    It needs n > 2f. If the honest rows are H, |H| = n − f, then

        ‖update − mean of H‖ ≤ 2 √(f / (n − 2f)) √λ(H) .

    For any set A with spread λ and any part B of it that lacks the share δ of A, ‖mean of A − mean of B‖² is at most
    λ δ / (1 − δ) (along the difference of the means, the variance of A is at least that between B and the rest). S and
    H share a part that lacks at most δ = f / (n − f) of either, so δ / (1 − δ) ≤ f / (n − 2f), and λ(S) ≤ λ(H) because
    H is one of the subsets. The score of a row is its distance to the update.

    The search is exact: it looks at all C(n, f) subsets, and refuses above 200,000. The covariance of S has the
    non-zero eigenvalues of its centred Gram matrix M, divided by n − f, so subsets cost nothing that grows with d. As
    Σ λ_k² ≤ λ_max Σ λ_k, the eigenvalues of a subset are needed only if ‖M‖² / tr M is below the best so far.

    Deviations from the paper: of equal spreads the subset that comes first, in the order of the rows, is taken.
    Unusable rows are dropped and counted against f.

    >>> import torch
    >>> SmallestSpread(num_byzantine=1)(torch.tensor([[1.0], [1.1], [1.3], [0.8], [90.0]])).update
    tensor([1.0500])
    """

    citation: ClassVar[str] = "Allouah et al. 2023, SMEA"

    def smallest_cohort(self, num_byzantine: int) -> int:
        """Return 2f + 1."""
        return 2 * num_byzantine + 1

    def aggregate(self, columns: Columns, num_byzantine: int, view: ServerView) -> Aggregation:
        """Search in the Gram matrix and average the subset found."""
        gram = pivoted_gram(columns)
        bound = min(usable_bound(num_byzantine, gram.usable), len(gram.matrix) - 1)
        self._refuse_too_many(len(gram.matrix), bound)
        kept, scatter, solved = smallest_scatter(gram.matrix, bound)
        weights = np.zeros(len(gram.matrix))
        weights[kept] = 1.0 / len(kept)
        return aggregation_of(
            columns,
            gram,
            weights,
            scores=distances_to_combination(gram.matrix, weights),
            stop=Stop.SUBSET,
            num_byzantine=num_byzantine,
            spread=scatter / len(kept),
            num_eigensolves=solved,
        )

    def _refuse_too_many(self, num_rows: int, num_byzantine: int) -> None:
        number = math.comb(num_rows, num_byzantine)
        if number > MOST_SUBSETS:
            msg = (
                f"{self!r} would look at {number} subsets of {num_rows} usable rows without {num_byzantine} of them; "
                f"at most {MOST_SUBSETS} are allowed: aggregate fewer rows, assume fewer Byzantine ones, or use 'caf' "
                f"or 'rage', which filter by the same spread without trying subsets"
            )
            raise TooManySubsetsError(msg)


def smallest_scatter(gram: Matrix, num_left_out: int) -> tuple[Subset, float, int]:
    """Return the subset with the smallest top eigenvalue of its centred Gram matrix, this, and how many were solved.

    In every batch the subset of the lowest bound is solved first; the others only if their bound is not above it.
    """
    best, kept, solved = np.inf, np.arange(len(gram) - num_left_out), 0
    for subsets in _batches(len(gram), num_left_out):
        centred = _centred(gram, subsets)
        bounds = _lower_bounds(centred)
        limit = min(best, float(_tops(centred[[int(np.argmin(bounds))]])[0]))
        promising = np.flatnonzero(bounds <= limit * (1.0 + ROUNDING))
        solved += 1 + len(promising)
        tops = _tops(centred[promising])
        if len(tops) and tops.min() < best:
            best, kept = float(tops.min()), subsets[promising[int(np.argmin(tops))]]
    return kept, best, solved


def _batches(num_rows: int, num_left_out: int) -> Iterator[NDArray[np.intp]]:
    """Yield all subsets in batches, one subset per row, in the order of `itertools.combinations`."""
    number = num_rows - num_left_out
    left_out = combinations(reversed(range(num_rows)), num_left_out)
    while batch := list(islice(left_out, max(1, BATCH_ENTRIES // number**2))):
        stays = np.ones((len(batch), num_rows), dtype=bool)
        np.put_along_axis(stays, np.array(batch, dtype=np.intp).reshape(len(batch), num_left_out), values=False, axis=1)
        yield np.nonzero(stays)[1].reshape(len(batch), number)


def _centred(gram: Matrix, subsets: NDArray[np.intp]) -> Matrix:
    """Return the Gram matrix of every subset about its own mean."""
    inner = gram[subsets[:, :, None], subsets[:, None, :]]
    to_mean = inner.mean(axis=2)
    inner -= to_mean[:, None, :]
    inner -= (to_mean - to_mean.mean(axis=1, keepdims=True))[:, :, None]
    return inner


def _lower_bounds(centred: Matrix) -> Vector:
    """Return ‖M‖² / tr M ≤ λ_max of every matrix; entries are divided first, as their squares might overflow."""
    traces = np.maximum(np.trace(centred, axis1=1, axis2=2), 0.0)
    shares = centred / np.where(traces > 0.0, traces, 1.0)[:, None, None]
    return np.where(traces > 0.0, traces * np.einsum("bij,bij->b", shares, shares), 0.0)


def _tops(centred: Matrix) -> Vector:
    """Return the largest eigenvalue of every matrix."""
    return np.asarray(np.maximum(np.linalg.eigvalsh(centred)[:, -1], 0.0))
