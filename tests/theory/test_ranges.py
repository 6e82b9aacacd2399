"""Numbers at the edges of what may be asked, and a bit beyond."""

from __future__ import annotations

import math
from typing import Any

import pytest

from steadfed._core.gaps import check_synchronised
from steadfed._core.ranges import (
    check_cohort,
    check_curvatures,
    check_not_negative,
    check_positive,
    check_probability,
    check_share,
    check_step_size,
    check_whole,
)
from steadfed.errors import ParameterError


def test_what_is_allowed_comes_back_as_a_plain_number() -> None:
    assert (check_positive("x", 5e-324), check_not_negative("x", 0), check_probability("x", 0.5)) == (5e-324, 0.0, 0.5)
    assert (
        check_whole("x", 1),
        check_whole("x", 0, least=0),
        check_whole("x", 7, most=7),
        check_whole("x", 10**18),
    ) == (1, 0, 7, 10**18)
    assert check_curvatures(2.0, 2) == (2.0, 2.0)
    assert check_synchronised(0, 3) == (0, 0)
    assert check_cohort(4, 4) == (4, 4)


@pytest.mark.parametrize("value", [0.0, -1.0, math.inf, math.nan, "1", None])
def test_a_positive_number_is_finite_and_above_zero(value: Any) -> None:
    with pytest.raises(ParameterError, match="x must be a finite number above 0, got"):
        check_positive("x", value)


@pytest.mark.parametrize("value", [-5e-324, math.inf, -math.inf, math.nan])
def test_a_number_that_is_not_negative_is_finite(value: float) -> None:
    with pytest.raises(ParameterError, match="x must be a finite number of at least 0, got"):
        check_not_negative("x", value)


@pytest.mark.parametrize("value", [0, 8, 1.5, math.nan, True])
def test_a_whole_number_is_within_its_limits(value: Any) -> None:
    with pytest.raises(ParameterError, match=f"x must be a whole number from 1 to 7, got {value}"):
        check_whole("x", value, most=7)


@pytest.mark.parametrize("strong", [0.0, -1.0, 2.1, math.nan])
def test_strong_convexity_is_above_zero_and_at_most_smoothness(strong: float) -> None:
    with pytest.raises(ParameterError, match="strong_convexity must be above 0 and at most smoothness = 2, got"):
        check_curvatures(2.0, strong)


def test_a_step_size_may_be_above_its_limit_by_rounding_and_no_more() -> None:
    assert check_step_size(0.25 * (1.0 + 0.9e-12), 0.25, "1/L") > 0.25
    for lr in (0.25 * (1.0 + 1.1e-12), 0.0, -0.1, math.nan):
        with pytest.raises(ParameterError, match=r"lr must be above 0 and at most 1/L = 0\.25, got"):
            check_step_size(lr, 0.25, "1/L")


def test_a_cohort_is_no_larger_than_the_population() -> None:
    with pytest.raises(ParameterError, match="cohort_size must be a whole number from 1 to 4, got 5"):
        check_cohort(5, 4)


def test_total_steps_are_a_multiple_of_local_ones() -> None:
    with pytest.raises(ParameterError, match="total_steps must be a multiple of local_steps = 3, got 7"):
        check_synchronised(7, 3)


@pytest.mark.parametrize("value", [-5e-324, 1.0000000000000002, math.nan, True])
def test_a_share_lies_between_nothing_and_everything(value: Any) -> None:
    assert (check_share("x", 0), check_share("x", 1)) == (0.0, 1.0)
    with pytest.raises(ParameterError, match="x must be a number from 0 to 1, got"):
        check_share("x", value)
