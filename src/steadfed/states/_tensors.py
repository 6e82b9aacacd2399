"""One array of a state dict, in and out: what a client handed over is copied, and never trusted to be what it says."""

from __future__ import annotations

import re
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor

from steadfed.errors import ParameterError
from steadfed.states._arrays import ARRAYS, FLOATS, TENSORS, ArraySpec, Kind, NDArray, Numbers, dtype_of, fits
from steadfed.states._faults import Fault, refuse, short_repr, type_of

_RANKS = ((re.compile(r"lora_(?:embedding_)?A\b"), 0), (re.compile(r"lora_(?:embedding_)?B\b"), 1))
"""Which axis of the arrays of a low-rank adapter is its rank, by their names in PEFT."""


def write_numbers(value: Any, spec: ArraySpec, target: NDArray, *, convert: bool) -> None:
    """Copy the numbers of a tensor or an array of numpy into the target; a `ReplyError` says what is wrong.

    Shape and dtype must be those of the model, and all numbers must be there, which is known before any is read. A
    tensor may lie on any device and ask for gradients. It may be of no subclass: that could do anything, as every
    function that is called with it asks it first. No message holds a number of it.

    >>> spec, target = ArraySpec("w", (2,), "float32", Kind.PARAMETER, 0), np.empty(2, np.float32)
    >>> write_numbers(torch.tensor([1.0, 2.0], requires_grad=True), spec, target, convert=False)
    >>> target.tolist()
    [1.0, 2.0]
    >>> write_numbers(torch.tensor([1.0, 2.0]).to_sparse(), spec, target, convert=False)
    Traceback (most recent call last):
    ...
    steadfed.errors.ReplyError: array 'w': a dense tensor is needed, got one in the layout torch.sparse_coo
    """
    if type(value) in TENSORS:
        _write_tensor(Tensor.detach(value), spec, target, convert=convert)  # without what hangs on the object
    elif type(value) in ARRAYS:
        _check(spec, tuple(value.shape), dtype_of(value), fitting=fits(value.dtype, spec, convert=convert))
        np.copyto(target, value, casting="same_kind")
    else:
        hint = "; a subclass may do anything" if issubclass(type(value), Tensor) else ""
        _refuse(Fault.GARBAGE, spec, f"a plain tensor or numpy array is needed, got {type_of(value)}{hint}")


def trusted_array(name: object, value: object) -> Numbers:
    """Return an array of the operator's own model, if it is one.

    Raises:
        ParameterError: it is none, or its name is no text.
    """
    if type(name) is not str:
        raise ParameterError(f"names of a model's arrays must be text, got {type_of(name)}")
    if type(value) in TENSORS and isinstance(value, Tensor):
        if (why := _no_numbers(value)) is not None:
            raise ParameterError(f"the array {name!r} of the model: {why}")
        return value.detach()
    if type(value) in ARRAYS and isinstance(value, np.ndarray):
        return value
    raise ParameterError(f"the array {name!r} of the model must be a plain tensor or numpy array, got {type_of(value)}")


def like_trusted(values: NDArray, trusted: Numbers) -> Numbers:
    """Return numbers as what a trusted array is: on its device, in its order of memory, sharing nothing with it."""
    if not isinstance(trusted, Tensor):
        array = np.empty_like(trusted, subok=False)
        array[...] = values
        return array
    return torch.empty_like(trusted, requires_grad=False).copy_(torch.from_numpy(values))


def _write_tensor(value: Tensor, spec: ArraySpec, target: NDArray, *, convert: bool) -> None:
    if (why := _no_numbers(value)) is not None:
        _refuse(Fault.GARBAGE, spec, why)
    dtype = dtype_of(value)
    converted = convert and spec.kind is not Kind.OTHER_BUFFER and dtype in FLOATS
    _check(spec, tuple(value.shape), dtype, fitting=dtype == spec.dtype or converted)
    torch.from_numpy(target).copy_(value)


def _no_numbers(value: Tensor) -> str | None:
    """Return why a tensor of torch's own class has no numbers that could be copied; None if it has."""
    if value.is_nested:
        return "a dense tensor is needed, got a nested one"
    if value.layout is not torch.strided:
        return f"a dense tensor is needed, got one in the layout {value.layout}"
    if value.is_quantized:
        return "a plain tensor is needed, got a quantised one"
    if value.is_meta:
        return "a tensor with numbers is needed, got one on the device meta"
    return None if _holds_all(value) else "its memory holds fewer numbers than its shape takes"


def _holds_all(value: Tensor) -> bool:
    """Return whether the storage reaches as far as the shape does: it may have been resized since, or freed."""
    if not value.numel():
        return True
    steps = zip(value.shape, value.stride(), strict=True)
    last = value.storage_offset() + sum((length - 1) * stride for length, stride in steps)
    return (last + 1) * value.element_size() <= value.untyped_storage().nbytes()


def _check(spec: ArraySpec, shape: tuple[int, ...], dtype: str, *, fitting: bool) -> None:
    """Refuse another shape, or a dtype that does not fit."""
    if shape != spec.shape:
        why = _unequal_ranks(shape, spec)
        _refuse(Fault.SHAPE, spec, f"the shape must be {spec.shape}, got {short_repr(shape)}{why}")
    if not fitting:
        _refuse(Fault.DTYPE, spec, f"the dtype must be {spec.dtype}, got {short_repr(dtype)}")


def _unequal_ranks(shape: tuple[int, ...], spec: ArraySpec) -> str:
    """Return what to say of an adapter whose rank is another; nothing, if that is not it."""
    for pattern, axis in _RANKS:
        if pattern.search(spec.name) and len(shape) == len(spec.shape) > axis:
            others = [(*each[:axis], *each[axis + 1 :]) for each in (shape, spec.shape)]
            if others[0] == others[1]:
                ranks = f"rank {shape[axis]} in place of {spec.shape[axis]}"
                return f": an adapter of {ranks}, and adapters of unequal rank have no average"
    return ""


def _refuse(fault: Fault, spec: ArraySpec, detail: str) -> NoReturn:
    refuse(fault, f"array {spec.name!r}: {detail}")
