"""The Gram matrix about a pivot, against float64 differences and against rows that are made to spoil it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tests.oracles.rules import gram_matrix, pairwise_squared_distances
from tests.oracles.saddle import Array

from steadfed._core.rng import stream
from steadfed._linalg import columns as columns_module
from steadfed._linalg.columns import SAMPLE_RUNS, SAMPLE_WIDTH, DenseColumns
from steadfed._linalg.gram import Gram, coordinate_median, pivoted_gram, squared_distances, squared_norms
from steadfed._linalg.sources import as_columns
from steadfed._linalg.threads import one_blas_thread
from steadfed.errors import NoUsableRowError

pytestmark = pytest.mark.portable

Rows = NDArray[np.float32]


def gram_of(rows: NDArray[np.floating]) -> Gram:
    with one_blas_thread():
        return pivoted_gram(as_columns(rows))


def noise(name: str, number: int, width: int) -> Array:
    return stream(0, "gram", name).standard_normal((number, width))


def unsampled(width: int) -> list[int]:
    """Return the columns from which no pivot is chosen."""
    last = width - SAMPLE_WIDTH
    sampled = {last * k // (SAMPLE_RUNS - 1) + j for k in range(SAMPLE_RUNS) for j in range(SAMPLE_WIDTH)}
    return [j for j in range(width) if j not in sampled]


def relative_errors(gram: Gram, rows: NDArray[np.floating]) -> Array:
    """Return the relative error of every distance between two different usable rows."""
    expected = pairwise_squared_distances(rows[gram.usable].astype(np.float64))
    above = np.triu_indices(len(expected), 1)
    return np.asarray(np.abs(squared_distances(gram.matrix)[above] - expected[above]) / expected[above])


@pytest.mark.parametrize("offset", [0.0, 1.0, 1e3, 1e5])
def test_distances_in_float32_survive_a_common_offset(offset: float) -> None:
    common = offset * noise("offset", 1, 20_000)
    rows = (common + noise("rows", 25, 20_000)).astype(np.float32)
    assert relative_errors(gram_of(rows), rows).max() <= 1e-5


def test_the_matrix_holds_the_inner_products_about_the_pivot() -> None:
    rows = noise("float64", 12, 700) + 3.0
    gram = gram_of(rows)
    assert isinstance(gram.pivot, int)
    np.testing.assert_allclose(gram.matrix, gram_matrix(rows - rows[gram.pivot]), rtol=1e-12, atol=1e-11)
    assert gram.num_passes == 1
    assert gram.usable.all()


def test_the_matrix_is_symmetric_to_the_bit_and_zero_at_the_pivot() -> None:
    gram = gram_of((noise("symmetric", 33, 20_000) + 10.0).astype(np.float32))
    assert isinstance(gram.pivot, int)
    np.testing.assert_array_equal(gram.matrix, gram.matrix.T)
    assert not gram.matrix[gram.pivot].any()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e30, 3e38])
@pytest.mark.parametrize("place", [0, 9_999, 19_999])
def test_a_bad_number_drops_its_own_row_and_no_other(value: float, place: int) -> None:
    rows = noise("bad", 15, 20_000).astype(np.float32)
    clean = gram_of(rows[1:])
    rows[0, place] = value
    gram = gram_of(rows)
    assert gram.usable.tolist() == [False] + [True] * 14
    np.testing.assert_allclose(squared_distances(gram.matrix), squared_distances(clean.matrix), rtol=1e-5)


def test_many_kinds_of_bad_rows_together_leave_the_others_exact() -> None:
    rows = noise("all kinds", 24, 9_000).astype(np.float32)
    for i, value in enumerate([np.nan, np.inf, 1e30, -1e30, 3e38, 1e20]):
        rows[i, 4_000 + i] = value
    rows[6], rows[7], rows[8] = 1e15, -1e5, 0.0
    gram = gram_of(rows)
    assert gram.usable.tolist() == [False] * 6 + [True] * 18
    honest = Gram(gram.matrix[3:, 3:], np.arange(24) >= 9, gram.pivot, gram.pivot_row, gram.num_passes)
    assert relative_errors(honest, rows).max() <= 1e-5


def test_a_matrix_without_a_finite_row_is_refused() -> None:
    rows = np.full((3, 5), np.nan, dtype=np.float32)
    rows[1] = 1e30
    with pytest.raises(NoUsableRowError, match="3 updates"):
        gram_of(rows)


def test_a_row_that_is_finite_in_the_sample_only_is_never_the_pivot() -> None:
    rows = (noise("late", 9, 8_000) + 10.0).astype(np.float32)
    for i in range(4):
        rows[i] = rows[4:].mean(axis=0)
        rows[i, unsampled(8_000)[i]] = np.nan
    gram = gram_of(rows)
    assert gram.usable.tolist() == [False] * 4 + [True] * 5
    assert isinstance(gram.pivot, int)
    assert gram.pivot >= 4


@pytest.mark.parametrize("far", [1e4, 1e8, 1e15])
def test_a_row_that_looks_central_in_the_sample_does_not_spoil_the_others(far: float) -> None:
    rows = (noise("central", 20, 8_000) + 10.0).astype(np.float32)
    rows[0] = rows[1:].mean(axis=0)
    rows[0, unsampled(8_000)[100]] = far
    gram = gram_of(rows)
    honest = Gram(gram.matrix[1:, 1:], np.arange(20) >= 1, gram.pivot, gram.pivot_row, gram.num_passes)
    assert relative_errors(honest, rows).max() <= 1e-5
    assert gram.num_passes == 2
    assert gram.pivot == "median"


@pytest.mark.parametrize("bad", [5, 7, 9])
@pytest.mark.parametrize("far", [1e4, 1e10, 1e15])
def test_a_coalition_that_looks_central_in_the_sample_does_not_spoil_the_others(far: float, bad: int) -> None:
    rows = noise("coalition", 20, 8_000).astype(np.float32)
    for i in range(bad):
        rows[i] = rows[bad:].mean(axis=0)
        rows[i, unsampled(8_000)[i]] = far
    gram = gram_of(rows)
    honest = Gram(gram.matrix[bad:, bad:], np.arange(20) >= bad, gram.pivot, gram.pivot_row, gram.num_passes)
    assert relative_errors(honest, rows).max() <= 1e-5


def test_a_staircase_of_hidden_rows_is_climbed_down_in_a_few_passes() -> None:
    rows = noise("staircase", 40, 8_000).astype(np.float32)
    for i in range(9):
        rows[i] = rows[9:].mean(axis=0)
        rows[i, unsampled(8_000)[i]] = 10.0 ** (2 * i + 1)
    gram = gram_of(rows)
    honest = Gram(gram.matrix[9:, 9:], np.arange(40) >= 9, gram.pivot, gram.pivot_row, gram.num_passes)
    assert relative_errors(honest, rows).max() <= 1e-5


@pytest.mark.parametrize("number", [1, 2, 3, 40])
def test_equal_rows_have_a_zero_matrix(number: int) -> None:
    rows = np.repeat(noise("equal", 1, 20_000) * 1e5, number, axis=0).astype(np.float32)
    gram = gram_of(rows)
    assert gram.matrix.shape == (number, number)
    assert not gram.matrix.any()
    assert gram.usable.all()


@pytest.mark.parametrize("scale", [1e-10, 1e-18, 1e-25, 1e-35])
def test_distances_survive_rows_whose_squares_vanish_in_float32(scale: float) -> None:
    rows = (scale * noise("small", 12, 9_000)).astype(np.float32)
    gram = gram_of(rows)
    assert gram.usable.all()
    assert relative_errors(gram, rows).max() <= 1e-5


@pytest.mark.parametrize("offset", [0.0, 1.0, 1e5])
@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_rows_that_are_mostly_equal_leave_the_others_where_they_are(scale: float, offset: float) -> None:
    rows = np.full((9, 9_000), offset)
    rows[:4] += scale * noise("mostly equal", 4, 9_000)
    narrow = rows.astype(np.float32)
    gram = gram_of(narrow)
    assert gram.usable.all()
    expected = pairwise_squared_distances(narrow.astype(np.float64))
    np.testing.assert_allclose(squared_distances(gram.matrix), expected, rtol=1e-5)


@pytest.mark.parametrize("number", [1, 2, 3, 6, 7])
def test_the_median_of_a_coordinate_is_the_lower_one_of_an_even_number(number: int) -> None:
    rows = noise("median", number, 50)
    expected = np.sort(rows, axis=0)[(number - 1) // 2]
    np.testing.assert_array_equal(coordinate_median(as_columns(rows)), expected)
    with_unusable = np.concatenate([rows, np.full((2, 50), np.nan)])
    np.testing.assert_array_equal(coordinate_median(as_columns(with_unusable)), expected)


@pytest.mark.parametrize("number", [1, 2])
def test_few_rows_that_lie_far_outside_the_sampled_columns_are_not_taken_about_the_origin(number: int) -> None:
    rows = noise("few", number, 8_000).astype(np.float32)
    rows[:, unsampled(8_000)] += np.float32(1e4)
    gram = gram_of(rows)
    assert gram.pivot in range(number)
    expected = pairwise_squared_distances(rows.astype(np.float64))
    np.testing.assert_allclose(squared_distances(gram.matrix), expected, rtol=1e-5)


def test_two_rows_give_their_distance() -> None:
    rows = np.array([[1.0, 2.0, 2.0], [4.0, 2.0, -2.0]])
    np.testing.assert_array_equal(squared_distances(gram_of(rows).matrix), [[0.0, 25.0], [25.0, 0.0]])


def test_rounding_never_makes_a_distance_negative() -> None:
    gram = np.array([[1.0, 1.0 + 1e-15], [1.0 + 1e-15, 1.0]])
    np.testing.assert_array_equal(squared_distances(gram), np.zeros((2, 2)))


def test_squared_norms_are_summed_in_float64() -> None:
    rows = noise("norms", 5, 30_000).astype(np.float32) + np.float32(100.0)
    expected = [float((row.astype(np.float64) ** 2).sum()) for row in rows]
    np.testing.assert_allclose(squared_norms(as_columns(rows)), expected, rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_number_of_threads_does_not_change_a_bit(dtype: type[np.floating], monkeypatch: pytest.MonkeyPatch) -> None:
    rows = noise("threads", 50, 40_000).astype(dtype)
    matrices = []
    for workers in (1, 2, 3, 8):
        monkeypatch.setattr(columns_module, "num_workers", lambda workers=workers: workers)
        matrices.append(gram_of(rows).matrix)
    for matrix in matrices[1:]:
        np.testing.assert_array_equal(matrix, matrices[0])


def test_the_input_is_left_as_it_was() -> None:
    rows = torch.from_numpy(noise("unchanged", 10, 9_000).astype(np.float32))
    before = rows.clone()
    with one_blas_thread():
        pivoted_gram(DenseColumns(rows))
    assert torch.equal(rows, before)


def test_rows_about_the_origin_need_no_pivot_and_rows_far_from_it_do() -> None:
    rows = noise("origin", 20, 8_000).astype(np.float32)
    assert gram_of(rows).pivot == "origin"
    assert isinstance(gram_of(rows + np.float32(100.0)).pivot, int)


def test_the_origin_is_tried_up_to_twice_the_distance_of_the_most_central_row() -> None:
    # the squared distances to the median are 1, 0, 1; those to the origin 1, 4, 9 and 4, 9, 16
    assert gram_of(np.array([[1.0], [2.0], [3.0]])).pivot == "origin"
    assert gram_of(np.array([[2.0], [3.0], [4.0]])).pivot == 1


def test_an_offset_outside_the_sampled_columns_is_noticed() -> None:
    rows = noise("hidden offset", 20, 8_000).astype(np.float32)
    rows[:, unsampled(8_000)] += np.float32(1e4)
    gram = gram_of(rows)
    assert gram.pivot != "origin"
    assert relative_errors(gram, rows).max() <= 1e-5
