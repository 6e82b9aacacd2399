"""Spread of honest gradients, drift, the filter's error: values, monotonicity, where the constants come from."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from steadfed.aggregators._rage.constants import filter_constant
from steadfed.errors import ParameterError, SteadfedError
from steadfed.theory import paper

STEPS = (1, 2, 3, 5, 20, 100)


def test_values_worked_by_hand() -> None:
    assert paper.subset_spread(directional_variance=2.0, slack=0.2, dim=8, num_honest=10) == pytest.approx(80.0)
    assert paper.subset_failure(slack=0.2, num_honest=400) == pytest.approx(math.exp(-1.0))
    assert paper.accumulated_variance(noise=0.5, local_steps=4) == 8.0
    assert paper.drift(noise=1.0, dissimilarity=2.0, smoothness=1.0, local_steps=2) == pytest.approx(7 * 8 / 256 * 7)
    assert paper.full_batch_drift(dissimilarity=2.0, smoothness=1.0, local_steps=2) == pytest.approx(7 * 8 / 100 * 2)
    spread = paper.honest_spread(noise=0.5, dissimilarity=2.0, local_steps=2, slack=0.1, dim=30, cohort_size=40)
    assert spread == pytest.approx(25 * 4 * 0.5 / 0.1 * 2 + 28 * 4 * 2)
    assert paper.full_batch_honest_spread(dissimilarity=2.0, local_steps=3) == 198.0


def test_the_drift_constant_of_minibatches_is_that_of_the_recursion() -> None:
    # (1 − 9 L²H²η²) Σ D ≤ 6 H³η² (σ²/b + 3κ²)
    worst = max(6 / (1 - 9 * x**2) for x in np.linspace(0, 1 / 8, 1001))
    assert 6.9 < worst <= 7


def test_the_drift_constant_of_full_batches_is_that_of_the_recursion() -> None:
    worst = max(6 / (1 - 3 * x**2) for x in np.linspace(0, 1 / 5, 1001))
    assert 6.8 < worst <= 7


@pytest.mark.parametrize("steps", STEPS)
def test_the_drift_recursion_iterated_literally_stays_below_the_lemma(steps: int) -> None:
    noise, apart, curvature = 0.7, 0.3, 1.9
    lr = paper.minibatch_lr(smoothness=curvature, local_steps=steps)
    rows: list[float] = []
    for _ in range(steps):
        rows.append(lr**2 * steps * sum(6 * noise + 18 * apart + 9 * curvature**2 * row for row in rows))
    assert sum(rows) <= paper.drift(noise=noise, dissimilarity=apart, smoothness=curvature, local_steps=steps)
    lr = paper.full_batch_lr(smoothness=curvature, local_steps=steps)
    rows = []
    for _ in range(steps):
        rows.append(lr**2 * steps * sum(6 * apart + 3 * curvature**2 * row for row in rows))
    assert sum(rows) <= paper.full_batch_drift(dissimilarity=apart, smoothness=curvature, local_steps=steps)


@pytest.mark.parametrize(("steps", "slack", "dim"), [*itertools.product(STEPS, (1e-3, 0.1, 0.25), (1, 10_000))])
def test_the_spread_follows_from_the_claims(steps: int, slack: float, dim: int) -> None:
    for noise, apart in ((1.0, 0.0), (0.0, 1.0), (2.0, 3.0)):
        about = paper.spread_about_means(noise=noise, local_steps=steps, slack=slack, dim=dim, cohort_size=40)
        moved = paper.drift(noise=noise, dissimilarity=apart, smoothness=1.7, local_steps=steps)
        gap = paper.expectation_gap(dissimilarity=apart, smoothness=1.7, local_steps=steps, drift=moved)
        raw = 6 * about + 4 * gap  # eq. remaining_part1-robust-grad11-app
        shown = paper.honest_spread(
            noise=noise, dissimilarity=apart, local_steps=steps, slack=slack, dim=dim, cohort_size=40
        )
        assert 0.9 * shown <= raw <= shown


def test_28_and_25_and_11_are_the_next_whole_numbers() -> None:
    assert 27 < 24 + 84 * 3 / 64 <= 28
    assert all(24 / slack + 84 / 64 <= 25 / slack for slack in np.linspace(0.001, 0.25, 100))
    assert 10 < 8 + 56 / 25 <= 11


@pytest.mark.parametrize("steps", STEPS)
def test_the_full_batch_spread_follows_from_the_drift(steps: int) -> None:
    moved = paper.full_batch_drift(dissimilarity=0.6, smoothness=1.7, local_steps=steps)
    raw = 8 * steps**2 * 0.6 + 8 * steps * 1.7**2 * moved  # eq. gradient-estimator_GD-2
    assert raw <= paper.full_batch_honest_spread(dissimilarity=0.6, local_steps=steps)


def test_the_spread_about_means_is_lemma_1_with_the_variance_of_claim_1() -> None:
    # (1 − ε′) m = 3K/4 for K = 100 with m = 75 / (1 − ε′)
    noise, steps, slack = 0.4, 3, 0.25
    lemma = paper.subset_spread(
        directional_variance=paper.accumulated_variance(noise=noise, local_steps=steps),
        slack=slack,
        dim=50,
        num_honest=100,
    )
    shown = paper.spread_about_means(noise=noise, local_steps=steps, slack=slack, dim=50, cohort_size=100)
    assert shown == pytest.approx(lemma)


def test_the_factor_of_the_dimension_is_absurd_for_large_models() -> None:
    # isotropic noise of total variance 1 in 10⁶ dimensions has a spread of about 1/K = 0.01 in 100 rows
    spread = paper.honest_spread(noise=1.0, dissimilarity=0.0, local_steps=1, slack=0.1, dim=1_000_000, cohort_size=100)
    assert 3.3e6 < spread < 3.4e6


def test_claim_1_fails_for_clients_whose_own_loss_is_not_smooth() -> None:
    # F' = x, F_1' = x + κ sign(x), F_2' = x − κ sign(x); H = 2, x⁰ = 0, noise ±σ
    sigma, kappa, lr = 1.0, 10.0, 1 / 16
    sums = []
    for first, second in itertools.product((-sigma, sigma), repeat=2):
        x = -lr * first
        sums.append(first + x + kappa * np.sign(x) + second)
    assert np.var(sums) > 20 * paper.accumulated_variance(noise=sigma**2, local_steps=2)


@pytest.mark.parametrize("mode", ["auto", "known", "exact", "lazy"])
def test_the_filter_error_is_its_constant_squared_times_the_share_of_the_spread(mode: str) -> None:
    error = paper.filter_error(sigma0=3.0, byzantine_fraction=0.1, slack=0.1, cohort_size=100, mode=mode)
    assert error == pytest.approx(filter_constant(mode, 0.2, num_rows=100) ** 2 * 0.2 * 9.0)
    full = paper.full_batch_filter_error(
        dissimilarity=2.0, local_steps=3, byzantine_fraction=0.2, cohort_size=100, mode=mode
    )
    assert full == pytest.approx(filter_constant(mode, 0.2, num_rows=100) ** 2 * 0.2 * 198.0)


def test_without_byzantine_clients_only_the_slack_is_paid_for() -> None:
    assert paper.full_batch_filter_error(dissimilarity=1.0, local_steps=3, byzantine_fraction=0.0, cohort_size=9) == 0.0
    assert paper.filter_error(sigma0=1.0, byzantine_fraction=0.0, slack=0.01, cohort_size=9) > 0.0


def test_everything_grows_with_noise_dissimilarity_steps_and_byzantine_clients() -> None:
    base: dict[str, Any] = {
        "noise": 1.0, "dissimilarity": 1.0, "local_steps": 2, "slack": 0.1, "dim": 10, "cohort_size": 20
    }  # fmt: skip
    for name, more in (("noise", 2.0), ("dissimilarity", 2.0), ("local_steps", 3), ("dim", 20), ("slack", 0.05)):
        assert paper.honest_spread(**{**base, name: more}) > paper.honest_spread(**base)
    assert paper.honest_spread(**{**base, "cohort_size": 40}) < paper.honest_spread(**base)
    errors = [
        paper.filter_error(sigma0=1.0, byzantine_fraction=share, slack=0.05, cohort_size=50)
        for share in (0.0, 0.05, 0.1, 0.15, 0.2)
    ]
    assert errors == sorted(errors)
    failures = [paper.concentration_failure(slack=0.1, byzantine_fraction=0.1, cohort_size=k) for k in (10, 100, 1000)]
    assert failures == sorted(failures, reverse=True)


GOOD: dict[str, dict[str, Any]] = {
    "subset_spread": {"directional_variance": 1.0, "slack": 0.1, "dim": 3, "num_honest": 10},
    "subset_failure": {"slack": 0.1, "num_honest": 10},
    "accumulated_variance": {"noise": 1.0, "local_steps": 2},
    "expectation_gap": {"dissimilarity": 1.0, "smoothness": 1.0, "local_steps": 2, "drift": 1.0},
    "drift": {"noise": 1.0, "dissimilarity": 1.0, "smoothness": 1.0, "local_steps": 2, "lr": 1 / 16},
    "full_batch_drift": {"dissimilarity": 1.0, "smoothness": 1.0, "local_steps": 2, "lr": 0.1},
    "honest_spread": {
        "noise": 1.0, "dissimilarity": 1.0, "local_steps": 2, "slack": 0.1, "dim": 3, "cohort_size": 9
    },
    "full_batch_honest_spread": {"dissimilarity": 1.0, "local_steps": 2},
    "concentration_failure": {"slack": 0.1, "byzantine_fraction": 0.15, "cohort_size": 100},
    "filter_error": {"sigma0": 1.0, "byzantine_fraction": 0.15, "slack": 0.1, "cohort_size": 100},
    "full_batch_filter_error": {
        "dissimilarity": 1.0, "local_steps": 2, "byzantine_fraction": 0.25, "cohort_size": 100
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "argument", "value", "allowed"),
    [
        ("subset_spread", "slack", 0.0, "above 0"),
        ("subset_spread", "dim", 0, "at least 1"),
        ("subset_failure", "slack", 0.3, "1/4"),
        ("accumulated_variance", "noise", -1.0, "at least 0"),
        ("expectation_gap", "smoothness", 0.0, "above 0"),
        ("expectation_gap", "drift", -0.1, "at least 0"),
        ("drift", "lr", 0.07, "1/(8HL) = 0.0625"),
        ("drift", "lr", 0.0, "above 0"),
        ("drift", "smoothness", -1.0, "above 0"),
        ("full_batch_drift", "lr", 0.11, "1/(5HL) = 0.1"),
        ("honest_spread", "dissimilarity", float("inf"), "finite"),
        ("honest_spread", "cohort_size", 0, "at least 1"),
        ("full_batch_honest_spread", "local_steps", 1.5, "whole"),
        ("concentration_failure", "byzantine_fraction", 0.16, "0.15"),
        ("concentration_failure", "byzantine_fraction", -0.1, "from 0"),
        ("filter_error", "byzantine_fraction", 0.2, "0.15"),
        ("filter_error", "sigma0", -1.0, "at least 0"),
        ("filter_error", "slack", -0.01, "from 0"),
        ("filter_error", "kappa", 0.5, "at least 1"),
        ("full_batch_filter_error", "byzantine_fraction", 0.26, "0.25"),
    ],
)
def test_bad_values_are_refused_with_what_is_allowed(name: str, argument: str, value: Any, allowed: str) -> None:
    getattr(paper, name)(**GOOD[name])
    with pytest.raises(ParameterError, match=argument) as caught:
        getattr(paper, name)(**{**GOOD[name], argument: value})
    assert allowed in str(caught.value)
    assert repr(value) in str(caught.value)


def test_an_unknown_mode_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(SteadfedError, match="known"):
        paper.filter_error(sigma0=1.0, byzantine_fraction=0.1, slack=0.1, cohort_size=10, mode="knwon")
