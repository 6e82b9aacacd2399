"""Inverse questions: every answer fulfils what was asked, its neighbour does not, and the impossible is explained."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.stats import binom

from steadfed.errors import ParameterError
from steadfed.theory import Problem, Protocol, paper
from steadfed.theory._statements import expected, likely, papers
from steadfed.theory.planner import (
    Answer,
    Theorem,
    batch_size_for,
    binomial_cohort,
    local_steps_for,
    most_byzantine,
    paper_cohort,
    rounds_for,
    sampled_cohort,
)
from steadfed.theory.sampling import fraction_excess_probability, run_excess_probability

pytestmark = pytest.mark.portable

THEOREMS: list[Theorem] = [papers, expected, likely]
CONVEX = Problem(smoothness=1.0, strong_convexity=0.1, gradient_variance=1.0, dissimilarity=1e-4, distance=1e9, dim=3)
BENT = Problem(smoothness=1.0, gradient_variance=1.0, dissimilarity=1e-4, gap=1e5, dim=3)
PROTOCOL = Protocol(
    num_clients=1_000,
    cohort_size=60,
    num_byzantine=2,
    assumed_byzantine=12,
    slack=0.01,
    batch_size=64,
    num_points=4_096,
    lr=0.02,
    rounds=400,
)

each_theorem = pytest.mark.parametrize("theorem", THEOREMS)
each_problem = pytest.mark.parametrize("problem", [CONVEX, BENT], ids=["convex", "non-convex"])


def bound_of_a_run(problem: Problem, protocol: Protocol, theorem: Theorem, rounds: int) -> float:
    return float(theorem(problem, protocol.with_changes(rounds=max(rounds, 1))).bound(rounds))


@each_theorem
@each_problem
@pytest.mark.parametrize("factor", [1.001, 1.5, 30.0])
def test_the_rounds_reach_the_target_and_one_less_does_not(problem: Problem, theorem: Theorem, factor: float) -> None:
    target = factor * theorem(problem, PROTOCOL.with_changes(rounds=10**6)).floor
    rounds = rounds_for(problem, PROTOCOL, target=target, theorem=theorem).value
    assert rounds > 1
    assert bound_of_a_run(problem, PROTOCOL, theorem, rounds) <= target
    assert bound_of_a_run(problem, PROTOCOL, theorem, rounds - 1) > target


@given(st.floats(1.0001, 1e4), st.integers(1, 40), st.floats(1e-4, 1.0), st.sampled_from([papers, expected]))
@settings(max_examples=20)
def test_the_rounds_are_those_of_the_logarithm(factor: float, steps: int, share: float, theorem: Theorem) -> None:
    protocol = PROTOCOL.with_changes(local_steps=steps)
    protocol = protocol.with_changes(lr=share * theorem(CONVEX, protocol).lr_limit)
    floor = theorem(CONVEX, protocol).floor
    target, start = factor * floor, CONVEX.start
    per_round = steps * math.log1p(-CONVEX.strong_convexity * protocol.lr / (2.0 if theorem is papers else 1.0))
    if theorem is papers:
        exact = math.log((target - floor) / start) / per_round
    else:
        exact = math.log((math.sqrt(target) - math.sqrt(floor)) / (math.sqrt(start) - math.sqrt(floor))) / per_round
    found = rounds_for(CONVEX, protocol, target=target, theorem=theorem).value
    assert abs(found - max(0, math.ceil(exact))) <= 1e-6 * found + (abs(exact - round(exact)) < 1e-3)


@given(st.floats(1.0001, 1e4), st.integers(1, 40))
@settings(max_examples=20)
def test_the_rounds_are_those_of_the_rearranged_mean(factor: float, steps: int) -> None:
    protocol = PROTOCOL.with_changes(local_steps=steps, lr=1.0 / (8.0 * steps))
    floor = papers(BENT, protocol).floor
    exact = 2.0 * BENT.height / (protocol.lr * steps * (factor * floor - floor))
    found = rounds_for(BENT, protocol, target=factor * floor, theorem=papers).value
    assert abs(found - math.ceil(exact)) <= 1e-9 * found + (abs(exact - round(exact)) < 1e-3)


def test_a_longer_run_needs_more_where_all_rounds_must_go_well() -> None:
    """The bound for a run of N rounds grows with N: what is found is the shortest run of all, by trying all."""
    protocol, problem = PROTOCOL.with_changes(lr=0.5, rounds=40), BENT.model_copy(update={"gap": 1e3})
    target = 2.0 * likely(problem, protocol).floor
    found = rounds_for(problem, protocol, target=target, theorem=likely).value
    tried = [bound_of_a_run(problem, protocol, likely, rounds) <= target for rounds in range(1, found + 1)]
    assert tried.index(True) + 1 == found
    short = int(np.argmax(likely(problem, protocol.with_changes(rounds=1)).bound(np.arange(1, 10**4)) <= target)) + 1
    assert short < found


@each_theorem
def test_who_starts_near_enough_needs_no_round(theorem: Theorem) -> None:
    near = CONVEX.model_copy(update={"distance": 1e-9})
    target = 2.0 * theorem(near, PROTOCOL).floor
    assert rounds_for(near, PROTOCOL, target=target, theorem=theorem).value == 0


@each_theorem
@each_problem
def test_a_target_below_the_floor_is_refused_with_the_floor_and_its_causes(problem: Problem, theorem: Theorem) -> None:
    floor = theorem(problem, PROTOCOL.with_changes(rounds=1)).floor
    for target in (floor, floor / 2.0):
        with pytest.raises(ParameterError, match=r"whose floor is .* with full batches") as caught:
            rounds_for(problem, PROTOCOL, target=target, theorem=theorem)
        assert f"target = {target:.6g}" in str(caught.value)
        assert f"{floor:.6g}" in str(caught.value)


@each_theorem
@each_problem
def test_a_condition_that_fails_is_named_with_its_value(problem: Problem, theorem: Theorem) -> None:
    with pytest.raises(ParameterError, match=r"step size: η .*, got 5"):
        rounds_for(problem, PROTOCOL.with_changes(lr=5.0), target=1e6, theorem=theorem)


def test_the_worst_cohort_of_the_paper_is_named() -> None:
    with pytest.raises(ParameterError, match=r"worst cohort: ε ≤ K/4R − ε′, got 0.05"):
        rounds_for(CONVEX, PROTOCOL.with_changes(num_byzantine=50), target=1e9, theorem=papers)


@each_theorem
@each_problem
def test_local_steps_are_the_best_of_all(problem: Problem, theorem: Theorem) -> None:
    target = 1.3 * theorem(problem, PROTOCOL.with_changes(local_steps=2, lr=0.01, rounds=10**5)).floor
    shares, most = (0.9, 0.1), 4
    found = local_steps_for(problem, PROTOCOL, target=target, theorem=theorem, most_steps=most, lr_shares=shares)
    tried: list[tuple[int, int, float]] = []
    for steps in range(1, most + 1):
        for share in shares:
            largest = theorem(problem, PROTOCOL.with_changes(local_steps=steps)).lr_limit
            protocol = PROTOCOL.with_changes(local_steps=steps, lr=share * largest)
            try:
                rounds = rounds_for(problem, protocol, target=target, theorem=theorem).value
            except ParameterError:
                continue
            tried.append((rounds, steps, -protocol.lr))
    assert (int(found.details["rounds"]), found.value, -found.details["lr"]) == min(tried)


def test_more_local_steps_save_rounds_in_the_sharper_theorem_but_not_beyond_all_bounds() -> None:
    target = 10.0 * expected(CONVEX, PROTOCOL).floor
    one = local_steps_for(CONVEX, PROTOCOL, target=target, theorem=expected, most_steps=1)
    many = local_steps_for(CONVEX, PROTOCOL, target=target, theorem=expected, most_steps=8)
    assert many.details["rounds"] < one.details["rounds"]
    assert many.value > 1


@each_theorem
@each_problem
def test_no_local_steps_are_refused_with_the_lowest_floor(problem: Problem, theorem: Theorem) -> None:
    words = r"no local_steps from 1 to 3 will do; the lowest floor is that of local_steps = \d with lr = "
    with pytest.raises(ParameterError, match=words) as caught:
        local_steps_for(problem, PROTOCOL, target=1e-9, theorem=theorem, most_steps=3, lr_shares=(0.9, 0.1))
    floors = []
    for steps in (1, 2, 3):
        limit = theorem(problem, PROTOCOL.with_changes(local_steps=steps)).lr_limit
        for share in (0.9, 0.1):
            changed = PROTOCOL.with_changes(local_steps=steps, lr=share * limit, rounds=1)
            floors.append(theorem(problem, changed).floor)
    assert f"floor is {min(floors):.6g}" in str(caught.value)


@each_theorem
@each_problem
@pytest.mark.parametrize("factor", [0.5, 1.0, 1.7])
def test_the_batch_reaches_the_floor_and_a_smaller_one_does_not(
    problem: Problem, theorem: Theorem, factor: float
) -> None:
    target = factor * theorem(problem, PROTOCOL).floor
    size = batch_size_for(problem, PROTOCOL, target=target, theorem=theorem).value
    assert theorem(problem, PROTOCOL.with_changes(batch_size=size)).floor <= target
    assert theorem(problem, PROTOCOL.with_changes(batch_size=size - 1)).floor > target
    unknown = PROTOCOL.with_changes(num_points=None)
    assert batch_size_for(problem, unknown, target=target, theorem=theorem).value >= size


@each_theorem
def test_a_batch_of_one_is_enough_for_a_modest_target_and_none_for_heterogeneous_clients(theorem: Theorem) -> None:
    modest = 2.0 * theorem(CONVEX, PROTOCOL.with_changes(batch_size=1)).floor
    assert batch_size_for(CONVEX, PROTOCOL, target=modest, theorem=theorem).value == 1
    alone = theorem(CONVEX, PROTOCOL.with_changes(batch_size=PROTOCOL.num_points)).floor
    with pytest.raises(ParameterError, match=r"not even batch_size = 4096 will do: .* if clients were alike"):
        batch_size_for(CONVEX, PROTOCOL, target=0.9 * alone, theorem=theorem)


@each_theorem
@each_problem
def test_the_rule_is_told_the_most_that_a_theorem_allows(problem: Problem, theorem: Theorem) -> None:
    quiet = PROTOCOL.with_changes(num_byzantine=0)
    floors = {f: theorem(problem, quiet.with_changes(assumed_byzantine=f)).floor for f in range(1, 30)}
    for goal in (None, 1.1 * floors[12], 0.7 * floors[12]):
        answer = most_byzantine(problem, PROTOCOL, theorem=theorem, target=goal)
        told = int(answer.details["assumed_byzantine"])
        allowed = [f for f, floor in floors.items() if math.isfinite(floor) and floor <= (goal or math.inf)]
        assert told == max(allowed)
        assert answer.details["tolerated"] == told - 1  # ⌈0.01 · 60⌉ is set aside
        at_most = PROTOCOL.with_changes(assumed_byzantine=told, num_byzantine=answer.value)
        assert theorem(problem, at_most).holds
        assert answer.value <= told - 1


def test_the_worst_case_of_the_paper_is_its_own_condition() -> None:
    answer = most_byzantine(CONVEX, PROTOCOL, theorem=papers)
    assert answer.value == math.floor(60 / 4 - 0.01 * 1_000 + 1e-9)
    assert "worst cohort" in answer.because
    assert most_byzantine(CONVEX, PROTOCOL, theorem=expected).value == 28


@each_theorem
@pytest.mark.parametrize("failure", [1e-6, 0.01, 0.5])
def test_sampled_cohorts_tolerate_more_and_not_one_too_many(theorem: Theorem, failure: float) -> None:
    answer = most_byzantine(CONVEX, PROTOCOL, theorem=theorem, failure=failure)
    tolerated = int(answer.details["tolerated"])
    law: dict[str, Any] = {"num_clients": 1_000, "cohort_size": 60, "tolerated": tolerated, "rounds": 400}
    assert run_excess_probability(**law, num_byzantine=answer.value) <= failure
    assert run_excess_probability(**law, num_byzantine=answer.value + 1) > failure
    assert answer.value > most_byzantine(CONVEX, PROTOCOL, theorem=theorem).value


def test_no_byzantine_client_at_all_is_explained() -> None:
    with pytest.raises(ParameterError, match="not even assumed_byzantine = 1, the smallest, will do: target"):
        most_byzantine(CONVEX, PROTOCOL, theorem=expected, target=1e-12)
    with pytest.raises(ParameterError, match="worst cohort: ε ≤ K/4R − ε′, got 0"):
        most_byzantine(CONVEX, PROTOCOL.with_changes(slack=0.1), theorem=papers)


def large(**changes: Any) -> Protocol:
    return PROTOCOL.with_changes(
        num_clients=10**8, cohort_size=100, assumed_byzantine=20, slack=0.1, rounds=100, **changes
    )


@given(st.floats(1e-9, 0.9), st.integers(1, 10**6), st.sampled_from([0.02, 0.1, 0.15]))
@settings(max_examples=50)
def test_the_cohort_of_the_paper_is_at_the_edge(failure: float, rounds: int, slack: float) -> None:
    protocol = large().with_changes(slack=slack, rounds=rounds)
    size = paper_cohort(protocol, failure=failure).value
    law: dict[str, Any] = {"slack": slack, "byzantine_fraction": protocol.tolerated / 100}
    assert rounds * paper.concentration_failure(**law, cohort_size=size) <= failure
    if size > 1:
        assert rounds * paper.concentration_failure(**law, cohort_size=size - 1) > failure


def test_the_cohort_of_the_paper_is_far_larger_than_needed() -> None:
    assert paper_cohort(large(), failure=0.01).value == math.ceil(16 * math.log(1e4) / (0.1**2 * 0.9))
    assert binomial_cohort(large(), failure=0.01).value < 1_000


@pytest.mark.parametrize("failure", [0.3, 0.01, 1e-6])
@pytest.mark.parametrize("outlier_share", [0.5, 0.25])
def test_the_binomial_cohort_is_the_first_of_all(failure: float, outlier_share: float) -> None:
    size = binomial_cohort(large(), failure=failure, outlier_share=outlier_share).value
    chances = [
        100 * binom.sf(each // 10, each - each // 10, 0.1 * outlier_share) for each in range(1, size + 1)
    ]  # ε = ε′ = 1/10
    assert chances[-1] <= failure
    assert min(chances[:-1]) > failure


@pytest.mark.parametrize("failure", [0.3, 0.01, 1e-6])
def test_the_sampled_cohort_is_at_the_edge(failure: float) -> None:
    protocol = PROTOCOL.with_changes(num_byzantine=100)
    size = sampled_cohort(protocol, failure=failure).value
    law: dict[str, Any] = {"num_clients": 1_000, "num_byzantine": 100, "fraction": 11 / 60, "rounds": 400}
    assert fraction_excess_probability(**law, cohort_size=size) <= failure
    assert all(fraction_excess_probability(**law, cohort_size=less) > failure for less in range(1, size))


def test_cohorts_that_cannot_be_are_refused_with_the_reason() -> None:
    with pytest.raises(ParameterError, match=r"at most num_clients = 1000, and the paper's Theorem 1 needs \d+"):
        paper_cohort(PROTOCOL, failure=0.01)
    with pytest.raises(ParameterError, match="a cohort of all clients has"):
        binomial_cohort(PROTOCOL, failure=1e-6)
    with pytest.raises(ParameterError, match="num_byzantine = 300 exceeds this fraction"):
        sampled_cohort(PROTOCOL.with_changes(num_byzantine=300), failure=0.01)
    with pytest.raises(ParameterError, match=r"slack must be above 0 and at most 1/4, got 0\.0"):
        paper_cohort(PROTOCOL.with_changes(slack=0.0), failure=0.01)
    with pytest.raises(ParameterError, match=r"slack must be a number strictly between 0 and 1, got 0\.0"):
        binomial_cohort(PROTOCOL.with_changes(slack=0.0), failure=0.01)


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf, "small"])
def test_targets_are_positive_numbers(bad: Any) -> None:
    for ask in (rounds_for, local_steps_for, batch_size_for, most_byzantine):
        with pytest.raises(ParameterError, match="target must be a finite number above 0, got"):
            ask(CONVEX, PROTOCOL, target=bad, theorem=expected)


@pytest.mark.parametrize("bad", [0.0, 1.0, -1.0, math.nan])
def test_failures_are_probabilities(bad: float) -> None:
    for ask in (paper_cohort, binomial_cohort, sampled_cohort):
        with pytest.raises(ParameterError, match="failure must be a number strictly between 0 and 1"):
            ask(PROTOCOL, failure=bad)
    with pytest.raises(ParameterError, match="failure must be"):
        most_byzantine(CONVEX, PROTOCOL, theorem=expected, failure=bad)


def test_bad_searches_are_refused() -> None:
    with pytest.raises(ParameterError, match="most_steps must be a whole number of at least 1, got 0"):
        local_steps_for(CONVEX, PROTOCOL, target=1.0, theorem=expected, most_steps=0)
    with pytest.raises(ParameterError, match=r"lr_shares must hold at least one .*, got \(\)"):
        local_steps_for(CONVEX, PROTOCOL, target=1.0, theorem=expected, most_steps=1, lr_shares=())
    with pytest.raises(ParameterError, match="lr_shares must be a finite number above 0, got -1"):
        local_steps_for(CONVEX, PROTOCOL, target=1.0, theorem=expected, most_steps=1, lr_shares=(-1.0,))
    with pytest.raises(ParameterError, match=r"outlier_share must be a number strictly between 0 and 1, got 1\.5"):
        binomial_cohort(PROTOCOL, failure=0.1, outlier_share=1.5)


def test_an_answer_is_a_line_that_says_why() -> None:
    answer = paper_cohort(large(), failure=0.01)
    assert isinstance(answer, Answer)
    assert str(answer).startswith("cohort size: 16,374 (the paper's Theorem 1; 100 · exp(−ε′²(1 − ε)K/16) = ")
    line = str(rounds_for(CONVEX, PROTOCOL, target=1e4, theorem=expected))
    assert line.startswith("rounds: ")
    assert "one round earlier; target 10000, floor" in line
