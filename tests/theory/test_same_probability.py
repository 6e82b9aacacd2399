"""Theorem 3 of docs/theory/convergence.md: where the paper's bounds are at least the sharp ones, and where not."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
import pytest

from steadfed.aggregators._rage.constants import filter_constant
from steadfed.theory import Guarantee, Problem, Protocol, paper, sharp
from steadfed.theory._statements import expected, likely, papers

Mode = Literal["auto", "known", "exact"]
ROUNDS = np.array([0, 1, 2, 7, 50, 1000])
LEAST = 1.0 / 75.0
"""ε̃ from which on the paper's bounds are above those of the same probability."""


def problem(strength: float, apart: float, variance: float, dim: int = 1) -> Problem:
    return Problem(
        smoothness=1.0,
        strong_convexity=strength,
        gradient_variance=variance,
        dissimilarity=apart,
        distance=10.0,
        gap=5.0,
        dim=dim,
    )


def protocol(cohort: int, distrusted: int, aside: int, steps: int, mode: Mode) -> Protocol:
    """Return one round at the largest step size of the paper's theorem."""
    return Protocol(
        num_clients=cohort,
        cohort_size=cohort,
        assumed_byzantine=distrusted,
        slack=aside / cohort,
        local_steps=steps,
        batch_size=1,
        lr=1.0 / (8.0 * steps),
        rounds=1,
        mode=mode,
    )


def both(given: Problem, setting: Protocol) -> tuple[Guarantee, Guarantee]:
    """Return the paper's guarantee and ours, which may fail with the same probability."""
    stated = papers(given, setting)
    failure = paper.concentration_failure(
        slack=setting.slack,
        byzantine_fraction=setting.tolerated / setting.cohort_size,
        cohort_size=setting.cohort_size,
    )
    return stated, likely(given, setting.with_changes(failure=failure))


def shares(*, least: float, most: float) -> Iterator[tuple[int, int, int]]:
    """Yield K, f and how many of the f are set aside, with f/K from `least` to `most`."""
    for cohort, share in itertools.product((40, 1500, 100_000), (1e-4, 1e-3, LEAST, 0.05, 0.25)):
        distrusted = math.ceil(share * cohort - 1e-9)
        if least <= distrusted / cohort <= most:
            yield from {(cohort, distrusted, aside) for aside in {1, distrusted}}


def cases(*, least: float, most: float) -> Iterator[tuple[Problem, Protocol]]:
    sizes = itertools.product((0.0, 0.1, 1.0), ((0.0, 1.0), (1.0, 1.0), (1e4, 1.0), (1.0, 0.0)), (1, 20))
    for (strength, (apart, variance), steps), (cohort, distrusted, aside), mode in itertools.product(
        sizes, shares(least=least, most=most), ("auto", "known", "exact")
    ):
        yield problem(strength, apart, variance), protocol(cohort, distrusted, aside, steps, mode)  # type: ignore[arg-type]


def is_below(ours: Guarantee, stated: Guarantee) -> bool:
    return bool((ours.bound(ROUNDS) <= stated.bound(ROUNDS) * (1 + 1e-12)).all())


def test_at_the_same_probability_the_papers_bounds_are_at_least_ours_from_a_75th_on() -> None:
    seen = 0
    for given, setting in cases(least=LEAST, most=0.25):
        stated, ours = both(given, setting)
        assert stated.sigma0 >= ours.sigma0
        assert is_below(ours, stated), (given, setting)
        if setting.mode != "auto":
            told = setting.with_changes(sigma0=stated.sigma0)
            assert is_below(both(given, told)[1], stated), (given, told)
        seen += 1
    assert seen > 500


def test_in_expectation_they_are_at_least_ours_for_every_share() -> None:
    tiny = 0
    for given, setting in cases(least=0.0, most=0.25):
        if setting.mode == "auto":
            assert is_below(expected(given, setting), papers(given, setting)), (given, setting)
            tiny += setting.fraction < LEAST
    assert tiny > 50


def test_below_the_condition_the_papers_bound_can_be_smaller() -> None:
    beyond = [
        (given, setting)
        for given, setting in cases(least=0.0, most=LEAST * (1 - 1e-9))
        if not is_below(*reversed(both(given, setting)))
    ]
    assert beyond
    assert all(setting.fraction < LEAST for _, setting in beyond)
    stated, ours = both(problem(0.0, 0.0, 1.0), protocol(100_000, 10, 10, 1, "known"))
    assert round(stated.floor) == 1062
    assert round(ours.floor) == 3635
    assert stated.failure == pytest.approx(ours.failure)


def test_the_constants_of_the_proof_are_rounded_the_right_way() -> None:
    for reach, first, second, convex, bent in (
        (1 / 8, 1.0652, 1.1362, 1.1318, 1.16),
        (1 / 5, 1.1071, 9.0, 1.2174, 1.28),
    ):
        assert math.expm1(reach) / reach < first
        assert math.expm1(2 * reach) / (2 * reach) < second
        assert (reach / -math.expm1(-reach)) ** 2 < convex
        for steps in (1, 2, 5, 10**4):
            assert sharp.growth(1.0 + reach / steps, steps) <= first * steps
            assert sharp.growth((1.0 + reach / steps) ** 2, steps) <= second * steps
            assert sharp.descent_constant(lr=reach / steps, local_steps=steps, smoothness=1.0) < bent
    assert 13 / 1.1318 > 11.4
    assert 4.5 / 1.16 > 3.87
    assert 2 * 1.0652**2 < 2.27
    assert 2 * 1.1362 < 2.28
    assert 4 * 1.1362 < 4.55
    assert 1.1071**2 < 1.23
    assert 9.6 * 25 * 0.038 >= 9.1
    assert 2.9 * LEAST >= 0.038
    assert math.log(2.0) - 0.5 >= 0.19


def test_no_constant_of_the_filter_is_smaller_than_the_proof_says() -> None:
    for share in (1e-6, 1e-4, LEAST, 0.1, 0.25):
        for mode, least in (("known", math.sqrt(3.0)), ("auto", math.sqrt(3.0) + 2.0), ("exact", math.sqrt(8.0))):
            for rows in (40, 1000):
                assert filter_constant(mode, share, num_rows=rows) >= least * (1 - 1e-6)


def test_the_tail_at_half_the_slack_is_below_the_papers_probability() -> None:
    for cohort, distrusted, aside in shares(least=0.0, most=0.25):
        honest = cohort - distrusted + aside
        slack: dict[str, Any] = {"slack": aside / cohort}
        stated = paper.subset_failure(**slack, num_honest=honest)
        tail = sharp.concentration_failure(num_honest=honest, spare=aside, outlier_probability=aside / cohort / 2.0)
        assert tail <= stated
