"""CAF: the spectral filter that needs no bound on the spread, from the Gram matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from steadfed._core.arrays import Matrix, Vector
from steadfed._linalg.columns import Columns
from steadfed._linalg.gram import pivoted_gram
from steadfed._linalg.spectrum import BOUND_SLACK, leading_directions, negligible_scatter, scatter_is_below
from steadfed.aggregators._base import BoundedAggregator, GramAggregator, aggregation_of, usable_bound
from steadfed.aggregators._evidence import Aggregation, Stop
from steadfed.aggregators._rage.filtering import MASS_ROUNDING, scatter_along
from steadfed.aggregators._registry import RULES
from steadfed.aggregators._view import ServerView

DUST = 1e-12
"""A weight below this is none: equally far rows lose theirs at once, but for what rounding leaves."""


@RULES.register("caf")
@final
class Caf(BoundedAggregator, GramAggregator):
    r"""Of the means that a spectral filter passes on its way, the one of smallest spread (Allouah et al. 2025, CAF).

    Weights c start at 1. While Σ c > n − 2f: with the weighted mean ḡ_c, the top eigenpair (λ, v) of the weighted
    covariance and τ_i = ⟨v, g_i − ḡ_c⟩², the mean is remembered if λ is the smallest so far, and
    c_i ← c_i (1 − τ_i / τ_max). Every step takes all weight from at least one row, so there are at most 2f. The
    eigenpairs come from the K x K matrix, O(K³) per step whatever the dimension.

    The error is of the order of √(f/n) times the spread √λ_max of the honest rows, without a factor of the dimension,
    for 2f < n; nothing needs to be known of that spread.

    Deviations: τ_max is over the rows that still have weight (over all, a row that lost its weight could keep the
    filter from going on); a weight below 1e-12 is none; rows that agree up to rounding end it, and so does weight above
    n − 2f that is rounding; without Byzantine rows the result is the mean; unusable rows are dropped and counted
    against f. Above 128 rows v is a Ritz vector, whose spread may be a little below λ_max; the spread of the result is
    confirmed to 1 %, and if it turns out larger, the filter runs again with exact eigenvectors. As Ritz values bound λ
    from below, no other mean on the way had a spread more than 1 % smaller.

    >>> import torch
    >>> result = Caf(num_byzantine=1)(torch.tensor([[0.0], [0.0], [0.0], [8.0]]))
    >>> result.update, result.removed
    (tensor([0.]), [3])
    """

    citation: ClassVar[str] = "Allouah, Guerraoui, Stephan 2025, CAF"

    def aggregate(self, columns: Columns, num_byzantine: int, view: ServerView) -> Aggregation:
        """Filter in the Gram matrix and combine once.

        The score of a row is its largest τ_i / λ on the way to the result: 9 is three standard deviations.
        """
        gram = pivoted_gram(columns)
        found = _smallest_spread(gram.matrix, usable_bound(num_byzantine, gram.usable))
        return aggregation_of(
            columns,
            gram,
            found.weights / found.weights.sum(),
            scores=found.scores,
            stop=found.stop,
            num_byzantine=num_byzantine,
            spread=found.spread,
            num_steps=found.num_steps,
            num_eigensolves=found.num_eigensolves,
        )


@dataclass(frozen=True, kw_only=True)
class _Found:
    """The state of smallest spread, and what it took to find it."""

    weights: Vector
    scores: Vector
    stop: Stop
    spread: float | None = None
    num_steps: int = 0
    num_eigensolves: int = 0


def _smallest_spread(gram: Matrix, num_byzantine: int) -> _Found:
    """Return the weights of smallest spread; with Ritz vectors only if these did not deceive."""
    if num_byzantine == 0:
        return _Found(weights=np.ones(len(gram)), scores=np.zeros(len(gram)), stop=Stop.NOTHING_TO_FILTER)
    found, scatter, exact = _filter(gram, num_byzantine, dense=False)
    bound = max(scatter * (1.0 + BOUND_SLACK), negligible_scatter(gram, found.weights))
    if exact or scatter_is_below(gram, found.weights, bound):
        return found
    return _filter(gram, num_byzantine, dense=True)[0]


def _filter(gram: Matrix, num_byzantine: int, *, dense: bool) -> tuple[_Found, float, bool]:
    """Return the state of smallest spread, its scatter, and whether that is exactly the largest eigenvalue."""
    n = len(gram)
    weights, scores, stop = np.ones(n), np.zeros(n), Stop.SMALLEST_SPREAD
    best = (np.inf, 0.0, weights, scores)
    exact, solves = True, 0
    for _ in range(n):
        mass = float(weights.sum())
        if mass - (n - 2 * num_byzantine) <= MASS_ROUNDING:
            break
        directions = leading_directions(gram, weights, dense=dense)
        exact, solves = exact and directions.exact, solves + 1
        tau = scatter_along(directions.coordinates[:, :1], weights)[1][:, 0] ** 2
        spread = directions.top / mass
        scores = np.maximum(scores, _times(tau, spread)) if tau.any() else scores
        if spread < best[0]:
            best = (spread, directions.top, weights, scores)
        largest = float(tau[weights > 0].max())
        if largest == 0.0:
            stop = Stop.ROWS_AGREE
            break
        left = weights * (1.0 - np.minimum(_times(tau, largest), 1.0))
        weights = np.where(left > DUST, left, 0.0)
    found = _Found(
        weights=best[2],
        scores=best[3],
        stop=stop,
        spread=best[0],
        num_steps=solves - (stop is Stop.ROWS_AGREE),
        num_eigensolves=solves,
    )
    return found, best[1], exact


def _times(tau: Vector, unit: float) -> Vector:
    """Return τ / unit, finite also for a row that lost its weight and lies very far beside rows that nearly agree."""
    with np.errstate(over="ignore"):
        return np.minimum(tau / unit, np.finfo(float).max)
