"""One array as it came over the wire."""

from __future__ import annotations

import io
import struct
from typing import Any

import numpy as np
import pytest
from flwr.app import Array

from steadfed.errors import ReplyError
from steadfed.flower._npy import MOST_HEADER
from steadfed.flower._replies.npy import read_array
from steadfed.states._arrays import ArraySpec, Kind, NDArray
from steadfed.states._faults import Fault, describe_error, short_repr

VALUES = np.arange(6, dtype=np.float32).reshape(2, 3)


def spec_of(value: NDArray, kind: Kind = Kind.PARAMETER) -> ArraySpec:
    return ArraySpec("w", value.shape, value.dtype.name, kind, 0)


SPEC = spec_of(VALUES)


def npy(header: str | bytes, data: bytes = VALUES.tobytes(), version: tuple[int, int] = (1, 0)) -> bytes:
    text = header if isinstance(header, bytes) else header.encode("latin1")
    length = struct.pack("<H" if version == (1, 0) else "<I", len(text))
    return b"\x93NUMPY" + bytes(version) + length + text + data


def sent(data: bytes, dtype: str = "float32", shape: tuple[int, ...] = (2, 3), stype: str = "numpy.ndarray") -> Array:
    return Array(dtype=dtype, shape=shape, stype=stype, data=data)


HEADER = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n"


def fault_of(array: Array, spec: ArraySpec = SPEC, *, convert: bool = False) -> str:
    with pytest.raises(ReplyError) as caught:
        read_array(array, spec, convert=convert)
    return caught.value.fault


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_every_version_of_the_format_is_read(version: tuple[int, int]) -> None:
    assert read_array(sent(npy(HEADER, version=version)), SPEC, convert=False).tolist() == VALUES.tolist()


def test_the_numbers_are_a_view_of_what_was_sent() -> None:
    array = Array(VALUES)
    read = read_array(array, SPEC, convert=False)
    assert np.shares_memory(read, np.frombuffer(array.data, np.uint8))
    assert not read.flags.writeable


def test_fortran_order_is_read_in_the_right_order() -> None:
    assert read_array(Array(np.asfortranarray(VALUES)), SPEC, convert=False).tolist() == VALUES.tolist()


@pytest.mark.parametrize("value", [np.array(2.5, np.float32), np.zeros((0, 3), np.float32), np.zeros((3, 0), "f8")])
def test_arrays_without_axes_and_without_numbers_are_read(value: NDArray) -> None:
    read = read_array(Array(value), spec_of(value), convert=False)
    assert (read.shape, read.dtype, read.tolist()) == (value.shape, value.dtype, value.tolist())


def test_a_header_that_python_2_wrote_is_read_without_a_warning() -> None:
    old = "{'descr': '<f4', 'fortran_order': False, 'shape': (2L, 3L), }\n"
    assert read_array(sent(npy(old)), SPEC, convert=False).tolist() == VALUES.tolist()


@pytest.mark.parametrize("dtype", ["<f2", ">f2", ">f4", "<f8", ">f8"])
def test_other_floats_are_read_only_if_conversion_is_allowed(dtype: str) -> None:
    array = Array(VALUES.astype(dtype))
    assert fault_of(array) == Fault.DTYPE
    assert read_array(array, SPEC, convert=True).tolist() == VALUES.tolist()


@pytest.mark.parametrize("dtype", ["c8", "?", "i4", "u1", "i8", "U1", "S4", "M8[s]", "V4", "g", "f4,f4"])
@pytest.mark.parametrize("convert", [False, True])
def test_what_is_no_float_is_never_read_for_a_parameter(dtype: str, convert: bool) -> None:
    value = np.zeros((2, 3), dtype)
    assert fault_of(Array(value), convert=convert) == Fault.DTYPE


def test_integers_of_another_width_are_not_read_for_a_buffer() -> None:
    count = np.array(3)
    spec = spec_of(count, Kind.OTHER_BUFFER)
    assert read_array(Array(count), spec, convert=True).tolist() == 3
    for dtype in ("i4", ">i8", "f8", "?"):
        assert fault_of(Array(count.astype(dtype)), spec, convert=True) == Fault.DTYPE


def test_an_array_of_objects_is_refused_by_its_dtype_and_nothing_is_unpickled() -> None:
    file = io.BytesIO()
    np.save(file, np.array([[None] * 3] * 2), allow_pickle=True)
    assert fault_of(sent(file.getvalue(), dtype="object")) == Fault.DTYPE
    assert fault_of(sent(file.getvalue())) == Fault.DTYPE


@pytest.mark.parametrize("shape", [(3, 2), (6,), (2, 3, 1), (1, 2, 3), (), (2,), (2**40,), (-2, -3), (2, True)])
def test_another_shape_is_refused_declared_or_in_the_header(shape: tuple[int, ...]) -> None:
    assert fault_of(sent(npy(HEADER), shape=shape)) == Fault.SHAPE
    assert fault_of(sent(npy(HEADER.replace("(2, 3)", repr(shape))))) == Fault.SHAPE


def test_booleans_are_no_lengths() -> None:
    value = np.ones((1, 3), np.float32)
    lie = Array(value)
    lie.shape = (True, 3)
    assert fault_of(lie, spec_of(value)) == Fault.SHAPE
    assert fault_of(sent(npy(HEADER.replace("2", "True")), shape=(1, 3)), spec_of(value)) == Fault.SHAPE


@pytest.mark.parametrize("dtype", ["float64", ">f4", "", "f" * 10**6, "object", "i4,i4"])
def test_a_declared_dtype_that_is_not_that_of_the_data_is_refused(dtype: str) -> None:
    assert fault_of(sent(npy(HEADER), dtype=dtype)) == Fault.DTYPE
    assert fault_of(sent(npy(HEADER), dtype=dtype), convert=True) == Fault.DTYPE


@pytest.mark.parametrize("data", [b"", VALUES.tobytes()[:-1], VALUES.tobytes() + b"\0", VALUES.tobytes() * 2])
def test_too_few_and_too_many_bytes_are_refused(data: bytes) -> None:
    assert fault_of(sent(npy(HEADER, data))) == Fault.SIZE


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x93NUMPY",
        b"PK\x03\x04" + bytes(100),
        b"\x80\x04K\x01.",
        npy(HEADER)[:20],
        npy(HEADER, version=(9, 9)),
        npy(""),
        npy("{}"),
        npy("[1, 2]"),
        npy("{'descr': '<f4', 'fortran_order': False}"),
        npy("{'descr': '<f4', 'fortran_order': 1, 'shape': (2, 3)}"),
        npy("{'descr': '<f4', 'fortran_order': False, 'shape': [2, 3]}"),
        npy("{'descr': 'nonsense', 'fortran_order': False, 'shape': (2, 3)}"),
        npy("{'descr': [('a',)], 'fortran_order': False, 'shape': (2, 3)}"),
        npy("{'descr': [1], 'fortran_order': False, 'shape': (2, 3)}"),
        npy("{'descr': None, 'fortran_order': False, 'shape': (2, 3)}"),
        npy("{1: 2, 'a': 3}"),
        npy("{[]: 1}"),
        npy("__import__('os').abort()"),
        npy("(" * 1000),
        npy("-" * 2000 + "1"),
        npy("[" * 150 + "]" * 150),
        npy("'" * 3),
        npy("'''"),
        npy("\x00" * 50),
        npy("\\\n" * 100),
        npy(b"\xff\xfe" * 50, version=(3, 0)),
        npy("{'descr': '\\d', 'fortran_order': False, 'shape': (2, 3)}"),
        npy("1" * 2000),
    ],
)
def test_what_is_no_npy_file_is_garbage(data: bytes) -> None:
    assert fault_of(sent(data)) == Fault.GARBAGE


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_a_header_is_not_read_beyond_its_bound(version: tuple[int, int]) -> None:
    assert read_array(sent(npy(HEADER.ljust(MOST_HEADER), version=version)), SPEC, convert=False).shape == (2, 3)
    assert fault_of(sent(npy(HEADER.ljust(MOST_HEADER + 1), version=version))) == Fault.GARBAGE
    assert fault_of(sent(npy(HEADER.ljust(60_000), version=version))) == Fault.GARBAGE


def test_a_header_that_claims_four_gigabytes_is_garbage() -> None:
    data = b"\x93NUMPY\x02\x00\xff\xff\xff\xff" + HEADER.encode() + bytes(5000)
    assert fault_of(sent(data)) == Fault.GARBAGE


@pytest.mark.parametrize("stype", ["torch.Tensor", "", "numpy.ndarray "])
def test_another_serialisation_is_refused(stype: str) -> None:
    assert fault_of(sent(npy(HEADER), stype=stype)) == Fault.GARBAGE


@pytest.mark.parametrize(
    ("field", "value", "fault"),
    [
        ("dtype", 5, Fault.DTYPE),
        ("dtype", None, Fault.DTYPE),
        ("dtype", ["float32"], Fault.DTYPE),
        ("shape", None, Fault.SHAPE),
        ("shape", [2, 3], Fault.SHAPE),
        ("shape", "23", Fault.SHAPE),
        ("shape", (2.0, 3.0), Fault.SHAPE),
        ("shape", (10**5000, 3), Fault.SHAPE),
        ("stype", 0, Fault.GARBAGE),
        ("data", None, Fault.GARBAGE),
        ("data", "text", Fault.GARBAGE),
        ("data", 10**9, Fault.GARBAGE),
    ],
)
def test_fields_of_the_wrong_type_are_refused(field: str, value: Any, fault: Fault) -> None:
    array = Array(VALUES)
    setattr(array, field, value)
    assert fault_of(array) == fault


def test_what_is_shown_of_a_reply_is_short() -> None:
    assert len(short_repr("x" * 10**7)) <= 80
    assert len(short_repr(("x" * 10**6,) * 10**3)) <= 80
    assert len(describe_error(ValueError("x" * 10**7))) <= 100
    assert describe_error(ValueError(10**5000)) == "ValueError"
