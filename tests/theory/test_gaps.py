"""Synchronisation indices whose gaps differ: the theorems by each round's own gap, against recursions written out."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st
from tests.theory.problems import QUADRATIC, assert_below, mean_and_error
from tests.theory.test_mini_batches import with_batches
from tests.theory.test_statements import BENT, PROBLEM, protocol

from steadfed._core.gaps import check_gaps, check_synchronised, repetitions, rounds_taking, steps_after, steps_taken
from steadfed.errors import ParameterError
from steadfed.theory import Problem, Protocol, paper, sharp
from steadfed.theory._search import first_in_repetitions
from steadfed.theory._statements import expected, likely, papers
from steadfed.theory.planner import Theorem, local_steps_for, most_byzantine, rounds_for

pytestmark = pytest.mark.portable

THEOREMS: list[Theorem] = [papers, expected, likely]
each_theorem = pytest.mark.parametrize("theorem", THEOREMS)
each_problem = pytest.mark.parametrize("problem", [PROBLEM, BENT], ids=["convex", "non-convex"])
some_gaps = st.lists(st.integers(1, 9), min_size=1, max_size=7)
GAPS = (1, 8, 3)
SMALL = {"lr": 0.05, "smoothness": 1.0}
"""ηHL < 0.6 for gaps up to 9, so that every theorem holds."""


def varying(**changes: Any) -> Protocol:
    """Return a protocol whose largest gap is 8, at the step size of the paper's theorem."""
    return protocol(**{"local_steps": GAPS, "lr": 1.0 / (8 * 8 * 2.0)} | changes)


@given(some_gaps, st.integers(0, 60))
def test_steps_are_added_up_one_by_one(gaps: list[int], rounds: int) -> None:
    literal = sum(itertools.islice(itertools.cycle(gaps), rounds))
    assert steps_taken(gaps, rounds) == literal == float(steps_after(gaps, np.array(float(rounds))))
    assert rounds_taking(gaps, literal) == rounds
    whole, part = repetitions(gaps, np.array([float(rounds)]))
    assert divmod(rounds, len(gaps)) == (whole[0], part[0])


def test_totals_at_which_no_round_ends_are_refused() -> None:
    assert check_synchronised(12, GAPS) == (12, 3)
    with pytest.raises(ParameterError, match="total_steps must be where a round ends: 1, 9, 12, 13, …, got 10"):
        check_synchronised(10, GAPS)


@pytest.mark.parametrize("value", [[], [0], [1, -2], [1, 2.5], ["a"], [True], "12", 0, None])
def test_gaps_are_whole_numbers_of_at_least_one(value: Any) -> None:
    with pytest.raises(ParameterError, match="local_steps must be a whole number of at least 1"):
        check_gaps(value)


def test_equal_gaps_are_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def counted(_name: str, value: int) -> int:
        calls.append(value)
        return value

    monkeypatch.setattr("steadfed._core.gaps.check_whole", counted)
    assert check_gaps([3, 1, 3] * 10_000) == (3, 1, 3) * 10_000
    assert sorted(calls) == [1, 3]
    calls.clear()
    check_gaps([3, np.int64(3), 3])
    assert calls == [3, 3, 3]


@given(some_gaps, st.lists(st.floats(0.0, 10.0), min_size=7, max_size=7), st.floats(0.0, 100.0), st.floats(0.01, 1.0))
def test_the_distance_is_that_of_the_recursion(gaps: list[int], drawn: list[float], start: float, mu: float) -> None:
    errors = drawn[: len(gaps)]
    found = sharp.distance_bound(
        np.arange(31), distance=start, error=errors, local_steps=gaps, strong_convexity=mu, **SMALL
    )
    distance, literal = math.sqrt(start), []
    for gap, error in itertools.islice(itertools.cycle(zip(gaps, errors, strict=True)), 31):
        literal.append(distance * distance)
        distance = (1.0 - 0.05 * mu) ** gap * distance + 0.05 * error
    np.testing.assert_allclose(found, literal, rtol=1e-9, atol=1e-12)


@given(some_gaps, st.lists(st.floats(0.0, 10.0), min_size=7, max_size=7), st.floats(0.0, 100.0))
def test_the_mean_gradient_is_that_of_the_sums(gaps: list[int], drawn: list[float], height: float) -> None:
    errors = drawn[: len(gaps)]
    found = sharp.gradient_bound(np.arange(31), gap=height, error=errors, local_steps=gaps, **SMALL)
    assert found[0] == math.inf
    steps, total = 0, 0.0
    for number, (gap, error) in enumerate(itertools.islice(itertools.cycle(zip(gaps, errors, strict=True)), 30), 1):
        steps += gap
        total += gap * sharp.descent_constant(local_steps=gap, **SMALL) * (error / gap) ** 2
        assert found[number] == pytest.approx(2.0 * height / (0.05 * steps) + total / steps, rel=1e-9)


@given(some_gaps, st.floats(0.01, 10.0), st.floats(0.01, 1.0))
def test_the_floors_are_what_the_bounds_come_to(gaps: list[int], error: float, mu: float) -> None:
    late = np.arange(10**9, 10**9 + len(gaps))
    strong: dict[str, Any] = {"error": error, "local_steps": gaps, "strong_convexity": mu, **SMALL}
    assert sharp.distance_floor(**strong) == pytest.approx(sharp.distance_bound(late, distance=1.0, **strong).max())
    bent: dict[str, Any] = {"error": error, "local_steps": gaps, **SMALL}
    assert sharp.gradient_floor(**bent) == pytest.approx(sharp.gradient_bound(late, gap=0.0, **bent).max(), rel=1e-6)


def test_a_step_size_that_hardly_shrinks_anything_has_a_floor() -> None:
    tiny: dict[str, Any] = {
        "lr": 1e-300,
        "smoothness": 1.0,
        "strong_convexity": 1e-30,
        "error": [1.0, 3.0],
        "local_steps": [1, 3],
    }
    assert sharp.distance_floor(**tiny) == pytest.approx(1e60)


def test_as_many_errors_as_gaps_are_asked_for() -> None:
    with pytest.raises(ParameterError, match="one for each of the 3 gaps, got 2"):
        sharp.gradient_floor(error=[1.0, 2.0], local_steps=GAPS, **SMALL)


@each_theorem
@each_problem
@pytest.mark.parametrize("steps", [1, 5, 8])
def test_equal_gaps_are_the_constant_to_the_last_digits(problem: Problem, theorem: Theorem, steps: int) -> None:
    """And a list of one number is the number to the bit."""
    rounds = np.array([0, 1, 2, 3, 4, 5, 50, 1000])
    one = theorem(problem, varying(local_steps=steps))
    assert np.array_equal(theorem(problem, varying(local_steps=(steps,))).bound(rounds), one.bound(rounds))
    for number in (2, 3):
        same = theorem(problem, varying(local_steps=(steps,) * number))
        np.testing.assert_allclose(same.bound(rounds), one.bound(rounds), rtol=2e-15)
        assert same.floor == pytest.approx(one.floor, rel=1e-14)
        assert (same.lr_limit, same.failures, same.sigma0) == (one.lr_limit, one.failures, one.sigma0)


@each_theorem
@each_problem
def test_a_bound_with_gaps_of_at_most_h_asks_for_the_step_size_and_spread_of_h(
    problem: Problem, theorem: Theorem
) -> None:
    mixed, longest = theorem(problem, varying()), theorem(problem, varying(local_steps=8))
    assert (mixed.lr_limit, mixed.sigma0, mixed.filter_error) == (
        longest.lr_limit,
        longest.sigma0,
        longest.filter_error,
    )
    assert mixed.failures == longest.failures  # as many rounds
    assert mixed.holds


@each_problem
def test_the_papers_floor_is_that_of_the_largest_gap_if_the_filter_adapts(problem: Problem) -> None:
    assert papers(problem, varying()).floor == papers(problem, varying(local_steps=8)).floor
    full = {"batch_size": "full", "slack": 0.0}
    assert papers(problem, varying(**full)).floor == papers(problem, varying(local_steps=8, **full)).floor


@each_problem
def test_a_spread_that_is_told_once_costs_more_in_short_rounds(problem: Problem) -> None:
    """Υ is then the same in all rounds, and Γ = 3Υ²/h + … is not largest for the largest gap."""
    told = papers(problem, varying()).sigma0
    short, long = (papers(problem, varying(local_steps=h, mode="known", sigma0=told)).floor for h in (1, 8))
    assert short > long
    assert papers(problem, varying(mode="known", sigma0=told)).floor == short
    assert papers(problem, varying(mode="known")).floor == short  # the theorem's own σ₀ is that of the largest gap


def proved_at_the_papers_probability(problem: Problem, setting: Protocol, sigma0: float, rounds: Any) -> Any:
    """Return the bound by each round's own gap, with p = ε′/2 as in section 7 of docs/theory/convergence.md."""
    steps: dict[str, Any] = {"lr": setting.lr, "smoothness": problem.smoothness}
    if problem.strong_convexity:
        steps["strong_convexity"] = problem.strong_convexity
    noise, pull = setting.noise(problem.gradient_variance), setting.constant * math.sqrt(setting.fraction)
    errors = []
    for gap in setting.gaps:
        reach = sharp.likely_deviation(
            **steps,
            local_steps=gap,
            dissimilarity=problem.dissimilarity,
            noise=noise,
            outlier_probability=setting.slack / 2 or 1.0,
        )
        errors.append(math.hypot(1.0, pull) * reach if setting.mode == "auto" else pull * sigma0 + reach)
    steps |= {"error": errors, "local_steps": setting.gaps}
    if problem.strong_convexity:
        return sharp.distance_bound(rounds, distance=problem.start, **steps)
    return sharp.gradient_bound(rounds, gap=problem.height, **steps)


@each_problem
@pytest.mark.parametrize("mode", ["auto", "known", "exact"])
@pytest.mark.parametrize("gaps", [(1, 8), (8, 1), (1, 1, 1, 30), tuple(range(1, 21))])
def test_the_papers_bounds_follow_from_the_sharp_ones(problem: Problem, mode: Any, gaps: tuple[int, ...]) -> None:
    rounds = np.arange(60)
    mini = varying(local_steps=gaps, lr=1.0 / (16 * max(gaps)), mode=mode)
    for setting in (mini, mini.with_changes(batch_size="full", slack=0.0, lr=1.0 / (10 * max(gaps)))):
        stated = papers(problem, setting)
        assert math.isfinite(stated.floor)
        told = setting if mode == "auto" else setting.with_changes(sigma0=stated.sigma0)
        proved = proved_at_the_papers_probability(problem, told, stated.sigma0, rounds)
        assert (proved <= papers(problem, told).bound(rounds) * (1 + 1e-12)).all()


def test_the_probability_counts_rounds_and_not_steps_over_h() -> None:
    law: dict[str, Any] = {"slack": 0.1, "byzantine_fraction": 0.1, "cohort_size": 16_400}
    once = paper.failure_probability(total_steps=1, local_steps=1, **law)
    assert paper.failure_probability(total_steps=24, local_steps=GAPS, **law) == 6 * once
    longest = paper.longest_run(failure=0.01, local_steps=GAPS, **law)
    rounds = check_synchronised(longest, GAPS)[1]
    assert rounds == paper.longest_run(failure=0.01, local_steps=1, **law)
    assert paper.failure_probability(total_steps=longest, local_steps=GAPS, **law) <= 0.01
    most = paper.longest_run(failure=0.01, local_steps=GAPS, slack=0.25, byzantine_fraction=0.0, cohort_size=10**9)
    assert paper.MOST_STEPS - 8 < most <= paper.MOST_STEPS
    assert paper.minibatch_lr(smoothness=2.0, local_steps=GAPS) == paper.minibatch_lr(smoothness=2.0, local_steps=8)


def test_the_displayed_bounds_take_gaps() -> None:
    convex = {"distance": 4.0, "floor": 1.0, "strong_convexity": 0.5, "smoothness": 1.0, "total_steps": 24}
    bent = {"gap": 4.0, "floor": 1.0, "smoothness": 1.0, "total_steps": 24}
    for function, numbers in (
        (paper.distance_bound, convex),
        (paper.full_batch_distance_bound, convex),
        (paper.gradient_bound, bent),
        (paper.full_batch_gradient_bound, bent),
    ):
        call: Any = function
        assert call(**numbers, local_steps=GAPS) == call(**numbers, local_steps=8)
        with pytest.raises(ParameterError, match="where a round ends"):
            call(**{**numbers, "total_steps": 23}, local_steps=GAPS)


@pytest.mark.parametrize("attack", ["none", "alie", "sign-flip", "min-max"])
@pytest.mark.parametrize("gaps", [(1, 8), (8, 1, 1, 1), (3, 8, 1, 5)])
def test_runs_with_gaps_that_differ_stay_below_the_bounds(attack: str, gaps: tuple[int, ...]) -> None:
    case = replace(QUADRATIC, attack=attack, local_steps=8, gaps=gaps)
    rounds = np.arange(case.rounds + 1)
    papers_, sharp_ = case.guarantees
    assert papers_.holds
    assert_below(case.distances(), sharp_.bound(rounds), (attack, gaps))
    assert_below(sharp_.bound(rounds), papers_.bound(rounds), "the paper's")
    drawn = with_batches(QUADRATIC, attack=attack, local_steps=8, gaps=gaps)
    papers_, mean_bound, path_bound = drawn.guarantees
    paths = [replace(drawn, seed=seed).distances() for seed in range(4)]
    mean, error = mean_and_error(paths)
    assert_below(mean - 3 * error, mean_bound.bound(rounds), (attack, gaps))
    for path in paths:
        assert_below(path, path_bound.bound(rounds), (attack, gaps))
        assert_below(path, papers_.bound(rounds), (attack, gaps))


@pytest.mark.parametrize("mode", ["known", "exact"])
def test_modes_that_are_told_one_spread_stay_below_their_bounds(mode: str) -> None:
    case = with_batches(QUADRATIC, attack="alie", mode=mode, local_steps=8, gaps=(1, 8, 3))
    bound = case.guarantees[2]
    assert bound.holds
    for seed in range(3):
        assert_below(replace(case, seed=seed).distances(), bound.bound(np.arange(case.rounds + 1)), mode)


def test_the_recursion_by_rounds_is_sharper_than_the_worst_gap() -> None:
    """Noise that costs most in rounds of one step: nine steps in ten are taken in a round of nine."""
    noisy = PROBLEM.model_copy(update={"dissimilarity": 0.0})
    own = expected(noisy, varying(local_steps=(1, 9), lr=0.01)).floor
    one, nine = (expected(noisy, varying(local_steps=h, lr=0.01)).floor for h in (1, 9))
    assert nine < own < 0.3 * one


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(1, 9), min_size=2, max_size=5),
    st.floats(1.001, 50.0),
    st.sampled_from(THEOREMS),
    st.sampled_from([PROBLEM, BENT]),
)
def test_the_rounds_to_a_target_are_the_first_of_all(
    gaps: list[int], factor: float, theorem: Theorem, problem: Problem
) -> None:
    far = problem.model_copy(update={"distance": 1e7, "gap": 1e7})
    setting = varying(local_steps=tuple(gaps), lr=0.005)
    target = factor * theorem(far, setting.with_changes(rounds=10**12)).floor  # longer than any run that is needed
    found = rounds_for(far, setting, target=target, theorem=theorem).value
    guarantee = theorem(far, setting.with_changes(rounds=found or 1))
    assert guarantee.bound(found) <= target
    if theorem is not likely:  # of which a longer run has a larger bound
        before = np.unique(np.r_[np.arange(min(found, 1000)), np.arange(max(0, found - 1000), found)])
        assert (guarantee.bound(before) > target).all()


def test_a_bound_that_comes_and_goes_is_searched_by_repetitions() -> None:
    def holds(numbers: Any) -> Any:
        return (numbers % 4 == 3) & (numbers > 50) | (numbers % 4 == 1) & (numbers > 90)

    literal = next(number for number in range(1, 200) if holds(number))
    assert first_in_repetitions(holds, 4, 10**12) == literal == 51
    assert first_in_repetitions(holds, 4, 40) is None
    assert first_in_repetitions(lambda numbers: numbers == 2, 4, 40) == 2


@given(st.integers(2, 5), st.integers(1, 40), st.lists(st.integers(-30, 45).filter(bool), min_size=5, max_size=5))
def test_the_last_period_may_be_a_part_of_one(period: int, most: int, begins: list[int]) -> None:
    """Each place begins to hold at a number, or, of a negative one, holds from the first on and ends there."""

    def holds(numbers: Any) -> Any:
        since = np.array(begins)[numbers % period]
        return np.where(since > 0, numbers >= since, numbers < -since)

    literal = next((number for number in range(1, most + 1) if holds(np.array(number))), None)
    assert first_in_repetitions(holds, period, most) == literal


def rounds_or_none(problem: Problem, setting: Protocol, target: float) -> int | None:
    """Return after how many rounds the bound is at most the target; None if it never is."""
    try:
        return rounds_for(problem, setting, target=target, theorem=expected).value
    except ParameterError as error:
        if "is not reached by" not in str(error):
            raise
        return None


@settings(max_examples=60, deadline=None)
@given(some_gaps.filter(lambda gaps: len(gaps) > 1), st.floats(0.3, 1.1), st.sampled_from([PROBLEM, BENT]))
def test_targets_below_the_floor_are_reached_just_after_the_rounds_that_err_least(
    gaps: list[int], factor: float, problem: Problem
) -> None:
    setting = varying(local_steps=tuple(gaps), lr=0.01)
    guarantee = expected(problem, setting)
    target, rounds = factor * guarantee.floor, np.arange(1, 20_000)
    assume(not np.isclose(guarantee.bound(rounds[-len(gaps) :]), target, rtol=1e-9).any())  # a limit, and rounding
    literal = rounds[guarantee.bound(rounds) <= target]
    if literal.size and guarantee.bound(0) > target:
        assert rounds_for(problem, setting, target=target, theorem=expected).value == literal[0]
    elif guarantee.bound(0) > target:
        found = rounds_or_none(problem, setting, target)
        if found is None:
            assert (guarantee.bound(np.arange(10**6, 10**6 + len(gaps))) > target).all()
        else:  # bounds that fall like 1/k are near their limit late
            assert found >= len(rounds)
            assert guarantee.bound(found) <= target < guarantee.bound(found - 1)


def test_a_target_between_the_limits_of_two_places_is_reached_and_the_lower_limit_is_not() -> None:
    setting = varying(local_steps=(1, 8), lr=0.01, mode="spread")
    guarantee = expected(PROBLEM, setting)
    late = guarantee.bound([10**15, 10**15 + 1])
    assert late.min() < guarantee.floor * (1 - 1e-3)
    target = math.sqrt(float(late.min()) * guarantee.floor)
    found = rounds_for(PROBLEM, setting, target=target, theorem=expected).value
    assert guarantee.bound(found) <= target < guarantee.bound(np.arange(found)).min()
    with pytest.raises(ParameterError, match="whose floor is"):
        rounds_for(PROBLEM, setting, target=float(late.min()), theorem=expected)


def test_gaps_that_were_drawn_are_known_for_their_rounds_only() -> None:
    drawn = varying(repeats=False, rounds=3, lr=0.005)
    assert drawn.known_rounds == 3
    with pytest.raises(ParameterError, match="rounds must be at most 3, for which local_steps are known, got 4"):
        drawn.with_changes(rounds=4)
    far = PROBLEM.model_copy(update={"distance": 1e9})
    target = 2.0 * expected(far, drawn).floor
    with pytest.raises(ParameterError, match="within 3 rounds, although its floor is"):
        rounds_for(far, drawn, target=target, theorem=expected)
    assert rounds_for(far, drawn.with_changes(local_steps=GAPS), target=target, theorem=expected).value > 3
    assert drawn.with_changes(local_steps=4, rounds=100).known_rounds == math.inf


@each_theorem
def test_other_questions_are_answered_for_gaps_that_differ(theorem: Theorem) -> None:
    setting = varying(lr=0.005)
    assert most_byzantine(PROBLEM, setting, theorem=theorem, failure=0.01).value >= 0
    far = PROBLEM.model_copy(update={"distance": 1e7})
    target = 4.0 * theorem(far, setting).floor
    best = local_steps_for(far, setting, target=target, theorem=theorem, most_steps=4, lr_shares=(1.0, 0.25))
    assert 1 <= best.value <= 4


def test_what_is_bounded_says_that_rounds_count_by_their_steps() -> None:
    assert expected(BENT, varying()).quantity.endswith("each counted by its local steps")
    assert "counted" not in expected(BENT, varying(local_steps=8)).quantity + expected(PROBLEM, varying()).quantity


@pytest.mark.parametrize("value", [[], (0,), (1, 2.5), "2,3", 0, (1, "a")])
def test_a_protocol_refuses_what_are_no_gaps(value: Any) -> None:
    with pytest.raises(ParameterError, match="local_steps"):
        varying(local_steps=value)
