"""The same numbers in bytes that nobody can foresee, under one name."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from numpy.typing import NDArray

from steadfed._core.digests import arrays_digest
from steadfed.flower import _npy
from steadfed.flower._npy import model_digest, read_header, with_secret
from steadfed.flower._records import layout_of
from steadfed.flower._replies.npy import read_array

SHAPES = [(), (0,), (1,), (2, 3), (0, 3), (1,) * 12]


def values_of(shape: tuple[int, ...], dtype: str) -> NDArray[np.generic]:
    return np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int64", "uint8", "bool"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_reader_takes_an_array_with_a_secret(shape: tuple[int, ...], dtype: str) -> None:
    values = values_of(shape, dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sent = with_secret(ArrayRecord({"a": Array(values), "trained": Array(np.ones(1))}))
        np.testing.assert_array_equal(sent["a"].numpy(), values)
        assert sent["a"].numpy().dtype == values.dtype
        assert sent.to_torch_state_dict()["a"].shape == shape
    spec = layout_of(sent).specs[0]
    np.testing.assert_array_equal(read_array(sent["a"], spec, convert=False), values)


def test_an_array_in_fortran_order_is_sent_in_that_of_c() -> None:
    values = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    record = ArrayRecord({"a": Array(values)})
    assert read_header(record["a"].data).fortran_order
    sent = with_secret(record)
    assert not read_header(sent["a"].data).fortran_order
    np.testing.assert_array_equal(sent["a"].numpy(), values)
    assert model_digest(sent) == model_digest(record) == model_digest(ArrayRecord({"a": Array(values.copy("C"))}))


def test_a_model_has_one_name_whatever_its_bytes() -> None:
    record = ArrayRecord({"b": Array(values_of((2, 3), "float32")), "a": Array(values_of((), "int64"))})
    same = [("a", "int64", (), bytes(8)), ("b", "float32", (2, 3), values_of((2, 3), "float32").tobytes())]
    assert model_digest(record) == model_digest(with_secret(record)) == arrays_digest(same)
    for name, other in (
        ("b", values_of((3, 2), "float32")),
        ("b", values_of((2, 3), "int32")),
        ("c", values_of((), "int64")),
    ):
        changed = ArrayRecord({**dict(record.items()), name: Array(other)})
        assert model_digest(changed) != model_digest(record)


def test_what_is_said_beside_an_array_is_that_of_its_bytes() -> None:
    data = Array(np.arange(4.0)).data
    for dtype, shape, stype in (
        ("float32", (4,), "numpy.ndarray"),
        ("float64", (2, 2), "numpy.ndarray"),
        ("float64", (4,), "pickle"),
    ):
        with pytest.raises(ValueError, match=r"the array 'a' .* is said to be another beside it"):
            model_digest(ArrayRecord({"a": Array(dtype, shape, stype, data)}))
    told = with_secret(ArrayRecord({"a": Array("<f8", (2, 2), "numpy.ndarray", data)}))["a"]
    assert (told.dtype, told.shape, told.stype) == ("float64", (4,), "numpy.ndarray")


def objects_of(record: ArrayRecord) -> set[str]:
    return set(get_all_nested_objects(record))


def test_no_object_of_a_model_that_is_known_can_be_foreseen() -> None:
    record = ArrayRecord({"a": Array(values_of((2, 3), "float32")), "b": Array(np.zeros(0))})
    written = [objects_of(record), *(objects_of(with_secret(record)) for _ in range(20))]
    assert len(set.union(*written)) == sum(map(len, written))
    paddings = {with_secret(record)["a"].data[: read_header(with_secret(record)["a"].data).end] for _ in range(50)}
    assert len(paddings) == 50


def test_no_chunk_of_a_large_array_can_be_foreseen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_npy, "LARGEST_CHUNK", 4096)
    record = ArrayRecord({"a": Array(np.arange(10_000.0))})
    written = [with_secret(record) for _ in range(10)]
    chunks = [[key for key, _ in each["a"].slice_array()] for each in written]
    assert all(len(each) > 20 for each in chunks)
    middle = [key for each in chunks for key in each[:-1]]
    assert len(set(middle)) == len(middle)
    for each in written:
        sizes = [len(chunk.deflate()) for _, chunk in each["a"].slice_array()]
        assert max(sizes) <= 4096 + 64
        objects = get_all_nested_objects(each)
        arrived = inflate_object_from_contents(each.object_id, {key: one.deflate() for key, one in objects.items()})
        assert isinstance(arrived, ArrayRecord)
        assert model_digest(arrived) == model_digest(record)


def test_the_record_itself_stays_as_it_was() -> None:
    record = ArrayRecord({"a": Array(np.arange(3.0))})
    before = record["a"].data
    assert with_secret(record)["a"].data != before
    assert record["a"].data is before
