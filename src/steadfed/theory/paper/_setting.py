r"""The setting of the paper: variance of a mini-batch, how many Byzantine clients are tolerated, step sizes.

`noise` stands for σ²/b everywhere in this package: pass `minibatch_variance(...)`, or the smaller
`variance_without_replacement(...)`, which the paper allows "everywhere in this paper"; 0 for full batches.
"""

from __future__ import annotations

from typing import Any

from steadfed._core.gaps import Gaps, check_gaps
from steadfed._core.ranges import (
    check_between,
    check_cohort,
    check_not_negative,
    check_positive,
    check_step_size,
    check_whole,
)

LARGEST_FRACTION = 0.25
"""ε + ε′ of Theorem 3 and ε of Theorem 4, as a fraction of the cohort, must not exceed this."""

_ROUNDING = 1e-12  # fractions such as 0.15 + 0.1 are not refused for their last bit


def minibatch_variance(*, gradient_variance: float, batch_size: int) -> float:
    r"""Return σ²/b, the variance of a mini-batch gradient of b points drawn with replacement.

    E‖g_r(x) − ∇F_r(x)‖² ≤ σ²/b, with σ² of Assumption 1 (assump:bounded_local-variance).

    Paper: eq. reduced_variance.

    >>> minibatch_variance(gradient_variance=8.0, batch_size=4)
    2.0
    """
    return check_not_negative("gradient_variance", gradient_variance) / check_whole("batch_size", batch_size)


def variance_without_replacement(*, gradient_variance: float, batch_size: int, num_points: int) -> float:
    r"""Return (n − b)/(b(n − 1)) σ², the variance if the b of n points are drawn without replacement.

    It is 0 for a full batch, b = n.

    Paper: the finer bound stated below eq. reduced_variance.

    **Deviations from the paper.** For n = 1 the formula is 0/0; the only batch is the full one, and the result is 0.

    >>> variance_without_replacement(gradient_variance=9.0, batch_size=4, num_points=10)
    1.5
    """
    variance, points = check_not_negative("gradient_variance", gradient_variance), check_whole("num_points", num_points)
    size = check_whole("batch_size", batch_size, most=points)
    return variance * (points - size) / (size * (points - 1)) if size < points else 0.0


def tolerated_fraction(*, cohort_size: int, num_clients: int, slack: float = 0.0) -> float:
    r"""Return K/(4R) − ε′, the fraction of all R clients that may be Byzantine however the cohorts are drawn.

    Paper: Theorem 1 (thm:LocalSGD_convergence) for ε′ > 0 and Theorem 2 (thm:full-batch-GD) for ε′ = 0.

    **Deviations from the paper.** This is the worst case, all Byzantine clients in one cohort, and a little stricter
    than needed: what Theorem 3 asks is εR/K + ε′ ≤ 1/4, that is ε ≤ K/(4R) − ε′K/R. See `cohort_fraction`; for cohorts
    drawn at random see `steadfed.theory.sampling`.

    >>> tolerated_fraction(cohort_size=50, num_clients=100, slack=0.025)
    0.1
    """
    size, clients = check_cohort(cohort_size, num_clients)
    limit = size / (4.0 * clients)
    return limit - check_between("slack", slack, 0.0, limit, f"from 0 to K/(4R) = {limit:g}")


def cohort_fraction(*, byzantine_fraction: float, cohort_size: int, num_clients: int, slack: float = 0.0) -> float:
    r"""Return ε̃ = εR/K + ε′, the largest fraction of a cohort of K that is Byzantine or set aside.

    Here, and only here and in `tolerated_fraction`, ε is a fraction of all R clients. The theorems need ε̃ ≤ 1/4;
    larger values are returned, not refused, so that a condition can be shown as failed. Without `slack` it is the ε to
    pass to the other functions.

    Paper: Theorem 1 (thm:LocalSGD_convergence), footnote of the adversary model.

    **Deviations from the paper.** The paper writes ε for a fraction of R in Theorems 1 and 2 and of K in Theorems 3 and
    4.

    >>> cohort_fraction(byzantine_fraction=0.05, cohort_size=50, num_clients=100, slack=0.125)
    0.225
    """
    size, clients = check_cohort(cohort_size, num_clients)
    allowed = "a fraction of all clients, from 0 to 1"
    fraction = check_between("byzantine_fraction", byzantine_fraction, 0.0, 1.0, allowed)
    return fraction * clients / size + slack_of("slack", slack, least=0.0)


def minibatch_lr(*, smoothness: float, local_steps: Gaps) -> float:
    r"""Return η = 1/(8HL), the step size of Theorem 1 and the largest that its lemmas allow; H is the largest gap.

    Paper: Theorem 1 (thm:LocalSGD_convergence).

    >>> minibatch_lr(smoothness=0.5, local_steps=5)
    0.05
    """
    return 1.0 / (8.0 * max(check_gaps(local_steps)) * check_positive("smoothness", smoothness))


def full_batch_lr(*, smoothness: float, local_steps: Gaps) -> float:
    r"""Return η = 1/(5HL), the step size of Theorem 2 and the largest that its lemmas allow; H is the largest gap.

    Paper: Theorem 2 (thm:full-batch-GD).

    >>> full_batch_lr(smoothness=0.5, local_steps=4)
    0.1
    """
    return 1.0 / (5.0 * max(check_gaps(local_steps)) * check_positive("smoothness", smoothness))


def slack_of(name: str, value: Any, *, least: float | None = None) -> float:
    """Return ε′ in (0, 1/4], or from `least` on."""
    low, allowed = (0.0, "above 0 and at most 1/4") if least is None else (least, f"from {least:g} to 1/4")
    return check_between(name, value, low, LARGEST_FRACTION, allowed, open_below=least is None)


def admissible(byzantine_fraction: Any, slack: Any, *, least_slack: float | None = None) -> tuple[float, float]:
    """Return ε and ε′ with ε ≥ 0 and ε + ε′ ≤ 1/4, the condition of Theorem 3."""
    spare = slack_of("slack", slack, least=least_slack)
    limit = LARGEST_FRACTION - spare
    allowed = f"a fraction of the cohort from 0 to 1/4 − slack = {limit:.6g}"
    return check_between("byzantine_fraction", byzantine_fraction, 0.0, limit + _ROUNDING, allowed), spare


def minibatch_step(lr: float | None, smoothness: float, local_steps: Gaps) -> float:
    """Return η ≤ 1/(8HL), and that limit itself for None."""
    limit = minibatch_lr(smoothness=smoothness, local_steps=local_steps)
    return limit if lr is None else check_step_size(lr, limit, "1/(8HL)")


def full_batch_step(lr: float | None, smoothness: float, local_steps: Gaps) -> float:
    """Return η ≤ 1/(5HL), and that limit itself for None."""
    limit = full_batch_lr(smoothness=smoothness, local_steps=local_steps)
    return limit if lr is None else check_step_size(lr, limit, "1/(5HL)")
