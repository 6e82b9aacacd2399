"""The certificate on numbers of finite precision, and with more honest rows than assumed, against every set S."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.oracles.certificate import candidates, largest_error
from tests.oracles.clouds import CLOUDS

from steadfed._core.rng import stream
from steadfed._linalg.gram import pivoted_gram
from steadfed._linalg.sources import as_columns
from steadfed.aggregators import Certificate, Rage
from steadfed.aggregators._rage.constants import EXACT_LIMIT
from steadfed.aggregators._rage.rounding import row_rounding, update_rounding

pytestmark = pytest.mark.portable

MODES = ("known", "exact", "lazy")


def certified(rows: NDArray[Any], **parameters: Any) -> tuple[NDArray[np.float64], Certificate]:
    """Return the update in float64 and its certificate."""
    found = Rage(**parameters)(rows)
    assert found.certificate is not None
    return found.update.double().numpy(), found.certificate


def without_allowance(certificate: Certificate) -> Certificate:
    """Return the certificate as it would be if numbers were exact."""
    return replace(certificate, row_rounding=0.0, update_rounding=0.0)


def honest(rows: NDArray[Any]) -> tuple[NDArray[np.float64], float]:
    """Return the mean of rows and their spread, in float64."""
    exact = rows.astype(np.float64)
    mean = exact.mean(axis=0)
    return mean, float(np.linalg.norm(exact - mean, 2)) / math.sqrt(len(rows))


@pytest.mark.parametrize("mode", MODES)
def test_equal_rows_have_an_update_that_is_off_by_rounding_and_a_bound_that_knows(mode: str) -> None:
    needed = 0
    for seed in range(5):
        row = stream(seed, "equal").standard_normal(300).astype(np.float32)
        rows = np.tile(row, (11, 1))
        update, certificate = certified(rows, num_byzantine=2, mode=mode, sigma0=1e-6)
        error = float(np.linalg.norm(update - row.astype(np.float64)))
        needed += error > without_allowance(certificate).error_bound(0.0)
        assert error <= certificate.error_bound(0.0) <= 1e-4
    assert needed == 5


@pytest.mark.parametrize("mode", MODES)
def test_rows_far_from_the_origin_need_the_allowance_and_it_is_enough(mode: str) -> None:
    needed = 0
    for seed in range(8):
        rows = (1e4 + 1e-3 * stream(seed, "offset").standard_normal((12, 200))).astype(np.float32)
        mean, sigma = honest(rows[2:])
        update, certificate = certified(rows, num_byzantine=2, mode=mode, sigma0=2.0 * sigma)
        error = float(np.linalg.norm(update - mean))
        needed += error > without_allowance(certificate).error_bound(sigma)
        assert error <= certificate.error_bound(sigma)
    assert needed >= 4, "the rows differ in their last digits only, and the update is rounded to those"


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", ["normal", "equal numbers", "positive", "heavy tails"])
def test_the_measured_spread_is_within_its_allowance(kind: str, dtype: type[np.floating[Any]]) -> None:
    rng = stream(0, "allowance", kind)
    number = 30
    drawn = {
        "normal": lambda: rng.standard_normal((number, 9000)),
        "equal numbers": lambda: np.ones((number, 9000)) * rng.uniform(0.1, 1.0, (number, 1)),
        "positive": lambda: rng.uniform(0.0, 1.0, (number, 9000)),
        "heavy tails": lambda: rng.standard_t(2.0, (number, 9000)),
    }
    rows = drawn[kind]().astype(dtype)
    columns = as_columns(rows)
    gram = pivoted_gram(columns)
    allowed = row_rounding(columns, gram, np.ones(number)) ** 2
    longest = rows.astype(np.longdouble)
    longest -= longest.mean(axis=0)
    exact = np.asarray(longest @ longest.T, dtype=np.float64)
    centring = np.eye(number) - 1.0 / number
    seen = centring @ gram.matrix @ centring
    assert np.linalg.norm(seen - exact, 2) / number <= allowed
    assert allowed <= 200.0 * float(np.finfo(dtype).eps) * float(np.trace(gram.matrix)) / number


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_allowance_of_the_update_is_above_its_rounding_and_counts_the_pivot(dtype: type[np.floating[Any]]) -> None:
    rng = stream(0, "update")
    for offset in (0.0, 1.0, 1e3):
        rows = (offset + rng.standard_normal((70, 400))).astype(dtype)
        columns = as_columns(rows)
        gram = pivoted_gram(columns)
        weights = rng.uniform(0.0, 1.0, 70) * (rng.random(70) < 0.8)
        share = weights / weights.sum()
        update = columns.combine(share).numpy().astype(np.longdouble)
        error = float(np.linalg.norm((update - share @ rows.astype(np.longdouble)).astype(np.float64)))
        allowed = update_rounding(columns, gram, weights)
        assert 0.0 < error <= allowed
        size = float(share @ np.linalg.norm(rows.astype(np.float64), axis=1))
        assert allowed >= 30.0 * float(np.finfo(dtype).eps) / 2.0 * size


def test_the_allowance_of_the_update_counts_the_sums_that_follow_each_other() -> None:
    """Five usable rows, their sums in three runs of rows with a weight, and two roundings of a product."""
    rows = np.array([[3.0, 4.0], [np.nan, 0.0], [3.0, 4.0], [6.0, 8.0], [0.0, 0.0], [3.0, 4.0]])
    gram = pivoted_gram(as_columns(rows))
    assert gram.pivot == 0
    size = 5.0 + 5.0 / 4.0  # the length of the pivot; of four rows with a weight one lies 5 from it
    allowed = update_rounding(as_columns(rows), gram, np.array([1.0, 1.0, 0.0, 1.0, 1.0]))
    assert allowed == pytest.approx((5 + 3 + 2) * 2.0**-53 * size, rel=1e-12)


def test_the_allowance_of_many_long_rows_knows_their_partial_sums_and_their_whole_length() -> None:
    columns = as_columns(np.ones((40, 70_000), dtype=np.float32))
    gram = pivoted_gram(columns)
    assert gram.pivot_row is not None
    allowed = update_rounding(columns, gram, np.ones(40))  # 32 rows and then 8 are summed by themselves
    assert allowed == pytest.approx((32 + 2 + 2) * 2.0**-24 * math.sqrt(70_000.0), rel=1e-12)


def tiny(name: str, seed: int) -> tuple[NDArray[np.float64], int]:
    """Return at most eight rows, with fewer bad ones than the assumed number, and that number."""
    rng = stream(seed, "more honest", name)
    number = int(rng.integers(5, 9))
    assumed = int(rng.integers(1, max(2, math.ceil(EXACT_LIMIT * number))))
    rows = CLOUDS[name](rng, number, int(rng.integers(0, assumed)), int(rng.integers(1, 4)))
    return rows, assumed


def rules(assumed: int, number: int, sigma0: float) -> Iterator[Rage]:
    yield Rage(num_byzantine=assumed)
    for mode in MODES:
        rule = Rage(num_byzantine=assumed, mode=mode, sigma0=sigma0)
        if number >= rule.smallest_cohort(assumed):
            yield rule


@pytest.mark.parametrize("name", CLOUDS)
def test_the_certificate_holds_for_every_larger_set_of_honest_rows(name: str) -> None:
    for seed in range(8):
        rows, assumed = tiny(name, seed)
        for fewer in range(assumed):
            subsets = candidates(rows, fewer)
            smallest = min(subset.sigma for subset in subsets)
            for factor in (0.05, 0.3, 1.0):
                for rule in rules(assumed, len(rows), max(factor * smallest, 1e-9)):
                    found = rule(rows)
                    assert found.certificate is not None
                    for sigma0 in sorted({smallest, 1.3 * smallest, *(subset.sigma for subset in subsets)}):
                        error = largest_error(found.update.numpy(), subsets, sigma0)
                        if error >= 0.0:
                            assert found.certificate.is_consistent(sigma0), (rule, seed, fewer)
                            bound = found.certificate.error_bound(sigma0)
                            assert error <= bound * (1.0 + 1e-9) + 1e-9 * float(np.abs(rows).max()), (rule, seed)


@pytest.mark.portable
@pytest.mark.parametrize("number", [500, 1500])
def test_many_equal_rows_of_a_list_are_averaged_within_the_allowance(number: int) -> None:
    row = stream(0, "many").standard_normal(64).astype(np.float32)
    found = Rage(num_byzantine=2)([row.copy() for _ in range(number)])
    assert found.certificate is not None
    error = float(np.linalg.norm(found.update.numpy().astype(np.float64) - row.astype(np.float64)))
    assert error <= found.certificate.error_bound(0.0)


@pytest.mark.parametrize("mode", ["exact", "lazy"])
def test_a_tiny_sigma0_has_a_bound(mode: Literal["exact", "lazy"]) -> None:
    found = Rage(mode=mode, sigma0=1e-170, num_byzantine=2)(np.ones((10, 5)))
    assert found.certificate is not None
    assert np.isfinite(found.certificate.error_bound())
