"""Sources of columns: wherever the rows lie, the same numbers come out, with little scratch memory."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tests.linalg.memory import peak_of_a_gram_pass

from steadfed._core.rng import stream
from steadfed._linalg import columns as columns_module
from steadfed._linalg.blocks import subtract
from steadfed._linalg.columns import SCRATCH_BLOCKS, SCRATCH_FLOOR, WIDEST_BLOCK, Columns, DenseColumns, RowColumns
from steadfed._linalg.gram import pivoted_gram
from steadfed._linalg.sources import as_columns
from steadfed._linalg.threads import one_blas_thread
from steadfed.aggregators import Mean, Rage
from steadfed.errors import DtypeError, ShapeError

Rows = NDArray[np.float32]


@pytest.fixture(scope="module")
def rows() -> Rows:
    rows = stream(0, "columns").standard_normal((30, 20_000)).astype(np.float32)
    rows[3] += 5.0
    return rows


def on_disk(rows: Rows, folder: Path) -> Rows:
    rows.tofile(folder / "rows.bin")
    return np.memmap(folder / "rows.bin", dtype=np.float32, mode="r", shape=rows.shape)


def read_only(rows: Rows, _: Path) -> Rows:
    copy = rows.copy()
    copy.flags.writeable = False
    return copy


def every_other_column(rows: Rows, _: Path) -> Rows:
    wide = np.full((rows.shape[0], 2 * rows.shape[1]), np.nan, dtype=np.float32)
    wide[:, ::2] = rows
    return wide[:, ::2]


def column_major(rows: Rows, _: Path) -> Rows:
    return np.asfortranarray(rows)


def mirrored(rows: Rows, _: Path) -> Rows:
    return np.ascontiguousarray(rows[::-1, ::-1])[::-1, ::-1]


def transposed_tensor(rows: Rows, _: Path) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(rows.T)).T


def tensor_with_gradient(rows: Rows, _: Path) -> torch.Tensor:
    return torch.from_numpy(rows.copy()).requires_grad_()


def list_of_arrays(rows: Rows, _: Path) -> list[Rows]:
    return list(rows)


def list_of_strided_tensors(rows: Rows, _: Path) -> list[torch.Tensor]:
    return [torch.from_numpy(np.repeat(row, 3))[::3] for row in rows]


HOLDERS: list[Callable[[Rows, Path], object]] = [
    on_disk,
    read_only,
    every_other_column,
    column_major,
    mirrored,
    transposed_tensor,
    tensor_with_gradient,
    list_of_arrays,
    list_of_strided_tensors,
]


@pytest.mark.parametrize("holder", HOLDERS, ids=lambda holder: holder.__name__)
def test_the_gram_matrix_does_not_depend_on_where_the_rows_lie(
    holder: Callable[[Rows, Path], object], rows: Rows, tmp_path: Path
) -> None:
    with one_blas_thread():
        expected = pivoted_gram(DenseColumns(torch.from_numpy(rows)))
        gram = pivoted_gram(as_columns(holder(rows, tmp_path)))
    np.testing.assert_array_equal(gram.matrix, expected.matrix)
    assert gram.pivot == expected.pivot


@pytest.mark.parametrize("holder", HOLDERS, ids=lambda holder: holder.__name__)
def test_the_filter_gives_the_same_wherever_the_rows_lie(
    holder: Callable[[Rows, Path], object], rows: Rows, tmp_path: Path
) -> None:
    rule = Rage(num_byzantine=3)
    expected = rule(torch.from_numpy(rows))
    found = rule(as_columns(holder(rows, tmp_path)))
    assert torch.equal(found.weights, expected.weights)
    torch.testing.assert_close(found.update, expected.update, rtol=1e-5, atol=1e-6)
    assert found.removed == expected.removed == [3]


def test_a_list_of_rows_is_not_stacked(rows: Rows) -> None:
    tensors = [torch.from_numpy(row) for row in rows]
    source = as_columns(tensors)
    assert isinstance(source, RowColumns)
    assert source.row(7).data_ptr() == tensors[7].data_ptr()


def test_a_tensor_is_read_where_it_is(rows: Rows) -> None:
    source = as_columns(rows)
    assert isinstance(source, DenseColumns)
    assert source.tensor.data_ptr() == rows.ctypes.data


@pytest.mark.parametrize("dtype", [np.float16, np.int64, np.complex64, np.dtype(">f4")])
def test_other_dtypes_are_refused(dtype: np.dtype[np.generic] | type[np.generic]) -> None:
    with pytest.raises(DtypeError, match="float32 or float64"):
        as_columns(np.zeros((2, 3), dtype=dtype))


@pytest.mark.parametrize(
    "updates",
    [
        np.zeros(3),
        np.zeros((2, 3, 4)),
        np.zeros((0, 3)),
        np.zeros((3, 0)),
        [],
        [np.zeros(3), np.zeros(4)],
        [np.zeros((1, 3))],
        "rows",
        3.0,
        [[1.0, 2.0]],
    ],
    ids=str,
)
def test_what_is_no_matrix_of_rows_is_refused(updates: object) -> None:
    with pytest.raises(ShapeError):
        as_columns(updates)


@pytest.mark.parametrize("updates", [{"a": {"w": torch.full((2,), 123.5)}}, [{"w": torch.full((2,), 123.5)}] * 2])
def test_models_as_dicts_are_refused_without_their_numbers_and_shown_the_way(updates: object) -> None:
    with pytest.raises(ShapeError, match=r"got dict; for models .* use steadfed.aggregate_state_dicts$") as caught:
        as_columns(updates)
    assert "123" not in str(caught.value)


def test_rows_of_unequal_length_are_shown_the_way_too() -> None:
    with pytest.raises(ShapeError, match=r"in update 1; steadfed.aggregate_state_dicts leaves out"):
        as_columns([torch.zeros(3), torch.zeros(4)])


@pytest.mark.parametrize("updates", ["rows", b"rows", memoryview(b"rows"), 3.0], ids=lambda given: type(given).__name__)
def test_what_cannot_hold_rows_is_refused_by_its_type(updates: object) -> None:
    with pytest.raises(ShapeError, match=f"updates must be a K x d tensor or array, .* got {type(updates).__name__}$"):
        as_columns(updates)


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("shifted", [False, True])
def test_rows_are_written_with_and_without_a_shift_on_every_device(device: str, shifted: bool) -> None:
    block, out = torch.full((2, 3), 5.0, device=device), torch.empty((2, 3), device=device)
    subtract(block, torch.ones(3, device=device) if shifted else None, out)
    if device == "cpu":  # there are no numbers on the other
        assert out.tolist() == [[4.0 if shifted else 5.0] * 3] * 2


def test_rows_of_two_dtypes_are_refused() -> None:
    with pytest.raises(DtypeError, match="update 1"):
        as_columns([np.zeros(3), np.zeros(3, dtype=np.float32)])


@pytest.mark.parametrize("make", [DenseColumns, lambda tensor: RowColumns(list(tensor))], ids=["dense", "rows"])
def test_combine_is_the_weighted_sum_of_the_rows(make: Callable[[torch.Tensor], Columns]) -> None:
    rng = stream(0, "combine")
    rows = rng.standard_normal((9, 150_000))
    weights = rng.random(9)
    weights[[0, 4, 5]] = 0.0
    update = make(torch.from_numpy(rows)).combine(weights)
    np.testing.assert_allclose(update.numpy(), weights @ rows, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("make", [DenseColumns, lambda tensor: RowColumns(list(tensor))], ids=["dense", "rows"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_combine_never_reads_a_row_without_weight(make: Callable[[torch.Tensor], Columns], value: float) -> None:
    rows = torch.ones((4, 70_000))
    rows[[0, 2]] = value
    update = make(rows).combine(np.array([0.0, 0.25, 0.0, 0.75]))
    assert torch.equal(update, torch.ones(70_000))


@pytest.mark.parametrize("holder", HOLDERS, ids=lambda holder: holder.__name__)
def test_a_combination_and_the_squares_of_rows_in_memory_are_found_in_one_pass(
    holder: Callable[[Rows, Path], object], rows: Rows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(columns_module, "TWICE_READ_WIDTH", 7_000)
    monkeypatch.setattr(columns_module, "MOST_ROWS_SUMMED", 8)
    monkeypatch.setattr(Columns, "squares", lambda _: pytest.fail("the rows are read again"))
    weights = stream(0, "one pass").random(len(rows))
    update, squares = as_columns(holder(rows, tmp_path)).combine_with_squares(weights)
    exact = rows.astype(np.float64)
    np.testing.assert_allclose(update.numpy(), weights @ exact, atol=2e-5)
    np.testing.assert_allclose(squares, (exact**2).sum(axis=1), rtol=1e-5)


@pytest.mark.portable
def test_combine_does_not_depend_on_the_number_of_threads(rows: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    wide = np.tile(rows, (1, 12))
    weights = stream(0, "weights").random(len(rows))
    updates = []
    for workers in (1, 2, 7):
        monkeypatch.setattr(columns_module, "num_workers", lambda workers=workers: workers)
        with one_blas_thread():
            updates.append(as_columns(wide).combine(weights))
    assert torch.equal(updates[0], updates[1])
    assert torch.equal(updates[0], updates[2])


def test_blocks_cover_every_column_once() -> None:
    source = DenseColumns(torch.zeros((3, 1_000)))
    for width in (1, 7, 999, 1_000, 5_000):
        edges = list(source.ranges(width))
        assert edges[0][0] == 0
        assert edges[-1][1] == 1_000
        assert all(stop == start for (_, stop), (start, _) in pairwise(edges))


@pytest.mark.parametrize("width", [1, 10, 64, 65, 500, 513, 20_000])
def test_a_sample_is_a_few_columns_of_all_rows(width: int) -> None:
    rows = torch.arange(3.0 * width).reshape(3, width)
    sample = DenseColumns(rows).sample()
    assert sample.shape[0] == 3
    assert set(sample[0].tolist()) <= set(rows[0].tolist())
    assert {0.0, width - 1.0} <= set(sample[0].tolist())
    torch.testing.assert_close(sample[1] - sample[0], torch.full((sample.shape[1],), float(width)))


@pytest.mark.parametrize(("number", "width"), [(1, 1), (10, 100), (100, 10**6), (1_000, 10**6), (5_000, 10**7)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_blocks_in_memory_stay_within_a_twentieth_of_the_matrix(
    number: int, width: int, dtype: torch.dtype
) -> None:
    source = DenseColumns(torch.empty((number, width), dtype=dtype, device="meta"))
    scratch = SCRATCH_BLOCKS * number * source.block_width() * dtype.itemsize
    assert 1 <= source.block_width() <= min(WIDEST_BLOCK, width)
    assert scratch <= max(SCRATCH_FLOOR, 0.05 * number * width * dtype.itemsize)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from Linux's /proc")
def test_a_gram_pass_needs_little_memory_beside_its_input() -> None:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        for number, width in ((60, 1_000_000), (600, 100_000)):
            scratch = pool.apply(peak_of_a_gram_pass, (number, width))
            assert scratch <= 0.05 * 4 * number * width + 8 * 8 * number**2 + (16 << 20)


def test_the_mean_of_a_file_on_disk_is_the_mean_of_its_rows(rows: Rows, tmp_path: Path) -> None:
    update = Mean()(on_disk(rows, tmp_path)).update.numpy()
    np.testing.assert_allclose(update, rows.astype(np.float64).mean(axis=0), atol=1e-6)
