"""FLTrust: the server's own update decides whom to trust."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, final

import numpy as np
import torch
from torch import Tensor

from steadfed._core.arrays import Vector
from steadfed._linalg.columns import Columns, RowColumns
from steadfed._linalg.norms import row_norms
from steadfed.aggregators._base import Claim, LooselyBoundedAggregator, stop_or_too_many
from steadfed.aggregators._evidence import Aggregation, Stop
from steadfed.aggregators._registry import RULES
from steadfed.aggregators._similarity.directions import ROUNDING, inverse_or_zero, scaled_aggregation
from steadfed.aggregators._view import Need, ServerView
from steadfed.errors import NoUsableRowError, ShapeError

SHORTEST = 1e-30
"""A row is a row of zeros if it is shorter than this share of the trusted one: scaling it up would overflow float32."""


@RULES.register("fltrust")
@final
class FlTrust(LooselyBoundedAggregator):
    r"""Rows of the trusted row's length, weighed by their cosine with it (Cao, Fang, Liu, Gong 2021, eq. (2) to (4)).

    With g_0 the update that the server computes on data of its own,

        TS_i = max(0, cos(g_i, g_0)) ,     update = Σ_i TS_i (‖g_0‖ / ‖g_i‖) g_i / Σ_i TS_i .

    Every row enters with the length of g_0 and an angle of at most 90° to it, so ⟨update, g_0⟩ ≥ 0 and
    ‖update‖ ≤ ‖g_0‖ whatever the clients send and however many of them are Byzantine: unless told a bound, it assumes
    that all rows but one are. How good the update is depends on how well g_0 stands for the clients (its Theorem 1).
    Weights are the trust scores, normalised. Only norms and products with g_0 are needed: O(K d), no Gram matrix.

    **Deviations from the paper.** It does not say what happens if nobody is trusted, as when g_0 = 0: the update is
    then the trusted row itself, with all weights 0. A row of zeros has no direction and no trust, nor has a row that is
    orthogonal to g_0 up to rounding.

    >>> import torch
    >>> from steadfed.aggregators import ServerView
    >>> rows = torch.tensor([[6.0, 8.0], [0.0, 1.0], [-90.0, 0.0]])
    >>> FlTrust()(rows, ServerView(trusted_row=torch.tensor([0.0, 2.0]))).update
    tensor([0.5333, 1.8222])
    """

    citation: ClassVar[str] = "Cao, Fang, Liu, Gong 2021, eq. (2) to (4)"
    needs: ClassVar[frozenset[Need]] = frozenset({Need.TRUSTED_ROW})

    def default_byzantine(self, cohort_size: int) -> int:
        """Return all rows but one."""
        return cohort_size - 1

    def smallest_cohort(self, num_byzantine: int) -> int:
        """Return 1: the trusted row is enough to stand any number of Byzantine ones."""
        return 1

    def breaks(self) -> frozenset[Claim]:
        """Return what cannot hold of rows that are all given one length about the origin."""
        return frozenset({Claim.TRANSLATION, Claim.HULL, Claim.LINEARITY, Claim.IDEMPOTENCE})

    def aggregate(self, columns: Columns, num_byzantine: int, view: ServerView) -> Aggregation:
        """Weigh the rows by their trust; the score of a row is 1 − cos(g_i, g_0)."""
        trusted = view.needed_vector(Need.TRUSTED_ROW, columns, self)
        norms, usable = row_norms(columns)
        length = _length(trusted, columns)
        norms[norms < SHORTEST * length] = 0.0
        cosines = _products(columns, trusted, length)[usable] * inverse_or_zero(norms)
        cosines[np.abs(cosines) <= ROUNDING * torch.finfo(columns.dtype).eps] = 0.0
        trust = np.clip(cosines, 0.0, 1.0)  # eq. (2)
        found = scaled_aggregation(
            columns,
            usable,
            trust / (trust.sum() or 1.0),
            length * inverse_or_zero(norms),  # eq. (3)
            scores=1.0 - np.clip(cosines, -1.0, 1.0),
            num_byzantine=num_byzantine,
        )
        if found.kept.any():
            return found
        return replace(found, update=trusted.clone(), stop=stop_or_too_many(Stop.NOBODY_TRUSTED, num_byzantine, usable))


def _length(trusted: Tensor, columns: Columns) -> float:
    """Return ‖g_0‖; raise if it overflows."""
    try:
        norms, _ = row_norms(columns.like(RowColumns([trusted])))
    except NoUsableRowError:
        raise ShapeError(
            "the trusted update is so large that its squared norm overflows; an update of ordinary size is needed"
        ) from None
    return float(norms[0])


def _products(columns: Columns, trusted: Tensor, length: float) -> Vector:
    """Return ⟨g_i, g_0 / ‖g_0‖⟩ of all rows; 0 if g_0 is 0."""
    direction = RowColumns([trusted]).combine(inverse_or_zero(np.array([length])))
    return np.asarray(columns.products(None, [direction])[:, 0])
