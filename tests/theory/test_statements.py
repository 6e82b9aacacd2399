"""Statements about numbers: the paper's bounds above the sharp ones, curves as formulas, conditions, monotony."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from steadfed.aggregators._rage.constants import filter_constant
from steadfed.theory import Guarantee, Problem, Protocol, guarantees, paper, sharp
from steadfed.theory._statements import expected, likely, papers

K = 120
FRACTIONS = ((0.0, 0.025), (0.0, 0.2), (0.05, 0.05), (0.125, 0.025), (0.2, 0.05), (0.225, 0.025))
"""ε of the cohort and ε′."""
PROBLEM = Problem(
    smoothness=2.0,
    strong_convexity=0.5,
    gradient_variance=3.0,
    dissimilarity=0.7,
    distance=40.0,
    gap=9.0,
    dim=30,
)
BENT = PROBLEM.model_copy(update={"strong_convexity": 0.0})
ROUNDS = np.array([0, 1, 2, 7, 50, 1000])


def protocol(**changes: Any) -> Protocol:
    base: dict[str, Any] = {
        "num_clients": 200,
        "cohort_size": K,
        "num_byzantine": 18,
        "assumed_byzantine": 24,
        "slack": 0.05,
        "local_steps": 5,
        "batch_size": 4,
        "lr": 1.0 / (8 * 5 * 2.0),
        "rounds": 100,
    }
    return Protocol(**(base | changes))


def settings() -> Iterator[tuple[Problem, Protocol, float]]:
    """Yield problems, protocols at the step size of the theorem and ε′, strongly convex or not."""
    grid = itertools.product(
        (1, 5, 20, 100), (1, 32), FRACTIONS, (0.0, 1.0, 100.0), (0.0, 1.0), (1, 10_000), (0.0, 0.1)
    )
    for steps, batch, (share, slack), apart, variance, dim, strength in grid:
        problem = Problem(
            smoothness=1.0,
            strong_convexity=strength,
            gradient_variance=variance,
            dissimilarity=apart,
            distance=10.0,
            gap=5.0,
            dim=dim,
        )
        distrusted = round((share + slack) * K)
        yield (
            problem,
            protocol(
                num_byzantine=round(share * K),
                assumed_byzantine=distrusted,
                slack=slack,
                local_steps=steps,
                batch_size=batch,
                lr=1.0 / (8 * steps),
            ),
            slack,
        )


def test_the_papers_bounds_of_theorem_1_follow_from_the_sharp_ones() -> None:
    """Theorem 3 of docs/theory/convergence.md: Lemma 4 (b) with p = ε′/2, and the σ₀ of the paper given to the rule."""
    for problem, setting, slack in settings():
        stated = papers(problem, setting)
        noise, pull = setting.noise(problem.gradient_variance), setting.constant * math.sqrt(setting.fraction)
        steps: dict[str, Any] = {
            "local_steps": setting.local_steps,
            "lr": setting.lr,
            "smoothness": problem.smoothness,
            "strong_convexity": problem.strong_convexity,
        }
        reach = sharp.likely_deviation(
            **steps, dissimilarity=problem.dissimilarity, noise=noise, outlier_probability=slack / 2.0
        )
        assert reach <= stated.sigma0
        error = pull * stated.sigma0 + reach
        if problem.strong_convexity:
            proved = sharp.distance_bound(ROUNDS, distance=problem.start, error=error, **steps)
        else:
            steps.pop("strong_convexity")
            proved = sharp.gradient_bound(ROUNDS, gap=problem.height, error=error, **steps)
        assert (proved <= stated.bound(ROUNDS) * (1 + 1e-12)).all(), (problem, setting)
        assert (expected(problem, setting).bound(ROUNDS) <= stated.bound(ROUNDS) * (1 + 1e-12)).all()


def test_the_papers_bounds_of_theorem_2_follow_from_the_sharp_ones() -> None:
    for problem, setting, _ in settings():
        full = setting.with_changes(batch_size="full", slack=0.0, lr=1.0 / (5 * setting.most_steps))
        for mode in ("auto", "known"):
            for told in {None, papers(problem, full).sigma0 or None} if mode == "known" else {None}:
                stated, proved = guarantees(problem, full.with_changes(mode=mode, sigma0=told))
                assert proved.sigma0 <= stated.sigma0 * (1 + 1e-12)
                assert (proved.bound(ROUNDS) <= stated.bound(ROUNDS) * (1 + 1e-12)).all(), (problem, full)


def test_the_papers_probability_is_above_the_exact_tail() -> None:
    for share, slack in FRACTIONS:
        for cohort_size in (40, 120, 1000, 20_000):
            honest = round((1 - share) * cohort_size)
            tail = sharp.concentration_failure(
                num_honest=honest, spare=math.floor(slack * honest), outlier_probability=slack / 2
            )
            stated = paper.concentration_failure(
                slack=slack, byzantine_fraction=1 - honest / cohort_size, cohort_size=cohort_size
            )
            assert tail <= stated


def test_filters_have_the_constant_that_the_comparison_asks_for() -> None:
    for mode in ("auto", "known", "exact"):
        for fraction in np.linspace(1 / 75, 0.25, 50):
            constant = filter_constant(mode, float(fraction))
            assert constant >= 1.76
            assert constant**2 * fraction >= 0.0386


@pytest.mark.parametrize("number", [0, 1, 7, 300])
def test_the_papers_curve_is_its_formula(number: int) -> None:
    mini, full = protocol(), protocol(batch_size="full", lr=1.0 / (5 * 5 * 2.0))
    steps: dict[str, Any] = {"smoothness": 2.0, "local_steps": 5, "total_steps": 5 * number}
    for setting in (mini, full):
        batches, stated = setting.batch_size != "full", papers(PROBLEM, setting)
        bent = papers(BENT, setting)
        floor = stated.floor * 0.5**2 / (13.0 if batches else 14.0)
        distance = (paper.distance_bound if batches else paper.full_batch_distance_bound)(
            distance=40.0, floor=floor, strong_convexity=0.5, lr=setting.lr, **steps
        )
        gradient = (paper.gradient_bound if batches else paper.full_batch_gradient_bound)(
            gap=9.0, floor=floor, lr=setting.lr, **steps
        )
        assert float(stated.bound(number)) == pytest.approx(distance)
        assert float(bent.bound(number)) == pytest.approx(gradient)


def test_the_papers_floor_is_its_formula() -> None:
    setting = protocol()
    noise = 3.0 / 4
    spread = paper.honest_spread(noise=noise, dissimilarity=0.7, local_steps=5, slack=0.05, dim=30, cohort_size=K)
    error = paper.filter_error(sigma0=math.sqrt(spread), byzantine_fraction=0.15, slack=0.05, cohort_size=K)
    gamma = paper.floor(filter_error=error, noise=noise, dissimilarity=0.7, local_steps=5)
    stated = papers(PROBLEM, setting)
    assert stated.sigma0**2 == pytest.approx(spread)
    assert stated.filter_error**2 == pytest.approx(error)
    assert stated.floor == pytest.approx(13 / 0.25 * gamma)
    assert stated.failures["honest updates spread more than reckoned with"] == pytest.approx(
        paper.failure_probability(total_steps=500, local_steps=5, slack=0.05, byzantine_fraction=0.15, cohort_size=K)
    )


def test_a_condition_fails_just_beyond_its_limit() -> None:
    for problem in (PROBLEM, BENT):
        for statement in (papers, expected, likely):
            limit = statement(problem, protocol()).lr_limit
            assert step_size(statement(problem, protocol(lr=limit * (1 - 1e-9))))
            beyond = statement(problem, protocol(lr=limit * (1 + 1e-9)))
            assert not step_size(beyond)
            assert beyond.is_vacuous
            assert np.isinf(beyond.bound(ROUNDS)).all()
    assert not papers(PROBLEM, protocol(slack=0.0)).holds
    assert papers(PROBLEM, protocol(assumed_byzantine=30)).bound(5) < math.inf
    assert papers(PROBLEM, protocol(assumed_byzantine=31)).bound(5) == math.inf
    assert not expected(PROBLEM, protocol(mode="known", sigma0=50.0)).holds
    enough = likely(PROBLEM, protocol()).sigma0
    assert likely(PROBLEM, protocol(mode="known", sigma0=enough)).holds
    assert not likely(PROBLEM, protocol(mode="known", sigma0=0.999 * enough)).holds


def step_size(guarantee: Guarantee) -> bool:
    (found,) = [each for each in guarantee.conditions if each.name == "step size"]
    return found.passed


@pytest.mark.parametrize("problem", [PROBLEM, BENT], ids=["strongly convex", "non-convex"])
@pytest.mark.parametrize("statement", [papers, expected, likely])
def test_guarantees_grow_with_what_makes_a_problem_harder(statement: Any, problem: Problem) -> None:
    for name in ("dissimilarity", "gradient_variance", "distance", "gap"):
        values = [problem.model_copy(update={name: value}) for value in (0.0, 0.1, 1.0, 50.0)]
        assert_increasing([statement(each, protocol()) for each in values])
    floors = [statement(problem, protocol(assumed_byzantine=f, num_byzantine=6)) for f in (12, 18, 24, 30)]
    assert_increasing(floors)
    assert_increasing([statement(problem, protocol(batch_size=size)) for size in (64, 16, 4, 1)])


def assert_increasing(found: list[Guarantee]) -> None:
    curves = np.array([each.bound(ROUNDS[1:]) for each in found])
    assert (np.diff(curves, axis=0) >= 0).all()


def test_a_later_round_is_never_promised_less_if_the_start_is_above_the_floor() -> None:
    rounds = np.arange(200)
    for each in guarantees(PROBLEM.model_copy(update={"distance": 1e9}), protocol()):
        assert (np.diff(each.bound(rounds)) <= 0).all()
        assert each.bound(10**7) == pytest.approx(each.floor)


def test_the_sharp_floor_does_not_grow_with_the_local_steps_and_the_papers_does() -> None:
    found = [
        guarantees(PROBLEM, protocol(local_steps=steps, lr=1.0 / (16.0 * steps))) for steps in (1, 2, 5, 10, 50, 200)
    ]
    stated, mean, path = (np.array([each[number].floor for each in found]) for number in range(3))
    assert (np.diff(mean) < 0).all()
    assert (np.diff(path) < 0).all()
    assert stated[1:] / stated[:-1] == pytest.approx(np.array([2, 2.5, 2, 5, 4]))
