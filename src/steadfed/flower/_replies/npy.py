"""One array of a reply as numbers, without believing anything it says about itself."""

from __future__ import annotations

import io
import reprlib
import tokenize
import warnings
from typing import Any, NamedTuple, NoReturn

import numpy as np
from flwr.app import Array

from steadfed.errors import ReplyError
from steadfed.flower._faults import Fault
from steadfed.flower._layout import FLOATS, ArraySpec, Kind, NDArray

STYPE = "numpy.ndarray"
"""How Flower calls the .npy format."""
MOST_HEADER = 2048
"""Longest header in bytes: 64 dimensions, which is all numpy has, of 19 digits take 1344."""
_SHOWN = 80
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 70
_PARSER_ERRORS = (SyntaxError, tokenize.TokenError, RecursionError, MemoryError)
_PREFIX = 12  # magic, version and length of the header in the longest form


class Header(NamedTuple):
    """What the .npy header of an array claims."""

    shape: tuple[int, ...]
    fortran_order: bool
    dtype: np.dtype[Any]
    end: int
    """Where the numbers begin."""


def read_array(array: Array, spec: ArraySpec, *, convert: bool) -> NDArray:
    """Return the numbers of an array as a view of the bytes that were sent; a `ReplyError` says what is wrong.

    The .npy format says dtype and shape in a header; Flower says them again beside it. Both must be exactly those of
    the model, and the bytes exactly as many as they take; this is known before anything is allocated. Nothing is
    unpickled: an array of objects has the wrong dtype. Whether the numbers are finite is not looked at.

    Args:
        array: what the client sent.
        spec: what the model has there.
        convert: whether float16, float32 and float64, in either byte order, may stand for each other.

    >>> spec = ArraySpec("weight", (2,), np.dtype(np.float32), Kind.PARAMETER, 0)
    >>> read_array(Array(np.array([1, 2], np.float32)), spec, convert=False).tolist()
    [1.0, 2.0]
    >>> read_array(Array(np.array([1, 2, 3], np.float32)), spec, convert=False)
    Traceback (most recent call last):
    ...
    steadfed.errors.ReplyError: array 'weight': the shape must be (2,), got (3,)
    """
    # Each field is read once: whatever it is, what was checked is what is used.
    dtype, shape, stype, data = array.dtype, array.shape, array.stype, array.data
    if type(stype) is not str or stype != STYPE:
        _refuse(Fault.GARBAGE, spec, f"the serialisation must be {STYPE!r}, got {short_repr(stype)}")
    if type(data) is not bytes:
        _refuse(Fault.GARBAGE, spec, f"the data must be bytes, got {short_repr(type(data).__name__)}")
    _check_shape(shape, spec)
    header = _header_of(data, spec)
    if not _fits(header.dtype, spec, convert=convert):
        _refuse(Fault.DTYPE, spec, f"the dtype must be {spec.dtype}, got {short_repr(str(header.dtype))}")
    if type(dtype) is not str or dtype not in {str(header.dtype), header.dtype.str, header.dtype.name}:
        _refuse(Fault.DTYPE, spec, f"the data are {header.dtype}, but are said to be {short_repr(dtype)}")
    _check_shape(header.shape, spec)
    wanted = spec.size * header.dtype.itemsize
    if len(data) - header.end != wanted:
        got = len(data) - header.end
        _refuse(Fault.SIZE, spec, f"{spec.size} numbers of {header.dtype} take {wanted} bytes, got {got}")
    return _view(data, header)


def short_repr(value: object) -> str:
    """Return a short repr of anything a client may have sent, at a cost that does not grow with it.

    >>> short_repr("a" * 1000)[-12:], short_repr((10**5000,))
    ("aaaaaaaaaaa'", 'a tuple that cannot be shown')
    """
    try:
        text = _SHORT.repr(value[:_SHOWN] if type(value) is bytes else value)
    except ValueError:  # Python does not write integers of more than 4300 digits
        return f"a {type(value).__name__} that cannot be shown"
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def describe_error(error: Exception) -> str:
    """Return a short text of an error that something sent by a client has caused.

    >>> describe_error(KeyError("weight"))
    "KeyError: 'weight'"
    """
    try:
        text = str(error)[: _SHOWN + 1]
    except Exception:  # noqa: BLE001 - an error may hold an object that cannot be shown
        return type(error).__name__
    return f"{type(error).__name__}: {text if len(text) <= _SHOWN else text[: _SHOWN - 3] + '...'}"


def _view(data: bytes, header: Header) -> NDArray:
    """Return the numbers after the header, in place."""
    count = len(data) - header.end
    flat = np.frombuffer(data, header.dtype, offset=header.end) if count else np.empty(0, header.dtype)
    return flat.reshape(header.shape, order="F" if header.fortran_order else "C")


def _fits(dtype: np.dtype[Any], spec: ArraySpec, *, convert: bool) -> bool:
    if dtype == spec.dtype:
        return True
    return convert and spec.kind is not Kind.OTHER_BUFFER and dtype.kind == "f" and dtype.newbyteorder("=") in FLOATS


def _check_shape(shape: object, spec: ArraySpec) -> None:
    # bool is an int and (True, 3) == (1, 3), so that the types are compared too.
    if type(shape) is not tuple or shape != spec.shape or any(type(length) is not int for length in shape):
        _refuse(Fault.SHAPE, spec, f"the shape must be {spec.shape}, got {short_repr(shape)}")


def _header_of(data: bytes, spec: ArraySpec) -> Header:
    """Return what the .npy header claims.

    numpy reads the header with `ast.literal_eval`, whose cost and depth grow with the text, and makes a dtype of what
    it finds. It sees about `MOST_HEADER` bytes only: a longer header ends too early, an error like any other.
    """
    file = io.BytesIO(data[: _PREFIX + MOST_HEADER])
    try:
        # numpy warns of headers that Python 2 wrote and of old names of dtypes; the parser of odd literals.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            shape, fortran_order, dtype = _read_header(file)
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError, *_PARSER_ERRORS) as error:
        _refuse(Fault.GARBAGE, spec, f"the .npy header cannot be read: {describe_error(error)}")
    return Header(shape, fortran_order, dtype, file.tell())


def _read_header(file: io.BytesIO) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        return np.lib.format.read_array_header_1_0(file, max_header_size=MOST_HEADER)
    if version not in {(2, 0), (3, 0)}:
        raise ValueError(f"version {version} of the format is not known")
    # 3.0 is 2.0 with names of fields in UTF-8; an array with fields is refused anyway.
    return np.lib.format.read_array_header_2_0(file, max_header_size=MOST_HEADER)


def _refuse(fault: Fault, spec: ArraySpec, detail: str) -> NoReturn:
    raise ReplyError(fault, f"array {spec.name!r}: {detail}")
