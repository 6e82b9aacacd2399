"""Smallest-maximum-eigenvalue averaging, over all subsets."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, islice
from typing import ClassVar, final

import numpy as np
from numpy.typing import NDArray

from steadfed._core.arrays import Matrix, Vector
from steadfed._linalg.columns import Columns
from steadfed._linalg.gram import pivoted_gram
from steadfed._linalg.spectrum import eigen_directions
from steadfed._linalg.weiszfeld import distances_to_combination
from steadfed.aggregators._base import BoundedAggregator, GramAggregator, aggregation_of, usable_bound
from steadfed.aggregators._evidence import Aggregation, Stop
from steadfed.aggregators._registry import RULES
from steadfed.aggregators._view import ServerView
from steadfed.errors import TooManySubsetsError

MOST_SUBSETS = 200_000
"""Subsets that are looked at, before the rule refuses."""
MOST_WORK = 10**10
"""Work of the eigenvalues of all subsets, before the rule refuses: rows of which no bound spares a subset take some
seconds then."""
OVERHEAD = 40
"""The eigenvalues of m rows take as long as (m + 40) m² units of work."""
BATCH_ENTRIES = 1 << 16
"""Rows of all subsets that are bounded together."""
SOLVED_TOGETHER = 32
"""Subsets whose eigenvalues are computed together."""
NUM_DIRECTIONS = 8
"""Directions along which the spread of a subset is bounded from below."""

ROUNDING = 1e-8
"""By this share a bound may lie above the eigenvalue that it bounds."""

Subset = NDArray[np.intp]


@RULES.register("smea")
@final
class SmallestSpread(BoundedAggregator, GramAggregator):
    """The average of the n − f rows whose covariance has the smallest top eigenvalue (Allouah et al. 2023, SMEA).

    Of all subsets S of n − f rows the one with the smallest λ(S), the largest eigenvalue of the covariance of its rows.
    It needs n > 2f. If the honest rows are H, |H| = n − f, then

        ‖update − mean of H‖ ≤ 2 √(f / (n − 2f)) √λ(H) .

    For any set A with spread λ and any part B of it that lacks the share δ of A, ‖mean of A − mean of B‖² is at most
    λ δ / (1 − δ) (along the difference of the means, the variance of A is at least that between B and the rest). S and
    H share a part that lacks at most δ = f / (n − f) of either, so δ / (1 − δ) ≤ f / (n − 2f), and λ(S) ≤ λ(H) because
    H is one of the subsets. The score of a row is its distance to the update.

    The search is exact: it looks at all C(n, f) subsets. The covariance of S has the non-zero eigenvalues of its
    centred Gram matrix, divided by n − f, so subsets cost nothing that grows with d. λ(S) is at least the variance of S
    along any one direction, so the eigenvalues of a subset are needed only if its variances along a few directions are
    all below the best spread so far. Which rows come decides how many that spares, perhaps none, so n and f alone
    decide whether the rule refuses: above 200,000 subsets, or above 10¹⁰ units of work if all of them are solved, of
    (m + 40) m² for one of m = n − f rows. That goes up to
    109 rows with f = 2, 40 with f = 4 and 20 with f = 9.

    Deviations from the paper: it leaves open which of several subsets of equal spread is meant, and one of them is
    taken. Unusable rows are dropped and counted against f.

    >>> import torch
    >>> SmallestSpread(num_byzantine=1)(torch.tensor([[1.0], [1.1], [1.3], [0.8], [90.0]])).update
    tensor([1.0500])
    """

    citation: ClassVar[str] = "Allouah et al. 2023, SMEA"

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
        """Refuse by the numbers alone: who sends the rows must neither stop the rule nor keep it busy."""
        advice = (
            "aggregate fewer updates, assume fewer Byzantine ones, or use 'caf' or 'rage', which filter by the same "
            "spread without trying subsets"
        )
        search = f"subsets of {num_rows} usable updates without {num_byzantine} of them"
        if (number := num_subsets(num_rows, num_byzantine, MOST_SUBSETS)) is None:
            raise TooManySubsetsError(
                f"{self!r} would look at more than the {MOST_SUBSETS} {search} that are allowed: {advice}"
            )
        rows = num_rows - num_byzantine
        if (work := number * rows**2 * (rows + OVERHEAD)) > MOST_WORK:
            raise TooManySubsetsError(
                f"{self!r} would look at {number} {search}, which may take {work:.2g} units of work; at most "
                f"{MOST_WORK:.2g} are allowed: {advice}"
            )


def num_subsets(num_rows: int, num_left_out: int, most: int) -> int | None:
    """Return C(n, f), or None if that is more than `most`: it may have thousands of digits.

    >>> num_subsets(20, 9, 200_000), num_subsets(100_000, 50_000, 200_000)
    (167960, None)
    """
    number = 1
    for place in range(min(num_left_out, num_rows - num_left_out)):
        number = number * (num_rows - place) // (place + 1)
        if number > most:  # it grows with every place up to the middle
            return None
    return number


def smallest_scatter(gram: Matrix, num_left_out: int) -> tuple[Subset, float, int]:
    """Return the subset with the smallest top eigenvalue of its centred Gram matrix, this, and how many were solved.

    Subsets of a batch are solved in the order of their bounds, until the next bound is above the best. The directions
    that bound the next batch are those in which all rows spread most, and those in which the best subset does.
    """
    overall = _unit_directions(gram, np.ones(len(gram)))
    best, kept, solved, coordinates = np.inf, np.arange(len(gram) - num_left_out), 0, overall
    for subsets in _batches(len(gram), num_left_out):
        bounds = _scatter_along(coordinates, subsets)
        order = np.argsort(bounds, kind="stable")
        for start in range(0, len(order), SOLVED_TOGETHER):
            promising = order[start : start + SOLVED_TOGETHER]
            promising = promising[bounds[promising] <= best * (1.0 + ROUNDING)]
            if not len(promising):
                break
            tops = _tops(_centred(gram, subsets[promising]))
            solved += len(promising)
            if tops.min() < best:
                best, kept = float(tops.min()), subsets[promising[int(np.argmin(tops))]]
        weights = np.zeros(len(gram))
        weights[kept] = 1.0
        coordinates = np.hstack([overall, _unit_directions(gram, weights)])
    return kept, best, solved


def _unit_directions(gram: Matrix, weights: Vector) -> Matrix:
    """Return the rows' coordinates along the directions in which weighted rows spread most.

    Beside rows that are very far, rounding leaves too little of the weaker directions; only a direction whose length
    comes out as 1 bounds anything.
    """
    found = eigen_directions(gram, weights, NUM_DIRECTIONS)
    squared_length = np.einsum("ik,ik->k", found.coefficients, found.coordinates)
    return np.asarray(found.coordinates[:, np.abs(squared_length - 1.0) < ROUNDING / 2.0])


def _batches(num_rows: int, num_left_out: int) -> Iterator[NDArray[np.intp]]:
    """Yield all subsets in batches, one subset per row of a matrix."""
    number = num_rows - num_left_out
    left_out = combinations(reversed(range(num_rows)), num_left_out)
    while batch := list(islice(left_out, max(1, BATCH_ENTRIES // number))):
        stays = np.ones((len(batch), num_rows), dtype=bool)
        np.put_along_axis(stays, np.array(batch, dtype=np.intp).reshape(len(batch), num_left_out), values=False, axis=1)
        yield np.nonzero(stays)[1].reshape(len(batch), number)


def _scatter_along(coordinates: Matrix, subsets: NDArray[np.intp]) -> Vector:
    """Return the largest scatter of every subset along some directions: no direction has more than the top one."""
    bounds = np.zeros(len(subsets))
    for direction in coordinates.T:
        values = direction[subsets]
        values -= values.mean(axis=1, keepdims=True)
        np.maximum(bounds, np.einsum("bi,bi->b", values, values), out=bounds)
    return bounds


def _centred(gram: Matrix, subsets: NDArray[np.intp]) -> Matrix:
    """Return the Gram matrix of every subset about its own mean."""
    inner = gram[subsets[:, :, None], subsets[:, None, :]]
    to_mean = inner.mean(axis=2)
    inner -= to_mean[:, None, :]
    inner -= (to_mean - to_mean.mean(axis=1, keepdims=True))[:, :, None]
    return inner


def _tops(centred: Matrix) -> Vector:
    """Return the largest eigenvalue of every matrix."""
    return np.asarray(np.maximum(np.linalg.eigvalsh(centred)[:, -1], 0.0))
