"""SLSGD's server step: a moving average of trimmed means."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, ClassVar, final

from pydantic import BeforeValidator, Field

from steadfed._core.values import real_number
from steadfed._linalg.columns import Columns
from steadfed.aggregators._base import BoundedAggregator, Claim
from steadfed.aggregators._coordinatewise.trimmed_mean import trimmed_mean
from steadfed.aggregators._evidence import Aggregation
from steadfed.aggregators._registry import RULES
from steadfed.aggregators._view import ServerView


@RULES.register("slsgd")
@final
class Slsgd(BoundedAggregator):
    """The trimmed mean, of which the server takes the share α (Xie, Koyejo, Gupta 2019, Algorithm 1, option II).

    The paper's server averages models, x ← (1 − α) x + α TrMean(x_1, …, x_n). With updates g_i = x − x_i this is
    x ← x − α TrMean(g_1, …, g_n), as trimming commutes with x − ·; so the moving average only scales the trimmed mean
    in update space: update = α TrMean(g). It has the guarantee of the trimmed mean, a smaller step, and so less
    variance. Weights and scores are those of the trimmed mean.

    Args:
        byzantine_fraction: ε, the assumed share of Byzantine rows; f = ⌈ε K⌉ of the K rows received.
        num_byzantine: f itself. Exactly one of the two is given.
        moving_average: α; 1 is the trimmed mean itself.

    Deviations from the paper: α is constant; what its schedule varies is here the server's learning rate.

    >>> import torch
    >>> Slsgd(num_byzantine=1, moving_average=0.5)(torch.tensor([[1.0], [2.0], [3.0], [600.0]])).update
    tensor([1.2500])
    """

    citation: ClassVar[str] = "Xie, Koyejo, Gupta 2019, Algorithm 1"

    moving_average: Annotated[float, Field(gt=0.0, le=1.0), BeforeValidator(real_number)] = 0.5
    """α, the share of the new update; 1 is the trimmed mean itself."""

    def breaks(self) -> frozenset[Claim]:
        """Return what the trimmed mean breaks, and that a share of it stays behind the rows."""
        behind = {Claim.HULL, Claim.IDEMPOTENCE, Claim.TRANSLATION} if self.moving_average < 1.0 else set()
        return frozenset({Claim.LINEARITY, Claim.ROTATION} | behind)

    def aggregate(self, columns: Columns, num_byzantine: int, view: ServerView) -> Aggregation:
        """Scale the trimmed mean."""
        whole = trimmed_mean(columns, num_byzantine)
        return replace(whole, update=self.moving_average * whole.update)
