r"""σ² and κ² if every client draws its points independently from a law q_r of its own.

Without `radius` the bounds are about one model x; with it about all x of a ball of this radius at once. They fail with
a probability of at most `failure`. `num_points` is the smallest number n of points that a client holds. Proofs:
docs/theory/statistical-model.md.
"""

from __future__ import annotations

import math
from typing import final

from steadfed._core.ranges import check_not_negative, check_probability, check_whole
from steadfed._core.values import ValueObject
from steadfed.errors import ParameterError
from steadfed.theory._problem import NotNegative, Number, Positive

_REACH = 2.0 / 3.0
"""r of Lemma 2 of docs/theory/statistical-model.md: about where (1 + r²) log(1 + 1/r) is smallest."""
_WIDE = 1.0 + _REACH**2
_MOST = 1e15
"""No client holds so many points."""


@final
class GradientLaw(ValueObject):
    r"""What is known of the gradient ∇f(x; z) of a point z that a client draws.

    log E exp(λ⟨∇f(x; z) − E∇f(x; z), v⟩) ≤ λ²ν²/2 for all unit v and |λ| ≤ 1/α. On the ball, if there is one,
    ‖∇f(x; z) − ∇f(y; z)‖ ≤ ℓ‖x − y‖.

    >>> GradientLaw(dim=0, proxy_variance=1.0)
    Traceback (most recent call last):
    steadfed.errors.ParameterError: GradientLaw: dim: input should be greater than or equal to 1, got 0
    """

    dim: Number
    """d."""
    proxy_variance: Positive
    """ν², at least the variance in any direction; equal to it for normal gradients."""
    tail_scale: NotNegative = 0.0
    """α: 0 for sub-Gaussian gradients, above it for sub-exponential ones."""
    point_smoothness: NotNegative = 0.0
    """ℓ, of the loss of a single point; 0 if the deviation of gradients from their mean is the same at all models."""
    radius: NotNegative = 0.0
    """ρ, of the ball of models; 0 for one model."""


def sampled_variance(law: GradientLaw, *, num_points: int, num_clients: int, failure: float) -> float:
    r"""Return a bound of σ², the variance of the gradient of one point of a client, for sub-Gaussian gradients.

    σ ≤ ν √(d + 2√(dt/n) + 2t/n) + ℓγ, t = log(R/δ) + d log(1 + 2ρ/γ), γ = (ν/2ℓ)√(d/n); at one model ℓγ and the second
    term of t are 0.

    Paper: σ = O(√(d log d)), "Bounds on σ² and κ² in the statistical heterogeneous model" (subsec:assumptions). Proof:
    docs/theory/statistical-model.md, Theorem 1.

    **Deviations from the paper.** Constants instead of O(·). The paper bounds σ over all of ℝ^d; for gradients that
    change with x that cannot be had, and the bound is over a ball.

    Raises:
        ParameterError: a number is out of range; the law is sub-exponential, of which nothing is said.

    >>> law = GradientLaw(dim=100, proxy_variance=1.0)
    >>> [round(sampled_variance(law, num_points=n, num_clients=50, failure=0.01), 2) for n in (200, 10**9)]
    [104.21, 100.0]
    """
    if law.tail_scale:
        raise ParameterError(f"tail_scale must be 0 for a bound of σ²: sub-Gaussian gradients, got {law.tail_scale!r}")
    points, chance = check_whole("num_points", num_points), _exponent(law, num_points, num_clients, failure)
    chance /= points
    typical = math.sqrt(law.proxy_variance * (law.dim + 2.0 * math.sqrt(law.dim * chance) + 2.0 * chance))
    largest = typical + _net_slope(law, points)
    return largest * largest


def sampled_dissimilarity(
    law: GradientLaw, *, mean_dissimilarity: float, num_points: int, num_clients: int, failure: float
) -> float:
    r"""Return a bound of κ², the largest ‖∇F_r − ∇F‖², from κ_mean², the same of the expected gradients.

    κ ≤ κ_mean + w + 2(1 − 1/R)ℓγ with t and γ of `sampled_variance`, m = nR/(R − 1) and

        w = ν √((d + 2√(dt) + 2t)/m)                              for sub-Gaussian gradients,
        w = ν √(26 t′/(9m)), t′ = t + d log(5/2)                  for sub-exponential ones, if n ≥ `fewest_points`,
        w = 13ν²/(30α) + 5αt′/(3m)                                for sub-exponential ones and fewer points.

    Paper: κ ≤ κ_mean + O(√(d log(nd)/n)), "Bounds on σ² and κ² in the statistical heterogeneous model"
    (subsec:assumptions). Proof: docs/theory/statistical-model.md, Theorems 2 and 3.

    **Deviations from the paper.** Constants instead of O(·); over a ball, as in `sampled_variance`. Too few points for
    sub-exponential gradients give a larger bound, not none.

    >>> numbers = {"mean_dissimilarity": 0.25, "num_clients": 50, "failure": 0.01}
    >>> law = GradientLaw(dim=100, proxy_variance=1.0)
    >>> [round(sampled_dissimilarity(law, num_points=n, **numbers), 3) for n in (100, 10_000, 10**12)]
    [3.28, 0.398, 0.25]
    >>> heavier = GradientLaw(dim=100, proxy_variance=1.0, tail_scale=0.5)
    >>> round(sampled_dissimilarity(heavier, num_points=100, **numbers), 3)
    4.769
    """
    apart = math.sqrt(check_not_negative("mean_dissimilarity", mean_dissimilarity))
    points, chance = check_whole("num_points", num_points), _exponent(law, num_points, num_clients, failure)
    others = 1.0 - 1.0 / num_clients
    largest = apart + _mean_deviation(law, chance, others / points) + 2.0 * others * _net_slope(law, points)
    return largest * largest


def fewest_points(law: GradientLaw, *, num_clients: int, failure: float) -> int:
    r"""Return the n from which on sub-exponential gradients are as concentrated as sub-Gaussian ones.

    It is the smallest n such that it and every larger one satisfy n ≥ (1 − 1/R)(50/13)(α²/ν²)(t + d log(5/2)); t grows
    like (d/2) log n if the bound is to hold over a ball.

    Paper: n = Ω(d log(nd)), "Bounds on σ² and κ² in the statistical heterogeneous model" (subsec:assumptions). Proof:
    docs/theory/statistical-model.md, Theorem 3.

    Raises:
        ParameterError: a number is out of range; not even 10¹⁵ points would be enough.

    >>> for given in ({}, {"point_smoothness": 1.0, "radius": 10.0}):
    ...     laws = [GradientLaw(dim=dim, proxy_variance=1.0, tail_scale=1.0, **given) for dim in (10, 100)]
    ...     print([fewest_points(law, num_clients=50, failure=0.01) for law in laws])
    [67, 378]
    [268, 2367]
    """
    per_exponent = _points_per_exponent(law) * (1.0 - 1.0 / check_whole("num_clients", num_clients))

    def needed(points: int) -> float:
        return per_exponent * _ball_exponent(law, _exponent(law, points, num_clients, failure))

    if not needed(int(_MOST)) < _MOST:
        raise ParameterError(
            f"tail_scale must be so small that {_MOST:g} points are enough, got {law.tail_scale!r} with proxy_variance "
            f"= {law.proxy_variance!r} and dim = {law.dim}"
        )
    # `needed` grows with n, slower than n from the first number on. From a number that is enough go down to what it
    # needs, as long as one less is enough, too: what lies between needs no more.
    found = max(1, math.ceil(per_exponent * law.dim))
    while needed(found) > found:
        found *= 2
    while found > 1 and needed(found - 1) <= found - 1:
        found = max(1, math.ceil(needed(found - 1)))
    return found


def _exponent(law: GradientLaw, points: int, num_clients: int, failure: float) -> float:
    """Return t = log(R/δ) + d log(1 + 2ρ/γ): a union over clients, and over the (1 + 2ρ/γ)^d models of a net."""
    clients = math.log(check_whole("num_clients", num_clients)) - math.log(check_probability("failure", failure))
    ratio = 4.0 * law.radius * law.point_smoothness * math.sqrt(points / law.dim / law.proxy_variance)
    return clients + law.dim * math.log1p(ratio)


def _net_slope(law: GradientLaw, points: int) -> float:
    """Return ℓγ = (ν/2)√(d/n), how much a gradient changes between a model and the nearest one of the net."""
    one_model = law.radius == 0.0 or law.point_smoothness == 0.0
    return 0.0 if one_model else 0.5 * math.sqrt(law.proxy_variance * law.dim / points)


def _points_per_exponent(law: GradientLaw) -> float:
    """Return 2(1 + r)²/(1 + r²) · α²/ν², which is 50/13 of it."""
    return 2.0 * (1.0 + _REACH) ** 2 / _WIDE * (law.tail_scale * (law.tail_scale / law.proxy_variance))


def _ball_exponent(law: GradientLaw, exponent: float) -> float:
    """Return t′ = t + d log(1 + 1/r)."""
    return exponent + law.dim * math.log1p(1.0 / _REACH)


def _mean_deviation(law: GradientLaw, exponent: float, share: float) -> float:
    """Return w, a bound of ‖(∇F_r − ∇F) − E(∇F_r − ∇F)‖ at all models of the net; `share` is 1/m = (1 − 1/R)/n."""
    if law.tail_scale == 0.0:
        length = law.dim + 2.0 * math.sqrt(law.dim * exponent) + 2.0 * exponent
        return math.sqrt(law.proxy_variance * length * share)
    ball = _ball_exponent(law, exponent)
    if _points_per_exponent(law) * ball * share <= 1.0:
        return math.sqrt(2.0 * _WIDE * law.proxy_variance * ball * share)
    largest = 1.0 / (law.tail_scale * (1.0 + _REACH))  # λ/m
    return 0.5 * largest * law.proxy_variance * _WIDE + ball * share / largest
