r"""How concentrated the honest accumulated gradients are, and how far the filter can be from their mean.

`noise` is σ²/b. `byzantine_fraction` is the fraction ε of the COHORT, not of all clients. `lr=None` means the step size
of the theorem, the largest one allowed.
"""

from __future__ import annotations

import math

from steadfed._core.ranges import check_between, check_not_negative, check_positive, check_whole
from steadfed.aggregators._rage.constants import filter_constant
from steadfed.theory.paper._setting import admissible, full_batch_step, minibatch_step, slack_of


def subset_spread(*, directional_variance: float, slack: float, dim: int, num_honest: int) -> float:
    r"""Return 4σ²/ε′ · (1 + d/((1 − ε′)m)), the spread of the best (1 − ε′)m of m independent points about their means.

    σ² is the largest variance of a point along one direction.

    Paper: Lemma 1 (lem:subset_variance).

    **Deviations from the paper.** The paper inserts the total variance where the lemma asks for a directional one, and
    the d in the formula is a consequence. See `honest_spread`.

    >>> subset_spread(directional_variance=1.0, slack=0.25, dim=30, num_honest=40)
    32.0
    """
    variance, spare = check_not_negative("directional_variance", directional_variance), slack_of("slack", slack)
    honest = (1.0 - spare) * check_whole("num_honest", num_honest)
    return 4.0 * variance / spare * (1.0 + check_whole("dim", dim) / honest)


def subset_failure(*, slack: float, num_honest: int) -> float:
    r"""Return exp(−ε′²m/16), the probability that the subset of `subset_spread` does not exist.

    Paper: Lemma 1 (lem:subset_variance).

    >>> round(subset_failure(slack=0.25, num_honest=1024), 4)
    0.0183
    """
    return math.exp(-(slack_of("slack", slack) ** 2) * check_whole("num_honest", num_honest) / 16.0)


def accumulated_variance(*, noise: float, local_steps: int) -> float:
    r"""Return H²σ²/b, the total variance of an honest client's accumulated gradient.

    Paper: Claim 1 (claim:reduced_variance_H-iters-app).

    **Deviations from the paper.** None in the formula, but the claim is false for general F_r: its proof drops the
    variance of the conditional mean. What holds instead is `steadfed.theory.sharp.client_deviation`;
    docs/theory/deviations.md, 13.

    >>> accumulated_variance(noise=2.0, local_steps=5)
    50.0
    """
    return check_whole("local_steps", local_steps) ** 2 * check_not_negative("noise", noise)


def expectation_gap(*, dissimilarity: float, smoothness: float, local_steps: int, drift: float) -> float:
    r"""Return 6H²κ² + 3HL² · drift ≥ ‖E[y_r] − E[y_s]‖², y an accumulated gradient, drift = Σ_t E‖x_r^t − x_s^t‖².

    Paper: Claim 2 (claim:local-global-expectation-app), eq. local-global-expectation-bound-app.

    >>> expectation_gap(dissimilarity=1.0, smoothness=2.0, local_steps=3, drift=0.5)
    72.0
    """
    steps, curvature = check_whole("local_steps", local_steps), check_positive("smoothness", smoothness)
    apart = check_not_negative("dissimilarity", dissimilarity)
    return 6.0 * steps**2 * apart + 3.0 * steps * curvature**2 * check_not_negative("drift", drift)


def drift(*, noise: float, dissimilarity: float, smoothness: float, local_steps: int, lr: float | None = None) -> float:
    r"""Return 7H³η²(σ²/b + 3κ²) ≥ Σ_t E‖x_r^t − x_s^t‖² over the H local steps of one round, η ≤ 1/(8HL).

    The constant: 6/(1 − 9η²L²H²) ≤ 6/(1 − 9/64) = 6.98.

    Paper: Lemma 2 (lem:bounded_local-global-params-app), eq. bounded_local-global-params-bound-app.

    >>> drift(noise=1.0, dissimilarity=1.0, smoothness=1.0, local_steps=1, lr=0.125)
    0.4375
    """
    steps, step = check_whole("local_steps", local_steps), minibatch_step(lr, smoothness, local_steps)
    apart = check_not_negative("noise", noise) + 3.0 * check_not_negative("dissimilarity", dissimilarity)
    return 7.0 * steps**3 * step**2 * apart


def full_batch_drift(*, dissimilarity: float, smoothness: float, local_steps: int, lr: float | None = None) -> float:
    r"""Return 7η²H³κ² ≥ Σ_t ‖x_r^t − x_s^t‖² with full batches, η ≤ 1/(5HL).

    The constant: 6/(1 − 3η²L²H²) ≤ 6/(1 − 3/25) = 6.82.

    Paper: Lemma 4 (lem:bounded_local-global-params_GD), eq. bounded_local-global-params_GD-bound.

    >>> full_batch_drift(dissimilarity=1.0, smoothness=1.0, local_steps=2, lr=0.1)
    0.56
    """
    steps, step = check_whole("local_steps", local_steps), full_batch_step(lr, smoothness, local_steps)
    return 7.0 * step**2 * steps**3 * check_not_negative("dissimilarity", dissimilarity)


def spread_about_means(*, noise: float, local_steps: int, slack: float, dim: int, cohort_size: int) -> float:
    r"""Return σ̂₀² = 4H²σ²/(bε′) · (1 + 4d/(3K)), the spread of the good subset about the clients' own means.

    It is `subset_spread` with the variance of `accumulated_variance` and (1 − ε′)m ≥ 3K/4.

    Paper: eq. bounded_subset_variance_2-app.

    **Deviations from the paper.** See `accumulated_variance` and `honest_spread`.

    >>> spread_about_means(noise=1.0, local_steps=1, slack=0.25, dim=3, cohort_size=4)
    32.0
    """
    variance, spare = accumulated_variance(noise=noise, local_steps=local_steps), slack_of("slack", slack)
    rows = check_whole("cohort_size", cohort_size)
    return 4.0 * variance / spare * (1.0 + 4.0 * check_whole("dim", dim) / (3.0 * rows))


def honest_spread(
    *, noise: float, dissimilarity: float, local_steps: int, slack: float, dim: int, cohort_size: int
) -> float:
    r"""Return σ₀² = 25H²σ²/(bε′) · (1 + 4d/(3K)) + 28H²κ², the spread of the good subset about its own mean.

    The constants: 28 ≥ 24 + 252/64, and 25/ε′ ≥ 24/ε′ + 84/64 for ε′ ≤ 1/4.

    Paper: Theorem 3 (thm:gradient-estimator), part 1, eq. mat-concen_gradient-estimator.

    **Deviations from the paper.** None in the formula. The factor d/K comes from taking a total for a directional
    variance: for large models it makes σ₀² useless as a threshold. `steadfed.theory.sharp` proves a spread without it.
    docs/theory/deviations.md, 9 and 13.

    >>> honest_spread(noise=1.0, dissimilarity=2.0, local_steps=1, slack=0.25, dim=3, cohort_size=4)
    256.0
    """
    about = spread_about_means(noise=noise, local_steps=local_steps, slack=slack, dim=dim, cohort_size=cohort_size)
    return 6.25 * about + 28.0 * local_steps**2 * check_not_negative("dissimilarity", dissimilarity)


def full_batch_honest_spread(*, dissimilarity: float, local_steps: int) -> float:
    r"""Return 11H²κ², the spread of all honest accumulated gradients of full batches. 11 ≥ 8 + 56/25.

    Paper: Theorem 4 (thm:gradient-estimator_GD), eq. gradient-estimator_GD-0.

    >>> full_batch_honest_spread(dissimilarity=1.0, local_steps=2)
    44.0
    """
    return 11.0 * check_whole("local_steps", local_steps) ** 2 * check_not_negative("dissimilarity", dissimilarity)


def concentration_failure(*, slack: float, byzantine_fraction: float, cohort_size: int) -> float:
    r"""Return exp(−ε′²(1 − ε)K/16), the probability that one round has no good subset.

    Paper: Theorem 3 (thm:gradient-estimator), part 1.

    **Deviations from the paper.** ε is the cohort's fraction, also where Theorem 1 uses the formula.

    >>> round(concentration_failure(slack=0.1, byzantine_fraction=0.1, cohort_size=100), 3)
    0.945
    """
    fraction, spare = admissible(byzantine_fraction, slack)
    return math.exp(-(spare**2) * (1.0 - fraction) * check_whole("cohort_size", cohort_size) / 16.0)


def filter_error(
    *,
    sigma0: float,
    byzantine_fraction: float,
    slack: float,
    cohort_size: int,
    mode: str = "auto",
    kappa: float | None = None,
) -> float:
    r"""Return Υ² = C² σ₀² (ε + ε′) ≥ ‖ĝ − g_S‖², the squared error of the filter; σ₀ is `sigma0`, not σ₀².

    C is the proved constant of the mode (docs/theory/filter.md). `cohort_size` and `kappa` matter if it learns σ₀.

    Paper: Theorem 3 (thm:gradient-estimator), part 2, and Lemma 3 (lem:poly-time_grad-est).

    **Deviations from the paper.** The paper writes O(·); here C is explicit. ε is the cohort's fraction, not that of R.

    >>> round(filter_error(sigma0=2.0, byzantine_fraction=0.15, slack=0.05, cohort_size=100, mode="known"), 2)
    4.56
    """
    fraction, spare = admissible(byzantine_fraction, slack, least_slack=0.0)
    share, rows = fraction + spare, check_whole("cohort_size", cohort_size)
    bound = kappa and check_between("kappa", kappa, 1.0, math.inf, "a finite number of at least 1")
    constant = filter_constant(mode, share, kappa=bound, num_rows=rows)
    return constant**2 * share * check_not_negative("sigma0", sigma0) ** 2


def full_batch_filter_error(
    *,
    dissimilarity: float,
    local_steps: int,
    byzantine_fraction: float,
    cohort_size: int,
    mode: str = "auto",
    kappa: float | None = None,
) -> float:
    r"""Return Υ_GD² = C² · 11H²κ² ε, the squared error of the filter on full-batch gradients; 0 for ε = 0.

    Paper: Theorem 4 (thm:gradient-estimator_GD), Υ_GD of Theorem 2 (thm:full-batch-GD).

    **Deviations from the paper.** The paper writes O(Hκ√ε); here C is explicit.

    >>> full_batch_filter_error(dissimilarity=1.0, local_steps=5, byzantine_fraction=0.0, cohort_size=100)
    0.0
    """
    sigma0 = math.sqrt(full_batch_honest_spread(dissimilarity=dissimilarity, local_steps=local_steps))
    return filter_error(
        sigma0=sigma0,
        byzantine_fraction=byzantine_fraction,
        slack=0.0,
        mode=mode,
        cohort_size=cohort_size,
        kappa=kappa,
    )
