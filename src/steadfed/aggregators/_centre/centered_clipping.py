"""Centered clipping, from the Gram matrix of the rows and the point it starts from."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, ClassVar, Literal, final

import numpy as np
from pydantic import BeforeValidator, Field
from torch import Tensor

from steadfed._core.arrays import Matrix, Vector
from steadfed._core.values import real_number, whole_number
from steadfed._linalg.columns import Columns, RowColumns
from steadfed._linalg.gram import LARGEST_SQUARE, gram_with_points, pivoted_gram, squared_distances
from steadfed._linalg.weiszfeld import distances_to_combination
from steadfed.aggregators._base import Claim, GramAggregator, MinorityAggregator, aggregation_of
from steadfed.aggregators._evidence import Aggregation, Stop
from steadfed.aggregators._registry import RULES
from steadfed.aggregators._view import ServerView

CENTRE = "centre"
"""The name under which the last update is remembered."""
TIE = 1e-5
"""Relative difference of squared distances below which two rows are equally central."""


@RULES.register("centered-clipping")
@final
class CenteredClipping(MinorityAggregator, GramAggregator):
    r"""Steps from a centre by the mean of the clipped differences to it (Karimireddy, He, Jaggi 2021, equation (CC)).

    L times: v ← v + (1/n) Σ_i (g_i − v) min(1, τ / ‖g_i − v‖). No row moves the centre by more than τ/n per step. The
    centre is a combination of the rows and of the point it started from, so all steps are taken in the Gram matrix of
    these n + 1 points, O(K²) each.

    Starts:
        previous: the last update, which the aggregation asks to remember as "centre"; the origin in the first round,
            and where the last update is too large to be squared.
        origin: the origin, in every round.
        median: the row with the smallest median distance to the others (the mean of those, if several are equally
            central). It lies among the honest rows as long as they are the majority, and moves with them.

    Proved for a share of at most 1/10 Byzantine rows, a radius of the order of the honest spread and a start near the
    honest mean. Deviations: without a radius, τ is the median of ‖g_i − v‖ at every step: no minority can make it
    larger than the distance of the farthest honest row, and the spread need not be known; the start "median" is not
    the paper's; unusable rows are dropped. Weights are the rows' shares without that of the starting point.

    >>> import torch
    >>> CenteredClipping(radius=2.0, num_iterations=1)(torch.tensor([[1.0], [-1.0], [10.0]])).update
    tensor([0.6667])
    """

    citation: ClassVar[str] = "Karimireddy, He, Jaggi 2021, centered clipping"

    radius: Annotated[float, Field(ge=1e-100), BeforeValidator(real_number)] | None = None
    """τ, how far a row may pull; the median distance to the centre at every step if left out."""
    num_iterations: Annotated[int, Field(ge=1), BeforeValidator(whole_number)] = 3
    """L, the number of steps."""
    start: Literal["previous", "origin", "median"] = "previous"
    """Where the first step starts: the centre of the last round, 0, or the coordinate-wise median."""

    def breaks(self) -> frozenset[Claim]:
        """Return what a starting point that does not move with the rows, and a given radius, destroy."""
        broken = {Claim.SCALING} if self.radius is not None else set()
        if self.start != "median":
            broken |= {Claim.TRANSLATION, Claim.HULL, Claim.LINEARITY}
            broken |= {Claim.IDEMPOTENCE} if self.radius is not None else set()
        return frozenset(broken)

    def remembers(self) -> bool:
        """Return whether the last update is where the next round starts."""
        return self.start == "previous"

    def aggregate(self, columns: Columns, num_byzantine: int, view: ServerView) -> Aggregation:
        """Iterate in the Gram matrix, combine once; the score of a row is its distance to the update."""
        gram = pivoted_gram(columns)
        reference = view.remembered(CENTRE, columns) if self.start == "previous" else None
        if self.start == "median":
            points, centre = gram.matrix, _most_central(gram.matrix)
        else:
            points = gram_with_points(columns, gram, [reference])
            if not (np.isfinite(points).all() and points[-1, -1] <= LARGEST_SQUARE):
                reference, points = None, gram_with_points(columns, gram, [None])
            centre = np.append(np.zeros(len(gram.matrix)), 1.0)
        for _ in range(self.num_iterations):
            centre = self._step(points, centre, len(gram.matrix))
        shares = centre[: len(gram.matrix)]
        found = aggregation_of(
            columns,
            gram,
            shares / shares.sum(),
            scores=distances_to_combination(points, centre)[: len(gram.matrix)],
            stop=Stop.COMBINED,
            num_byzantine=num_byzantine,
            num_steps=self.num_iterations,
        )
        share = float(columns.agree(np.array([shares.sum()]))[0])
        update = _between(found.update, reference, share)
        memory = {CENTRE: RowColumns([update]).combine(np.ones(1))} if self.start == "previous" else {}
        return replace(found, update=update, memory=memory)

    def _step(self, points: Matrix, centre: Vector, num_rows: int) -> Vector:
        """Return the coefficients of v + (1/n) Σ_i (g_i − v) min(1, τ / ‖g_i − v‖), given those of v."""
        distances = distances_to_combination(points, centre)[:num_rows]
        tau = float(np.median(distances)) if self.radius is None else self.radius
        clipped = np.ones(num_rows)
        np.divide(tau, distances, out=clipped, where=distances > tau)
        moved = centre * (1.0 - clipped.mean())
        moved[:num_rows] += clipped / num_rows
        return np.asarray(moved)


def _most_central(gram: Matrix) -> Vector:
    """Return the weights of the row with the smallest median distance, divided evenly among ties.

    Ties are common: of three rows the two nearest to each other always tie.
    """
    middle = np.median(squared_distances(gram), axis=1)
    central = middle <= middle.min() * (1.0 + TIE)
    return np.asarray(central / central.sum())


def _between(mean: Tensor, reference: Tensor | None, share: float) -> Tensor:
    """Return `share` of the mean of the rows, and the rest of the reference point or the origin."""
    if share == 1.0:
        return mean
    if reference is None:
        return RowColumns([mean]).combine(np.array([share]))
    return RowColumns([mean, reference]).combine(np.array([share, 1.0 - share]))
