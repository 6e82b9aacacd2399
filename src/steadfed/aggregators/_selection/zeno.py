"""Zeno: rows that lower the loss on a trusted batch."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, ClassVar, final

import numpy as np
from pydantic import BeforeValidator, Field
from torch import Tensor

from steadfed._core.arrays import Vector
from steadfed._core.values import real_number
from steadfed._linalg.columns import Columns
from steadfed._linalg.gram import squared_norms, usable_rows
from steadfed.aggregators._base import BoundedAggregator, Claim, usable_bound
from steadfed.aggregators._evidence import Aggregation
from steadfed.aggregators._registry import RULES
from steadfed.aggregators._selection.subsets import average_of, lowest
from steadfed.aggregators._view import Need, ServerView

LARGEST_LOSS = 1e300
"""A larger loss counts as not finite: differences must not overflow."""


@RULES.register("zeno")
@final
class Zeno(BoundedAggregator):
    """The average of the n − f rows that lower the loss on a trusted batch most (Xie, Koyejo, Gupta 2019, Zeno).

    With the model x, the trusted loss F, a step of size γ and a penalty ρ on the size of the step, the stochastic
    descendant score of a row is its equation (2),

        score(i) = F(x) − F(x − γ g_i) − ρ ‖g_i‖² ,

    and the n − f rows with the highest are averaged. The paper allows any f < n if the trusted batch is representative.
    It costs n + 1 evaluations of the loss. What is reported as a client's score is −score(i), larger for stranger rows.

    Args:
        byzantine_fraction: ε, the assumed share of Byzantine rows; f = ⌈ε K⌉ of the K rows received.
        num_byzantine: f itself. Exactly one of the two is given.
        rho: ρ.
        lr: γ, the step with which an update is tried.

    Deviations from the paper: a row after whose step the loss is not finite has the lowest score of all, and is
    averaged only if this is so for every row, in which case the n − f shortest are. Fewer than half of the rows may be
    assumed Byzantine, as with every rule here. Unusable rows are dropped and counted against f.

    >>> import torch
    >>> from steadfed.aggregators._view import ServerView
    >>> view = ServerView(model=torch.tensor([4.0]), trusted_loss=lambda model: float(model @ model))
    >>> Zeno(num_byzantine=1)(torch.tensor([[1.0], [2.0], [-50.0]]), view).update
    tensor([1.5000])
    """

    citation: ClassVar[str] = "Xie, Koyejo, Gupta 2019, equation (2)"
    needs: ClassVar[frozenset[Need]] = frozenset({Need.MODEL, Need.TRUSTED_LOSS})

    rho: Annotated[float, Field(ge=0.0, lt=1e10), BeforeValidator(real_number)] = 0.0005
    """ρ, the weight of an update's length in its score."""
    lr: Annotated[float, Field(gt=0.0, lt=1e30), BeforeValidator(real_number)] = 0.1
    """γ, the step with which an update is tried."""

    def breaks(self) -> frozenset[Claim]:
        """Return that the loss is measured at the model and with steps of the rows' own size."""
        return frozenset({Claim.TRANSLATION, Claim.SCALING})

    def aggregate(self, columns: Columns, num_byzantine: int, view: ServerView) -> Aggregation:
        """Try every usable row and average the best."""
        loss = view.needed_loss(self)
        model = view.needed_vector(Need.MODEL, columns, self)
        squares = squared_norms(columns)
        usable = usable_rows(columns, squares)
        rises = columns.agree(self._rises(columns, np.flatnonzero(usable).tolist(), model, loss))
        suspicion = rises + self.rho * squares[usable]
        finite = int(np.isfinite(rises).sum())
        number = max(1, len(rises) - usable_bound(num_byzantine, usable))
        weights = lowest(suspicion, min(number, finite)) if finite else lowest(squares[usable], number)
        return average_of(columns, usable, weights, scores=suspicion, num_byzantine=num_byzantine)

    def _rises(self, columns: Columns, rows: list[int], model: Tensor, loss: Callable[[Tensor], float]) -> Vector:
        """Return F(x − γ g_i) − F(x) for each of the rows, infinite where the loss is not finite.

        A loss that is not finite at x itself counts as 0: it is the same for all rows and ranks nobody.
        """
        here = _finite(loss(model.clone()), otherwise=0.0)
        there = [_finite(loss(model - self.lr * columns.row(i)), otherwise=math.inf) for i in rows]
        return np.array(there) - here


def _finite(value: float, *, otherwise: float) -> float:
    number = float(value)
    return number if abs(number) <= LARGEST_LOSS else otherwise  # false for NaN
