"""The quadratic problem, of which everything is known."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, Self, final

import torch
from pydantic import BeforeValidator, Field, model_validator
from torch import Tensor, nn

from steadfed._core.values import real_number
from steadfed.data._base import Dataset
from steadfed.models._base import Architecture
from steadfed.models._fitting import vector_length
from steadfed.models._losses import HalfNorm, Loss
from steadfed.models._registry import MODELS

Positive = Annotated[float, Field(gt=0.0), BeforeValidator(real_number)]


@MODELS.register("quadratic")
@final
class Quadratic(Architecture):
    r"""Parameters w ∈ ℝᵖ that are to lie near all points a_i: f_i(w) = ½ Σ_j λ_j (w_j − a_ij)² + (l2 / 2) ‖w‖².

    The curvatures λ_j are spaced evenly in the logarithm between μ = `strong_convexity` and L = `smoothness`; a single
    coordinate has λ = L. w starts at 0. Gradients Λ(w − a_i) differ between points by constants, so variance and
    dissimilarity are the same at every w: `steadfed.models._convex` computes them.

    >>> x = torch.tensor([[1.0, 0.0], [3.0, 0.0]])
    >>> data = Dataset(name="x", features=x, labels=x, test_features=x, test_labels=x)
    >>> model = Quadratic(strong_convexity=1.0, smoothness=4.0)
    >>> model.loss().mean(model.build(data, seed=0)(x), x).item()
    2.5
    """

    citation: ClassVar[str] = "Nesterov 2004, section 2.1: quadratic functions as the hardest of their class"

    strong_convexity: Positive = 0.1
    """μ, the least curvature, without l2."""
    smoothness: Positive = 1.0
    """L, the largest curvature, without l2."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.strong_convexity > self.smoothness:
            raise ValueError(
                f"strong_convexity must be at most smoothness = {self.smoothness}, got {self.strong_convexity}"
            )
        return self

    def curvatures(self, dim: int) -> Tensor:
        """Return λ_1 ≤ … ≤ λ_p; the first and the last are μ and L to the bit."""
        low, high = math.log10(self.strong_convexity), math.log10(self.smoothness)
        found = torch.logspace(low, high, dim, dtype=torch.float64)
        found[0], found[-1] = self.strong_convexity, self.smoothness
        return found.clamp_(self.strong_convexity, self.smoothness)

    def module(self, dataset: Dataset) -> nn.Module:
        """Return the map from points a to √λ (w − a)."""
        dim = vector_length(dataset, "quadratic")
        return _Distances(self.curvatures(dim).sqrt())

    def loss(self) -> Loss:
        """Return half the squared length of the outputs."""
        return HalfNorm()


class _Distances(nn.Module):
    """√λ (w − a); the curvatures are no buffer, because a server has nothing to average there."""

    def __init__(self, roots: Tensor) -> None:
        super().__init__()
        self.roots = roots
        self.point = nn.Parameter(torch.zeros(len(roots)))

    def forward(self, points: Tensor) -> Tensor:
        """Return one row of weighted differences per point."""
        return self.roots.to(self.point) * (self.point - points.flatten(1))
