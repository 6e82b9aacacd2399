"""The proved constants against tabulated values, and against what they are said to be constants of."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest

from steadfed.aggregators._rage.constants import (
    EXACT_LIMIT,
    exact_constant,
    filter_constant,
    known_constant,
    resilience,
    theta,
)

TABLE = [
    # ε, Algorithm 2, weighted mean with θ = 4, weighted mean with θ(ε), θ(ε)
    (0.05, 5.09, 2.16, 1.85, 2.11),
    (0.10, 6.43, 2.26, 1.99, 2.25),
    (0.20, 11.16, 2.54, 2.39, 2.67),
    (0.25, 16.50, 2.77, 2.69, 3.00),
]


@pytest.mark.parametrize(("epsilon", "exact", "known4", "known", "factor"), TABLE)
def test_constants_are_those_of_the_table(
    epsilon: float, exact: float, known4: float, known: float, factor: float
) -> None:
    assert round(exact_constant(epsilon), 2) == exact
    assert round(known_constant(epsilon, 4.0), 2) == known4
    assert round(known_constant(epsilon), 2) == known
    assert round(theta(epsilon), 2) == factor


@pytest.mark.parametrize("epsilon", [0.0, 0.05, 0.1, 0.25, 0.4, 0.49])
def test_theta_makes_the_honest_share_of_a_step_one_half(epsilon: float) -> None:
    assert (1.0 - epsilon) / theta(epsilon) + epsilon == pytest.approx(0.5)


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 0.2, 0.25, 0.3, 0.36])
def test_resilience_is_the_cap_of_the_paper(epsilon: float) -> None:
    alpha = 1.0 - epsilon
    assert 1.0 / (resilience(epsilon) * 40) == pytest.approx((4.0 - alpha) / (alpha * (2.0 + alpha) * 40))


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 0.2, 0.25, 0.3, 0.36])
def test_resilience_is_what_a_quarter_of_alpha_as_honest_share_leaves(epsilon: float) -> None:
    alpha = 1.0 - epsilon
    honest_weight_lost = epsilon * (alpha / 4.0) / (1.0 - alpha / 4.0)
    assert resilience(epsilon) == pytest.approx(alpha - 2.0 * honest_weight_lost)


def test_algorithm_2_is_covered_up_to_its_limit_and_not_beyond() -> None:
    assert round(EXACT_LIMIT, 4) == 0.3625
    assert resilience(EXACT_LIMIT) == pytest.approx(0.5)
    assert math.isfinite(exact_constant(EXACT_LIMIT - 1e-6))
    assert exact_constant(EXACT_LIMIT + 1e-6) == math.inf


@pytest.mark.parametrize("mode", ["known", "auto", "exact", "lazy"])
@pytest.mark.parametrize("epsilon", [0.5, 0.75])
def test_without_an_honest_majority_nothing_is_proved(mode: str, epsilon: float) -> None:
    assert filter_constant(mode, epsilon) == math.inf


def test_constants_grow_with_the_share_of_byzantine_rows() -> None:
    shares = np.linspace(0.01, 0.36, 36).tolist()
    for constant in (exact_constant, known_constant):
        values = [constant(share) for share in shares]
        assert values == sorted(values)


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 0.25, 0.4])
def test_no_proved_constant_is_below_what_no_estimator_can_beat(epsilon: float) -> None:
    lower = 1.0 / math.sqrt(1.0 - 2.0 * epsilon)
    assert known_constant(epsilon) >= lower
    assert exact_constant(epsilon) >= lower


def test_without_byzantine_rows_there_is_no_error() -> None:
    assert known_constant(0.0) == 0.0


def test_a_factor_that_may_empty_the_cohort_has_no_constant() -> None:
    assert known_constant(0.4, 1.6) == math.inf


@pytest.mark.parametrize(("byzantine", "rows", "factor"), [(3, 7, 4.0), (1, 3, 2.0), (2, 5, 3.0), (5, 11, 6.0)])
def test_the_factor_at_which_nobody_may_be_left_has_no_constant_however_it_is_rounded(
    byzantine: int, rows: int, factor: float
) -> None:
    """θ(ε)/2 = (n − f)/(n − 2f): there α − rε is 0."""
    assert factor == (rows - byzantine) / (rows - 2 * byzantine)
    assert known_constant(byzantine / rows, factor) == math.inf
    assert math.isfinite(known_constant(byzantine / rows, 1.001 * factor))


@pytest.mark.parametrize("epsilon", [0.05, 0.1, 0.25, 0.4])
@pytest.mark.parametrize("factor", [None, 8.0])
def test_the_maximum_over_the_weight_taken_is_found(epsilon: float, factor: float | None) -> None:
    used = theta(epsilon) if factor is None else factor
    alpha = 1.0 - epsilon
    share = alpha / used + epsilon
    ratio = share / (1.0 - share)
    largest = 0.0
    for x in np.linspace(0.0, epsilon, 3_457).tolist():
        left = alpha - ratio * x
        kept = math.sqrt(used * (epsilon - x) / ((1.0 - x - ratio * x) * left))
        largest = max(largest, kept + math.sqrt(ratio * x / left))
    assert known_constant(epsilon, factor) == pytest.approx(largest / math.sqrt(epsilon), rel=1e-5)
    assert known_constant(epsilon, factor) * math.sqrt(epsilon) >= largest * (1.0 - 1e-7)


def largest_sum(epsilon: float, factor: float | None) -> Decimal:
    """Return C of `known_constant` to 30 digits: the maximum by ever finer grids around the best point."""
    exact = Decimal(epsilon)
    alpha = 1 - exact
    used = alpha / (Decimal("0.5") - exact) if factor is None else Decimal(factor)
    share = alpha / used + exact
    ratio = share / (1 - share)

    def at(x: Decimal) -> Decimal:
        left = alpha - ratio * x
        return (used * (exact - x) / ((1 - x - ratio * x) * left)).sqrt() + (ratio * x / left).sqrt()

    # the maximum lies where exact − x is small when epsilon is near 1/2, so the first grid is geometric in it
    grid = sorted({Decimal(0), exact, *(exact * (1 - Decimal(10) ** (-Decimal(k) / 8)) for k in range(1, 120))})
    for _ in range(60):
        best = max(range(len(grid)), key=lambda i: at(grid[i]))
        low, high = grid[max(0, best - 1)], grid[min(len(grid) - 1, best + 1)]
        grid = [low + (high - low) * k / 8 for k in range(9)]
    return max(map(at, grid)) / exact.sqrt()


@pytest.mark.parametrize("factor", [None, 4.0, 30.0])
@pytest.mark.parametrize("epsilon", [1e-4, 0.05, 0.25, 0.4, 5 / 11, 0.49, 0.499, 0.49999, 0.5 - 1e-7])
def test_the_constant_is_never_below_the_maximum_and_hardly_above_it(epsilon: float, factor: float | None) -> None:
    found = known_constant(epsilon, factor)
    if math.isinf(found):
        assert factor is not None
        assert factor <= theta(epsilon) / 2.0 * (1.0 + 1e-9)
        return
    with localcontext(prec=50):
        true = largest_sum(epsilon, factor)
        slack = Decimal("1.6e-14") + Decimal("1.5e-15") / Decimal(1.0 - 2.0 * epsilon)
        assert true <= Decimal(found) <= true * (1 + slack)


@pytest.mark.parametrize(("byzantine", "rows"), [(5, 11), (499, 999), (49_999, 99_999)])
def test_the_constant_of_a_bare_majority_is_not_below_that_of_the_exact_share(byzantine: int, rows: int) -> None:
    """f/n is rounded to a float before the constant is computed, and near 1/2 that matters."""
    with localcontext(prec=50):
        share, n = Decimal(byzantine) / Decimal(rows), Decimal(rows)
        # θ = (1 − ε) 2n, and x = ε − v/n: the maximum over v ≥ 0 of √(θ v n/((1 + 2v)(1 + v))) + √((f − v)/(1 + v))
        best = Decimal(0)
        step = Decimal(1) / 4000
        for k in range(1, 4000):
            v = step * k
            kept = ((1 - share) * 2 * n * v * n / ((1 + 2 * v) * (1 + v))).sqrt()
            best = max(best, kept + ((byzantine - v) / (1 + v)).sqrt())
        assert Decimal(known_constant(byzantine / rows)) * share.sqrt() >= best


@pytest.mark.parametrize("factor", [0.5, 0.9, 1.0])
def test_a_factor_so_small_that_a_step_may_take_from_honest_rows_alone_has_no_constant(factor: float) -> None:
    assert known_constant(0.1, factor) == math.inf
