r"""Bounds for runs in which every client of a round sends the same k random coordinates: docs/theory/compression.md.

θ = k/d is `coordinates` throughout, and P the projection on the coordinates of a round, which nobody knows before it.
The server moves to x − η ĝ with ĝ in the range of P, unscaled. Then x_{k+1} − x* has the parts (1 − P)(x_k − x*), which
no client touches, and P(Gᴴ(x_k) − x*) − η(ĝ − P a_k), and E‖P z‖² = θ‖z‖²: every term of the theorems of
`steadfed.theory.sharp` is multiplied by θ but the part that stays. So the step sizes and the floors are theirs, and a
round does θ times as much. For θ = 1 the bounds are theirs, too, if all rounds take the same number of steps.

`error` is s of `steadfed.theory.sharp.decoding_error` or, for a filter that is told σ₀, of `told_error` here.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from steadfed._core.arrays import Vector
from steadfed._core.gaps import Gaps, check_gaps, check_gaps_and_errors
from steadfed._core.ranges import check_between, check_not_negative
from steadfed.theory import sharp
from steadfed.theory.sharp import Errors

__all__ = ["distance_bound", "distance_floor", "gradient_bound", "told_error"]


def __dir__() -> list[str]:
    return __all__


_LOWEST = -1e4
"""The logarithm of what is left after a round that forgets everything."""

_NEAR = 0.5
"""What a round forgets is computed itself below this share, what it leaves above it."""


def told_error(*, coordinates: float, constant: float, fraction: float, sigma0: float, mean: float) -> float:
    r"""Return s = C √ε̃ σ₀ / √θ + v̄ of a filter that is told σ₀: its error in a round is at most √θ s (Lemma 2).

    A filter that learns the spread has the s of `steadfed.theory.sharp.decoding_error`, whatever θ is: the rows of
    fewer coordinates spread less, and it notices.

    >>> told_error(coordinates=0.25, constant=2.0, fraction=0.25, sigma0=3.0, mean=1.0)
    7.0
    """
    share = _share(coordinates)
    return constant * math.sqrt(fraction / share) * check_not_negative("sigma0", sigma0) + mean


def distance_bound(  # noqa: PLR0913  the numbers of the theorem
    rounds: Any,
    *,
    coordinates: float,
    distance: float,
    error: Errors,
    lr: float,
    local_steps: Gaps,
    smoothness: float,
    strong_convexity: float,
) -> Vector:
    r"""Return a bound of E‖x_k − x*‖² after each number k of rounds, for μ-strongly convex F and η ≤ 2/(L + μ).

    With D* = η s/(1 − ρᴴ), ρ = 1 − ημ, D₀ = ‖x_0 − x*‖ and φ(D) = (1 − θ) D² + θ (ρᴴ D + η s)², it is
    (D* + cᵏ (D₀ − D*))² with c = (√φ(D₀) − D*)/(D₀ − D*), which is at most √(1 − θ + θ ρ²ᴴ) for D₀ ≥ D* and ρᴴ for
    θ = 1 (Theorem 1 of docs/theory/compression.md). Its limit is `distance_floor`. If gaps differ, H is the smallest,
    D* the largest of theirs, and a D₀ below D* is raised to it (section "Gaps that differ" there).

    >>> numbers = {"distance": 100.0, "error": 0.0, "lr": 0.1, "local_steps": 1, "smoothness": 1.0}
    >>> distance_bound([0, 1, 10], coordinates=0.5, **numbers, strong_convexity=1.0).round(3).tolist()
    [100.0, 90.5, 36.854]
    """
    share, number = _share(coordinates), np.asarray(rounds, dtype=np.float64)
    start, gaps = math.sqrt(check_not_negative("distance", distance)), check_gaps(local_steps)
    curved: dict[str, float] = {"lr": lr, "smoothness": smoothness, "strong_convexity": strong_convexity}
    limit, steps = math.sqrt(distance_floor(error=error, local_steps=local_steps, **curved)), min(gaps)
    start = start if len(set(gaps)) == 1 else max(start, limit)
    kept = steps * math.log1p(-lr * strong_convexity) if sharp.lipschitz(**curved) > 0.0 else _LOWEST
    left = number * _log_factor(start, limit, share, kept)
    with np.errstate(over="ignore"):
        return np.square(np.exp(left) * start - np.expm1(left) * limit)


def distance_floor(*, error: Errors, lr: float, local_steps: Gaps, smoothness: float, strong_convexity: float) -> float:
    """Return D*², the limit of `distance_bound`: that of whole updates or, if gaps differ, the largest of theirs.

    >>> distance_floor(error=[1.0, 1.0], lr=0.5, local_steps=[1, 2], smoothness=1.0, strong_convexity=1.0)
    1.0
    """
    gaps, errors = check_gaps_and_errors(local_steps, error)
    curved: dict[str, float] = {"lr": lr, "smoothness": smoothness, "strong_convexity": strong_convexity}
    alone = set(zip(gaps, errors, strict=True))
    return max(sharp.distance_floor(error=each, local_steps=steps, **curved) for steps, each in alone)


def _log_factor(start: float, limit: float, share: float, kept: float) -> float:
    r"""Return log c, of D₀, D*, θ and log ρᴴ; two forms of c lose no digits, one where it is near 1 and one elsewhere.

    With t = 1 − ρᴴ and E = D₀ − D* is ρᴴ D₀ + η s = D₀ − t E, so D₀² − φ(D₀) = θ t E (2 D₀ − t E), and
    1 − c = (D₀ − √φ(D₀))/E is θ t (2 D₀ − t E)/(D₀ + √φ(D₀)). And φ(D₀) − D*² = E (2 D* (1 − θ t) + r² E) with
    r² = 1 − θ + θρ²ᴴ, so c is (2 D* (1 − θ t) + r² E)/(√φ(D₀) + D*).
    """
    scale = max(start, limit)
    if scale == 0.0:
        return 0.0
    begin, end, excess = start / scale, limit / scale, (start - limit) / scale
    factor, shrunk = math.exp(kept), -math.expm1(kept)
    after = math.hypot(math.sqrt(1.0 - share) * begin, math.sqrt(share) * (factor * begin + shrunk * end))
    if begin + after == 0.0:
        return 0.0
    lost = share * shrunk * (2.0 * begin - shrunk * excess) / (begin + after)
    if lost < _NEAR:
        return math.log1p(-lost)
    above = 2.0 * end * (1.0 - share + share * factor) + (1.0 - share + share * factor**2) * excess
    return math.log(above / (after + end)) if above > 0.0 else kept  # θ = 1 and ρᴴ too small to be squared


def gradient_bound(
    rounds: Any, *, coordinates: float, gap: float, error: Errors, lr: float, local_steps: Gaps, smoothness: float
) -> Vector:
    r"""Return 2 (F(x_0) − F*)/(θηHN) + c s²/H²: a bound of (1/N) Σ_{k<N} E‖∇F(x_k)‖² for each number N of rounds.

    For any L-smooth F, with c and the step sizes of `steadfed.theory.sharp.gradient_bound` (Theorem 2 of
    docs/theory/compression.md); its limit is `steadfed.theory.sharp.gradient_floor`.
    """
    height = check_not_negative("gap", gap) / _share(coordinates)
    return sharp.gradient_bound(rounds, gap=height, error=error, lr=lr, local_steps=local_steps, smoothness=smoothness)


def _share(coordinates: Any) -> float:
    return check_between("coordinates", coordinates, 0.0, 1.0, "a share above 0 and at most 1", open_below=True)
