r"""Theorems 1 and 2: the floors Γ, the four bounds as functions of T, and the probability with which they hold.

`distance` is ‖x⁰ − x*‖² (squared), `gap` is F(x⁰) − F(x*), `noise` σ²/b, `filter_error` Υ² or Υ_GD², `floor` Γ or Γ_GD.
`lr=None` means the step size of the theorem.

`local_steps` of a bound is H, or a list of gaps ≤ H, one per round and from the beginning after the last: T is then a
sum of gaps, and Γ the largest that a round's own gap gives, with the filter's error in that round. That is Γ(H) if the
filter adapts, since Γ grows with the gap.

**Deviations from the paper**, for every bound here:

* ε, which enters through Υ² and the probability, is the fraction of the cohort, not of all clients.
* The bounds speak about synchronisation indices, T a sum of gaps: between them x^t averages iterates that Byzantine
  clients do not have.
* Several steps of the proofs of Theorem 1 are not justified. With the explicit C the displayed bounds hold all the
  same: section 1 of docs/theory/deviations.md proves them with the tools of `steadfed.theory.sharp`. In that form they
  are pathwise: with probability at least 1 − `failure_probability(...)` the squared distance itself, not an expectation
  of it, is below the bound at all synchronisation indices at once.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import accumulate

from steadfed._core.gaps import Gaps, check_gaps, check_synchronised, steps_taken
from steadfed._core.ranges import (
    check_curvatures,
    check_not_negative,
    check_probability,
    check_step_size,
    check_whole,
)
from steadfed.theory.paper._concentration import concentration_failure
from steadfed.theory.paper._setting import full_batch_step, minibatch_step

MOST_STEPS = 2**63 - 1
"""`longest_run` does not return more steps than this, however small the probability of failure is."""


def floor(*, filter_error: float, noise: float, dissimilarity: float, local_steps: int) -> float:
    r"""Return Γ = 3Υ²/H + 11Hσ²/b + 36Hκ², the error that more steps do not remove.

    The constants: 11 ≥ 9 + (15/16) · 2 and 36 ≥ 33 + (15/16) · 3.

    Paper: Γ of Theorem 1 (thm:LocalSGD_convergence).

    >>> floor(filter_error=10.0, noise=1.0, dissimilarity=1.0, local_steps=2)
    109.0
    """
    steps, error = check_whole("local_steps", local_steps), check_not_negative("filter_error", filter_error)
    spread = 11.0 * check_not_negative("noise", noise) + 36.0 * check_not_negative("dissimilarity", dissimilarity)
    return 3.0 * error / steps + steps * spread


def full_batch_floor(*, filter_error: float, dissimilarity: float, local_steps: int) -> float:
    r"""Return Γ_GD = 2Υ_GD²/H + 25Hκ². 25 ≥ 23 + 3/2.

    Paper: Γ_GD of Theorem 2 (thm:full-batch-GD).

    >>> full_batch_floor(filter_error=10.0, dissimilarity=1.0, local_steps=2)
    60.0
    """
    steps, error = check_whole("local_steps", local_steps), check_not_negative("filter_error", filter_error)
    return 2.0 * error / steps + 25.0 * steps * check_not_negative("dissimilarity", dissimilarity)


def decay(*, strong_convexity: float, smoothness: float, lr: float, total_steps: int) -> float:
    r"""Return (1 − μη/2)^T, the factor of ‖x⁰ − x*‖² for any step size η ≤ 1/L that the theorem at hand allows.

    It is (1 − μ/(16HL))^T for η = 1/(8HL) and (1 − μ/(10HL))^T for η = 1/(5HL), and at most exp(−μηT/2).

    Paper: eq. convex_local-19 and convex-GD_local-10, "Convergence rates" of Section sec:important-remarks.

    **Deviations from the paper.** (1 − 1/x)^x ≤ 1/e is said to hold for every x > 0; it needs x ≥ 1, which is the case.

    >>> round(decay(strong_convexity=1.0, smoothness=1.0, lr=0.125, total_steps=16), 4)
    0.3561
    """
    curvature, strength = check_curvatures(smoothness, strong_convexity)
    half = strength * check_step_size(lr, 1.0 / curvature, "1/L") / 2.0
    return math.exp(check_whole("total_steps", total_steps, least=0) * math.log1p(-half))


def distance_bound(
    *,
    distance: float,
    floor: float,
    strong_convexity: float,
    smoothness: float,
    local_steps: Gaps,
    total_steps: int,
    lr: float | None = None,
) -> float:
    r"""Return (1 − μη/2)^T ‖x⁰ − x*‖² + (13/μ²)Γ ≥ ‖x^T − x*‖², η ≤ 1/(8HL), with mini-batches.

    13 ≥ 6 · 32/15.

    Paper: Theorem 1 (thm:LocalSGD_convergence), eq. convex_convergence_rate; any η: eq. convex_local-19.

    **Deviations from the paper.** See the module: the cohort's ε, synchronisation indices, pathwise.

    >>> distance_bound(
    ...     distance=4.0, floor=1.0, strong_convexity=1.0, smoothness=1.0, local_steps=5, total_steps=0
    ... )
    17.0
    """
    steps, strength = check_synchronised(total_steps, local_steps)[0], check_curvatures(smoothness, strong_convexity)[1]
    step = minibatch_step(lr, smoothness, local_steps)
    left = decay(strong_convexity=strength, smoothness=smoothness, lr=step, total_steps=steps)
    return left * check_not_negative("distance", distance) + 13.0 / strength**2 * check_not_negative("floor", floor)


def full_batch_distance_bound(
    *,
    distance: float,
    floor: float,
    strong_convexity: float,
    smoothness: float,
    local_steps: Gaps,
    total_steps: int,
    lr: float | None = None,
) -> float:
    r"""Return (1 − μη/2)^T ‖x⁰ − x*‖² + (14/μ²)Γ_GD ≥ ‖x^T − x*‖², η ≤ 1/(5HL), with full batches, surely.

    14 ≥ 6 · 20/9.

    Paper: Theorem 2 (thm:full-batch-GD), eq. convex-GD_convergence_rate; any η: eq. convex-GD_local-10.

    **Deviations from the paper.** See the module: the cohort's ε, synchronisation indices.

    >>> full_batch_distance_bound(
    ...     distance=4.0, floor=1.0, strong_convexity=1.0, smoothness=1.0, local_steps=5, total_steps=0
    ... )
    18.0
    """
    steps, strength = check_synchronised(total_steps, local_steps)[0], check_curvatures(smoothness, strong_convexity)[1]
    step = full_batch_step(lr, smoothness, local_steps)
    left = decay(strong_convexity=strength, smoothness=smoothness, lr=step, total_steps=steps)
    return left * check_not_negative("distance", distance) + 14.0 / strength**2 * check_not_negative("floor", floor)


def gradient_bound(
    *, gap: float, floor: float, smoothness: float, local_steps: Gaps, total_steps: int, lr: float | None = None
) -> float:
    r"""Return 2(F(x⁰) − F(x*))/(ηT) + (9/2)Γ, a bound of the mean squared gradient, η ≤ 1/(8HL), with mini-batches.

    16HL/T for η = 1/(8HL). 9/2 = 2 · 9/8 · 2. Infinite for T = 0.

    Paper: Theorem 1 (thm:LocalSGD_convergence), eq. nonconvex_convergence_rate; any η: eq. nonconvex_local-11.

    **Deviations from the paper.** The mean is (1/N) Σ_{k<N} ‖∇F(x^{kH})‖² over the N = T/H synchronisation indices
    before T; the paper divides T + 1 terms by T. If gaps differ, each counts as often as it has steps. See also the
    module: the cohort's ε, pathwise.

    >>> gradient_bound(gap=1.0, floor=2.0, smoothness=1.0, local_steps=5, total_steps=80)
    10.0
    """
    steps, step = check_synchronised(total_steps, local_steps)[0], minibatch_step(lr, smoothness, local_steps)
    return _average(gap, step, steps) + 4.5 * check_not_negative("floor", floor)


def full_batch_gradient_bound(
    *, gap: float, floor: float, smoothness: float, local_steps: Gaps, total_steps: int, lr: float | None = None
) -> float:
    r"""Return 2(F(x⁰) − F(x*))/(ηT) + (24/5)Γ_GD, a bound of the mean squared gradient, η ≤ 1/(5HL), with full batches.

    10HL/T for η = 1/(5HL). 24/5 = 2 · 6/5 · 2. Infinite for T = 0.

    Paper: Theorem 2 (thm:full-batch-GD), eq. nonconvex-GD_convergence_rate; any η: eq. nonconvex-GD_local-8.

    **Deviations from the paper.** The mean is that of `gradient_bound`.

    >>> full_batch_gradient_bound(gap=1.0, floor=5.0, smoothness=1.0, local_steps=5, total_steps=50)
    25.0
    """
    steps, step = check_synchronised(total_steps, local_steps)[0], full_batch_step(lr, smoothness, local_steps)
    return _average(gap, step, steps) + 4.8 * check_not_negative("floor", floor)


def failure_probability(
    *, total_steps: int, local_steps: Gaps, slack: float, byzantine_fraction: float, cohort_size: int
) -> float:
    r"""Return (T/H) exp(−ε′²(1 − ε)K/16), the probability that the bounds of Theorem 1 fail in a run of T steps.

    T/H stands for the number of rounds, also where gaps differ. It may exceed 1 and is returned as it is: a value of 1
    or more says nothing. With full batches nothing can fail.

    Paper: Theorem 1 (thm:LocalSGD_convergence), "Error probability analysis" of Section sec:convex_convergence.

    **Deviations from the paper.** ε is the cohort's fraction. The probability is small for very large cohorts only;
    `steadfed.theory.sharp.concentration_failure` is the exact tail behind it.

    >>> round(failure_probability(
    ...     total_steps=500, local_steps=5, slack=0.1, byzantine_fraction=0.1, cohort_size=16_400
    ... ), 4)
    0.0099
    """
    rounds = check_synchronised(total_steps, local_steps)[1]
    once = concentration_failure(slack=slack, byzantine_fraction=byzantine_fraction, cohort_size=cohort_size)
    return rounds * once


def longest_run(*, failure: float, local_steps: Gaps, slack: float, byzantine_fraction: float, cohort_size: int) -> int:
    r"""Return the largest T at which a round ends with `failure_probability` at most δ = `failure`; 0 if there is none.

    T ≤ δ H exp(ε′²(1 − ε)K/16), in whole rounds, exactly. At most `MOST_STEPS`.

    Paper: Theorem 1 (thm:LocalSGD_convergence), "Error probability analysis" of Section sec:convex_convergence.

    >>> longest_run(failure=0.01, local_steps=5, slack=0.1, byzantine_fraction=0.1, cohort_size=16_400)
    505
    >>> longest_run(failure=0.01, local_steps=5, slack=0.1, byzantine_fraction=0.1, cohort_size=100)
    0
    """
    allowed, gaps = check_probability("failure", failure), check_gaps(local_steps)
    once = concentration_failure(slack=slack, byzantine_fraction=byzantine_fraction, cohort_size=cohort_size)
    most = _most_rounds(gaps)
    if once == 0.0 or Fraction(allowed) >= most * Fraction(once):
        return steps_taken(gaps, most)
    rounds = Fraction(allowed) // Fraction(once)
    # `failure_probability` rounds its product: one round more may be allowed by the same float
    return steps_taken(gaps, rounds + int((rounds + 1) * once <= allowed))


def _most_rounds(gaps: tuple[int, ...]) -> int:
    """Return how many rounds take at most `MOST_STEPS`."""
    whole, left = divmod(MOST_STEPS, sum(gaps))
    return whole * len(gaps) + sum(end <= left for end in accumulate(gaps))


def _average(gap: float, step: float, steps: int) -> float:
    missing = check_not_negative("gap", gap)
    return 2.0 * missing / (step * steps) if steps else math.inf
