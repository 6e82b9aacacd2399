r"""Sharper bounds than the paper's, proved without its gaps: docs/theory/convergence.md.

Between two synchronisations compare every client with gradient descent on F itself: z⁰ = x_k, zᵗ⁺¹ = zᵗ − η ∇F(zᵗ), and
a_k = Σ_{t<H} ∇F(zᵗ), which no client's batches touch. An honest client's accumulated gradient is y = a_k + p + n
with ‖p‖ ≤ A₁ κ surely and E‖n‖² ≤ A₂ σ_b², where A₁ = Σ_{j<H} qʲ, A₂ = Σ_{j<H} q²ʲ, q is a Lipschitz constant of
x ↦ x − η ∇F(x), and σ_b² the variance of a mini-batch gradient. So the honest rows are concentrated about a_k whatever
the dimension, the single F_r need not be smooth, and the honest rows to look at may be chosen after the fact.

`noise` is σ_b² throughout: σ²/b, (n − b)/(b(n − 1)) σ², or 0 for full batches. All rates hold at synchronisations.
`local_steps` is a round's own number of steps H_k; where a whole run is bounded, H or a list of gaps, one per round and
from the beginning after the last.

**Deviations from the paper.** Everything here: the paper's own formulas are in `steadfed.theory.paper`. Each of its
bounds is at least the one here in expectation and, at the same probability, if ε̃ ≥ 1/75 (Theorem 3 of
docs/theory/convergence.md); for smaller ε̃ it can be below. That it is true there, too, has another proof
(docs/theory/deviations.md, 1).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any

import numpy as np
from scipy.special import betaincinv

from steadfed._core.arrays import Vector
from steadfed._core.gaps import Gaps, check_gaps_and_errors, repetitions, steps_after, sums_before
from steadfed._core.ranges import (
    check_between,
    check_not_negative,
    check_positive,
    check_probability,
    check_share,
    check_step_size,
    check_whole,
)
from steadfed.errors import ParameterError

__all__ = [
    "client_deviation",
    "concentration_failure",
    "decoding_error",
    "descent_constant",
    "distance_bound",
    "distance_floor",
    "gradient_bound",
    "gradient_floor",
    "growth",
    "largest_outlier_probability",
    "largest_reach",
    "likely_deviation",
    "lipschitz",
    "mean_deviation",
]


def __dir__() -> list[str]:
    return __all__


Errors = float | Sequence[float]
"""s of every round, or one for each of the gaps."""
_MOST = 709.0
"""e to this power is the largest that is a finite floating-point number, nearly."""


def lipschitz(*, lr: float, smoothness: float, strong_convexity: float = 0.0) -> float:
    """Return q: the map x ↦ x − η ∇F(x) takes points to at most q times their distance.

    1 − ημ if F is μ-strongly convex and η ≤ 2/(L + μ) (Lemma 1 of docs/theory/convergence.md), else 1 + ηL, which needs
    nothing but L-smoothness.

    >>> round(lipschitz(lr=0.1, smoothness=1.0, strong_convexity=0.5), 3), lipschitz(lr=0.5, smoothness=1.0)
    (0.95, 1.5)
    """
    curvature, strength = check_positive("smoothness", smoothness), _strength(strong_convexity, smoothness)
    if not strength:
        return 1.0 + check_positive("lr", lr) * curvature
    return max(0.0, 1.0 - check_step_size(lr, 2.0 / (curvature + strength), "2/(L + μ)") * strength)


def growth(factor: float, steps: int) -> float:
    """Return 1 + factor + … + factor^(steps − 1); infinite if that is too large a number.

    >>> growth(1.0, 5), growth(0.5, 3)
    (5.0, 1.75)
    """
    rate, number = check_not_negative("factor", factor), check_whole("steps", steps, least=0)
    if rate in {0.0, 1.0} or number == 0:
        return float(number if rate else min(number, 1))
    exponent = number * math.log(rate)
    return math.expm1(exponent) / (rate - 1.0) if exponent < _MOST else math.inf  # expm1: digits for a rate near 1


def client_deviation(
    *, local_steps: int, lr: float, smoothness: float, strong_convexity: float = 0.0, dissimilarity: float, noise: float
) -> float:
    r"""Return v = A₁ κ + √A₂ σ_b, for which E‖y − a_k‖² ≤ v² for every honest client (Lemma 2).

    Hence E λ_max(Cov) ≤ v² for the covariance of all honest rows: an honest spread without d/K, ε′ and 1/ε′.

    >>> round(client_deviation(local_steps=4, lr=1e-12, smoothness=1.0, dissimilarity=9.0, noise=1.0), 9)
    14.0
    """
    rate = lipschitz(lr=lr, smoothness=smoothness, strong_convexity=strong_convexity)
    apart, spread = _roots(dissimilarity, noise)
    return _times(growth(rate, local_steps), apart) + _times(math.sqrt(growth(rate * rate, local_steps)), spread)


def mean_deviation(
    *,
    local_steps: int,
    lr: float,
    smoothness: float,
    strong_convexity: float = 0.0,
    dissimilarity: float,
    noise: float,
    num_honest: int,
) -> float:
    r"""Return v̄ with E‖ȳ − a_k‖² ≤ v̄² for the mean ȳ of all m honest rows (Lemma 3).

    v̄ = A₁ κ + (√(H/m) + ηL Σ_{0<t<H} √A₂(t)) σ_b: independent batches average out, up to the curvature of F.
    """
    rate = lipschitz(lr=lr, smoothness=smoothness, strong_convexity=strong_convexity)
    apart, spread = _roots(dissimilarity, noise)
    steps, honest = check_whole("local_steps", local_steps), check_whole("num_honest", num_honest)
    bent = lr * smoothness * sum(math.sqrt(growth(rate * rate, t)) for t in range(1, steps))
    return _times(growth(rate, steps), apart) + _times(math.sqrt(steps / honest) + bent, spread)


def likely_deviation(
    *,
    local_steps: int,
    lr: float,
    smoothness: float,
    strong_convexity: float = 0.0,
    dissimilarity: float,
    noise: float,
    outlier_probability: float,
) -> float:
    r"""Return τ = A₁ κ + √(A₂ σ_b² / p): a client has ‖y − a_k‖ > τ with a probability of at most p (Markov)."""
    rate = lipschitz(lr=lr, smoothness=smoothness, strong_convexity=strong_convexity)
    apart, spread = _roots(dissimilarity, noise)
    allowed = "above 0 and at most 1"
    chance = check_between("outlier_probability", outlier_probability, 0.0, 1.0, allowed, open_below=True)
    unlucky = spread / math.sqrt(chance)
    return _times(growth(rate, local_steps), apart) + _times(math.sqrt(growth(rate * rate, local_steps)), unlucky)


def concentration_failure(*, num_honest: int, spare: int, outlier_probability: float) -> float:
    """Return P(more than `spare` of m honest clients are outliers) ≤ P(Bin(m, p) > spare).

    >>> f"{concentration_failure(num_honest=85, spare=10, outlier_probability=0.01):.1e}"
    '1.1e-09'
    """
    honest = check_whole("num_honest", num_honest)
    room = check_whole("spare", spare, least=0, most=honest)
    chance = check_share("outlier_probability", outlier_probability)
    from scipy.stats import binom  # takes a second, and most commands need none of it

    return float(binom.sf(room, honest, chance))


def largest_outlier_probability(*, num_honest: int, spare: int, failure: float) -> float:
    """Return the largest p with P(Bin(m, p) > spare) ≤ failure: the inverse of an incomplete beta function.

    >>> chance = largest_outlier_probability(num_honest=85, spare=10, failure=1e-4)
    >>> abs(concentration_failure(num_honest=85, spare=10, outlier_probability=chance) / 1e-4 - 1) < 1e-9
    True
    """
    honest = check_whole("num_honest", num_honest)
    room = check_whole("spare", spare, least=0, most=honest)
    allowed = check_probability("failure", failure)
    return 1.0 if room == honest else float(betaincinv(room + 1, honest - room, allowed))


def decoding_error(*, constant: float, fraction: float, deviation: float, mean: float | None = None) -> float:
    r"""Return s with (E‖ĝ − a_k‖²)^½ ≤ s, for a filter that errs by at most C √ε̃ λ_max(Cov)^½ (Lemma 5).

    s = √(1 + C² ε̃) v; if a bound v̄ of the honest mean is known too, the smaller of that and C √ε̃ v + v̄.
    """
    pull = constant * math.sqrt(fraction)
    together = math.sqrt(1.0 + pull**2) * deviation
    return together if mean is None else min(together, pull * deviation + mean)


def distance_floor(*, error: Errors, lr: float, local_steps: Gaps, smoothness: float, strong_convexity: float) -> float:
    """Return the limit (η s / (1 − ρᴴ))² of `distance_bound`, ρ = 1 − ημ; if gaps differ, the upper limit."""
    gaps, errors = check_gaps_and_errors(local_steps, error)
    if len(gaps) == 1:
        limit = _distance_limit(errors[0], lr, gaps[0], smoothness, strong_convexity)
        return limit * limit
    rate = _log_contraction(lr, smoothness, strong_convexity)
    steps, added = sums_before(gaps), _added(gaps, errors, lr, rate)
    lasting = _repeated_limit(gaps, errors, added[-1], steps[-1] * rate, strong_convexity)
    largest = float(np.max(np.exp(steps * rate) * lasting + added))
    return largest * largest


def distance_bound(
    rounds: Any,
    *,
    distance: float,
    error: Errors,
    lr: float,
    local_steps: Gaps,
    smoothness: float,
    strong_convexity: float,
) -> Vector:
    r"""Return (ϑ D₀ + (1 − ϑ) η s/(1 − ρᴴ))², ϑ = ρ^{Hk}: a bound of E‖x_k − x*‖² after each number k of rounds.

    If gaps differ, D_k² with D_{k+1} = ρ^{H_k} D_k + η s_k; s is then a number for each gap. Theorem 1 of
    docs/theory/convergence.md; D₀² = ‖x_0 − x*‖². The same for ‖x_k − x*‖² itself if s bounds every error.

    >>> alike = {"distance": 4.0, "lr": 0.5, "smoothness": 1.0, "strong_convexity": 1.0}
    >>> distance_bound([0, 1, 2, 3], error=[1.0, 1.5], local_steps=[1, 2], **alike).round(4).tolist()
    [4.0, 2.25, 1.2656, 1.1289]
    """
    number, start = np.asarray(rounds, dtype=np.float64), math.sqrt(check_not_negative("distance", distance))
    gaps, errors = check_gaps_and_errors(local_steps, error)
    rate = _log_contraction(lr, smoothness, strong_convexity)
    if len(gaps) == 1:
        limit = _distance_limit(errors[0], lr, gaps[0], smoothness, strong_convexity)
        left = gaps[0] * number * rate
        with np.errstate(over="ignore"):
            return np.square(np.exp(left) * start - np.expm1(left) * limit)
    steps, added = sums_before(gaps), _added(gaps, errors, lr, rate)
    shrunk = np.exp(steps * rate)
    limit = _repeated_limit(gaps, errors, added[-1], steps[-1] * rate, strong_convexity)
    whole, place = repetitions(gaps, number)
    left = whole * (steps[-1] * rate)
    with np.errstate(over="ignore"):
        begun: Vector = np.exp(left) * start - np.expm1(left) * limit
        found: Vector = np.square(shrunk[place] * begun + added[place])
    return found


def _added(gaps: tuple[int, ...], errors: tuple[float, ...], lr: float, rate: float) -> Vector:
    """Return what the errors of the first rounds add to the distance: e_0 = 0, e_{j+1} = ρ^{H_j} e_j + η s_j."""
    pairs = zip(np.exp(np.array(gaps) * rate).tolist(), errors, strict=True)
    return np.array([*accumulate(pairs, lambda before, pair: pair[0] * before + lr * pair[1], initial=0.0)])


def _repeated_limit(
    gaps: tuple[int, ...], errors: tuple[float, ...], added: float, left: float, strong_convexity: float
) -> float:
    """Return the distance to which all gaps, again and again, lead: e/(1 − ρᵀ), and Σs/(μT) where ημ is too small."""
    shrunk = -math.expm1(left)
    return added / shrunk if shrunk > 0.0 else math.fsum(errors) / strong_convexity / sum(gaps)


def descent_constant(*, lr: float, local_steps: int, smoothness: float) -> float:
    r"""Return c = h + (B + 1 − h)² / (1 − h − B²), h = ηHL, B = β/(1 − β), β = A₁/H − 1 with q = 1 + ηL (Theorem 2).

    One round lowers F by at least (ηH/2)(‖∇F(x_k)‖² − c ‖ĝ − a_k‖²/H²); 1.16 for η = 1/(8HL), 1.28 for 1/(5HL).

    Raises:
        ParameterError: ηHL is so large that a round need not lower F at all.
    """
    steps, curvature = check_whole("local_steps", local_steps), check_positive("smoothness", smoothness)
    reach = check_positive("lr", lr) * steps * curvature
    bend = growth(1.0 + lr * curvature, steps) / steps - 1.0 if reach < 1.0 else math.inf
    ratio = bend / (1.0 - bend) if bend < 1.0 else math.inf
    if not ratio * ratio < 1.0 - reach:
        raise ParameterError(
            f"ηHL must be small enough for a round to lower F (0.6 is enough for every H), got {reach:.6g}"
        )
    return reach + (ratio + 1.0 - reach) ** 2 / (1.0 - reach - ratio**2)


def gradient_floor(*, error: Errors, lr: float, local_steps: Gaps, smoothness: float) -> float:
    """Return the limit c s²/H² of `gradient_bound`; if gaps differ, its mean, each counted by its steps."""
    gaps, errors = check_gaps_and_errors(local_steps, error)
    levels = _levels(gaps, errors, lr, smoothness)
    if len(gaps) == 1:
        return levels[0]
    return math.fsum(steps * level for steps, level in zip(gaps, levels, strict=True)) / sum(gaps)


def gradient_bound(
    rounds: Any, *, gap: float, error: Errors, lr: float, local_steps: Gaps, smoothness: float
) -> Vector:
    r"""Return 2 (F(x_0) − F*)/(ηHN) + c s²/H²: a bound of (1/N) Σ_{k<N} E‖∇F(x_k)‖² for each number N of rounds.

    If gaps differ, 2 (F(x_0) − F*)/(ηT) + (1/T) Σ_{k<N} H_k c_k s_k²/H_k², T = Σ H_k, and what is bounded is
    (1/T) Σ_{k<N} H_k E‖∇F(x_k)‖². Theorem 2 of docs/theory/convergence.md; infinite for N = 0. For any L-smooth F.

    >>> gradient_bound([1, 2, 4], gap=1.0, error=[0.0, 0.0], lr=0.1, local_steps=[1, 4], smoothness=1.0).tolist()
    [20.0, 4.0, 2.0]
    """
    number, missing = np.asarray(rounds, dtype=np.float64), check_not_negative("gap", gap)
    gaps, errors = check_gaps_and_errors(local_steps, error)
    levels = _levels(gaps, errors, lr, smoothness)
    steps = steps_after(gaps, number)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        if len(gaps) == 1:
            return np.where(number > 0, 2.0 * missing / (lr * gaps[0] * number) + levels[0], np.inf)
        whole, place = repetitions(gaps, number)
        sums = sums_before([each * level for each, level in zip(gaps, levels, strict=True)])
        return np.where(number > 0, 2.0 * missing / (lr * steps) + (whole * sums[-1] + sums[place]) / steps, np.inf)


def _levels(gaps: tuple[int, ...], errors: tuple[float, ...], lr: float, smoothness: float) -> list[float]:
    """Return c s²/H² of every gap."""
    constants = {steps: descent_constant(lr=lr, local_steps=steps, smoothness=smoothness) for steps in set(gaps)}
    shares = [(constants[steps], error / steps) for steps, error in zip(gaps, errors, strict=True)]
    return [constant * share * share for constant, share in shares]


def _roots(dissimilarity: Any, noise: Any) -> tuple[float, float]:
    """Return κ and σ_b."""
    return math.sqrt(check_not_negative("dissimilarity", dissimilarity)), math.sqrt(check_not_negative("noise", noise))


def _times(factor: float, size: float) -> float:
    """Return the product, 0 if the size is 0 however large the factor."""
    return factor * size if size else 0.0


def _log_contraction(lr: float, smoothness: float, strong_convexity: float) -> float:
    """Return log(1 − ημ), which keeps the digits that 1 − ημ loses; very low where 1 − ημ is 0."""
    if not _strength(strong_convexity, smoothness):
        raise ParameterError(f"strong_convexity must be above 0 for a bound of the distance, got {strong_convexity!r}")
    left = lipschitz(lr=lr, smoothness=smoothness, strong_convexity=strong_convexity)
    return math.log1p(-lr * strong_convexity) if left > 0.0 else -_MOST - 100.0


def _distance_limit(error: float, lr: float, steps: int, smoothness: float, strong_convexity: float) -> float:
    """Return η s/(1 − ρᴴ), and s/(μH) where ημ is too small a number."""
    shrunk = -math.expm1(steps * _log_contraction(lr, smoothness, strong_convexity))
    return lr * error / shrunk if shrunk > 0.0 else error / strong_convexity / steps


def _strength(strong_convexity: Any, smoothness: float) -> float:
    allowed = f"from 0 to smoothness = {smoothness:g}"
    return check_between("strong_convexity", strong_convexity, 0.0, smoothness, allowed)


@lru_cache(maxsize=1024)
def largest_reach(local_steps: int) -> float:
    """Return the largest h such that `descent_constant` exists for every ηHL below it; it is at most 1.

    1 − h falls and B(h) grows with h, so there is one crossing, found by bisection to the last bit.

    >>> largest_reach(1), round(largest_reach(100), 3)
    (1.0, 0.622)
    """
    steps = check_whole("local_steps", local_steps)

    def lowers(reach: float) -> bool:
        bend = growth(1.0 + reach / steps, steps) / steps - 1.0
        return bend < 1.0 and (bend / (1.0 - bend)) ** 2 < 1.0 - reach

    low, high = 0.0, 1.0
    while (middle := (low + high) / 2.0) not in {low, high}:
        low, high = (middle, high) if lowers(middle) else (low, middle)
    return high
