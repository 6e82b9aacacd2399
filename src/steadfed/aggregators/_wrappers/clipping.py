"""Clipping about the origin: to a given norm, or to one of the rows' own."""

from __future__ import annotations

from typing import Annotated, ClassVar, final

import numpy as np
from pydantic import BeforeValidator, Field

from steadfed._core.arrays import Vector
from steadfed._core.values import real_number
from steadfed.aggregators._base import Claim
from steadfed.aggregators._registry import RULES
from steadfed.aggregators._wrappers.base import ShrinkingWrapper


@RULES.register("clipping")
@final
class Clipping(ShrinkingWrapper):
    r"""Every row is shrunk to a norm of at most C before the rule inside sees it: g_i min(1, C / ‖g_i‖).

    The static clipping that Allouah et al. 2024 compare adaptive clipping with; in differential privacy that of Abadi
    et al. 2016. It bounds what a row can do, but C must be known: below the honest norms it also takes their length,
    and with it the guarantee of the rule inside. Weights are the clients' shares without that of the origin. Around a
    rule with `gram = "fast"` the norms of wide rows are estimates by its sketch, and so is where rows are cut.

    >>> import torch
    >>> from steadfed.aggregators import Mean
    >>> Clipping(radius=1.0, rule=Mean())(torch.tensor([[3.0, 4.0], [0.0, 0.5], [0.0, 0.0]])).update
    tensor([0.2000, 0.4333])
    """

    citation: ClassVar[str] = "Allouah et al. 2024, static clipping"

    radius: Annotated[float, Field(gt=0.0, examples=[3.0]), BeforeValidator(real_number)]
    """C, the largest norm that is left alone."""

    def breaks(self) -> frozenset[Claim]:
        """Return what shrinking to a fixed norm about the origin destroys."""
        return frozenset({Claim.TRANSLATION, Claim.SCALING, Claim.HULL, Claim.LINEARITY, Claim.IDEMPOTENCE})

    def radius_for(self, norms: Vector, num_byzantine: int) -> float:
        """Return the given radius."""
        return self.radius


@RULES.register("arc")
@final
class AdaptiveClipping(ShrinkingWrapper):
    r"""Rows are clipped to the norm of one of them, which f Byzantine rows cannot raise (Allouah et al. 2024, ARC).

    With k = ⌊2 (f/n) (n − f)⌋, every row is shrunk to the (k + 1)-th largest norm C: g_i min(1, C / ‖g_i‖). If the rule
    inside is robust in the sense of Allouah et al. 2023, so is the whole, and the update is no longer than the longest
    honest row. With f = 0 nothing is clipped. Deviation: n and f count usable rows. Weights are the clients' shares
    without that of the origin. Around a rule with `gram = "fast"` the norms of wide rows are estimates by its sketch,
    and so is C: the update may then be longer than the longest honest row by the error of an estimate.

    >>> import torch
    >>> from steadfed.aggregators import Mean
    >>> AdaptiveClipping(rule=Mean(num_byzantine=1))(torch.tensor([[1.0], [2.0], [600.0]])).update
    tensor([1.6667])
    """

    citation: ClassVar[str] = "Allouah et al. 2024, ARC"

    def breaks(self) -> frozenset[Claim]:
        """Return what shrinking about the origin destroys."""
        return frozenset({Claim.TRANSLATION, Claim.HULL, Claim.LINEARITY})

    def radius_for(self, norms: Vector, num_byzantine: int) -> float:
        """Return the (k + 1)-th largest norm."""
        n, f = len(norms), min(num_byzantine, len(norms))
        return float(np.sort(norms)[::-1][2 * f * (n - f) // n])
