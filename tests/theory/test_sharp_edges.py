"""The sharper bounds at the edges: limits, numbers too large or too small, rules that are told too little."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from steadfed.errors import ParameterError
from steadfed.theory import Problem, Protocol, guarantees, sharp
from steadfed.theory._statements import expected, papers

pytestmark = pytest.mark.portable

BOWL: dict[str, Any] = {"smoothness": 1.0, "strong_convexity": 1.0}
DIVERGING: dict[str, Any] = {"local_steps": 10_000, "lr": 3.0, "smoothness": 1.0}


def protocol(**changes: Any) -> Protocol:
    base: dict[str, Any] = {"num_clients": 40, "cohort_size": 20, "assumed_byzantine": 4, "lr": 0.1, "rounds": 10}
    return Protocol(**(base | changes))


def test_deviations_of_clients_that_diverge_are_infinite() -> None:
    sizes: dict[str, Any]
    assert sharp.growth(4.0, 10_000) == math.inf
    for sizes in ({"dissimilarity": 1, "noise": 0}, {"dissimilarity": 0, "noise": 1}):
        assert sharp.client_deviation(**DIVERGING, **sizes) == math.inf
        assert sharp.mean_deviation(**DIVERGING, **sizes, num_honest=3) == math.inf
        assert sharp.likely_deviation(**DIVERGING, **sizes, outlier_probability=0.1) == math.inf


def test_clients_that_are_alike_and_see_everything_do_not_deviate_even_if_they_diverge() -> None:
    alike: dict[str, Any] = {"dissimilarity": 0.0, "noise": 0.0}
    assert sharp.client_deviation(**DIVERGING, **alike) == 0.0
    assert sharp.mean_deviation(**DIVERGING, **alike, num_honest=3) == 0.0
    assert sharp.likely_deviation(**DIVERGING, **alike, outlier_probability=0.1) == 0.0


@pytest.mark.parametrize("lr", [1.0, 3.0, 1e200])
def test_a_step_size_for_which_nothing_is_proved_is_refused_however_large(lr: float) -> None:
    with pytest.raises(ParameterError, match="ηHL must be small enough"):
        sharp.descent_constant(lr=lr, local_steps=10_000, smoothness=1e150)


@pytest.mark.parametrize(("share", "stated"), [(8.0, 1.16), (5.0, 1.28)])
def test_what_a_round_costs_is_the_formula_of_the_second_theorem(share: float, stated: float) -> None:
    for steps in (1, 2, 7, 100):
        lr = 1.0 / (share * steps * 3.0)
        reach = lr * steps * 3.0
        beta = sum((1.0 + lr * 3.0) ** t for t in range(steps)) / steps - 1.0
        ratio = beta / (1.0 - beta)
        expected = reach + (ratio + 1.0 - reach) ** 2 / (1.0 - reach - ratio**2)
        found = sharp.descent_constant(lr=lr, local_steps=steps, smoothness=3.0)
        assert found == pytest.approx(expected, rel=1e-9)
        assert found < stated


def test_a_step_size_at_the_limit_of_a_round_bowl_reaches_the_minimum_at_once() -> None:
    for lr in (1.0, 1.0 + 5e-13):
        assert sharp.lipschitz(lr=lr, **BOWL) == 0.0
        bound = sharp.distance_bound([0, 1, 2], distance=4.0, error=3.0, lr=lr, local_steps=5, **BOWL)
        assert bound == pytest.approx([4.0, 9.0, 9.0])
        assert sharp.client_deviation(lr=lr, local_steps=5, **BOWL, dissimilarity=4.0, noise=1.0) == 3.0


@pytest.mark.parametrize("strength", [1e-3, 3e-8, 1e-9, 1e-200, 1e-300])
def test_the_floor_keeps_its_digits_for_tiny_step_sizes(strength: float) -> None:
    shape: dict[str, Any] = {"lr": 1e-8, "local_steps": 3, "smoothness": 1.0, "strong_convexity": strength}
    error = strength * 12.0
    assert sharp.distance_floor(error=error, **shape) == pytest.approx(16.0, rel=1e-7)
    assert sharp.distance_bound(0, distance=7.0, error=error, **shape) == pytest.approx(7.0)


def test_the_distance_after_one_tiny_step_grows_by_the_step() -> None:
    bound = sharp.distance_bound(
        1, distance=0.0, error=1.0, lr=1e-8, local_steps=1, smoothness=1.0, strong_convexity=1e-8
    )
    assert math.sqrt(bound) == pytest.approx(1e-8, rel=1e-9)


def test_bounds_that_are_too_large_a_number_are_infinite() -> None:
    huge: dict[str, Any] = {"error": 1e200, "lr": 0.1, "local_steps": 3, "smoothness": 1.0}
    assert sharp.distance_floor(**huge, strong_convexity=1e-3) == math.inf
    assert sharp.distance_bound([0, 1], distance=4.0, **huge, strong_convexity=1e-3).tolist() == [4.0, math.inf]
    assert sharp.gradient_bound([0, 1], gap=4.0, **huge).tolist() == [math.inf, math.inf]


def test_a_start_at_the_minimum_has_a_bound_after_no_round() -> None:
    problem = Problem(smoothness=1.0, gradient_variance=0.0, dissimilarity=1.0, gap=0.0)
    for each in guarantees(problem, protocol()):
        assert each.bound([0, 1]).tolist() == [math.inf, each.floor]


@pytest.mark.parametrize("steps", [1, 2, 3, 7, 100])
def test_there_is_a_bound_for_every_step_size_below_the_limit(steps: int) -> None:
    for smoothness in (1.0, 0.3, 675.3859875700274, 1e7):
        problem = Problem(smoothness=smoothness, gradient_variance=0.0, dissimilarity=1.0, gap=1.0)
        limit = expected(problem, protocol(local_steps=steps)).lr_limit
        assert limit * steps * smoothness == pytest.approx(sharp.largest_reach(steps))
        below = expected(problem, protocol(local_steps=steps, lr=math.nextafter(limit, 0.0)))
        assert below.holds
        assert math.isfinite(below.floor)
        assert np.isinf(expected(problem, protocol(local_steps=steps, lr=limit)).bound(5))


@pytest.mark.parametrize("batch_size", ["full", 5])
def test_the_paper_promises_nothing_of_a_rule_that_is_told_less_than_its_spread(batch_size: Any) -> None:
    problem = Problem(smoothness=1.0, gradient_variance=1.0, dissimilarity=1.0, gap=1.0)
    setting = protocol(mode="known", batch_size=batch_size, slack=0.1)
    stated = papers(problem, setting).sigma0
    for share, holds in ((1.0, True), (2.0, True), (0.99, False), (1e-6, False)):
        found = papers(problem, setting.with_changes(sigma0=share * stated))
        assert found.holds is holds
        assert math.isfinite(found.floor) is holds


@pytest.mark.parametrize(
    ("mode", "size", "rests"),
    [
        ("auto", 129, "the guard raises f for no honest updates"),
        ("auto", 200, ""),
        ("spread", 128, ""),
        ("spread", 129, "above 128 updates: Lanczos"),
        ("known", 129, ""),
    ],
)
def test_a_guarantee_says_when_it_rests_on_ritz_values_or_on_the_guard(mode: Any, size: int, rests: str) -> None:
    problem = Problem(smoothness=1.0, gradient_variance=0.0, dissimilarity=1.0, gap=1.0)
    for each in guarantees(problem, protocol(mode=mode, num_clients=200, cohort_size=size)):
        assert each.rests_on.startswith(rests)
        assert bool(each.rests_on) is bool(rests)
