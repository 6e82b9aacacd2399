"""CAF against the filter with d x d matrices, on small cases worked by hand, and on rows that resist."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.oracles import spectral as slow
from tests.oracles.clouds import CLOUDS
from tests.oracles.saddle import Array

from steadfed._core.arrays import Matrix, Vector
from steadfed._core.rng import stream
from steadfed._linalg.spectrum import Directions, eigen_directions
from steadfed.aggregators import Stop
from steadfed.aggregators._spectral import caf
from steadfed.aggregators._spectral.caf import Caf
from steadfed.errors import CohortTooSmallError
from steadfed.testing.contract import check_contract

SEEDS = 8
DEGENERATE = {"duplicates", "near duplicates", "mirror images", "grid"}
"""Clouds in which rows or eigenvalues tie, so that rounding decides between equally good ways."""


def cohort(name: str, seed: int, most: int = 30) -> tuple[Array, int]:
    """Return rows, the first f of them bad, and f."""
    rng = stream(seed, "spectral", name)
    number = int(rng.integers(3, most))
    bad = int(rng.integers(1, (number - 1) // 2 + 1))
    return CLOUDS[name](rng, number, bad, int(rng.integers(1, 20))), bad


def on_a_line(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)[:, None]


def spread(rows: Array, weights: Array) -> float:
    return float(np.linalg.eigvalsh(slow.weighted_covariance(rows, weights))[-1])


@pytest.mark.parametrize("name", CLOUDS)
def test_caf_is_the_filter_with_explicit_covariances(name: str) -> None:
    for seed in range(SEEDS):
        rows, bad = cohort(name, seed)
        found = Caf(num_byzantine=bad)(rows)
        update, weights = slow.caf(rows, bad)
        rounding = 1e-9 * float((rows**2).max())
        assert found.spread == pytest.approx(spread(rows, found.weights.numpy()), rel=1e-6, abs=rounding)
        if name not in DEGENERATE:
            np.testing.assert_allclose(found.weights, weights, rtol=0.0, atol=1e-7)
            np.testing.assert_allclose(found.update, update, rtol=0.0, atol=1e-7 * float(np.abs(rows).max()))
        assert found.num_steps <= 2 * bad
        assert found.num_eigensolves <= 2 * bad + 1


@pytest.mark.parametrize("name", CLOUDS)
@pytest.mark.parametrize("num_byzantine", [1, 20, 90])
def test_the_spread_of_a_large_cohort_is_what_is_said(name: str, num_byzantine: int) -> None:
    rows = CLOUDS[name](stream(0, "large", name), 200, num_byzantine, 15)
    found = Caf(num_byzantine=num_byzantine)(rows)
    rounding = 1e-9 * float((rows**2).max())
    assert found.spread is not None
    true = spread(rows, found.weights.numpy())
    assert true <= found.spread * 1.0101 + rounding
    assert true >= found.spread * (1.0 - 1e-6) - rounding
    honest = spread(rows, np.append(np.zeros(num_byzantine), np.ones(200 - num_byzantine)))
    if num_byzantine <= 20:  # a spread far above the honest one would have been filtered on
        assert true <= 4.0 * honest + rounding


def test_caf_returns_the_mean_of_the_smallest_spread() -> None:
    """Rows 0, 1, 5: τ = 4, 1, 9 leaves c = 5/9, 8/9, 0 with mean 8/13; the next step falls below mass 1."""
    found = Caf(num_byzantine=1)(on_a_line(0.0, 1.0, 5.0))
    np.testing.assert_allclose(found.update, [8.0 / 13.0])
    np.testing.assert_allclose(found.weights, [5.0 / 13.0, 8.0 / 13.0, 0.0])
    assert found.spread == pytest.approx(40.0 / 169.0)  # p (1 − p) for p = 8/13
    assert found.stop is Stop.SMALLEST_SPREAD
    assert (found.num_steps, found.num_eigensolves) == (2, 2)
    np.testing.assert_allclose(found.scores[2], (5.0 - 8.0 / 13.0) ** 2 / (40.0 / 169.0))


def test_rows_that_agree_after_a_step_end_the_filter() -> None:
    found = Caf(num_byzantine=1)(on_a_line(0.0, 0.0, 0.0, 8.0))
    assert found.update.tolist() == [0.0]
    assert found.removed == [3]
    assert found.stop is Stop.ROWS_AGREE
    assert (found.num_steps, found.num_eigensolves) == (1, 2)


@pytest.mark.parametrize("rows", [torch.zeros((5, 3)), torch.full((5, 3), 7.0), torch.full((150, 2), -1.5)])
def test_equal_rows_give_that_row(rows: torch.Tensor) -> None:
    found = Caf(num_byzantine=2)(rows)
    np.testing.assert_allclose(found.update, rows[0], rtol=1e-6)
    assert found.stop is Stop.ROWS_AGREE
    assert found.spread == 0.0


def test_without_byzantine_rows_caf_is_the_mean() -> None:
    rows = stream(0, "mean").standard_normal((7, 4))
    found = Caf(num_byzantine=0)(rows)
    np.testing.assert_allclose(found.update, rows.mean(axis=0))
    assert found.stop is Stop.NOTHING_TO_FILTER
    assert found.num_eigensolves == 0


@pytest.mark.filterwarnings("error")
def test_a_row_very_far_beside_rows_that_nearly_agree_has_a_finite_score() -> None:
    rows = np.array([[0.0], [0.0], [-0.0], [1e-160], [-1e-120], [1e120], [0.0], [-1e-120], [0.0]])
    found = Caf(num_byzantine=4)(rows)
    assert found.usable.all()
    assert found.scores.isfinite().all()
    assert found.update.abs().max() < 1e-100


def test_a_minority_however_far_and_however_spread_does_not_keep_caf_running() -> None:
    """Rows that lost their weight still have the largest τ; they must not keep the others from losing theirs."""
    rows = stream(0, "resist").standard_normal((41, 12))
    rows[:20] *= 10.0 ** np.arange(20)[:, None]
    found = Caf(num_byzantine=20)(rows)
    assert found.num_steps <= 40
    assert float(found.update.norm()) <= 5.0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_unusable_rows_count_as_byzantine(dtype: type[np.floating]) -> None:
    rows = stream(0, "unusable").standard_normal((9, 5)).astype(dtype)
    rows[0] = np.nan
    found, without = Caf(num_byzantine=2)(rows), Caf(num_byzantine=1)(rows[1:])
    np.testing.assert_array_equal(found.update, without.update)
    np.testing.assert_array_equal(found.weights[1:], without.weights)


def _exact(gram: Matrix, weights: Vector, *, dense: bool) -> Directions:
    return eigen_directions(gram, weights, 1)


def _downwards(gram: Matrix, weights: Vector, *, dense: bool = False) -> Directions:
    """Return the direction of the smallest scatter, as if it were a Ritz vector that an adversary deceived."""
    found = eigen_directions(gram, weights, 1 if dense else 3)
    if dense:
        return found
    last = found.coordinates.shape[1] - 1
    low = found.coordinates[:, last:]
    scatter = float(weights @ (low[:, 0] - weights @ low[:, 0] / weights.sum()) ** 2)
    return replace(found, coordinates=low, coefficients=found.coefficients[:, last:], top=scatter, exact=False)


def test_a_ritz_value_that_is_too_low_brings_back_exact_eigenvectors(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = stream(0, "deceived").standard_normal((140, 10)) * np.arange(1.0, 11.0)
    rows[:20] += 30.0

    monkeypatch.setattr(caf, "leading_directions", _exact)
    expected = Caf(num_byzantine=20)(rows)
    monkeypatch.setattr(caf, "leading_directions", _downwards)
    found = Caf(num_byzantine=20)(rows)
    np.testing.assert_allclose(found.update, expected.update, rtol=0.0, atol=1e-9)
    assert found.spread == pytest.approx(expected.spread)


def test_caf_needs_an_honest_majority() -> None:
    with pytest.raises(CohortTooSmallError):
        Caf(num_byzantine=2)(torch.zeros((4, 2)))


@pytest.mark.parametrize(
    "rule", [Caf(num_byzantine=3), Caf(byzantine_fraction=0.4), Caf(num_byzantine=0), Caf(num_byzantine=1)], ids=repr
)
def test_caf_keeps_the_contract(rule: Caf) -> None:
    check_contract(rule)
