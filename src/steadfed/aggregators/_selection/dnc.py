"""Divide and conquer: rows that stand out along the main direction of a few random coordinates."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Annotated, ClassVar, final

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field

from steadfed._core.arrays import Vector
from steadfed._core.rng import stream
from steadfed._core.values import real_number, whole_number
from steadfed._linalg.columns import Columns, DenseColumns
from steadfed._linalg.gram import all_or_usable, pivoted_gram
from steadfed._linalg.spectrum import eigen_directions
from steadfed.aggregators._base import BoundedAggregator, Claim, usable_bound
from steadfed.aggregators._evidence import Aggregation
from steadfed.aggregators._registry import RULES
from steadfed.aggregators._selection.subsets import average_of, lowest
from steadfed.aggregators._view import ServerView


@RULES.register("dnc")
@final
class Dnc(BoundedAggregator):
    r"""The average of the rows that stand out in no sample of coordinates (Shejwalkar, Houmansadr 2021, Algorithm 2).

    In each iteration b coordinates are drawn without replacement; on them, with μ the mean of the rows and v the top
    right singular vector of the centred rows, s_i = ⟨g_i − μ, v⟩², and the ⌈c f⌉ rows with the largest scores are
    removed. Rows that no iteration removed are averaged. v comes from the K x K Gram matrix of the sample; beyond the
    samples the rows are read once for their norms and once for the update. The paper's analysis asks that Byzantine
    rows lie apart from the others along v. Coordinates are drawn anew in every round.

    A row's score is its share s_i / Σ_j s_j, averaged over the iterations.

    Deviations from the paper: c f is rounded up; of equal scores the first rows stay; if no row survives all
    iterations, the n − f rows with the smallest scores are averaged; unusable rows are dropped and counted against f.
    Where columns are spread over processes, each draws from its own in proportion to their number.

    >>> import torch
    >>> Dnc(num_byzantine=1)(torch.tensor([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0], [50.0, 60.0]])).removed
    [3]
    """

    citation: ClassVar[str] = "Shejwalkar, Houmansadr 2021, Algorithm 2"

    subsample: Annotated[int, Field(ge=1), BeforeValidator(whole_number)] = 10_000
    """b, coordinates drawn in an iteration."""
    num_iterations: Annotated[int, Field(ge=1), BeforeValidator(whole_number)] = 5
    """How often coordinates are drawn and updates removed; an update stays that stays every time."""
    removed_share: Annotated[float, Field(gt=0.0, le=1e6), BeforeValidator(real_number)] = 1.0
    """c, how many updates an iteration removes, in units of f."""
    seed: Annotated[int, Field(ge=0), BeforeValidator(whole_number)] = 0
    """The root seed of the drawn coordinates, anew in every round."""

    def breaks(self) -> frozenset[Claim]:
        """Return that coordinates are drawn."""
        return frozenset({Claim.ROTATION})

    def aggregate(self, columns: Columns, num_byzantine: int, view: ServerView) -> Aggregation:
        """Score the usable rows on every sample and average the survivors."""
        usable = all_or_usable(columns)
        n, f = int(usable.sum()), usable_bound(num_byzantine, usable)
        kept = max(1, n - math.ceil(Fraction(self.removed_share).limit_denominator(10**6) * f))
        survives, shares = np.ones(n, dtype=bool), np.zeros(n)
        iterations = self.num_iterations if self.subsample < columns.num_columns else 1  # all coordinates: all alike
        for iteration in range(iterations):
            coordinates = self._coordinates(columns, view.round, iteration)
            scores = _scores(columns, usable, coordinates)
            survives &= lowest(scores, kept) > 0.0
            shares += scores / (scores.sum() or 1.0) / iterations
        weights = survives / survives.sum() if survives.any() else lowest(shares, max(1, n - f))
        return average_of(columns, usable, weights, scores=shares, num_byzantine=num_byzantine)

    def _coordinates(self, columns: Columns, round_number: int, iteration: int) -> NDArray[np.intp]:
        """Return b of the columns, or all, in increasing order; of a slice of the columns its part of b."""
        total = float(columns.total(np.array([float(columns.num_columns)]))[0])
        number = min(columns.num_columns, math.ceil(self.subsample * columns.num_columns / total))
        drawn = stream(self.seed, "dnc", round_number, iteration).choice(columns.num_columns, number, replace=False)
        return np.sort(drawn)


def _scores(columns: Columns, usable: NDArray[np.bool_], coordinates: NDArray[np.intp]) -> Vector:
    """Return ⟨g_i − μ, v⟩² of the usable rows on the given coordinates; infinite if that overflows."""
    taken = columns.take(coordinates)
    sample = DenseColumns(taken if usable.all() else taken[usable])
    gram = pivoted_gram(columns.like(sample))
    along = eigen_directions(gram.matrix, np.ones(len(gram.matrix)), 1).coordinates[:, 0]
    scores = np.full(len(gram.usable), np.finfo(float).max / len(usable))
    scores[gram.usable] = (along - along.mean()) ** 2
    return scores
