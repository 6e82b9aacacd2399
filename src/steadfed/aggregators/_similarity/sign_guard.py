"""SignGuard: rows of ordinary length and ordinary signs, clipped to the median norm."""

from __future__ import annotations

from typing import Annotated, ClassVar, final

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field
from torch import Tensor

from steadfed._core.arrays import Matrix
from steadfed._core.rng import stream
from steadfed._core.values import real_number, whole_number
from steadfed._linalg.blocks import Range
from steadfed._linalg.columns import Columns
from steadfed._linalg.norms import clip_factors, row_norms
from steadfed.aggregators._base import Claim, MinorityAggregator
from steadfed.aggregators._evidence import Aggregation
from steadfed.aggregators._registry import RULES
from steadfed.aggregators._similarity.directions import scaled_aggregation
from steadfed.aggregators._similarity.mean_shift import distances_between, mean_shift, typical_distance
from steadfed.aggregators._view import ServerView


@RULES.register("signguard")
@final
class SignGuard(MinorityAggregator):
    r"""Rows that pass a filter of norms and one of signs, clipped and averaged (Xu et al. 2022, Algorithm 2).

    With M the median norm, S₁ = {i : lower ≤ ‖g_i‖ / M ≤ upper}. A share of the coordinates is drawn anew in every
    round; the features of a row are the shares of positive, zero and negative values among them, and S₂ is the largest
    cluster of the features by mean shift. update = mean over S₁ ∩ S₂ of g_i min(1, M / ‖g_i‖).

    The norm of the update is at most M, which fewer than half of the rows cannot push above every honest norm. There is
    no guarantee for its direction: rows may have honest norms and sign counts and point elsewhere.

    **Deviations from the paper.** The mean shift, whose details it leaves open, has the bandwidth of the authors' code
    (`typical_distance`; where that is 0, only rows of equal features are one cluster), but starts at every row and
    leaves none out. The bounds of S₁ belong to it. The variants with cosines or distances as further features are left
    out. If nobody is in both sets, S₂ is averaged, clipped all the same.

    >>> import torch
    >>> rows = torch.tensor([[1.0], [2.0], [1.5], [-1.0], [100.0]]) * torch.ones(4)
    >>> SignGuard()(rows).update
    tensor([1.3333, 1.3333, 1.3333, 1.3333])
    """

    citation: ClassVar[str] = "Xu, Huang, Song, Lan 2022, Algorithm 2"

    lower: Annotated[float, Field(ge=0.0, le=1.0), BeforeValidator(real_number)] = 0.1
    """L: shorter rows, in median norms, are left out."""
    upper: Annotated[float, Field(ge=1.0), BeforeValidator(real_number)] = 3.0
    """R: longer rows, in median norms, are left out."""
    share: Annotated[float, Field(gt=0.0, le=1.0), BeforeValidator(real_number)] = 0.1
    """The share of the coordinates whose signs are counted; at least one is."""
    seed: Annotated[int, Field(ge=0), BeforeValidator(whole_number)] = 0
    """The root seed of the drawn coordinates, anew in every round."""

    def breaks(self) -> frozenset[Claim]:
        """Return what cannot hold of rows clipped about the origin, whose signs depend on the axes."""
        return frozenset({Claim.TRANSLATION, Claim.ROTATION, Claim.HULL, Claim.LINEARITY})

    def aggregate(self, columns: Columns, num_byzantine: int, view: ServerView) -> Aggregation:
        """Filter, clip, average; the score is the features' distance to the largest cluster, and 2 for a bad norm."""
        norms, usable = row_norms(columns)
        length = float(np.median(norms))
        ordinary = (norms >= self.lower * length) & (norms <= self.upper * length)
        drawn = drawn_coordinates(columns.num_columns, self.share, self.seed, view.round)
        features = sign_features(columns, drawn)[usable]
        centres, labels = mean_shift(features, typical_distance(features))
        largest = int(np.argmax(np.bincount(labels)))
        chosen = ordinary & (labels == largest)
        if not chosen.any():
            chosen = labels == largest
        return scaled_aggregation(
            columns,
            usable,
            chosen / chosen.sum(),
            clip_factors(norms, length),
            scores=distances_between(features, centres[largest : largest + 1])[:, 0] + 2.0 * ~ordinary,
            num_byzantine=num_byzantine,
        )


def drawn_coordinates(num_columns: int, share: float, seed: int, number_of_round: int) -> NDArray[np.intp]:
    """Return the coordinates whose signs are counted in this round, in order."""
    number = max(1, int(share * num_columns))
    drawn = stream(seed, "signguard", number_of_round).choice(num_columns, size=number, replace=False)
    return np.sort(np.asarray(drawn, dtype=np.intp))


def sign_features(columns: Columns, coordinates: NDArray[np.intp]) -> Matrix:
    """Return the shares of positive, zero and negative values of every row among some coordinates, K x 3, in one pass.

    Shards count among coordinates of their own and add up.
    """
    counts = np.zeros((columns.num_rows, 3))
    found: dict[Range, NDArray[np.int_]] = {}

    def work(span: Range, block: Tensor, _: Tensor) -> None:
        first, last = np.searchsorted(coordinates, span)
        values = block.cpu().numpy()[:, coordinates[first:last] - span[0]]
        signs = [(values > 0.0).sum(axis=1), (values == 0.0).sum(axis=1), (values < 0.0).sum(axis=1)]
        found[span] = np.stack(signs, axis=1)

    def add(span: Range, _: Tensor) -> None:
        np.add(counts, found.pop(span), out=counts)

    columns.scan(None, work, add, (), read_only=True)
    number = float(columns.total(np.array([float(len(coordinates))]))[0])
    return columns.total(counts) / number
