"""One array of a reply as numbers, without believing anything it says about itself."""

from __future__ import annotations

from typing import NoReturn

from flwr.app import Array

from steadfed.flower._npy import HEADER_ERRORS, STYPE, Header, read_header, view_of
from steadfed.states._arrays import ArraySpec, NDArray, fits
from steadfed.states._faults import Fault, describe_error, refuse, short_repr, type_of


def read_array(array: Array, spec: ArraySpec, *, convert: bool) -> NDArray:
    """Return the numbers of an array as a view of the bytes that were sent; a `ReplyError` says what is wrong.

    The .npy format says dtype and shape in a header; Flower says them again beside it. Both must be exactly those of
    the model, and the bytes exactly as many as they take; this is known before anything is allocated. Nothing is
    unpickled: an array of objects has the wrong dtype. Whether the numbers are finite is not looked at.

    Args:
        array: what the client sent.
        spec: what the model has there.
        convert: whether float16, float32 and float64, in either byte order, may stand for each other.

    >>> import numpy as np
    >>> from steadfed.states._arrays import Kind
    >>> spec = ArraySpec("weight", (2,), "float32", Kind.PARAMETER, 0)
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
        _refuse(Fault.GARBAGE, spec, f"the data must be bytes, got {type_of(data)}")
    _check_shape(shape, spec)
    header = _header_of(data, spec)
    if not fits(header.dtype, spec, convert=convert):
        _refuse(Fault.DTYPE, spec, f"the dtype must be {spec.dtype}, got {short_repr(str(header.dtype))}")
    if type(dtype) is not str or dtype not in {str(header.dtype), header.dtype.str, header.dtype.name}:
        _refuse(Fault.DTYPE, spec, f"the data are {header.dtype}, but are said to be {short_repr(dtype)}")
    _check_shape(header.shape, spec)
    wanted = spec.size * header.dtype.itemsize
    if len(data) - header.end != wanted:
        got = len(data) - header.end
        _refuse(Fault.SIZE, spec, f"{spec.size} numbers of {header.dtype} take {wanted} bytes, got {got}")
    return view_of(data, header)


def _check_shape(shape: object, spec: ArraySpec) -> None:
    # bool is an int and (True, 3) == (1, 3), so that the types are compared too.
    if type(shape) is not tuple or shape != spec.shape or any(type(length) is not int for length in shape):
        _refuse(Fault.SHAPE, spec, f"the shape must be {spec.shape}, got {short_repr(shape)}")


def _header_of(data: bytes, spec: ArraySpec) -> Header:
    try:
        return read_header(data)
    except HEADER_ERRORS as error:
        _refuse(Fault.GARBAGE, spec, f"the .npy header cannot be read: {describe_error(error)}")


def _refuse(fault: Fault, spec: ArraySpec, detail: str) -> NoReturn:
    refuse(fault, f"array {spec.name!r}: {detail}")
