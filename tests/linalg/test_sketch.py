"""The sketch: right on average, with the variance it promises, and never trusted where it does not fit the rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from tests.oracles.saddle import Array
from tests.oracles.sketch import sketch_matrix

from steadfed._core.rng import stream
from steadfed._linalg import sketch as module
from steadfed._linalg.columns import DenseColumns, RowColumns
from steadfed._linalg.gram import gram_with_points, pivoted_gram, squared_distances
from steadfed._linalg.mixtures import ScaledColumns
from steadfed._linalg.sketch import SketchedColumns, SketchFailsError, SketchKey, buckets_for, sketch_pays, sketch_rows
from steadfed._linalg.sources import as_columns
from steadfed._linalg.threads import one_blas_thread

KEYS = 250
"""Sketches drawn where an average is looked at."""


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let small matrices be sketched, to 500 buckets."""
    monkeypatch.setattr(module, "BUCKETS", 500)


def rows_of(name: str, num_rows: int, num_columns: int) -> Array:
    return stream(0, "sketch", name).standard_normal((num_rows, num_columns)).astype(np.float32)


@pytest.mark.portable
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("num_columns", "num_buckets"), [(300, 40), (320, 40), (41, 40), (40, 40), (30, 40), (5000, 700)]
)
def test_the_sketch_is_the_product_with_the_literal_matrix(num_columns: int, num_buckets: int, dtype: type) -> None:
    rows: Array = rows_of("literal", 19, num_columns).astype(dtype)
    key = SketchKey(7, 0)
    expected = rows.astype(np.float64) @ sketch_matrix(key, num_columns, num_buckets)
    found = sketch_rows(DenseColumns(torch.from_numpy(rows)), key, num_buckets).numpy()
    np.testing.assert_allclose(found, expected, atol=1e-4 if dtype is np.float32 else 1e-12)


@pytest.mark.portable
def test_rows_are_sketched_to_the_same_bits_wherever_they_lie(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = rows_of("places", 21, 3000)
    path = tmp_path / "rows.npy"
    np.save(path, rows)
    key, all_rows = SketchKey(3, 1), torch.from_numpy(rows)
    expected = sketch_rows(DenseColumns(all_rows), key, 200)
    holders = {
        "list": RowColumns(list(all_rows)),
        "memmap": as_columns(np.load(path, mmap_mode="r")),
        "columns first": DenseColumns(torch.from_numpy(np.asfortranarray(rows))),
        "scaled": ScaledColumns(DenseColumns(all_rows), np.ones(21, dtype=bool), np.ones(21)),
    }
    for name, columns in holders.items():
        assert torch.equal(sketch_rows(columns, key, 200), expected), name
    for number in (1, 5):
        monkeypatch.setattr(module, "num_workers", lambda number=number: number)
        assert torch.equal(sketch_rows(DenseColumns(all_rows), key, 200), expected)
    assert torch.equal(sketch_rows(DenseColumns(all_rows[4:6]), key, 200), expected[4:6])


@pytest.mark.parametrize("name", ["flat", "uneven", "one column", "two columns"])
def test_inner_products_are_right_on_average_and_vary_as_promised(name: str) -> None:
    rows = stream(0, "average", name).standard_normal((5, 300))
    if name == "uneven":
        rows *= np.arange(1.0, 301.0) ** -0.7
    if name == "one column":
        rows[1:, 200] += 30.0
    if name == "two columns":
        rows[:, [20, 220]] += 30.0
    found = []
    for secret in range(4 * KEYS):
        sketched = sketch_rows(DenseColumns(torch.from_numpy(rows)), SketchKey(secret, 0), 25).numpy()
        found.append(sketched @ sketched.T)
    products, exact = np.array(found), rows @ rows.T
    standard_error = products.std(axis=0) / np.sqrt(len(products))
    assert np.all(np.abs(products.mean(axis=0) - exact) <= 5.0 * standard_error + 1e-7)
    promised = (np.outer(exact.diagonal(), exact.diagonal()) + exact**2) / 25
    assert np.all(products.var(axis=0) <= 1.4 * promised)


def test_two_columns_collide_as_often_as_promised_and_with_either_sign() -> None:
    pairs = [(3, 103), (3, 299), (120, 121), (99, 100)]
    met = dict.fromkeys(pairs, 0)
    cancelled = 0
    for secret in range(20 * KEYS):
        matrix = sketch_matrix(SketchKey(secret, 0), 300, 25)
        for first, second in pairs:
            product = float(matrix[first] @ matrix[second])
            met[first, second] += product != 0.0
            cancelled += product < 0.0
    number = 20 * KEYS
    for pair, count in met.items():
        same_run = pair[0] // 25 == pair[1] // 25
        expected = 0.0 if same_run else number / 25
        assert abs(count - expected) <= 5.0 * np.sqrt(expected), pair
    total = sum(met.values())
    assert abs(cancelled - total / 2) <= 2.5 * np.sqrt(total)


def test_secrets_numbers_and_holders_have_keys_of_their_own() -> None:
    keys = [SketchKey(1, 0), SketchKey(2, 0), SketchKey(1, 1), SketchKey(1, 0, holder=1)]
    signs = {key.flips(2, 64, torch.float32).numpy().tobytes() for key in keys}
    offsets = {tuple(key.offsets(9, 1000)) for key in keys}
    assert len(signs) == len(offsets) == 4
    assert set(np.unique(keys[0].flips(3, 500, torch.float64).numpy())) == {-1.0, 1.0}
    assert abs(float(keys[0].flips(4, 3_333, torch.float64).sum())) <= 500.0


@pytest.mark.parametrize(
    ("num_rows", "buckets"),
    [(20, 32_752), (200, 32_752), (201, 16_368), (1000, 16_368), (1500, 24_000), (3000, 32_752)],
)
def test_how_many_buckets_there_are(num_rows: int, buckets: int) -> None:
    assert buckets_for(num_rows) == buckets


@pytest.mark.parametrize(
    ("shape", "passes", "pays"),
    [
        ((100, 131_008), 1, True),
        ((100, 131_007), 1, False),
        ((module.FEWEST_ROWS[1], 200_000), 1, True),
        ((module.FEWEST_ROWS[1] - 1, 200_000), 1, False),
        ((module.FEWEST_ROWS[2], 200_000), 2, True),
        ((module.FEWEST_ROWS[2] - 1, 200_000), 2, False),
    ],
)
def test_small_matrices_are_not_sketched(shape: tuple[int, int], passes: int, pays: bool) -> None:
    assert sketch_pays(DenseColumns(torch.zeros(1, 1).expand(shape)), passes) == pays


@pytest.mark.usefixtures("narrow")
def test_distances_of_many_rows_are_kept_within_the_promised_error() -> None:
    rows = rows_of("many", 60, 30_000)
    with one_blas_thread():
        sketched = squared_distances(pivoted_gram(SketchedColumns(as_columns(rows), 1)).matrix)
        exact = squared_distances(pivoted_gram(as_columns(rows.astype(np.float64))).matrix)
    above = np.triu_indices(60, 1)
    deviation = float(np.sqrt(2.0 / 500))
    assert np.abs(sketched[above] / exact[above] - 1.0).max() <= 6.0 * deviation
    assert 0.1 * deviation <= np.abs(sketched[above] / exact[above] - 1.0).mean() <= deviation


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e30, 3e38])
def test_a_bad_row_is_found_in_the_sketch_and_no_other(value: float) -> None:
    rows = rows_of("bad", 20, 30_000)
    rows[4, 17_000] = value
    with one_blas_thread():
        gram = pivoted_gram(SketchedColumns(as_columns(rows), 1))
    assert np.flatnonzero(~gram.usable).tolist() == [4]
    assert np.isfinite(gram.matrix).all()


@pytest.mark.usefixtures("narrow")
def test_a_common_offset_is_taken_out_of_the_sketch() -> None:
    rows = rows_of("offset", 30, 30_000)
    moved = rows + np.float32(1000.0) * rows_of("where", 1, 30_000)
    with one_blas_thread():
        near = squared_distances(pivoted_gram(SketchedColumns(as_columns(rows), 1)).matrix)
        far = squared_distances(pivoted_gram(SketchedColumns(as_columns(moved), 1)).matrix)
    np.testing.assert_allclose(far, near, rtol=0.02, atol=0.0)


@pytest.mark.usefixtures("narrow")
def test_an_offset_whose_rounding_shows_is_refused() -> None:
    rows = rows_of("offset", 30, 30_000) + np.float32(1e6) * rows_of("where", 1, 30_000)
    with one_blas_thread(), pytest.raises(SketchFailsError):
        pivoted_gram(SketchedColumns(as_columns(rows), 1))
    with one_blas_thread():
        pivoted_gram(SketchedColumns(as_columns(rows.astype(np.float64)), 1))


def colliding_columns(secret: int, num_columns: int) -> tuple[int, int, float]:
    """Return two columns of one bucket, and the product of their signs."""
    matrix = sketch_matrix(SketchKey(secret, 0), num_columns, 500)
    buckets = np.abs(matrix).argmax(axis=1)
    second = next(column for column in range(500, num_columns) if buckets[column] == buckets[7])
    return 7, second, float(matrix[7] @ matrix[second])


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize("size", [3000.0, 1e6, 1e30])
def test_what_cancels_in_the_sketch_is_found_when_it_is_combined(size: float) -> None:
    rows = rows_of("cancel", 20, 5000)
    first, second, product = colliding_columns(1, 5000)
    rows[3, first], rows[3, second] = size, -product * size
    columns = SketchedColumns(as_columns(rows), 1)
    with one_blas_thread():
        gram = pivoted_gram(columns)
        assert gram.usable.all(), "whoever knows the key leaves no trace in the sketch"
        with pytest.raises(SketchFailsError):
            columns.combine(np.full(20, 0.05))
        others = np.where(np.arange(20) == 3, 0.0, 1.0 / 19)
        assert torch.isfinite(columns.combine(others)).all()


@pytest.mark.usefixtures("narrow")
def test_points_are_seen_through_the_same_sketch_as_rows() -> None:
    rows = rows_of("points", 20, 5000) + np.float32(3.0)
    point = torch.from_numpy(rows[4] * 2.0)
    columns = SketchedColumns(as_columns(rows), 1)
    with one_blas_thread():
        gram = pivoted_gram(columns)
        seen = squared_distances(gram_with_points(columns, gram, [point, None]))
    everything = np.concatenate([rows, point.numpy()[None], np.zeros((1, 5000))]).astype(np.float64)
    sketched = everything @ sketch_matrix(columns.key, 5000, 500)
    expected = ((sketched[:, None] - sketched[None]) ** 2).sum(axis=2)
    np.testing.assert_allclose(seen, expected, rtol=1e-3, atol=1e-2)
