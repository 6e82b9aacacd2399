"""What a model's arrays may be: tensors or numpy arrays of real numbers, whole numbers and booleans, and bfloat16."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias, final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from steadfed.errors import DtypeError, ParameterError

NDArray: TypeAlias = npt.NDArray[Any]
Numbers: TypeAlias = NDArray | Tensor
"""An array of a model that is trusted."""

BFLOAT16 = "bfloat16"
"""The one dtype of models that numpy does not have: its numbers are held as float32, exactly."""
FLOATS = ("float16", BFLOAT16, "float32", "float64")
"""What a parameter may be."""
WHOLE = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
"""What a counter may be."""
TENSORS = (Tensor, nn.Parameter)
"""Kinds of tensors that do what torch does: any other subclass may do anything, as it may replace every function."""
ARRAYS = (np.ndarray, np.memmap)
"""The same for arrays of numpy."""


class Kind(Enum):
    """What an array of a model is."""

    PARAMETER = "parameter"
    """Trained: its numbers are columns of the row."""
    FLOAT_BUFFER = "float buffer"
    """Real numbers that are not trained, such as running means."""
    OTHER_BUFFER = "other buffer"
    """Integers or booleans, such as counters."""


@final
@dataclass(frozen=True)
class ArraySpec:
    """What one array of a reply has to be."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    """As numpy and torch call it: "float32", "bfloat16", "int64"."""
    kind: Kind
    offset: int = -1
    """The first column in the row of parameters, or in that of buffers; -1 for what is no float, which has none."""

    @property
    def size(self) -> int:
        """How many numbers it has."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """How many bytes its numbers take."""
        return self.size * (2 if self.dtype == BFLOAT16 else self.held.itemsize)

    @property
    def columns(self) -> slice:
        """The columns of a parameter or a float buffer in its row."""
        return slice(self.offset, self.offset + self.size)

    @property
    def held(self) -> np.dtype[Any]:
        """The dtype of an array of numpy that holds its numbers: its own, or float32 for bfloat16."""
        return np.dtype(np.float32) if self.dtype == BFLOAT16 else np.dtype(self.dtype)

    @property
    def code(self) -> str:
        """The dtype with its byte order."""
        return BFLOAT16 if self.dtype == BFLOAT16 else self.held.str

    @property
    def largest(self) -> float:
        """The largest number that it can hold, if it holds real numbers."""
        return float(torch.finfo(torch.bfloat16).max if self.dtype == BFLOAT16 else np.finfo(self.held).max)

    def rounded(self, values: NDArray) -> NDArray:
        """Return numbers as this array holds them; what is beyond the range of its dtype becomes the largest there is.

        >>> ArraySpec("a", (2,), "bfloat16", Kind.PARAMETER, 0).rounded(np.array([1.001, 1e39]))
        array([1.0000000e+00, 3.3895314e+38], dtype=float32)
        """
        if values.dtype == self.held and self.dtype != BFLOAT16:
            return values
        if self.kind is not Kind.OTHER_BUFFER:
            values = np.clip(values, -self.largest, self.largest)
        values = values.astype(self.held)
        return torch.from_numpy(values).bfloat16().float().numpy() if self.dtype == BFLOAT16 else values


def dtype_of(value: Numbers) -> str:
    """Return what the dtype of an array is called; a byte order that is not this machine's is said besides.

    >>> dtype_of(np.zeros(1, np.int64)), dtype_of(torch.zeros(1, dtype=torch.bfloat16)), dtype_of(np.zeros(1, ">f4"))
    ('int64', 'bfloat16', '>f4')
    """
    if isinstance(value, Tensor):
        return str(value.dtype).removeprefix("torch.")
    return value.dtype.name if value.dtype.isnative else value.dtype.str


def held(value: Numbers) -> NDArray:
    """Return the numbers of a trusted array as numpy has them, in place if that can be."""
    if not isinstance(value, Tensor):
        return value
    plain = value.detach().resolve_neg().cpu()
    return (plain.float() if plain.dtype is torch.bfloat16 else plain).numpy()


def fits(dtype: np.dtype[Any], spec: ArraySpec, *, convert: bool) -> bool:
    """Return whether an array of numpy with this dtype can be read as the one that is wanted.

    With conversion, float16, float32 and float64, in either byte order, stand for each other and for bfloat16.
    """
    if spec.dtype != BFLOAT16 and dtype == spec.held:
        return True
    return (
        convert and spec.kind is not Kind.OTHER_BUFFER and dtype.kind == "f" and dtype.newbyteorder("=").name in FLOATS
    )


def kind_of(name: str, value: Numbers, *, is_buffer: bool) -> Kind:
    """Return what a trusted array is; a `DtypeError` or `ParameterError` says what is wrong with it."""
    dtype = dtype_of(value)
    if dtype in WHOLE:
        return Kind.OTHER_BUFFER
    if dtype not in FLOATS:
        raise DtypeError(
            f"the array {name!r} of the model is {dtype}; allowed: {', '.join(FLOATS)}, integers, booleans"
        )
    finite = torch.isfinite(value) if isinstance(value, Tensor) else np.isfinite(value)
    if not finite.all():
        raise ParameterError(f"the array {name!r} of the model has NaN or Inf; a model must start finite")
    return Kind.FLOAT_BUFFER if is_buffer else Kind.PARAMETER
