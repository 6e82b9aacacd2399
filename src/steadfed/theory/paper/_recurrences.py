r"""The claims and recurrences behind Theorems 1 and 2: what one step adds to the distance or takes from the loss.

`noise` is σ²/b, `filter_error` is Υ² (Υ_GD² for full batches). All are for η ≤ 1/(8HL) with mini-batches and η ≤
1/(5HL) with full batches. α = 1 − μη/2.

**Deviations from the paper.** These are its formulas, not corrected: the step of eq. convex_local-0 that leads to them
holds for full batches only, and with mini-batches "E ≤ … with probability" is not a statement that can be iterated. The
bounds that follow are true for another reason. docs/theory/deviations.md, 1 and 14 to 16.
"""

from __future__ import annotations

from steadfed._core.ranges import check_curvatures, check_not_negative, check_positive, check_step_size, check_whole


def contraction(*, strong_convexity: float, smoothness: float, lr: float) -> float:
    r"""Return 1 − μη: a gradient step on F shrinks the squared distance to x* by this factor, η ≤ 1/L.

    Paper: Claim 3 (claim:convex_first-term), eq. convex_first-term-bound.

    >>> contraction(strong_convexity=1.0, smoothness=2.0, lr=0.25)
    0.75
    """
    curvature, strength = check_curvatures(smoothness, strong_convexity)
    return 1.0 - strength * check_step_size(lr, 1.0 / curvature, "1/L")


def gradient_limit(*, smoothness: float, gap: float) -> float:
    r"""Return 2L(F(x) − F(x*)) ≥ ‖∇F(x)‖² for any L-smooth F with minimiser x*.

    Paper: Fact 1 (fact:Smooth_gradient-bound).

    >>> gradient_limit(smoothness=2.0, gap=0.5)
    2.0
    """
    return 2.0 * check_positive("smoothness", smoothness) * check_not_negative("gap", gap)


def gradient_gap(*, noise: float, dissimilarity: float, local_steps: int) -> float:
    r"""Return 2κ² + (7H/32)(σ²/b + 3κ²) ≥ E‖(1/K) Σ_r (∇F_r(x_r^t) − ∇F(x^t))‖².

    Paper: Claim 4 (claim:convex_second-term), eq. convex_second-term-bound.

    >>> gradient_gap(noise=1.0, dissimilarity=1.0, local_steps=8)
    9.0
    """
    apart = check_not_negative("dissimilarity", dissimilarity)
    drifted = check_not_negative("noise", noise) + 3.0 * apart
    return 2.0 * apart + 7.0 * check_whole("local_steps", local_steps) / 32.0 * drifted


def full_batch_gradient_gap(*, dissimilarity: float, local_steps: int) -> float:
    r"""Return 3Hκ² ≥ ‖(1/K) Σ_r (∇F_r(x_r^t) − ∇F(x^t))‖²; 3H ≥ 2 + 14H/25.

    Paper: eq. convex-GD_local-4.

    **Deviations from the paper.** The left side is printed with ∇F_r(x^t); ∇F(x^t) is meant.

    >>> full_batch_gradient_gap(dissimilarity=2.0, local_steps=5)
    30.0
    """
    return 3.0 * check_whole("local_steps", local_steps) * check_not_negative("dissimilarity", dissimilarity)


def subset_noise(*, noise: float, local_steps: int) -> float:
    r"""Return (4/3)H²σ²/b ≥ E‖(1/|S|) Σ_{r∈S} Σ_t (g_r − ∇F_r)(x_r^t)‖² for any S of at least 3K/4 honest clients.

    Cauchy-Schwarz: the square is at most (1/|S|) Σ over all honest clients of ‖Σ_t (g_r − ∇F_r)‖².

    Paper: eq. convex_local-65.

    **Deviations from the paper.** The paper has 4H²σ²/(3bK). S is chosen by looking at the gradients, so they are
    neither independent nor unbiased on S, and the K is not justified. Claim 5 absorbs the difference: 3 · 4/3 + 3 ·
    21/16 < 8.

    >>> subset_noise(noise=3.0, local_steps=2)
    16.0
    """
    return 4.0 * check_whole("local_steps", local_steps) ** 2 * check_not_negative("noise", noise) / 3.0


def subset_gap(*, noise: float, dissimilarity: float, local_steps: int) -> float:
    r"""Return 10H²κ² + 21H²σ²/(16b), how far the means of ∇F_r over S and over the cohort are apart, squared.

    10 ≥ 6 + 252/64, 21/16 = 84/64.

    Paper: eq. convex_local-8.

    >>> subset_gap(noise=16.0, dissimilarity=1.0, local_steps=1)
    31.0
    """
    steps = check_whole("local_steps", local_steps)
    apart = check_not_negative("dissimilarity", dissimilarity)
    return steps**2 * (10.0 * apart + 21.0 * check_not_negative("noise", noise) / 16.0)


def decoding_error(*, filter_error: float, noise: float, dissimilarity: float, local_steps: int) -> float:
    r"""Return 3Υ² + 8H²σ²/b + 30H²κ² ≥ E‖ĝ − (1/K) Σ_r Σ_t ∇F_r(x_r^t)‖².

    Three times the sum of Υ², `subset_noise` and `subset_gap`, rounded up.

    Paper: Claim 5 (claim:convex_third-term), eq. convex_third-term-bound.

    **Deviations from the paper.** None in the formula; see `subset_noise`. "=" at the end of the proof reads "≤".

    >>> decoding_error(filter_error=1.0, noise=1.0, dissimilarity=1.0, local_steps=2)
    155.0
    """
    steps, error = check_whole("local_steps", local_steps), check_not_negative("filter_error", filter_error)
    spread = 8.0 * check_not_negative("noise", noise) + 30.0 * check_not_negative("dissimilarity", dissimilarity)
    return 3.0 * error + steps**2 * spread


def full_batch_decoding_error(*, filter_error: float, dissimilarity: float, local_steps: int) -> float:
    r"""Return 2Υ_GD² + 20H²κ² ≥ ‖∇F̂ − (1/K) Σ_r Σ_t ∇F_r(x_r^t)‖²; 20 ≥ 2(6 + 84/25).

    Paper: eq. convex-GD_local-5.

    >>> full_batch_decoding_error(filter_error=1.0, dissimilarity=1.0, local_steps=2)
    82.0
    """
    apart, error = check_not_negative("dissimilarity", dissimilarity), check_not_negative("filter_error", filter_error)
    return 2.0 * error + 20.0 * check_whole("local_steps", local_steps) ** 2 * apart


def synchronisation_term(*, filter_error: float, noise: float, dissimilarity: float, local_steps: int) -> float:
    r"""Return β₁ = 3Υ² + 9H²σ²/b + 33H²κ², what a synchronisation adds: `decoding_error` + `gradient_gap`, rounded up.

    Paper: β₁ below eq. convex_local-17, from eq. convex_local-15.

    >>> synchronisation_term(filter_error=1.0, noise=1.0, dissimilarity=1.0, local_steps=2)
    171.0
    """
    steps, error = check_whole("local_steps", local_steps), check_not_negative("filter_error", filter_error)
    spread = 9.0 * check_not_negative("noise", noise) + 33.0 * check_not_negative("dissimilarity", dissimilarity)
    return 3.0 * error + steps**2 * spread


def local_term(*, noise: float, dissimilarity: float, local_steps: int) -> float:
    r"""Return β₂ = 3Hκ² + 2Hσ²/b, what a local step adds: `gradient_gap` + σ²/(bK), rounded up.

    Paper: β₂ below eq. convex_local-17.

    >>> local_term(noise=1.0, dissimilarity=1.0, local_steps=2)
    10.0
    """
    spread = 3.0 * check_not_negative("dissimilarity", dissimilarity) + 2.0 * check_not_negative("noise", noise)
    return check_whole("local_steps", local_steps) * spread


def full_batch_synchronisation_term(*, filter_error: float, dissimilarity: float, local_steps: int) -> float:
    r"""Return β₁ = 2Υ_GD² + 23H²κ².

    Paper: β₁ below eq. convex-GD_local-8, from eq. convex-GD_local-6.

    >>> full_batch_synchronisation_term(filter_error=1.0, dissimilarity=1.0, local_steps=2)
    94.0
    """
    apart, error = check_not_negative("dissimilarity", dissimilarity), check_not_negative("filter_error", filter_error)
    return 2.0 * error + 23.0 * check_whole("local_steps", local_steps) ** 2 * apart


def full_batch_local_term(*, dissimilarity: float, local_steps: int) -> float:
    r"""Return β₂ = (3/2)Hκ².

    Paper: β₂ below eq. convex-GD_local-8.

    >>> full_batch_local_term(dissimilarity=2.0, local_steps=5)
    15.0
    """
    return 1.5 * check_whole("local_steps", local_steps) * check_not_negative("dissimilarity", dissimilarity)


def distance_step(*, distance: float, term: float, strong_convexity: float, smoothness: float, lr: float) -> float:
    r"""Return α · distance + (6η/μ) · term, the squared distance after a step.

    `term` is β₁ at a synchronisation and β₂ at every other step.

    Paper: eq. convex_local-15 and convex_local-17; full batches: eq. convex-GD_local-6 and convex-GD_local-8.

    >>> distance_step(distance=1.0, term=1.0, strong_convexity=1.0, smoothness=1.0, lr=0.125)
    1.6875
    """
    strength, step = _strength_and_step(strong_convexity, smoothness, lr)
    alpha = 1.0 - strength * step / 2.0
    return alpha * check_not_negative("distance", distance) + 6.0 * step / strength * check_not_negative("term", term)


def distance_limit(
    *,
    synchronisation_term: float,
    local_term: float,
    strong_convexity: float,
    smoothness: float,
    lr: float,
    local_steps: int,
) -> float:
    r"""Return (6η/μ)(β₂/(1 − α) + β₁/(1 − α^H)), what `distance_step` adds up to over ever so many steps.

    Paper: eq. convex_local-18; full batches: eq. convex-GD_local-9.

    >>> round(distance_limit(
    ...     synchronisation_term=1.0, local_term=0.0, strong_convexity=1.0, smoothness=1.0, lr=0.125, local_steps=1
    ... ), 9)
    12.0
    """
    strength, step = _strength_and_step(strong_convexity, smoothness, lr)
    alpha = 1.0 - strength * step / 2.0
    between = check_not_negative("local_term", local_term) / (1.0 - alpha)
    synchronised = check_not_negative("synchronisation_term", synchronisation_term)
    return 6.0 * step / strength * (between + synchronised / (1.0 - alpha ** check_whole("local_steps", local_steps)))


def synchronisation_deviation(*, filter_error: float, noise: float, dissimilarity: float, local_steps: int) -> float:
    r"""Return 2β₁ ≥ E‖C‖², C of x^{t_{i+1}} = x − η∇F(x) + ηC at x = x^{t_{i+1}−1}.

    Paper: eq. nonconvex_local-55.

    >>> synchronisation_deviation(filter_error=1.0, noise=1.0, dissimilarity=1.0, local_steps=2)
    342.0
    """
    return 2.0 * synchronisation_term(
        filter_error=filter_error, noise=noise, dissimilarity=dissimilarity, local_steps=local_steps
    )


def local_deviation(*, noise: float, dissimilarity: float, local_steps: int) -> float:
    r"""Return 2β₂ ≥ E‖D‖², D of x^{t+1} = x^t − η∇F(x^t) + ηD between synchronisations.

    Paper: eq. nonconvex_local-85.

    >>> local_deviation(noise=1.0, dissimilarity=1.0, local_steps=2)
    20.0
    """
    return 2.0 * local_term(noise=noise, dissimilarity=dissimilarity, local_steps=local_steps)


def full_batch_synchronisation_deviation(*, filter_error: float, dissimilarity: float, local_steps: int) -> float:
    r"""Return 2(2Υ_GD² + 23H²κ²) ≥ ‖C‖².

    Paper: eq. nonconvex-GD_local-3.

    >>> full_batch_synchronisation_deviation(filter_error=1.0, dissimilarity=1.0, local_steps=2)
    188.0
    """
    return 2.0 * full_batch_synchronisation_term(
        filter_error=filter_error, dissimilarity=dissimilarity, local_steps=local_steps
    )


def full_batch_local_deviation(*, dissimilarity: float, local_steps: int) -> float:
    r"""Return 3Hκ² ≥ ‖D‖², which is `full_batch_gradient_gap`.

    Paper: below eq. nonconvex_local-5, used in eq. nonconvex-GD_local-6.

    >>> full_batch_local_deviation(dissimilarity=2.0, local_steps=5)
    30.0
    """
    return full_batch_gradient_gap(dissimilarity=dissimilarity, local_steps=local_steps)


def loss_step(*, loss: float, gradient: float, deviation: float, smoothness: float, lr: float) -> float:
    r"""Return F − η(3/4 − ηL)‖∇F‖² + η(1 + ηL)‖C‖², the loss after a step.

    `gradient` is ‖∇F‖², `deviation` is ‖C‖² at a synchronisation and ‖D‖² at every other step.

    For η ≤ 1/(8L) this is at most F − (η/2)‖∇F‖² + (9η/8)‖C‖², for η ≤ 1/(5L) with 6η/5.

    Paper: eq. nonconvex_local-31; simplified in eq. nonconvex_local-4, nonconvex_local-8 and nonconvex-GD_local-1.

    >>> loss_step(loss=1.0, gradient=1.0, deviation=0.0, smoothness=1.0, lr=0.125)
    0.921875
    """
    step = check_step_size(lr, 0.75 / check_positive("smoothness", smoothness), "3/(4L)")
    curved = step * smoothness
    gained = (0.75 - curved) * check_not_negative("gradient", gradient)
    return loss - step * gained + step * (1.0 + curved) * check_not_negative("deviation", deviation)


def _strength_and_step(strong_convexity: float, smoothness: float, lr: float) -> tuple[float, float]:
    curvature, strength = check_curvatures(smoothness, strong_convexity)
    return strength, check_step_size(lr, 1.0 / curvature, "1/L")
