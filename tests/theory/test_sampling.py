"""The law of Byzantine clients in a cohort: against all cohorts, many cohorts, whole numbers, and its own inverses."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from steadfed._core.rng import stream
from steadfed.errors import ParameterError
from steadfed.theory.sampling import (
    excess_probability,
    fraction_excess_probability,
    log_excess_probability,
    most_byzantine,
    run_excess_probability,
    smallest_cohort,
    tolerated_for,
    tolerated_of,
)

pytestmark = pytest.mark.portable


def exactly(num_clients: int, num_byzantine: int, cohort_size: int, tolerated: int) -> Fraction:
    """Return P(X > f) as a quotient of whole numbers: cohorts with too many, and all cohorts."""
    ways = math.comb(num_byzantine, tolerated + 1) * math.comb(num_clients - num_byzantine, cohort_size - tolerated - 1)
    total = 0
    for x in range(tolerated + 1, min(num_byzantine, cohort_size) + 1):
        total += ways
        ways *= (num_byzantine - x) * (cohort_size - x)
        ways //= (x + 1) * (num_clients - num_byzantine - cohort_size + x + 1)
    return Fraction(total, math.comb(num_clients, cohort_size))


def logarithm(number: Fraction) -> float:
    return math.log(number.numerator) - math.log(number.denominator)


@st.composite
def populations(draw: st.DrawFn, most: int = 200) -> tuple[int, int, int]:
    """Return R, B and K."""
    clients = draw(st.integers(1, most))
    return clients, draw(st.integers(0, clients)), draw(st.integers(1, clients))


@pytest.mark.parametrize("clients", [1, 2, 5, 8])
def test_the_probability_is_the_share_of_all_cohorts(clients: int) -> None:
    for cohort in range(1, clients + 1):
        cohorts = list(combinations(range(clients), cohort))
        for liars in range(clients + 1):
            counts = np.array([sum(client < liars for client in each) for each in cohorts])
            for tolerated in range(cohort + 1):
                found = excess_probability(
                    num_clients=clients, num_byzantine=liars, cohort_size=cohort, tolerated=tolerated
                )
                assert found == pytest.approx((counts > tolerated).mean(), abs=1e-14)


def test_drawn_cohorts_exceed_as_often_as_the_law_says() -> None:
    generator = stream(3, "cohorts")
    draws, rounds = 20_000, 5
    order = generator.random((draws, rounds, 60)).argsort(axis=-1)[..., :20]
    exceeded = ((order < 12).sum(axis=-1) > 6).any(axis=-1).mean()
    chance = run_excess_probability(num_clients=60, num_byzantine=12, cohort_size=20, tolerated=6, rounds=rounds)
    assert 0.05 < chance < 0.5
    assert abs(exceeded - chance) < 4.5 * math.sqrt(chance * (1 - chance) / draws)


@pytest.mark.parametrize(
    ("numbers", "digits"),
    [
        ((1_000, 100, 200, 60), 1e-13),
        ((1_000, 100, 200, 99), 1e-13),
        ((1_000_000, 100_000, 10_000, 1_300), 1e-9),
        ((1_000_000, 200_000, 4_000, 1_000), 1e-9),
        ((1_000_000, 100_000, 10_000, 900), 1e-12),
    ],
)
def test_the_far_tail_keeps_its_digits(numbers: tuple[int, int, int, int], digits: float) -> None:
    exact = exactly(*numbers)
    names = ("num_clients", "num_byzantine", "cohort_size", "tolerated")
    given_ = dict(zip(names, numbers, strict=True))
    assert excess_probability(**given_) == pytest.approx(float(exact), rel=digits, abs=0)
    assert log_excess_probability(**given_) == pytest.approx(logarithm(exact), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(
    "numbers", [(9_000, 900, 900, 890), (1_000_000, 2_000, 1_000, 250), (5_000, 2_500, 2_500, 2_490)]
)
def test_probabilities_too_small_for_a_float_have_logarithms(numbers: tuple[int, int, int, int]) -> None:
    clients, liars, cohort, tolerated = numbers
    found = log_excess_probability(num_clients=clients, num_byzantine=liars, cohort_size=cohort, tolerated=tolerated)
    assert found == pytest.approx(logarithm(exactly(*numbers)), rel=1e-10)
    assert found < -700


def test_what_cannot_be_has_probability_zero_and_what_must_be_one() -> None:
    sure: dict[str, Any] = {"num_clients": 10, "num_byzantine": 10, "cohort_size": 4}
    assert excess_probability(**sure, tolerated=3) == 1.0
    assert run_excess_probability(**sure, tolerated=3, rounds=7) == 1.0
    assert run_excess_probability(**sure, tolerated=3, rounds=0) == 0.0
    assert excess_probability(**sure, tolerated=4) == 0.0
    assert log_excess_probability(**sure, tolerated=4) == -math.inf
    assert log_excess_probability(**sure, tolerated=3) == 0.0


def test_many_rounds_of_a_tiny_probability_add_up() -> None:
    law: dict[str, Any] = {"num_clients": 1_000, "num_byzantine": 100, "cohort_size": 200, "tolerated": 60}
    once = excess_probability(**law)
    assert run_excess_probability(**law, rounds=10**6) == pytest.approx(1e6 * once, rel=1e-9)


def test_a_fraction_of_a_cohort_is_what_a_person_would_count() -> None:
    for hundredths in range(101):
        for cohort in range(1, 301):
            assert tolerated_of(cohort_size=cohort, fraction=hundredths / 100) == hundredths * cohort // 100
    for parts in range(1, 40):
        assert tolerated_of(cohort_size=7 * parts, fraction=1 / parts) == 7


def test_exceeding_a_fraction_is_exceeding_its_floor() -> None:
    law: dict[str, Any] = {"num_clients": 100, "num_byzantine": 20, "cohort_size": 40}
    expected = run_excess_probability(**law, tolerated=10, rounds=3)
    assert fraction_excess_probability(**law, fraction=0.25, rounds=3) == expected
    assert fraction_excess_probability(**law, fraction=0.274, rounds=3) == expected
    assert fraction_excess_probability(**law, fraction=0.275, rounds=3) < expected


@given(populations(), st.integers(0, 50), st.integers(1, 1_000))
def test_more_liars_make_it_worse_and_more_tolerance_better(
    population: tuple[int, int, int], tolerated: int, rounds: int
) -> None:
    clients, liars, cohort = population
    tolerated = min(tolerated, cohort - 1)

    def chance(liars: int, tolerated: int) -> float:
        law = {"num_clients": clients, "num_byzantine": liars, "cohort_size": cohort}
        return run_excess_probability(**law, tolerated=tolerated, rounds=rounds)

    assert chance(max(liars - 1, 0), tolerated) <= chance(liars, tolerated) * (1 + 1e-12)
    assert chance(liars, tolerated + 1) <= chance(liars, tolerated) * (1 + 1e-12)


@given(populations(most=120), st.floats(0.0, 1.0), st.integers(1, 100), st.sampled_from([1e-6, 1e-2, 0.3, 0.9]))
@settings(max_examples=60)
def test_the_smallest_cohort_is_found_as_by_trying_all(
    population: tuple[int, int, int], fraction: float, rounds: int, failure: float
) -> None:
    clients, liars, _ = population
    law: dict[str, Any] = {"num_clients": clients, "num_byzantine": liars, "fraction": fraction, "rounds": rounds}
    good = [size for size in range(1, clients + 1) if fraction_excess_probability(**law, cohort_size=size) <= failure]
    if good:
        assert smallest_cohort(**law, failure=failure) == good[0]
    else:
        assert liars > fraction * clients
        with pytest.raises(ParameterError, match=f"num_byzantine = {liars} exceeds"):
            smallest_cohort(**law, failure=failure)


@pytest.mark.parametrize(("num_clients", "num_byzantine"), [(10, 10), (100_000, 90_000), (1, 0)])
def test_where_no_cohort_is_drawn_one_client_is_enough(num_clients: int, num_byzantine: int) -> None:
    law: dict[str, Any] = {"num_clients": num_clients, "num_byzantine": num_byzantine, "fraction": 0.25}
    assert smallest_cohort(**law, rounds=0) == 1


def test_larger_cohorts_are_not_always_better() -> None:
    law: dict[str, Any] = {"num_clients": 1_000, "num_byzantine": 100, "fraction": 0.25, "rounds": 100}
    size = smallest_cohort(**law, failure=0.05)
    assert fraction_excess_probability(**law, cohort_size=size - 1) > 0.05
    assert fraction_excess_probability(**law, cohort_size=size + 3) > 0.05


@pytest.mark.parametrize("liars", [100_000, 200_000, 300_000])
def test_a_million_clients_are_no_obstacle(liars: int) -> None:
    law: dict[str, Any] = {"num_clients": 1_000_000, "num_byzantine": liars, "fraction": 0.25, "rounds": 1_000}
    if liars > 250_000:
        with pytest.raises(ParameterError, match="allowed is num_byzantine up to 250000"):
            smallest_cohort(**law, failure=0.001)
        return
    size = smallest_cohort(**law, failure=0.001)
    assert fraction_excess_probability(**law, cohort_size=size) <= 0.001
    assert all(fraction_excess_probability(**law, cohort_size=less) > 0.001 for less in range(1, size, 7))


@given(populations(), st.integers(0, 200), st.integers(1, 1_000), st.sampled_from([1e-9, 1e-2, 0.5]))
def test_the_most_byzantine_clients_are_at_the_edge(
    population: tuple[int, int, int], tolerated: int, rounds: int, failure: float
) -> None:
    clients, _, cohort = population
    law: dict[str, Any] = {"num_clients": clients, "cohort_size": cohort, "tolerated": min(tolerated, cohort)}
    most = most_byzantine(**law, rounds=rounds, failure=failure)
    assert most >= law["tolerated"]
    assert run_excess_probability(**law, num_byzantine=most, rounds=rounds) <= failure
    if most < clients:
        assert run_excess_probability(**law, num_byzantine=most + 1, rounds=rounds) > failure


@given(populations(), st.integers(1, 1_000), st.sampled_from([1e-9, 1e-2, 0.5]))
def test_the_smallest_tolerance_is_at_the_edge(population: tuple[int, int, int], rounds: int, failure: float) -> None:
    clients, liars, cohort = population
    law: dict[str, Any] = {"num_clients": clients, "num_byzantine": liars, "cohort_size": cohort, "rounds": rounds}
    bound = tolerated_for(**law, failure=failure)
    assert run_excess_probability(**law, tolerated=bound) <= failure
    if bound:
        assert run_excess_probability(**law, tolerated=bound - 1) > failure


@pytest.mark.parametrize(("num_byzantine", "tolerated", "rounds"), [(20, 5, 1), (20, 9, 30), (3, 0, 2)])
def test_a_probability_that_is_just_allowed_is_allowed(num_byzantine: int, tolerated: int, rounds: int) -> None:
    law: dict[str, Any] = {"num_clients": 100, "cohort_size": 20, "rounds": rounds}
    chance = run_excess_probability(**law, num_byzantine=num_byzantine, tolerated=tolerated)
    assert tolerated_for(**law, num_byzantine=num_byzantine, failure=chance) == tolerated
    assert most_byzantine(**law, tolerated=tolerated, failure=chance) == num_byzantine


def test_where_no_cohort_is_drawn_nobody_need_be_tolerated_and_everybody_may_lie() -> None:
    assert tolerated_for(num_clients=10, num_byzantine=9, cohort_size=5, rounds=0) == 0
    assert most_byzantine(num_clients=10, cohort_size=5, tolerated=1, rounds=0) == 10


def test_one_round_in_a_hundred_may_fail_unless_it_is_said_otherwise() -> None:
    law: dict[str, Any] = {"num_clients": 100, "cohort_size": 20, "rounds": 1}
    chance = excess_probability(num_clients=100, num_byzantine=20, cohort_size=20, tolerated=7)
    assert 0.01 < chance < 0.1
    assert tolerated_for(**law, num_byzantine=20) == tolerated_for(**law, num_byzantine=20, failure=0.01) == 8
    assert most_byzantine(**law, tolerated=8) == most_byzantine(**law, tolerated=8, failure=0.01)
    law = {"num_clients": 100, "num_byzantine": 20, "fraction": 0.4}
    assert smallest_cohort(**law) == smallest_cohort(**law, rounds=1, failure=0.01)
    assert smallest_cohort(**law) != smallest_cohort(**law, failure=0.02)


def test_a_billion_clients_are_the_most() -> None:
    most: dict[str, Any] = {"num_clients": 10**9, "num_byzantine": 0}
    assert excess_probability(**most, cohort_size=1, tolerated=0) == 0.0
    assert smallest_cohort(**most, fraction=0.25) == 1
    for ask in (
        lambda: excess_probability(num_clients=10**9 + 1, num_byzantine=0, cohort_size=1, tolerated=0),
        lambda: smallest_cohort(num_clients=10**9 + 1, num_byzantine=0, fraction=0.25),
    ):
        with pytest.raises(ParameterError, match="num_clients must be a whole number from 1 to 1000000000, got 100000"):
            ask()


GOOD: dict[str, Any] = {"num_clients": 10, "num_byzantine": 2, "cohort_size": 4, "tolerated": 1, "rounds": 3}


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ({"num_clients": 0}, "num_clients must be a whole number from 1"),
        ({"num_clients": 10**12}, "num_clients must be"),
        ({"num_byzantine": 11}, "num_byzantine must be a whole number from 0 to 10, got 11"),
        ({"num_byzantine": -1}, "got -1"),
        ({"cohort_size": 11}, "cohort_size must be a whole number from 1 to 10, got 11"),
        ({"cohort_size": 0}, "got 0"),
        ({"cohort_size": 2.5}, "got 2.5"),
        ({"tolerated": 5}, "tolerated must be a whole number from 0 to 4, got 5"),
        ({"rounds": -1}, "rounds must be a whole number of at least 0, got -1"),
        ({"rounds": True}, "got True"),
    ],
)
def test_numbers_out_of_range_are_refused_with_what_is_allowed(bad: dict[str, Any], words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        run_excess_probability(**(GOOD | bad))


@pytest.mark.parametrize("fraction", [-0.1, 1.1, math.nan, "half"])
def test_a_fraction_is_from_nought_to_one(fraction: Any) -> None:
    with pytest.raises(ParameterError, match="fraction must be a number from 0 to 1, got"):
        tolerated_of(cohort_size=4, fraction=fraction)


@pytest.mark.parametrize("failure", [0.0, 1.0, -1.0, math.inf])
def test_a_failure_probability_is_between_nought_and_one(failure: float) -> None:
    law: dict[str, Any] = {"num_clients": 10, "rounds": 3, "failure": failure}
    with pytest.raises(ParameterError, match="failure must be a number strictly between 0 and 1"):
        smallest_cohort(num_byzantine=1, fraction=0.25, **law)
    with pytest.raises(ParameterError, match="failure"):
        most_byzantine(cohort_size=4, tolerated=1, **law)
    with pytest.raises(ParameterError, match="failure"):
        tolerated_for(num_byzantine=1, cohort_size=4, **law)
