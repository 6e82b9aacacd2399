"""Mini-batches: the mean over runs is below the bound in expectation, the paths below those with high probability."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from benchmarks.theory.cases import Case
from scipy.stats import binom
from tests.theory.problems import (
    CASES,
    EVERY_ATTACK,
    LABELS,
    LOCAL_STEPS,
    QUADRATIC,
    SEARCHING,
    assert_below,
    mean_and_error,
    skip_what_has_no_labels,
)

from steadfed.aggregators import Mean

STANDARD_ERRORS = 3.0
"""The mean over runs may be so far above the true mean by bad luck."""
SURPRISING = 1e-3
"""A number of failures that is less likely than this, were the stated probability true, is too many."""


def with_batches(case: Case, **changes: object) -> Case:
    """Return the case with batches of 2 of 8 points, the step size of Theorem 1, and a row set aside."""
    return replace(case, batch_size=2, step=1.0 / 8.0, assumed=4, slack=1.0 / 16.0, **changes)  # type: ignore[arg-type]


def check(case: Case, seeds: int) -> None:
    """Check the mean over seeds, and every path."""
    rounds = np.arange(case.rounds + 1)
    papers, expected, likely = case.guarantees
    assert expected.holds
    assert likely.holds
    assert likely.failure == 0.01
    paths = [replace(case, seed=seed).distances() for seed in range(seeds)]
    mean, error = mean_and_error(paths)
    assert_below(mean - STANDARD_ERRORS * error, expected.bound(rounds), ("mean", case.attack, case.local_steps))
    failed = sum(bool((path > likely.bound(rounds) * (1 + 1e-9)).any()) for path in paths)
    assert binom.sf(failed - 1, seeds, likely.failure) > SURPRISING, f"{failed} of {seeds} paths above {likely}"
    if np.isfinite(papers.floor):
        for path in paths:  # its probability is stated as 1 for cohorts this small, and yet no path is above
            assert_below(path, papers.bound(rounds), ("the paper's", case.attack))


@pytest.mark.parametrize("steps", LOCAL_STEPS)
@pytest.mark.parametrize("attack", ["none", "alie", "sign-flip", "min-max"])
@pytest.mark.parametrize("kind", CASES)
def test_runs_stay_below_the_bounds_over_many_seeds(kind: str, attack: str, steps: int) -> None:
    check(with_batches(CASES[kind], attack=attack, local_steps=steps), 4)


@pytest.mark.parametrize("attack", EVERY_ATTACK)
def test_no_attack_takes_the_mean_above_the_bound(attack: str) -> None:
    kind = "logistic" if attack in LABELS else "quadratic"
    check(with_batches(CASES[kind], attack=attack, rounds=3 if attack in SEARCHING else 8), 3)


def test_the_paper_promises_nothing_for_a_small_cohort_and_the_sharp_bound_something() -> None:
    papers, expected, likely = with_batches(QUADRATIC).guarantees
    assert papers.failure == 1.0
    assert papers.is_vacuous
    assert not expected.is_vacuous
    assert not likely.is_vacuous
    assert expected.failure == 0.0


@pytest.mark.parametrize("steps", LOCAL_STEPS)
def test_the_sharp_bounds_hold_for_a_step_size_of_one_over_the_smoothness(steps: int) -> None:
    check(replace(with_batches(QUADRATIC, attack="min-max", local_steps=steps, rounds=8), step=float(steps)), 6)


@pytest.mark.parametrize("mode", ["known", "exact"])
def test_modes_that_are_told_the_spread_stay_below_the_likely_bound(mode: str) -> None:
    case = with_batches(QUADRATIC, attack="alie", mode=mode)
    likely = case.guarantees[2]
    assert likely.holds
    for seed in range(3):
        assert_below(replace(case, seed=seed).distances(), likely.bound(np.arange(case.rounds + 1)), mode)


def test_the_mean_under_attack_is_above_the_bound_of_the_filter() -> None:
    with pytest.raises(AssertionError, match="rounds"):
        check(with_batches(QUADRATIC, attack="reversed-gradient", rule=Mean()), 3)


@pytest.mark.slow
@pytest.mark.parametrize("steps", LOCAL_STEPS)
@pytest.mark.parametrize("attack", EVERY_ATTACK)
@pytest.mark.parametrize("kind", CASES)
def test_no_attack_takes_the_mean_of_many_longer_runs_above_the_bound(kind: str, attack: str, steps: int) -> None:
    skip_what_has_no_labels(kind, attack)
    seeds, rounds = (3, 10) if attack in SEARCHING else (10, 40)
    case = with_batches(CASES[kind], attack=attack, local_steps=steps, strong_convexity=0.25, rounds=rounds)
    check(replace(case, num_clients=40, cohort_size=32, assumed=8, num_byzantine=6), seeds)
