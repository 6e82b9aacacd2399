"""The count-sketch: right on average, with the variance it promises, and good enough for the filter."""

from __future__ import annotations

import numpy as np
import pytest
from tests.oracles.rules import pairwise_squared_distances
from tests.oracles.saddle import Array

from steadfed._core.rng import stream
from steadfed._linalg.gram import pivoted_gram, squared_distances
from steadfed._linalg.sketch import sketched_gram
from steadfed._linalg.sources import as_columns
from steadfed._linalg.threads import one_blas_thread
from steadfed.aggregators import Rage

KEYS = 250
"""Sketches drawn; the signs are keyed by the rows, so each sketch is of rows that differ in their last digits."""


def sketched_inner_products(rows: Array, buckets_per_row: int) -> Array:
    """Return ⟨g_i − g_0, g_j − g_0⟩ after the sketch, once for every key."""
    found = []
    for key in range(KEYS):
        keyed = rows.copy()
        keyed[0, 0] += 1e-9 * key
        gram = sketched_gram(as_columns(keyed), buckets_per_row).matrix
        found.append(gram - gram[0] - gram[:, :1] + gram[0, 0])
    return np.array(found)


@pytest.mark.parametrize("name", ["flat", "uneven", "one column"])
def test_inner_products_are_right_on_average_and_vary_as_promised(name: str) -> None:
    rows = stream(0, "sketch", name).standard_normal((5, 300))
    if name == "uneven":
        rows *= np.arange(1.0, 301.0) ** -0.7
    if name == "one column":
        rows[1:, 200] += 30.0
    with one_blas_thread():
        sketched = sketched_inner_products(rows, 5)
    from_first = rows - rows[0]
    exact = from_first @ from_first.T
    standard_error = sketched.std(axis=0) / np.sqrt(KEYS)
    assert np.all(np.abs(sketched.mean(axis=0) - exact) <= 5.0 * standard_error + 1e-7)
    promised = 2.0 * exact.diagonal() ** 2 / 25
    assert np.all(sketched.var(axis=0).diagonal() <= 1.3 * promised + 1e-12)


def test_different_rows_are_sketched_with_different_signs() -> None:
    rows = stream(0, "keys").standard_normal((5, 300))
    with one_blas_thread():
        sketched = sketched_inner_products(rows, 5)
    assert len(np.unique(sketched[:, 1, 2])) == KEYS


def test_a_narrow_matrix_is_not_sketched() -> None:
    rows = stream(0, "narrow").standard_normal((6, 30))
    np.testing.assert_array_equal(sketched_gram(as_columns(rows), 5).matrix, pivoted_gram(as_columns(rows)).matrix)


def test_the_same_rows_give_the_same_sketch() -> None:
    rows = stream(0, "same").standard_normal((20, 30_000)).astype(np.float32)
    with one_blas_thread():
        first, second = (sketched_gram(as_columns(rows), 5).matrix for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_distances_of_many_rows_are_kept_within_the_promised_error() -> None:
    rows = stream(0, "many").standard_normal((60, 30_000)).astype(np.float32)
    with one_blas_thread():
        sketched = squared_distances(sketched_gram(as_columns(rows), 10).matrix)
    exact = pairwise_squared_distances(rows.astype(np.float64))
    above = np.triu_indices(60, 1)
    deviation = float(np.sqrt(2.0 / 600))
    assert np.abs(sketched[above] / exact[above] - 1.0).max() <= 6.0 * deviation
    assert 0.1 * deviation <= np.abs(sketched[above] / exact[above] - 1.0).mean() <= deviation


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e30])
def test_a_bad_row_is_dropped_from_the_sketch_and_no_other(value: float) -> None:
    rows = stream(0, "bad").standard_normal((20, 30_000)).astype(np.float32)
    rows[4, 17_000] = value
    with one_blas_thread():
        gram = sketched_gram(as_columns(rows), 5)
    assert np.flatnonzero(~gram.usable).tolist() == [4]


def test_the_filter_takes_a_far_cluster_its_weight_from_a_sketch() -> None:
    rng = stream(0, "cluster")
    rows = rng.standard_normal((600, 20_000), dtype=np.float32)
    far = rng.standard_normal(20_000, dtype=np.float32)
    rows[:60] = 0.01 * rows[:60] + far
    found = Rage(num_byzantine=60, sketch=5)(rows)
    assert float(found.weights[:60].sum()) <= 0.01
    assert float(found.weights[60:].max()) <= 1.0 / 480
    assert np.linalg.norm(found.update.numpy() - rows[60:].mean(axis=0)) <= 0.02 * np.linalg.norm(far)
    assert found.certificate is not None
    assert not found.certificate.proved


def test_a_small_cohort_is_never_sketched() -> None:
    rows = stream(0, "small").standard_normal((30, 5_000)).astype(np.float32)
    exact, asked = Rage(num_byzantine=3)(rows), Rage(num_byzantine=3, sketch=5)(rows)
    np.testing.assert_array_equal(exact.weights, asked.weights)
    assert asked.certificate is not None
    assert asked.certificate.proved


def test_large_numbers_that_cancel_in_a_bucket_bring_back_the_exact_matrix() -> None:
    from steadfed._linalg import sketch

    rows = stream(0, "cancel").standard_normal((20, 30_000)).astype(np.float32)
    with one_blas_thread():
        honest = sketch.sketched_gram(as_columns(rows), 5)
        assert honest.usable.all()
        for first in range(5000, 5200):  # some pair of columns shares a bucket with opposite signs
            attacked = rows.copy()
            attacked[0, first], attacked[0, first + 8192] = 1e30, 1e30
            gram = sketch.sketched_gram(as_columns(attacked), 5)
            assert not gram.usable[0]
            assert gram.usable[1:].all()
