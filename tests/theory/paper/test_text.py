"""What the paper says in running text, beside its numbered statements: orders of growth, inequalities, slips."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from steadfed._core.rng import stream
from steadfed.aggregators import Rage
from steadfed.theory import paper

SHARES: dict[str, Any] = {"byzantine_fraction": 0.1, "slack": 0.05}
SIZES: dict[str, Any] = {"dim": 300, "cohort_size": 100}


def papers_floor(*, noise: float, apart: float, steps: int, slack: float = 0.05, mode: str = "known") -> float:
    """Return Γ with Υ² of the filter."""
    spread = paper.honest_spread(noise=noise, dissimilarity=apart, local_steps=steps, slack=slack, **SIZES)
    error = paper.filter_error(
        sigma0=math.sqrt(spread), byzantine_fraction=0.1, slack=slack, cohort_size=SIZES["cohort_size"], mode=mode
    )
    return paper.floor(filter_error=error, noise=noise, dissimilarity=apart, local_steps=steps)


def test_the_floor_is_the_sum_of_a_term_of_the_noise_and_one_of_the_dissimilarity() -> None:
    noisy, apart = papers_floor(noise=2.0, apart=0.0, steps=3), papers_floor(noise=0.0, apart=5.0, steps=3)
    assert papers_floor(noise=2.0, apart=5.0, steps=3) == pytest.approx(noisy + apart)
    assert papers_floor(noise=0.0, apart=0.0, steps=3) == 0.0
    assert papers_floor(noise=1.0, apart=0.0, steps=3) == pytest.approx(noisy / 2.0), "twice the batch"


def test_both_terms_are_linear_in_the_local_steps() -> None:
    for noise, apart in ((1.0, 0.0), (0.0, 1.0)):
        once = papers_floor(noise=noise, apart=apart, steps=1)
        for steps in (2, 7, 100):
            assert papers_floor(noise=noise, apart=apart, steps=steps) == pytest.approx(steps * once)


def test_the_term_of_the_noise_is_of_the_order_that_the_paper_states() -> None:
    # Hσ²/(bε′) (1 + 4d/3K)(ε + ε′): with C² in the place of O(·) between 75 C² and 75 C² + 11 times as much
    for slack in (0.001, 0.05, 0.15):
        order = 3 / slack * (1 + 4 * SIZES["dim"] / (3 * SIZES["cohort_size"])) * (0.1 + slack)
        constant = paper.filter_error(
            sigma0=1.0, byzantine_fraction=0.1, slack=slack, cohort_size=100, mode="known"
        ) / (0.1 + slack)
        ratio = papers_floor(noise=1.0, apart=0.0, steps=3, slack=slack) / order
        assert 75 * constant * (1 - 1e-9) <= ratio <= 75 * constant + 11


@pytest.mark.parametrize(("factor", "largest"), [(16, paper.minibatch_lr), (10, paper.full_batch_lr)])
def test_distances_fall_exponentially_in_the_number_of_rounds(factor: int, largest: Any) -> None:
    for steps in (1, 5, 40):
        lr = largest(smoothness=2.0, local_steps=steps)
        for rounds in (1, 10, 1000):
            total = rounds * steps
            left = paper.decay(strong_convexity=0.3, smoothness=2.0, lr=lr, total_steps=total)
            assert left == pytest.approx((1 - 0.3 / (factor * steps * 2.0)) ** total)
            assert left <= math.exp(-0.3 * rounds / (factor * 2.0))
            assert left >= math.exp(-0.3 * rounds / (factor * 2.0)) ** 1.02, "in T/H, not in T"


def test_gradients_fall_like_one_over_the_number_of_rounds() -> None:
    bounds = [
        paper.gradient_bound(gap=1.0, floor=0.0, smoothness=2.0, local_steps=steps, total_steps=20 * steps)
        for steps in (1, 5, 40)
    ]
    assert bounds == pytest.approx([16 * 2.0 / 20] * 3)


def test_failures_grow_like_t_and_fall_exponentially_in_the_cohort() -> None:
    run: dict[str, Any] = {"local_steps": 5, **SHARES}
    once = paper.failure_probability(total_steps=5, cohort_size=1000, **run)
    assert paper.failure_probability(total_steps=500, cohort_size=1000, **run) == pytest.approx(100 * once)
    assert paper.failure_probability(total_steps=5, cohort_size=3000, **run) == pytest.approx(once**3)


def test_full_batches_in_the_theorem_for_mini_batches_give_a_looser_spread() -> None:
    loose = paper.honest_spread(noise=0.0, dissimilarity=1.0, local_steps=4, slack=0.1, **SIZES)
    assert loose / paper.full_batch_honest_spread(dissimilarity=1.0, local_steps=4) == pytest.approx(28 / 11)


def test_what_is_bounded_for_h_steps_is_bounded_for_fewer() -> None:
    # |t_{k+1} − t_k| ≤ H: at a fixed step size the lemmas for H cover every shorter gap
    lr = paper.minibatch_lr(smoothness=1.0, local_steps=20)
    given: dict[str, Any] = {"noise": 1.0, "dissimilarity": 1.0, "smoothness": 1.0, "lr": lr}
    drifts = [paper.drift(local_steps=steps, **given) for steps in range(1, 21)]
    spreads = [
        paper.honest_spread(noise=1.0, dissimilarity=1.0, local_steps=steps, slack=0.1, **SIZES)
        for steps in range(1, 21)
    ]
    assert drifts == sorted(drifts)
    assert spreads == sorted(spreads)


def test_without_bounded_heterogeneity_nothing_bounds_the_drift() -> None:
    # F_1 = κx and F_2 = −κx have the mean F = 0, whatever κ: after a step they are 2ηκ apart
    for apart in (1.0, 1e3, 1e9):
        drift = (2 * 0.1 * apart) ** 2
        assert drift <= paper.drift(noise=0.0, dissimilarity=apart**2, smoothness=1e-3, local_steps=2, lr=0.1)
        assert drift > 0.01 * apart**2


def test_the_quadratic_upper_bound_alone_is_not_smoothness() -> None:
    # F = −50x² lies below every parabola of curvature 1 on a tangent, and its gradient is Lipschitz with 100, not 1
    for x, y in stream(0, "pairs").standard_normal((50, 2)):
        assert -50 * y**2 <= -50 * x**2 - 100 * x * (y - x) + 0.5 * (x - y) ** 2 + 1e-9
    assert abs(-100 * 1.0 - -100 * 0.0) > 1.0 * abs(1.0 - 0.0)


def test_inequalities_that_the_proofs_quote_hold_where_they_are_used() -> None:
    for x in np.geomspace(1.0, 1e6, 200):
        assert (1.0 - 1.0 / x) ** x <= math.exp(-1.0) * (1 + 1e-9)
    for x in np.linspace(0.0, 5.0, 200):
        assert math.exp(-x) <= 1.0 - x + x * x + 1e-15
    for reach in np.linspace(0.0, 1 / 8, 50):
        assert 3 / 4 - reach >= 1 / 2
        assert 1 + reach <= 9 / 8


def test_a_step_of_algorithm_2_removes_a_row() -> None:
    for seed in range(10):
        rng = stream(seed, "removal")
        rows = rng.standard_normal((16, 4))
        rows[:3] *= 10.0 ** rng.uniform(0.5, 2.0, (3, 1))
        found = Rage(num_byzantine=3, mode="exact", sigma0=1.5)(rows)
        assert found.num_steps <= int((~found.kept).sum())
        alpha = 1.0 - 3 / 16
        assert found.num_steps <= 3 * (4 + alpha) / (4 - alpha)
