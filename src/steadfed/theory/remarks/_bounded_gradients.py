r"""Bounded gradients, ‖∇F_r(x)‖ ≤ G: a step size that does not depend on H, and rates in T.

`gradient_norm` is G, `noise` σ_b² as in `steadfed.theory.sharp`, `error` a bound s of its `decoding_error`. `lr=None`
means 1/(2L).

**Deviations from the paper.** It says "exponentially fast (in T)" and "1/T" without a formula; these are proved in
docs/theory/bounded-gradients.md by the argument of `steadfed.theory.sharp`. The rates need no bounded gradients. What
bounded gradients give for s is never below what they say themselves, and a strongly convex F has them on bounded sets
only.
"""

from __future__ import annotations

import math

from steadfed._core.gaps import check_synchronised
from steadfed._core.ranges import (
    check_not_negative,
    check_positive,
    check_step_size,
    check_whole,
)
from steadfed.theory import sharp


def bounded_gradient_lr(*, smoothness: float) -> float:
    r"""Return η = 1/(2L), the step size of the remark.

    Paper: "Convergence rates" (sec:important-remarks).

    >>> bounded_gradient_lr(smoothness=4.0)
    0.125
    """
    return 0.5 / check_positive("smoothness", smoothness)


def bounded_gradient_dissimilarity(*, gradient_norm: float) -> float:
    r"""Return 4G² ≥ ‖∇F_r(x) − ∇F_s(x)‖², which bounds κ², too.

    Paper: ‖∇F_r(x) − ∇F_s(x)‖ ≤ 2G (subsec:related-work).

    >>> bounded_gradient_dissimilarity(gradient_norm=3.0)
    36.0
    """
    limit = check_not_negative("gradient_norm", gradient_norm)
    return 4.0 * limit * limit


def bounded_gradient_drift(*, noise: float, gradient_norm: float, local_steps: int, lr: float) -> float:
    r"""Return η²(2H(H − 1)σ_b² + (4/3)H(H − 1)(2H − 1)G²) ≥ Σ_t E‖x_r^t − x_s^t‖², for every η.

    What becomes of Lemma 2 of the paper (`steadfed.theory.paper.drift`), which asks for η ≤ 1/(8HL).

    Paper: "Convergence rates" (sec:important-remarks). Proof: docs/theory/bounded-gradients.md, Lemma 1.

    >>> bounded_gradient_drift(noise=1.0, gradient_norm=1.0, local_steps=2, lr=0.5)
    3.0
    """
    steps, limit = check_whole("local_steps", local_steps), check_not_negative("gradient_norm", gradient_norm)
    pairs = steps * (steps - 1)
    apart = 2.0 * pairs * check_not_negative("noise", noise) + 4.0 / 3.0 * pairs * (2 * steps - 1) * limit * limit
    return check_positive("lr", lr) * lr * apart


def bounded_gradient_deviation(
    *, noise: float, gradient_norm: float, local_steps: int, num_honest: int | None = None
) -> float:
    r"""Return v = 2GH + √H σ_b with E‖y − a_k‖² ≤ v² for every honest client, whatever η and the curvature of F.

    With `num_honest` = m it is v̄ = 2GH + √(H/m) σ_b, for the mean of m honest rows. They take the places of
    `steadfed.theory.sharp.client_deviation` and `mean_deviation` in `decoding_error`.

    Proof: docs/theory/bounded-gradients.md, Lemma 2.

    >>> bounded_gradient_deviation(noise=4.0, gradient_norm=1.0, local_steps=9)
    24.0
    """
    steps, limit = check_whole("local_steps", local_steps), check_not_negative("gradient_norm", gradient_norm)
    honest = 1 if num_honest is None else check_whole("num_honest", num_honest)
    return 2.0 * limit * steps + math.sqrt(steps / honest * check_not_negative("noise", noise))


def distance_bound_in_steps(
    *,
    distance: float,
    error: float,
    smoothness: float,
    strong_convexity: float,
    local_steps: int,
    total_steps: int,
    lr: float | None = None,
) -> float:
    r"""Return (ϑ D₀ + (1 − ϑ) ηs/(1 − ρᴴ))² ≥ E‖x^T − x*‖², ρ = 1 − ημ, ϑ = ρ^T: exponentially fast in T.

    ϑ = (1 − μ/(2L))^T for η = 1/(2L) and any H. `distance` is D₀² = ‖x⁰ − x*‖².

    Paper: "Convergence rates" (sec:important-remarks). Proof: docs/theory/bounded-gradients.md, Theorem 1.

    >>> given = {"distance": 16.0, "error": 0.0, "smoothness": 1.0, "strong_convexity": 1.0, "local_steps": 4}
    >>> [distance_bound_in_steps(**given, total_steps=number) for number in (0, 4)]
    [16.0, 0.0625]
    """
    steps = check_whole("local_steps", local_steps)
    bound = sharp.distance_bound(
        check_synchronised(total_steps, steps)[1],
        distance=distance,
        error=error,
        lr=bounded_gradient_lr(smoothness=smoothness) if lr is None else lr,
        local_steps=steps,
        smoothness=smoothness,
        strong_convexity=strong_convexity,
    )
    return float(bound)


def gradient_bound_in_steps(
    *, gap: float, error: float, smoothness: float, local_steps: int, total_steps: int, lr: float | None = None
) -> float:
    r"""Return 2(F(x⁰) − F*)/(ηT) + s²/H ≥ (1/T) Σ_{k<T/H} Σ_{t<H} E‖∇F(z_k^t)‖², for any H and η ≤ 1/L.

    z_k^t is gradient descent on F from the server's model x_k, z_k^0 = x_k. 4L(F(x⁰) − F*)/T for η = 1/(2L). Infinite
    for T = 0.

    Paper: "Convergence rates" (sec:important-remarks). Proof: docs/theory/bounded-gradients.md, Theorem 2.

    **Deviations from the paper.** Its average is over x^t, means of clients that include the honest versions of
    Byzantine ones, which do not exist; z_k^t exist, although nobody computes them.

    >>> gradient_bound_in_steps(gap=1.0, error=6.0, smoothness=2.0, local_steps=4, total_steps=16)
    9.5
    """
    steps = check_whole("local_steps", local_steps)
    total, _ = check_synchronised(total_steps, steps)
    limit = 1.0 / check_positive("smoothness", smoothness)
    step = 0.5 * limit if lr is None else check_step_size(lr, limit, "1/L")
    height, reached = check_not_negative("gap", gap), check_not_negative("error", error)
    return 2.0 * height / (step * total) + reached * reached / steps if total else math.inf
