"""Theorems 1 and 2: the constants re-derived, the recurrences iterated step by step, the probability, bad input."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from steadfed.errors import ParameterError
from steadfed.theory import paper, sharp

STEPS = (1, 2, 3, 5, 20, 100)
SCENES = [  # H, σ²/b, κ², Υ², L, μ
    *itertools.product((1, 2, 5, 20), ((1.0, 0.0), (0.0, 1.0), (0.5, 2.0)), (0.0, 7.0), (1.0, 3.0), (1.0, 0.1)),
]


@pytest.mark.parametrize("steps", STEPS)
def test_claim_4_follows_from_the_drift(steps: int) -> None:
    for noise, apart in ((1.0, 0.0), (0.0, 1.0), (0.5, 2.0)):
        moved = paper.drift(noise=noise, dissimilarity=apart, smoothness=1.7, local_steps=steps)
        raw = 2 * apart + 2 * 1.7**2 * moved
        assert raw == pytest.approx(paper.gradient_gap(noise=noise, dissimilarity=apart, local_steps=steps))
        moved = paper.full_batch_drift(dissimilarity=apart, smoothness=1.7, local_steps=steps)
        raw = 2 * apart + 2 * 1.7**2 * moved
        assert raw <= paper.full_batch_gradient_gap(dissimilarity=apart, local_steps=steps)


@pytest.mark.parametrize("steps", STEPS)
def test_claim_5_follows_from_its_three_terms_without_the_unjustified_factor(steps: int) -> None:
    for noise, apart, error in ((1.0, 0.0, 0.0), (0.0, 1.0, 2.0), (0.5, 2.0, 1.0)):
        moved = paper.drift(noise=noise, dissimilarity=apart, smoothness=1.7, local_steps=steps)
        raw = 6 * steps**2 * apart + 12 * steps * 1.7**2 * moved
        gap = paper.subset_gap(noise=noise, dissimilarity=apart, local_steps=steps)
        assert raw <= gap * (1 + 1e-9)
        three = 3 * (error + paper.subset_noise(noise=noise, local_steps=steps) + gap)
        shown = paper.decoding_error(filter_error=error, noise=noise, dissimilarity=apart, local_steps=steps)
        assert 0.98 * shown <= three <= shown * (1 + 1e-9)


@pytest.mark.parametrize("steps", STEPS)
def test_the_full_batch_decoding_error_follows_from_the_drift(steps: int) -> None:
    moved = paper.full_batch_drift(dissimilarity=0.6, smoothness=1.7, local_steps=steps)
    raw = 2 * 3.0 + 2 * (6 * steps**2 * 0.6 + 12 * steps * 1.7**2 * moved)
    shown = paper.full_batch_decoding_error(filter_error=3.0, dissimilarity=0.6, local_steps=steps)
    assert 0.9 * shown <= raw <= shown


@pytest.mark.parametrize("steps", STEPS)
def test_the_terms_of_the_recurrence_follow_from_the_claims(steps: int) -> None:
    for noise, apart in ((1.0, 0.0), (0.0, 1.0), (0.5, 2.0)):
        gap = paper.gradient_gap(noise=noise, dissimilarity=apart, local_steps=steps)
        full: dict[str, Any] = {"dissimilarity": apart, "local_steps": steps}
        mini: dict[str, Any] = {"noise": noise, **full}
        assert gap + paper.decoding_error(filter_error=2.0, **mini) <= paper.synchronisation_term(
            filter_error=2.0, **mini
        )
        assert gap + noise / 1 <= paper.local_term(**mini)  # σ²/(bK) with the smallest cohort, K = 1
        gap = paper.full_batch_gradient_gap(**full)
        shown = paper.full_batch_synchronisation_term(filter_error=2.0, **full)
        assert gap + paper.full_batch_decoding_error(filter_error=2.0, **full) <= shown
        assert gap / 2 == paper.full_batch_local_term(**full)  # the factor 2 is saved: eq. convex-GD_local-7
        assert paper.full_batch_local_deviation(**full) == gap
        assert paper.full_batch_synchronisation_deviation(filter_error=2.0, **full) == 2 * shown
        assert paper.synchronisation_deviation(filter_error=2.0, **mini) == 2 * paper.synchronisation_term(
            filter_error=2.0, **mini
        )
        assert paper.local_deviation(**mini) == 2 * paper.local_term(**mini)


def test_13_and_14_and_the_floors_come_from_the_geometric_series() -> None:
    assert 12 < 6 * 32 / 15 <= 13
    assert 13 < 6 * 20 / 9 <= 14
    assert 9 + 2 * 15 / 16 <= 11
    assert 33 + 3 * 15 / 16 <= 36
    assert 23 + 1.5 * 9 / 10 <= 25
    assert 23 + 1.5 <= 25
    for limit, share in ((1 / 16, 15 / 16), (1 / 10, 9 / 10)):
        for x, steps in itertools.product(np.linspace(1e-6, limit, 200), (1, 2, 7, 1000)):
            assert (1 - x / steps) ** steps <= 1 - share * x + 1e-15


def test_9_halves_and_24_fifths_come_from_the_descent_lemma() -> None:
    assert 1 + 1 / 8 == 9 / 8
    assert 1 + 1 / 5 == 6 / 5
    for lr, factor, constant in ((1 / 8, 9 / 8, 9 / 2), (1 / 5, 6 / 5, 24 / 5)):
        assert 2 * factor * 2 == pytest.approx(constant)
        exact = paper.loss_step(loss=1.0, gradient=0.3, deviation=0.2, smoothness=1.0, lr=lr)
        assert exact <= 1.0 - lr / 2 * 0.3 + factor * lr * 0.2 + 1e-15


def test_the_contraction_times_the_young_factor_is_at_most_alpha() -> None:
    for x in np.linspace(1e-9, 1, 100):
        factor = paper.contraction(strong_convexity=1.0, smoothness=1.0, lr=x)
        assert (1 + x / 2) * factor <= 1 - x / 2 + 1e-15


def test_gradient_limit_is_attained_by_the_quadratic() -> None:
    curvature, x = 3.0, 0.7
    assert paper.gradient_limit(smoothness=curvature, gap=curvature * x**2 / 2) == pytest.approx((curvature * x) ** 2)


@pytest.mark.parametrize(("steps", "spread", "error", "curvature", "strength"), SCENES)
def test_the_recurrence_iterated_step_by_step_stays_below_the_distance_bounds(
    steps: int, spread: tuple[float, float], error: float, curvature: float, strength: float
) -> None:
    noise, apart = spread
    mini: dict[str, Any] = {"noise": noise, "dissimilarity": apart, "local_steps": steps}
    full: dict[str, Any] = {"dissimilarity": apart, "local_steps": steps}
    curved: dict[str, Any] = {"smoothness": curvature, "strong_convexity": strength}
    cases = (
        (
            paper.minibatch_lr(smoothness=curvature, local_steps=steps),
            paper.synchronisation_term(filter_error=error, **mini),
            paper.local_term(**mini),
            paper.floor(filter_error=error, **mini),
            paper.distance_bound,
        ),
        (
            paper.full_batch_lr(smoothness=curvature, local_steps=steps),
            paper.full_batch_synchronisation_term(filter_error=error, **full),
            paper.full_batch_local_term(**full),
            paper.full_batch_floor(filter_error=error, **full),
            paper.full_batch_distance_bound,
        ),
    )
    for largest, first, second, floor, bound in cases:
        for lr in (largest, largest / 3):
            distance = 5.0
            limit = paper.distance_limit(
                synchronisation_term=first, local_term=second, lr=lr, local_steps=steps, **curved
            )
            for t in range(1, 6 * steps + 1):
                distance = paper.distance_step(distance=distance, term=second if t % steps else first, lr=lr, **curved)
                if t % steps == 0:
                    shown = bound(distance=5.0, floor=floor, local_steps=steps, total_steps=t, lr=lr, **curved)
                    assert distance <= shown * (1 + 1e-9)
                    assert distance <= 5.0 * paper.decay(lr=lr, total_steps=t, **curved) + limit * (1 + 1e-9) + 1e-9


@pytest.mark.parametrize("steps", STEPS[:5])
def test_the_loss_recurrence_summed_step_by_step_stays_below_the_gradient_bounds(steps: int) -> None:
    noise, apart, error, curvature, rounds = 0.5, 2.0, 3.0, 1.7, 4
    mini: dict[str, Any] = {"noise": noise, "dissimilarity": apart, "local_steps": steps}
    full: dict[str, Any] = {"dissimilarity": apart, "local_steps": steps}
    cases = (
        (
            paper.minibatch_lr(smoothness=curvature, local_steps=steps),
            paper.synchronisation_deviation(filter_error=error, **mini),
            paper.local_deviation(**mini),
            paper.floor(filter_error=error, **mini),
            paper.gradient_bound,
        ),
        (
            paper.full_batch_lr(smoothness=curvature, local_steps=steps),
            paper.full_batch_synchronisation_deviation(filter_error=error, **full),
            paper.full_batch_local_deviation(**full),
            paper.full_batch_floor(filter_error=error, **full),
            paper.full_batch_gradient_bound,
        ),
    )
    for lr, first, second, floor, bound in cases:
        loss, total = 10.0, rounds * steps
        # the largest constant squared gradient that the recurrence allows without the loss falling below F* = 0
        added = sum(
            paper.loss_step(
                loss=0.0, gradient=0.0, deviation=second if t % steps else first, smoothness=curvature, lr=lr
            )
            for t in range(1, total + 1)
        )
        taken = -paper.loss_step(loss=0.0, gradient=1.0, deviation=0.0, smoothness=curvature, lr=lr)
        largest = (loss + added) / (taken * total)
        assert largest <= bound(gap=loss, floor=floor, smoothness=curvature, local_steps=steps, total_steps=total)


def test_values_worked_by_hand() -> None:
    assert paper.floor(filter_error=6.0, noise=0.5, dissimilarity=2.0, local_steps=3) == 6.0 + 16.5 + 216.0
    assert paper.full_batch_floor(filter_error=6.0, dissimilarity=2.0, local_steps=3) == 4.0 + 150.0
    curved: dict[str, Any] = {"strong_convexity": 0.5, "smoothness": 1.0, "local_steps": 2, "total_steps": 4}
    shown = paper.distance_bound(distance=3.0, floor=1.0, **curved)
    assert shown == pytest.approx((1 - 0.5 / 32) ** 4 * 3 + 52.0)
    shown = paper.full_batch_distance_bound(distance=3.0, floor=1.0, **curved)
    assert shown == pytest.approx((1 - 0.5 / 20) ** 4 * 3 + 56.0)
    smooth: dict[str, Any] = {"smoothness": 1.0, "local_steps": 2, "total_steps": 4}
    assert paper.gradient_bound(gap=3.0, floor=1.0, **smooth) == pytest.approx(16 * 2 / 4 * 3 + 4.5)
    assert paper.full_batch_gradient_bound(gap=3.0, floor=1.0, **smooth) == pytest.approx(10 * 2 / 4 * 3 + 4.8)
    assert paper.gradient_bound(gap=0.0, floor=1.0, smoothness=1.0, local_steps=2, total_steps=0) == math.inf


def test_the_distance_bound_falls_to_its_floor() -> None:
    curved: dict[str, Any] = {"strong_convexity": 0.5, "smoothness": 1.0, "local_steps": 5}
    curve = [paper.distance_bound(distance=3.0, floor=0.1, total_steps=5 * n, **curved) for n in range(400)]
    assert curve == sorted(curve, reverse=True)
    assert paper.distance_bound(distance=3.0, floor=0.1, total_steps=10**9, **curved) == pytest.approx(5.2)


def test_a_smaller_step_size_is_slower_and_has_the_same_floor() -> None:
    curved: dict[str, Any] = {"strong_convexity": 0.5, "smoothness": 1.0, "local_steps": 5, "distance": 3.0}
    slow = paper.distance_bound(floor=0.1, total_steps=100, lr=0.001, **curved)
    assert slow > paper.distance_bound(floor=0.1, total_steps=100, **curved)
    assert paper.distance_bound(floor=0.1, total_steps=10**8, lr=0.001, **curved) == pytest.approx(5.2)


def test_the_probability_of_failure_may_exceed_one() -> None:
    run: dict[str, Any] = {"local_steps": 5, "slack": 0.1, "byzantine_fraction": 0.1}
    assert paper.failure_probability(total_steps=500, cohort_size=100, **run) == pytest.approx(94.53, abs=0.01)
    assert paper.failure_probability(total_steps=0, cohort_size=100, **run) == 0.0
    needed = math.ceil(16 * math.log(100 / 0.01) / (0.01 * 0.9))
    assert needed == 16_374
    assert paper.failure_probability(total_steps=500, cohort_size=needed, **run) <= 0.01
    assert paper.failure_probability(total_steps=500, cohort_size=needed - 1, **run) > 0.01


@pytest.mark.parametrize("failure", [1e-9, 0.01, 0.5, 0.999])
@pytest.mark.parametrize("cohort_size", [1, 100, 10_000, 16_400, 40_000])
def test_the_longest_run_is_the_longest(failure: float, cohort_size: int) -> None:
    run: dict[str, Any] = {
        "local_steps": 5, "slack": 0.1, "byzantine_fraction": 0.1, "cohort_size": cohort_size
    }  # fmt: skip
    total = paper.longest_run(failure=failure, **run)
    assert isinstance(total, int)
    assert total % 5 == 0
    assert paper.failure_probability(total_steps=total, **run) <= failure
    assert paper.failure_probability(total_steps=total + 5, **run) > failure


@pytest.mark.parametrize("rounds", [1, 3, 7, 49, 1000])
def test_the_longest_run_inverts_the_probability(rounds: int) -> None:
    run: dict[str, Any] = {"local_steps": 3, "slack": 0.1, "byzantine_fraction": 0.1, "cohort_size": 20_000}
    failure = paper.failure_probability(total_steps=3 * rounds, **run)
    assert paper.longest_run(failure=failure, **run) == 3 * rounds


@pytest.mark.parametrize("cohort_size", [40_000, 10**6, 10**9, 10**15])
def test_huge_exponents_do_not_overflow(cohort_size: int) -> None:
    run: dict[str, Any] = {"local_steps": 7, "slack": 0.2, "byzantine_fraction": 0.0, "cohort_size": cohort_size}
    total = paper.longest_run(failure=0.5, **run)
    assert paper.MOST_STEPS - 7 < total <= paper.MOST_STEPS
    assert total % 7 == 0
    assert paper.failure_probability(total_steps=total, **run) <= 0.5


def test_where_a_round_surely_fails_no_run_is_long_enough() -> None:
    run: dict[str, Any] = {"local_steps": 7, "slack": 1e-9, "byzantine_fraction": 0.0, "cohort_size": 1}
    assert paper.failure_probability(total_steps=7, **run) == 1.0
    assert paper.longest_run(failure=0.5, **run) == 0


def test_the_sharper_bounds_are_below_the_displayed_ones() -> None:
    # S is all but ε′m of the honest rows, those with noise below 12 A₂σ²/ε′; the mean noise over S is at most
    # 5/(1 − ε′) A₂σ²: docs/theory/deviations.md, section 1
    grid = itertools.product((1, 2, 5, 20), (1e-4, 0.05, 0.2), (0.0, 0.05), (0.0, 1.0), (0.0, 1.0), (1.0, 0.01))
    for steps, slack, share, noise, apart, strength in grid:
        lr = paper.minibatch_lr(smoothness=1.0, local_steps=steps)
        spread = paper.honest_spread(
            noise=noise, dissimilarity=apart, local_steps=steps, slack=slack, dim=1, cohort_size=10**9
        )
        error = paper.filter_error(
            sigma0=math.sqrt(spread), byzantine_fraction=share, slack=slack, cohort_size=100, mode="known"
        )
        floor = paper.floor(filter_error=error, noise=noise, dissimilarity=apart, local_steps=steps)
        for convexity in (strength, 0.0):
            common: dict[str, Any] = {
                "local_steps": steps, "lr": lr, "smoothness": 1.0, "strong_convexity": convexity,
                "dissimilarity": apart, "noise": noise,
            }  # fmt: skip
            assert sharp.likely_deviation(outlier_probability=slack / 12, **common) ** 2 <= spread * (1 + 1e-9)
            total = math.sqrt(error) + sharp.likely_deviation(outlier_probability=(1 - slack) / 5, **common)
            if convexity:
                limit = sharp.distance_floor(
                    error=total, lr=lr, local_steps=steps, smoothness=1.0, strong_convexity=convexity
                )
                assert limit <= 13 / convexity**2 * floor
            else:
                limit = sharp.gradient_floor(error=total, lr=lr, local_steps=steps, smoothness=1.0)
                assert limit <= 4.5 * floor


def test_the_failure_of_that_argument_is_below_the_displayed_one() -> None:
    for slack, number in itertools.product((1e-4, 0.01, 0.1, 0.25), (1, 3, 10, 40, 1000, 100_000)):
        x = slack * number
        outliers = min(math.exp(-(math.log(12) - 11 / 12) * x), x / 12 if x < 1 else 1.0)
        heavy = min(math.exp(-2 * x / 7), 1 / 5)
        assert outliers + heavy <= paper.subset_failure(slack=slack, num_honest=number)


def test_the_identity_of_convex_local_0_holds_for_full_batches_only() -> None:
    # one honest client, F(x) = x²/2, H = 2: the first noise is counted twice
    lr, start = 1 / 16, 1.0
    for first, second in ((0.0, 0.0), (0.5, -0.25)):
        middle = start - lr * (start + first)
        end = middle - lr * (middle + second)
        decoded_error = first + second
        assert middle - lr * middle - lr * decoded_error == pytest.approx(end - lr * first, abs=1e-15)


CURVED: dict[str, Any] = {"smoothness": 1.0, "strong_convexity": 0.5}
GOOD: dict[str, dict[str, Any]] = {
    "contraction": {**CURVED, "lr": 0.5},
    "gradient_limit": {"smoothness": 1.0, "gap": 1.0},
    "gradient_gap": {"noise": 1.0, "dissimilarity": 1.0, "local_steps": 2},
    "decoding_error": {"filter_error": 1.0, "noise": 1.0, "dissimilarity": 1.0, "local_steps": 2},
    "distance_step": {"distance": 1.0, "term": 1.0, **CURVED, "lr": 0.1},
    "loss_step": {"loss": 1.0, "gradient": 1.0, "deviation": 1.0, "smoothness": 1.0, "lr": 0.1},
    "floor": {"filter_error": 1.0, "noise": 1.0, "dissimilarity": 1.0, "local_steps": 2},
    "full_batch_floor": {"filter_error": 1.0, "dissimilarity": 1.0, "local_steps": 2},
    "decay": {**CURVED, "lr": 0.1, "total_steps": 10},
    "distance_bound": {"distance": 1.0, "floor": 1.0, **CURVED, "local_steps": 2, "total_steps": 4, "lr": 1 / 16},
    "full_batch_distance_bound": {
        "distance": 1.0, "floor": 1.0, **CURVED, "local_steps": 2, "total_steps": 4, "lr": 0.1
    },
    "gradient_bound": {"gap": 1.0, "floor": 1.0, "smoothness": 1.0, "local_steps": 2, "total_steps": 4, "lr": 1 / 16},
    "full_batch_gradient_bound": {
        "gap": 1.0, "floor": 1.0, "smoothness": 1.0, "local_steps": 2, "total_steps": 4, "lr": 0.1
    },
    "failure_probability": {
        "total_steps": 10, "local_steps": 5, "slack": 0.1, "byzantine_fraction": 0.1, "cohort_size": 100
    },
    "longest_run": {"failure": 0.1, "local_steps": 5, "slack": 0.1, "byzantine_fraction": 0.1, "cohort_size": 100},
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "argument", "value", "allowed"),
    [
        ("contraction", "strong_convexity", 2.0, "at most smoothness = 1"),
        ("contraction", "lr", 1.5, "1/L = 1"),
        ("gradient_limit", "gap", -1.0, "at least 0"),
        ("gradient_gap", "local_steps", 0, "at least 1"),
        ("decoding_error", "filter_error", -1.0, "at least 0"),
        ("distance_step", "strong_convexity", 0.0, "above 0"),
        ("loss_step", "lr", 0.8, "3/(4L) = 0.75"),
        ("floor", "noise", -1.0, "at least 0"),
        ("full_batch_floor", "dissimilarity", None, "at least 0"),
        ("decay", "total_steps", -1, "at least 0"),
        ("distance_bound", "smoothness", 0.0, "above 0"),
        ("distance_bound", "smoothness", -1.0, "above 0"),
        ("distance_bound", "strong_convexity", 1.5, "at most smoothness = 1"),
        ("distance_bound", "total_steps", 5, "multiple of local_steps = 2"),
        ("distance_bound", "lr", 0.07, "1/(8HL) = 0.0625"),
        ("distance_bound", "distance", -1.0, "at least 0"),
        ("full_batch_distance_bound", "lr", 0.11, "1/(5HL) = 0.1"),
        ("full_batch_distance_bound", "total_steps", 3, "multiple of local_steps = 2"),
        ("gradient_bound", "total_steps", 5, "multiple of local_steps = 2"),
        ("gradient_bound", "lr", 0.1, "1/(8HL) = 0.0625"),
        ("full_batch_gradient_bound", "gap", -1.0, "at least 0"),
        ("full_batch_gradient_bound", "lr", -0.1, "above 0"),
        ("failure_probability", "total_steps", 12, "multiple of local_steps = 5"),
        ("failure_probability", "slack", 0.0, "above 0"),
        ("failure_probability", "byzantine_fraction", 0.2, "0.15"),
        ("failure_probability", "cohort_size", 0, "at least 1"),
        ("longest_run", "failure", 0.0, "strictly between 0 and 1"),
        ("longest_run", "failure", 1.0, "strictly between 0 and 1"),
        ("longest_run", "slack", 0.3, "1/4"),
        ("longest_run", "byzantine_fraction", -0.1, "from 0"),
    ],
)
def test_bad_values_are_refused_with_what_is_allowed(name: str, argument: str, value: Any, allowed: str) -> None:
    getattr(paper, name)(**GOOD[name])
    with pytest.raises(ParameterError, match=argument) as caught:
        getattr(paper, name)(**{**GOOD[name], argument: value})
    assert allowed in str(caught.value)
    assert repr(value) in str(caught.value)


def test_a_step_size_computed_in_another_order_is_not_refused() -> None:
    for steps, curvature in itertools.product((3, 5, 7, 11), (0.1, 0.3, 1.7)):
        paper.drift(noise=1.0, dissimilarity=1.0, smoothness=curvature, local_steps=steps, lr=1 / curvature / 8 / steps)
