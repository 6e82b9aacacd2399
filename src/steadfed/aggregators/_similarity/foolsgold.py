"""FoolsGold: clients that keep pushing the same way are taken for one."""

from __future__ import annotations

from typing import Annotated, ClassVar, final

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field
from torch import Tensor

from steadfed._core.arrays import Matrix, Vector
from steadfed._core.values import real_number
from steadfed._linalg.columns import Columns, RowColumns
from steadfed._linalg.gram import LARGEST_SQUARE, all_or_usable, squared_norms
from steadfed._linalg.norms import row_norms
from steadfed.aggregators._base import Claim, LooselyBoundedAggregator
from steadfed.aggregators._evidence import Aggregation
from steadfed.aggregators._registry import RULES
from steadfed.aggregators._similarity.directions import cosine_distances, scaled_aggregation
from steadfed.aggregators._view import ServerView


@RULES.register("foolsgold")
@final
class FoolsGold(LooselyBoundedAggregator):
    r"""Clients weighed by how little their summed updates resemble anybody else's (Fung et al. 2020, Algorithm 1).

    With s_i the sum of all updates of client i, this round's among them, and cs_ij = cos(s_i, s_j), cs_ii = 0:

        v_i = max_j cs_ij ;   cs_ij ← cs_ij v_i / v_j where v_j > v_i (pardoning) ;   α_i = 1 − max_j cs_ij ;
        α_i ← α_i / max α ;   α_i ← κ (ln(α_i / (1 − α_i)) + ½), cut to [0, 1] ;   update = Σ α_i g_i / Σ α_i .

    Against Sybils, many clients of one mind, however many: unless told a bound, it assumes one honest client. There is
    no guarantee: a Byzantine client unlike all others keeps its weight, and honest clients that agree lose theirs: who
    copies an honest client has it left out.

    It remembers s_i under the client's name (`ServerView.clients`), those of absent clients too: hand
    `Aggregation.memory` back in the next round's view. An unusable row adds nothing; a sum too large to be squared
    starts again from this round's row. Claims about scaling are for memory that scales along.

    **Deviations from the paper.** Weights are divided by their sum; features are not weighted by importance; a client's
    similarity to itself counts as 0, as in the authors' code, so that no maximum is negative; the logit of 1 is its
    limit. If every client has a twin, α = 0 for all and the paper divides by 0: all get the same weight.

    >>> import torch
    >>> FoolsGold()(torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [-1.0, 1.0]])).weights
    tensor([0.0000, 0.0000, 0.5000, 0.5000], dtype=torch.float64)
    """

    citation: ClassVar[str] = "Fung, Yoon, Beschastnikh 2020, Algorithm 1"

    confidence: Annotated[float, Field(gt=0.0), BeforeValidator(real_number)] = 1.0
    """κ: the larger, the sharper clients are divided into trusted and not."""

    def default_byzantine(self, cohort_size: int) -> int:
        """Return all rows but one."""
        return cohort_size - 1

    def smallest_cohort(self, num_byzantine: int) -> int:
        """Return 1."""
        return 1

    def breaks(self) -> frozenset[Claim]:
        """Return that directions are those from the origin."""
        return frozenset({Claim.TRANSLATION})

    def remembers(self) -> bool:
        """Return that clients' updates are summed over the rounds."""
        return True

    def aggregate(self, columns: Columns, num_byzantine: int, view: ServerView) -> Aggregation:
        """Weigh the rows by their sums; the score of a row is its largest similarity after pardoning."""
        usable = all_or_usable(columns)
        sums = summed_rows(columns, usable, view)
        history = columns.like(RowColumns(list(sums.values())))
        distances = cosine_distances(history, *row_norms(history))
        alpha = dissimilarities(1.0 - distances)
        weights = logit_weights(alpha, self.confidence)
        return scaled_aggregation(
            columns,
            usable,
            weights / weights.sum(),
            np.ones_like(weights),
            scores=1.0 - alpha,
            num_byzantine=num_byzantine,
            memory={**view.memory, **sums},
        )


def summed_rows(columns: Columns, usable: NDArray[np.bool_], view: ServerView) -> dict[str, Tensor]:
    """Return the sum of every usable row and what is remembered of its client, by the client's name."""
    names = view.identities(columns.num_rows)
    rows = {names[i]: columns.row(i) for i in np.flatnonzero(usable).tolist()}
    sums = {name: _sum(row, view.remembered(name, columns)) for name, row in rows.items()}
    small = squared_norms(columns.like(RowColumns(list(sums.values())))) <= LARGEST_SQUARE  # false for NaN
    kept = zip(sums.items(), small, strict=True)
    return {name: summed if fits else _sum(rows[name], None) for (name, summed), fits in kept}


def _sum(row: Tensor, history: Tensor | None) -> Tensor:
    """Return row + history in memory of its own."""
    parts = RowColumns([row] if history is None else [row, history])
    summed = parts.zero_row()
    parts.add_rows(np.ones(parts.num_rows), (0, parts.num_rows), (0, parts.num_columns), summed)
    return summed


def dissimilarities(cs: Matrix) -> Vector:
    """Return α_i = 1 − max_j cs_ij after pardoning, in [0, 1], for cosines cs whose diagonal is ignored."""
    cs = np.array(cs)
    np.fill_diagonal(cs, 0.0)
    v = cs.max(axis=1)
    ratio = np.divide(v[:, None], v[None, :], out=np.ones_like(cs), where=v[None, :] > v[:, None])
    return np.asarray(np.clip(1.0 - (cs * ratio).max(axis=1), 0.0, 1.0))


def logit_weights(alpha: Vector, confidence: float) -> Vector:
    """Return κ (ln(α / (1 − α)) + ½) of α / max α, cut to [0, 1]; the limits at 0 and 1; all 1 if every α is 0."""
    largest = float(alpha.max())
    if largest == 0.0:
        return np.ones_like(alpha)
    alpha = alpha / largest
    inside = (alpha > 0.0) & (alpha < 1.0)
    odds = np.divide(alpha, 1.0 - alpha, out=np.ones_like(alpha), where=inside)
    return np.where(inside, np.clip(confidence * (np.log(odds) + 0.5), 0.0, 1.0), alpha)
