"""RSA: every client has one vote, up or down, in every coordinate."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Annotated, ClassVar, final

import numpy as np
from pydantic import BeforeValidator, Field

from steadfed._core.values import real_number
from steadfed._linalg.columns import Columns
from steadfed.aggregators._base import Claim, MinorityAggregator
from steadfed.aggregators._coordinatewise.blocks import Block, Part, coordinatewise
from steadfed.aggregators._evidence import Aggregation
from steadfed.aggregators._registry import RULES
from steadfed.aggregators._view import Need, ServerView


@RULES.register("rsa")
@final
class Rsa(MinorityAggregator):
    """The server's step of ℓ₁-norm RSA: a sum of signs (Li et al. 2019, equation (8) with p = 1).

    The paper's server holds x, the clients x_i, and x ← x − η (∇f₀(x) + λ Σ_i sign(x − x_i)). With updates
    g_i = x − x_i and f₀ = (μ/2) ‖x‖²,

        update = μ x + λ Σ_i sign(g_i) .

    However far a row lies, f Byzantine rows move every coordinate by at most 2 λ f against any other f rows. The size
    of the update does not depend on that of the rows. Every usable client has one vote in every coordinate, so their
    weights are equal; the score of a row is the share of coordinates in which it votes against the majority.

    Args:
        byzantine_fraction: ε, the assumed share of Byzantine rows; f = ⌈ε K⌉ of the K rows received.
        num_byzantine: f itself. At most one of the two is given; neither assumes a minority.
        penalty: λ.
        weight_decay: μ. Where it is not 0, the view must hold the model.

    Deviations from the paper: the clients' own step towards the server is left to them; sign(0) = 0, one
    of the subgradients of |·| there; f₀ is weight decay, as in the paper's experiments.

    >>> import torch
    >>> Rsa(penalty=0.25)(torch.tensor([[3.0, -1.0], [0.5, -2.0], [-9000.0, 0.0]])).update
    tensor([ 0.2500, -0.5000])
    """

    citation: ClassVar[str] = "Li et al. 2019, equation (8)"

    penalty: Annotated[float, Field(gt=0.0, lt=1e30), BeforeValidator(real_number)] = 0.005
    """λ, how strongly the model is pulled towards each client's."""
    weight_decay: Annotated[float, Field(ge=0.0, lt=1e30), BeforeValidator(real_number)] = 0.0
    """μ of the server's own term; where it is not 0, the view must hold the model."""

    def breaks(self) -> frozenset[Claim]:
        """Return all but that clients are alike: only the signs of the rows count."""
        return frozenset(Claim) - {Claim.PERMUTATION}

    def aggregate(self, columns: Columns, num_byzantine: int, view: ServerView) -> Aggregation:
        """Count the signs of every coordinate."""
        model = view.needed_vector(Need.MODEL, columns, self) if self.weight_decay else None
        votes = coordinatewise(columns, lambda _: partial(_votes, self.penalty), num_byzantine=num_byzantine)
        return votes if model is None else replace(votes, update=votes.update + self.weight_decay * model)


def _votes(penalty: float, block: Block) -> Part:
    """Return λ Σ sign in every column, the clients' equal shares, and in how many columns each is in the minority."""
    up, down = block > 0, block < 0
    balance = np.count_nonzero(up, axis=0) - np.count_nonzero(down, axis=0)
    against = np.count_nonzero(np.where(balance < 0, up, down & (balance > 0)), axis=1)
    equal = np.full(len(block), block.shape[1] / len(block))
    return penalty * balance, equal, np.asarray(against, dtype=float)
