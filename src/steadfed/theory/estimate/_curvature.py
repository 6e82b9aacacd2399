"""Extreme curvatures of F at a model: Lanczos on products with the Hessian. They hold there, and nowhere else."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from scipy.linalg import eigh_tridiagonal
from torch import Tensor

from steadfed._core.arrays import Vector
from steadfed._core.ranges import check_probability, check_whole
from steadfed._core.rng import stream
from steadfed._linalg.threads import one_torch_thread
from steadfed.errors import DataError
from steadfed.theory.estimate._objective import Located, Objective, Point

STEPS = 64
CONFIDENCE = 0.99
_VANISHED = 1e-12
"""A next Lanczos vector below this share of the largest entry is rounding: the Krylov space holds no more."""


@dataclass(frozen=True, kw_only=True)
class Curvature:
    """The extreme eigenvalues of ∇²F(x), local: a bound of L or μ needs the largest or least over all models met."""

    where: str
    """At which model."""
    largest: float
    """λ_max, never above the true one but for rounding."""
    smallest: float
    """λ_min, never below the true one but for rounding; negative where F is not convex."""
    residual: float
    """Both lie within this of an eigenvalue of ∇²F(x)."""
    at_most: float
    """No eigenvalue is larger, with probability `confidence` over the random start."""
    at_least: float
    """No eigenvalue is smaller, in the same event."""
    confidence: float
    steps: int
    """How many products with the Hessian were taken."""
    exact: bool = False
    """Whether there was nothing more to find, so that the extremes are exact at this model up to rounding."""
    share: float = 1.0
    """The share of all points that F was formed over."""

    @property
    def smoothness(self) -> float:
        """The local L: the largest absolute value of an eigenvalue."""
        return max(self.largest, -self.smallest)


@one_torch_thread()  # on a busy machine threads of torch wait for each other
def curvature(
    objective: Objective,
    model: Tensor,
    buffers: Tensor | None = None,
    *,
    where: str = "this point",
    steps: int = STEPS,
    confidence: float = CONFIDENCE,
    seed: int = 0,
) -> Curvature:
    r"""Return the extreme eigenvalues of ∇²F(x) from a Krylov space of a random start (Lanczos 1950).

    A Ritz pair (θ, y) has ‖∇²F y − θ y‖ = β_k |s_k|, so an eigenvalue lies within that of θ (Parlett 1998,
    section 4.5); how far θ may be from the *extreme* eigenvalue is bounded in `relative_gap`. Memory is `steps` rows of
    length d.

    >>> x = torch.tensor([[1.0, 0.0], [3.0, 1.0]])
    >>> from steadfed.data._base import Dataset
    >>> from steadfed.models import Quadratic
    >>> from steadfed.partitions import Shares
    >>> data = Dataset(name="x", features=x, labels=x, test_features=x, test_labels=x)
    >>> shares = Shares(np.arange(2), np.array([0, 2]))
    >>> objective = Objective.of(Quadratic(strong_convexity=0.5, smoothness=4.0), data, shares)
    >>> found = curvature(objective, torch.zeros(2))
    >>> round(found.largest, 9), round(found.smallest, 9), found.exact
    (4.0, 0.5, True)

    Raises:
        ParameterError: the model is not a finite row of d numbers.
        DataError: the Hessian is not finite there.
    """
    steps = min(check_whole("steps", steps, least=2), objective.dim)
    confidence = check_probability("confidence", confidence)
    located = objective.at(model, buffers)
    start = torch.from_numpy(stream(seed, "lanczos").standard_normal(objective.dim)).to(located.x)
    diagonal, beside, following = _lanczos(located, start, steps)
    values, vectors = eigh_tridiagonal(diagonal, beside)
    residual = following * float(np.abs(vectors[-1, [0, -1]]).max())
    slack = 0.0 if following == 0.0 else _slack(values, objective.dim, confidence)
    return Curvature(
        where=where,
        largest=float(values[-1]),
        smallest=float(values[0]),
        residual=residual,
        at_most=float(values[-1]) + slack,
        at_least=float(values[0]) - slack,
        confidence=confidence,
        steps=len(diagonal),
        exact=following == 0.0,
        share=len(objective.pooled.order) / len(objective.shares.order),
    )


def segment(start: Point, end: Point, num_points: int = 5) -> list[Point]:
    """Return points evenly spread over the segment between two models, both among them; buffers are those of the end.

    >>> [each.model.tolist() for each in segment(Point("a", torch.zeros(1)), Point("b", torch.ones(1)), 3)]
    [[0.0], [0.5], [1.0]]
    """
    shares = torch.linspace(0.0, 1.0, check_whole("num_points", num_points, least=2), dtype=torch.float64).tolist()
    first, last = start.model.double(), end.model.double()
    return [
        Point(f"{t:.3g} from {start.where} to {end.where}", torch.lerp(first, last, t), end.buffers) for t in shares
    ]


def relative_gap(steps: int, dim: int, failure: float) -> float:
    r"""Return g with λ_max − θ_max ≤ g (λ_max − λ_min) after k steps of Lanczos, except with the probability `failure`.

    *Proof.* Shift and scale so that λ_min = 0, λ_max = 1, and let b be the start, uniform on the sphere, with b_1 its
    part along the top eigenvector. θ = max_p Σ b_j² p(λ_j)² λ_j / Σ b_j² p(λ_j)² over polynomials p of degree k − 1. If
    θ < 1 − g, then Σ b_j² p(λ_j)² (1 − g − λ_j) > 0 for every p, and dropping negative terms but the first,
    Σ_{λ_j < 1−g} b_j² p(λ_j)² (1 − g − λ_j) > g b_1² p(1)². Take p(λ) = q(y²), y² = (1 − g − λ)/(1 − g) and
    y q(y²) = T_{2k−1}(y), the Chebyshev polynomial, which is odd and lies in [−1, 1] there: the left is at most
    (1 − g)(1 − b_1²). At λ = 1, y² = −g/(1 − g) =: −s², and s² q(−s²)² = sinh²((2k − 1) arsinh s), so the right is
    (1 − g) b_1² sinh²(a), a = (2k − 1) artanh √g, because arsinh s = artanh √g. So b_1² cosh²(a) < 1. The density of
    b_1 is at most ((d − 1)/2π)^½ for d ≥ 3, so P(|b_1| < 1/cosh a) ≤ (2d/π)^½ / cosh a, which also holds for d = 2.
    Set it to the failure probability. ∎ (Kuczyński, Woźniakowski 1992 have 1.648 √d exp(−(2k − 1)√g) for the same.)

    >>> relative_gap(64, 10_000, 0.005) < 0.01
    True
    """
    odds = math.sqrt(2.0 * dim / math.pi) / failure
    return math.tanh(math.acosh(max(1.0, odds)) / (2 * steps - 1)) ** 2


def _slack(values: Vector, dim: int, confidence: float) -> float:
    """Return how far the extremes may lie outside the Ritz values: both gaps g hold with the confidence.

    The width W of the spectrum and that of the Ritz values w have w ≥ W − 2 g W, so g W ≤ g w / (1 − 2 g).
    """
    gap = relative_gap(len(values), dim, (1.0 - confidence) / 2)
    return math.inf if gap >= 0.5 else gap * float(values[-1] - values[0]) / (1.0 - 2.0 * gap)


def _lanczos(located: Located, start: Float[Tensor, " d"], steps: int) -> tuple[Vector, Vector, float]:
    """Return the diagonal and off-diagonal of ∇²F in the Krylov space, and the next off-diagonal entry.

    Every vector is orthogonalised against all before it, twice, which is enough (Kahan, Parlett).
    """
    basis = torch.zeros(steps, len(start), dtype=start.dtype, device=start.device)
    diagonal: list[float] = []
    beside: list[float] = []
    basis[0] = start / start.norm()
    for k in range(steps):
        image = located.hessian_product(basis[k])
        diagonal.append(float(image @ basis[k]))
        for _ in range(2):
            image -= basis[: k + 1].T @ (basis[: k + 1] @ image)
        beside.append(float(image.norm()))
        if not math.isfinite(beside[-1]):
            raise DataError(f"the Hessian is not finite at this model, whose norm is {float(located.x.norm()):.6g}")
        if k + 1 == len(start) or beside[-1] <= _VANISHED * max(map(abs, diagonal + beside)):
            beside[-1] = 0.0
            break
        if k + 1 < steps:
            basis[k + 1] = image / beside[-1]
    return np.array(diagonal), np.array(beside[:-1]), beside[-1]
