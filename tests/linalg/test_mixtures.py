"""Mixtures of rows against the matrix product A · rows, what they read, and how much memory they take."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tests.linalg.memory import peak_of_a_mixture
from tests.oracles import wrappers as slow
from tests.oracles.coordinatewise import trimmed_mean
from tests.oracles.rules import coordinate_median, gram_matrix, pairwise_squared_distances
from tests.oracles.saddle import Array

from steadfed._core.rng import stream
from steadfed._linalg.blocks import Range
from steadfed._linalg.columns import Columns, DenseColumns
from steadfed._linalg.gram import gram_with_points, pivoted_gram, squared_distances
from steadfed._linalg.mixtures import MixedColumns, averages
from steadfed._linalg.sources import as_columns
from steadfed._linalg.threads import one_blas_thread
from steadfed.aggregators import RULES

Rows = NDArray[Any]
ROUNDING = {np.float32: 2e-6, np.float64: 1e-13}
DTYPES = list(ROUNDING)
OFFSETS = [0.0, 50.0]
"""About the origin the pivot is the origin, far away it is a client."""
BAD = 4


def cohort(dtype: type[np.floating], offset: float) -> Rows:
    """Return 12 rows of which one has a NaN."""
    rows = stream(0, "mixtures").standard_normal((12, 9_000)) + offset
    rows[BAD, 7_000] = np.nan
    return rows.astype(dtype)


def shares(*, with_origin: bool) -> Array:
    """Return seven mixtures of eleven rows and, if asked, the origin, each summing to 1."""
    matrix = stream(1, "mixtures").random((7, 12))
    matrix[:, -1] *= with_origin
    return np.asarray(matrix / matrix.sum(axis=1, keepdims=True))


def mixture(rows: Rows, mixing: Array) -> MixedColumns:
    with one_blas_thread():
        columns = as_columns(rows)
        gram = pivoted_gram(columns)
        return MixedColumns(columns, mixing, gram, gram_with_points(columns, gram, [None]))


def usable(rows: Rows) -> Array:
    return np.asarray(rows[np.arange(len(rows)) != BAD], dtype=np.float64)


@pytest.fixture(params=DTYPES, ids=str)
def dtype(request: pytest.FixtureRequest) -> type[np.floating]:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture(params=[False, True], ids=["rows only", "with origin"])
def mixing(request: pytest.FixtureRequest) -> Array:
    return shares(with_origin=request.param)


@pytest.fixture(params=OFFSETS)
def rows(request: pytest.FixtureRequest, dtype: type[np.floating]) -> Rows:
    return cohort(dtype, request.param)


def close(found: Any, expected: Array, dtype: type[np.floating]) -> None:
    """Compare up to rounding, relative to the largest number."""
    size = float(np.abs(expected).max())
    np.testing.assert_allclose(np.asarray(found), expected, rtol=0.0, atol=ROUNDING[dtype] * size)


def test_every_way_to_read_a_mixture_gives_the_product(rows: Rows, mixing: Array, dtype: type[np.floating]) -> None:
    mixed, expected = mixture(rows, mixing), mixing[:, :-1] @ usable(rows)
    assert (mixed.num_rows, mixed.num_columns) == expected.shape
    close(mixed.row(3), expected[3], dtype)
    close(mixed.combine(np.arange(7.0)), np.arange(7.0) @ expected, dtype)
    block = torch.empty((7, 50), dtype=mixed.dtype)
    mixed.centred(6_970, 7_020, None, block)
    close(block, expected[:, 6_970:7_020], dtype)
    mixed.centred(6_970, 7_020, torch.ones(9_000, dtype=mixed.dtype), block)
    close(block, expected[:, 6_970:7_020] - 1.0, dtype)
    places = np.array([0, 17, 6_999, 7_000, 7_001, 8_999])
    close(mixed.take(places), expected[:, places], dtype)
    out = torch.ones(40, dtype=mixed.dtype)
    mixed.add_rows(np.array([2.0, -1.0, 0.5]), (2, 5), (6_980, 7_020), out)
    close(out, 1.0 + np.array([2.0, -1.0, 0.5]) @ expected[2:5, 6_980:7_020], dtype)
    dense = DenseColumns(torch.from_numpy(expected.astype(dtype)))
    close(mixed.sample(), dense.sample().numpy(), dtype)


def test_the_gram_matrix_is_that_of_the_product_about_its_pivot(
    rows: Rows, mixing: Array, dtype: type[np.floating]
) -> None:
    expected = mixing[:, :-1] @ usable(rows)
    gram = pivoted_gram(mixture(rows, mixing))
    assert gram.usable.all()
    about = np.zeros(9_000) if gram.pivot_row is None else gram.pivot_row.double().numpy()
    close(gram.matrix, gram_matrix(expected - about), dtype)
    close(squared_distances(gram.matrix), pairwise_squared_distances(expected), dtype)
    np.testing.assert_array_equal(gram.matrix, gram.matrix.T)


def test_products_with_points_are_those_of_the_product(rows: Rows, mixing: Array, dtype: type[np.floating]) -> None:
    expected, mixed = mixing[:, :-1] @ usable(rows), mixture(rows, mixing)
    points = [torch.ones(9_000, dtype=mixed.dtype), mixed.zero_row()]
    for pivot in (None, torch.full((9_000,), 2.0, dtype=mixed.dtype)):
        about = 0.0 if pivot is None else 2.0
        against = np.stack([np.ones(9_000), np.zeros(9_000)]) - about
        close(mixed.products(pivot, points), (expected - about) @ against.T, dtype)


def test_points_join_the_gram_matrix_of_rows_and_of_mixtures(
    rows: Rows, mixing: Array, dtype: type[np.floating]
) -> None:
    vector = torch.linspace(-1.0, 1.0, 9_000, dtype=torch.from_numpy(rows).dtype)
    mixed = mixture(rows, mixing)
    for columns, literal in ((mixed.base, usable(rows)), (mixed, mixing[:, :-1] @ usable(rows))):
        with one_blas_thread():
            found = gram_with_points(columns, pivoted_gram(columns), [None, vector])
        points = np.concatenate([literal, np.zeros((1, 9_000)), vector.double().numpy()[None]])
        close(squared_distances(found), pairwise_squared_distances(points), dtype)


def test_a_single_row_drawn_to_the_origin_has_no_distance_to_itself(dtype: type[np.floating]) -> None:
    gram = pivoted_gram(mixture(cohort(dtype, 50.0), shares(with_origin=True)[:1]))
    assert (gram.pivot, gram.matrix.tolist()) == (0, [[0.0]])


def test_mixtures_of_mixtures_are_products_of_products(dtype: type[np.floating]) -> None:
    rows, first, second = cohort(dtype, 50.0), shares(with_origin=True), shares(with_origin=True)[:4, :8]
    second /= second.sum(axis=1, keepdims=True)
    inner = mixture(rows, first)
    gram = pivoted_gram(inner)
    outer = MixedColumns(inner, second, gram, gram_with_points(inner, gram, [None]))
    expected = second[:, :-1] @ first[:, :-1] @ usable(rows)
    close(outer.combine(np.ones(4)), np.ones(4) @ expected, dtype)
    close(squared_distances(pivoted_gram(outer).matrix), pairwise_squared_distances(expected), dtype)
    block = torch.empty((4, 30), dtype=outer.dtype)
    outer.centred(6_990, 7_020, None, block)
    close(block, expected[:, 6_990:7_020], dtype)
    close(outer.take(np.array([5, 7_000])), expected[:, [5, 7_000]], dtype)


@pytest.mark.parametrize("offset", [1e3, 1e6])
def test_rows_that_are_shrunk_a_lot_keep_their_distances(offset: float) -> None:
    """About the old pivot they would be 1e-24 of the squared norm, far below the rounding of float64."""
    rows = stream(2, "mixtures").standard_normal((9, 300)) + offset
    norms = np.linalg.norm(rows, axis=1)
    mixing = np.concatenate([np.diag(1.0 / norms), 1.0 - 1.0 / norms[:, None]], axis=1)
    gram = pivoted_gram(mixture(rows, mixing))
    expected = pairwise_squared_distances(rows / norms[:, None])
    np.testing.assert_allclose(squared_distances(gram.matrix), expected, rtol=0.0, atol=1e-3 * expected.max())


@pytest.mark.parametrize("scale", [1e-16, 1e-22, 1e-28])
def test_products_of_tiny_float32_numbers_do_not_vanish(scale: float) -> None:
    rows = (scale * (stream(3, "mixtures").standard_normal((9, 5_000)) + 20.0)).astype(np.float32)
    with one_blas_thread():
        columns = as_columns(rows)
        found = gram_with_points(columns, pivoted_gram(columns), [None])
    norms = (rows.astype(np.float64) ** 2).sum(axis=1)
    np.testing.assert_allclose(squared_distances(found)[:-1, -1], norms, rtol=1e-4)


def test_a_huge_row_leaves_the_norms_of_the_others() -> None:
    rows = cohort(np.float32, 1.0)
    rows[2] = 1e15
    with one_blas_thread():
        columns = as_columns(rows)
        gram = pivoted_gram(columns)
        found = gram_with_points(columns, gram, [None])
    norms = (rows[gram.usable].astype(np.float64) ** 2).sum(axis=1)
    np.testing.assert_allclose(squared_distances(found)[:-1, -1], norms, rtol=1e-4)


def test_averages_give_every_row_its_share() -> None:
    np.testing.assert_array_equal(averages(np.array([0, 1, 1, 0, 0])) * 6.0, [[2, 0, 0, 2, 2], [0, 3, 3, 0, 0]])


@pytest.mark.parametrize("source", [torch.from_numpy, list, lambda rows: torch.from_numpy(rows.T.copy()).T])
@pytest.mark.parametrize("dtype", DTYPES)
def test_columns_are_taken_from_every_source(source: Callable[[Rows], Any], dtype: type[np.floating]) -> None:
    rows = cohort(dtype, 0.0)
    columns = as_columns(source(rows))
    for places in (np.array([0]), np.array([3, 4, 8_999]), np.arange(9_000)):
        np.testing.assert_array_equal(columns.take(places), rows[:, places])
        np.testing.assert_array_equal(Columns.take(columns, places), rows[:, places])


def test_what_is_taken_is_no_view(dtype: type[np.floating]) -> None:
    rows = cohort(dtype, 0.0)
    as_columns(rows).take(np.arange(9_000)).fill_(7.0)
    assert not (rows == 7.0).any()


class Counted(DenseColumns):
    """Rows that count how often they are read from end to end."""

    def __init__(self, rows: Rows) -> None:
        super().__init__(torch.from_numpy(rows))
        self.passes, self.combined = 0, 0

    def scan(self, *arguments: Any, **options: Any) -> None:
        self.passes += 1
        super().scan(*arguments, **options)

    def add_rows(self, weights: Array, rows: Range, columns: Range, out: torch.Tensor) -> None:
        self.combined += len(weights) * (columns[1] - columns[0])
        super().add_rows(weights, rows, columns, out)


@pytest.mark.parametrize("offset", OFFSETS)
@pytest.mark.parametrize(
    ("name", "passes"),
    [
        ("nnm+krum", 1),
        ("nnm+nnm+geometric-median", 1),
        ("bucketing+nnm+rage", 1),
        ("arc+nnm+krum", 1),
        ("nnm+arc+krum", 2),
        ("nnm+rfa", 1),
    ],
)
def test_wrappers_share_the_pass_over_the_rows(name: str, passes: int, offset: float) -> None:
    """Norms of mixtures take one cheap pass more, unless the rows lie about the origin, which is the pivot then.

    ARC on the rows themselves makes one pass for their norms; the pass of the rule inside is over the scaled rows.
    """
    columns = Counted(cohort(np.float32, offset))
    RULES.build(name, num_byzantine=2)(columns)
    assert columns.passes == (passes if offset else 1)
    assert columns.combined <= 2 * columns.num_rows * columns.num_columns


@pytest.mark.parametrize("name", ["nnm+krum", "arc+nnm+geometric-median", "read"])
def test_a_mixture_is_never_built(name: str) -> None:
    """Beside the scratch of one pass and K x K matrices there are a few rows: the pivot and the update."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        for number, width in ((60, 1_000_000), (600, 100_000)):
            scratch = pool.apply(peak_of_a_mixture, (name, number, width))
            assert scratch <= 0.05 * 4 * number * width + 12 * 8 * number**2 + 5 * 4 * width + (16 << 20)


def medians(rows: Array) -> Array:
    return np.array(coordinate_median(rows))


@pytest.mark.parametrize("f", [0, 1, 3])
@pytest.mark.parametrize("offset", OFFSETS)
def test_nested_wrappers_do_one_after_the_other(offset: float, f: int) -> None:
    rows = stream(4, "mixtures").standard_normal((11, 300)) + offset
    rows[:f] *= 40.0

    def trimmed(mixed: Array) -> Array:
        return np.array(trimmed_mean(mixed, f))

    def mixed_medians(mixed: Array) -> Array:
        return slow.nearest_neighbor_mixing(mixed, f, medians)

    def clipped_medians(mixed: Array) -> Array:
        return slow.adaptive_clipping(mixed, f, medians)

    def mixed_trimmed(mixed: Array) -> Array:
        return slow.nearest_neighbor_mixing(mixed, f, trimmed)

    expected: dict[str, Array] = {
        "nnm+median": mixed_medians(rows),
        "arc+nnm+trimmed-mean": slow.adaptive_clipping(rows, f, mixed_trimmed),
        "nnm+arc+median": slow.nearest_neighbor_mixing(rows, f, clipped_medians),
        "arc+arc+median": slow.adaptive_clipping(rows, f, clipped_medians),
        "nnm+nnm+median": slow.nearest_neighbor_mixing(rows, f, mixed_medians),
    }
    for name, update in expected.items():
        found = RULES.build(name, num_byzantine=f)(rows).update
        np.testing.assert_allclose(found, update, rtol=0.0, atol=1e-10 * np.abs(rows).max())
