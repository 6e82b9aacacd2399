"""Full batches: every path stays below the bounds at every synchronisation, surely, whatever is sent."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from benchmarks.theory.cases import Case
from tests.theory.problems import (
    CASES,
    EVERY_ATTACK,
    LOCAL_STEPS,
    QUADRATIC,
    SEARCHING,
    Mode,
    assert_below,
    skip_what_has_no_labels,
)

from steadfed.aggregators import Mean


def check(case: Case) -> float:
    """Check every round of a run; return the largest share of the sharp floor that its second half reached."""
    rounds, distances = np.arange(case.rounds + 1), case.distances()
    papers, sharp = case.guarantees
    assert sharp.holds
    assert sharp.failure == 0.0
    assert_below(distances, sharp.bound(rounds), (case.kind, case.attack, case.local_steps, case.mode))
    assert_below(sharp.bound(rounds), papers.bound(rounds), "the paper's bound")
    return float(distances[case.rounds // 2 :].max() / sharp.floor)


@pytest.mark.parametrize("steps", LOCAL_STEPS)
@pytest.mark.parametrize("attack", EVERY_ATTACK)
@pytest.mark.parametrize("kind", CASES)
def test_no_attack_takes_a_run_above_the_bound(kind: str, attack: str, steps: int) -> None:
    skip_what_has_no_labels(kind, attack)
    if attack in SEARCHING and steps != 5:
        pytest.skip(f"{attack} searches in every round; H = {steps} is in the slow grid")
    case = replace(CASES[kind], attack=attack, local_steps=steps)
    assert case.guarantees[0].holds
    check(replace(case, rounds=6) if attack in SEARCHING else case)


@pytest.mark.parametrize("attack", ["alie", "sign-flip", "min-max", "cluster-spread"])
@pytest.mark.parametrize("mode", ["known", "exact", "lazy"])
def test_modes_that_are_told_the_spread_stay_below_their_bounds(mode: Mode, attack: str) -> None:
    check(replace(QUADRATIC, mode=mode, attack=attack))


@pytest.mark.parametrize("steps", LOCAL_STEPS)
@pytest.mark.parametrize("kind", CASES)
def test_the_sharp_bound_holds_for_a_step_size_of_one_over_the_smoothness(kind: str, steps: int) -> None:
    for attack in ("none", "alie", "sign-flip", "min-max"):
        case = replace(CASES[kind], attack=attack, local_steps=steps, step=float(steps), rounds=8)
        check(case)
        assert np.isinf(case.guarantees[0].floor)


def test_the_bound_is_attained_when_every_cohort_is_one_of_two_clients() -> None:
    # With one curvature each client's minimum is κ/μ from x*, and a round of many steps ends there.
    case = Case(
        dim=1,
        num_clients=2,
        num_points=1,
        heterogeneity=1.0,
        strong_convexity=1.0,
        start=0.0,
        cohort_size=1,
        num_byzantine=0,
        assumed=0,
        local_steps=50,
        step=25.0,
        rounds=6,
        data_seed=4,
    )
    assert case.constants.dissimilarity == pytest.approx(1.0)
    assert check(case) == pytest.approx(1.0, rel=1e-6)


def test_the_mean_under_attack_is_above_the_bound_of_the_filter() -> None:
    for attack in ("reversed-gradient", "gaussian", "ones"):
        robust = replace(QUADRATIC, attack=attack, heterogeneity=0.1)
        check(robust)
        with pytest.raises(AssertionError, match="rounds"):
            check(replace(robust, rule=Mean()))


def test_more_liars_than_the_rule_is_told_break_the_bound() -> None:
    many = replace(QUADRATIC, num_byzantine=15, attack="ipm", rounds=30)
    assert many.guarantees[1].failure > 0.99
    with pytest.raises(AssertionError, match="rounds"):
        assert_below(many.distances(), many.guarantees[1].bound(np.arange(31)), "too many")


def test_written_gradients_give_the_run_that_autograd_gives() -> None:
    for case in (replace(QUADRATIC, attack="alie"), replace(QUADRATIC, batch_size=3, attack="min-max")):
        assert case.distances() == pytest.approx(case.distances(written=False), rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("steps", LOCAL_STEPS)
@pytest.mark.parametrize("attack", EVERY_ATTACK)
@pytest.mark.parametrize("kind", CASES)
def test_no_attack_takes_a_long_ill_conditioned_run_above_the_bound(kind: str, attack: str, steps: int) -> None:
    skip_what_has_no_labels(kind, attack)
    for assumed, heterogeneity, seed in ((5, 0.1, 0), (10, 1.0, 1), (10, 10.0, 2)):
        case = replace(
            CASES[kind],
            attack=attack,
            local_steps=steps,
            strong_convexity=0.1,
            heterogeneity=heterogeneity,
            num_clients=50,
            cohort_size=40,
            assumed=assumed,
            num_byzantine=assumed,
            rounds=15 if attack in SEARCHING else 100,
            seed=seed,
        )
        check(case)
