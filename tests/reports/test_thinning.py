"""Thinning: fewer points, and nothing loud is lost."""

from __future__ import annotations

import numpy as np
import pytest

from steadfed._core.rng import stream
from steadfed.reports._thinning import Bins, grid_largest, grid_means, kept_places


@pytest.mark.parametrize("number", [0, 1, 5, 99, 100, 101, 10_000])
def test_ends_and_extremes_stay_and_the_limit_is_kept(number: int) -> None:
    y = stream(number, "thinning").standard_normal(number)
    places = kept_places(y, 100)
    assert len(places) <= 100
    assert (np.diff(places) > 0).all()
    if number:
        assert {0, number - 1, int(y.argmin()), int(y.argmax())} <= set(places.tolist())


def test_a_single_peak_in_a_long_flat_curve_stays() -> None:
    y = np.zeros(10_000)
    y[7_321] = 1.0
    assert 7_321 in kept_places(y, 50)


def test_gaps_stay_gaps() -> None:
    y = np.ones(10_000)
    y[5_000:] = np.nan
    x = kept_places(y, 200)
    thin = y[x]
    assert len(x) <= 200
    assert np.isnan(thin[x >= 5_050]).all()
    assert np.isfinite(thin[x < 4_950]).all()
    assert np.isnan(kept_places(np.full(500, np.nan), 50).astype(float)).sum() == 0


def test_bins_cover_all_rounds() -> None:
    bins = Bins.of(10_000, most=300)
    assert bins.number == len(bins.labels()) <= 300
    assert bins.labels()[0].startswith("0–")
    assert bins.labels()[-1].endswith("9999")
    assert Bins.of(3, most=300).labels() == ("0", "1", "2")
    assert Bins.of(0, most=300).labels() == ()


def test_cells_hold_means_and_the_worst() -> None:
    rows, columns = np.array([0, 0, 1]), np.array([0, 0, 1])
    means = grid_means(rows, columns, np.array([1.0, np.nan, 3.0]), (2, 2))
    np.testing.assert_array_equal(means, [[1.0, np.nan], [np.nan, 3.0]])
    np.testing.assert_array_equal(grid_largest(rows, columns, np.array([2, 4, 0]), (2, 2)), [[4, -1], [-1, 0]])
