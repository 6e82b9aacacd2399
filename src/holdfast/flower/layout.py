"""Where the arrays of a trusted model lie in a row: parameters in columns, buffers beside it."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from fnmatch import fnmatchcase
from typing import Any, TypeAlias, final

import numpy as np
import numpy.typing as npt
import torch
from flwr.app import Array, ArrayRecord
from jaxtyping import Float
from torch import Tensor

from holdfast.errors import DtypeError, ParameterError

NDArray: TypeAlias = npt.NDArray[Any]

BUFFERS = ("*running_mean", "*running_var", "*num_batches_tracked")
"""Names of arrays that are not trained: what batch normalisation keeps."""
VARIANCES = ("*running_var", "*_var", "*variance*")
"""Names of buffers that hold variances."""
FLOATS = (np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64))
"""What a parameter may be."""


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
    dtype: np.dtype[Any]
    kind: Kind
    offset: int = -1
    """The first column in the row; -1 for a buffer, which has none."""

    @property
    def size(self) -> int:
        """How many numbers it has."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """How many bytes its numbers take."""
        return self.size * self.dtype.itemsize

    @property
    def columns(self) -> slice:
        """The columns of a parameter in the row."""
        return slice(self.offset, self.offset + self.size)


@final
@dataclass(frozen=True)
class ModelLayout:
    """Names, shapes, dtypes and kinds of the arrays of a trusted model, and the columns of its parameters.

    A row holds the parameters one after the other in the order of the record, each in C order. Arrays whose name
    matches a pattern of `buffers`, and all that are not real numbers, are buffers: they are not in the row.

    >>> record = ArrayRecord([np.ones((2, 3), np.float32), np.zeros(2, np.float32), np.array(7)])
    >>> layout = ModelLayout.of(record)
    >>> layout.dim, layout.dtype, [(spec.name, spec.kind.value, spec.offset) for spec in layout.specs]
    (8, torch.float32, [('0', 'parameter', 0), ('1', 'parameter', 6), ('2', 'other buffer', -1)])
    >>> new = layout.to_arrays(torch.arange(8.0), layout.buffers_of(record))
    >>> new["0"].numpy().tolist(), new["2"].numpy().tolist()
    ([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]], 7)
    """

    specs: tuple[ArraySpec, ...]
    """One per array, in the order of the trusted record."""

    @classmethod
    def of(cls, arrays: ArrayRecord, buffers: Sequence[str] = BUFFERS) -> ModelLayout:
        """Return the layout of a trusted record.

        Raises:
            DtypeError: an array is neither float16, float32 or float64 nor of integers or booleans.
            ParameterError: an array is not finite, or there is no parameter.
        """
        specs: list[ArraySpec] = []
        offset = 0
        for name, array in arrays.items():
            value = array.numpy()
            spec = ArraySpec(name, tuple(value.shape), value.dtype, _kind_of(name, value, buffers))
            if spec.kind is Kind.PARAMETER:
                spec = ArraySpec(spec.name, spec.shape, spec.dtype, spec.kind, offset)
                offset += spec.size
            specs.append(spec)
        if not offset:
            raise ParameterError(
                f"a model needs at least one parameter, a float array that is no buffer; got {_listed(specs)}"
            )
        return cls(tuple(specs))

    @property
    def parameters(self) -> tuple[ArraySpec, ...]:
        """The arrays that are trained."""
        return tuple(spec for spec in self.specs if spec.kind is Kind.PARAMETER)

    @property
    def buffers(self) -> tuple[ArraySpec, ...]:
        """The arrays that are not trained."""
        return tuple(spec for spec in self.specs if spec.kind is not Kind.PARAMETER)

    @property
    def dim(self) -> int:
        """The length d of a row."""
        return sum(spec.size for spec in self.parameters)

    @property
    def nbytes(self) -> int:
        """How many bytes the numbers of all arrays take."""
        return sum(spec.nbytes for spec in self.specs)

    @property
    def row_dtype(self) -> np.dtype[Any]:
        """The dtype of a row: float64 if a parameter is, else float32."""
        return FLOATS[2] if any(spec.dtype == FLOATS[2] for spec in self.parameters) else FLOATS[1]

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of a row, as torch calls it."""
        return torch.float64 if self.row_dtype == FLOATS[2] else torch.float32

    def parameters_of(self, arrays: ArrayRecord) -> Float[Tensor, " d"]:
        """Return the parameters of a trusted record as a row."""
        row = np.empty(self.dim, self.row_dtype)
        for spec, value in self._read(arrays, self.parameters):
            row[spec.columns] = value.reshape(-1)
        return torch.from_numpy(row)

    def buffers_of(self, arrays: ArrayRecord) -> dict[str, NDArray]:
        """Return the buffers of a trusted record by name."""
        return {spec.name: value for spec, value in self._read(arrays, self.buffers)}

    def to_arrays(self, parameters: Float[Tensor, " d"], buffers: Mapping[str, NDArray]) -> ArrayRecord:
        """Return a record like the trusted one, with these parameters and buffers.

        A number beyond the range of its array's dtype, which is narrower than the row's for float16 parameters, becomes
        the largest there is: a model never gets Inf by being sent.
        """
        row = parameters.detach().cpu().numpy()
        if row.shape != (self.dim,):
            raise ParameterError(f"the parameters must be a row of {self.dim} numbers, got the shape {row.shape}")
        return ArrayRecord({spec.name: Array(_fitted(spec, row, buffers)) for spec in self.specs})

    def fingerprint(self) -> str:
        """Return the SHA-256 of names, shapes, dtypes and kinds, by which two layouts are the same."""
        words = [[spec.name, spec.shape, spec.dtype.str, spec.kind.value] for spec in self.specs]
        return hashlib.sha256(json.dumps(words).encode()).hexdigest()

    def _read(self, arrays: ArrayRecord, specs: Sequence[ArraySpec]) -> Iterator[tuple[ArraySpec, NDArray]]:
        if set(arrays) != {spec.name for spec in self.specs}:
            raise ParameterError(
                f"the record must hold the arrays {_listed(self.specs)}, got {', '.join(arrays) or 'none'}"
            )
        for spec in specs:
            value = arrays[spec.name].numpy()
            if value.shape != spec.shape or value.dtype != spec.dtype:
                got = f"{value.dtype} of shape {value.shape}"
                raise ParameterError(f"the array {spec.name!r} must be {spec.dtype} of shape {spec.shape}, got {got}")
            yield spec, value


def combined_buffers(rows: Sequence[Mapping[str, NDArray]], before: Mapping[str, NDArray]) -> dict[str, NDArray]:
    """Return the coordinate-wise median of the buffers of the valid replies, or `before` if there are none.

    Of an even number, real numbers take the midpoint of the two in the middle, integers and booleans the lower one, so
    that every entry lies between two that were sent. Entries that became NaN, or negative in a buffer that is named as
    a variance and had no negative entry, keep the value of `before`.

    >>> before = {"count": np.array([0]), "mean": np.array([0.0])}
    >>> replies = [{"count": np.array([n]), "mean": np.array([n / 2])} for n in (3, 4, 5, 900)]
    >>> {name: value.tolist() for name, value in combined_buffers(replies, before).items()}
    {'count': [4], 'mean': [2.25]}
    """
    if not rows:
        return {name: value.copy() for name, value in before.items()}
    return {
        name: _believed(name, _median(np.stack([row[name] for row in rows])), value) for name, value in before.items()
    }


def _median(values: NDArray) -> NDArray:
    """Return the median over the first axis, with the dtype of the values."""
    order = np.sort(values, axis=0)
    lower, upper = order[(len(order) - 1) // 2], order[len(order) // 2]
    if values.dtype.kind != "f":
        return np.asarray(lower)
    # Halved before they are added: the sum of two large finite numbers may not be finite.
    return np.asarray(np.where(lower == upper, lower, lower / 2 + upper / 2), values.dtype)


def _believed(name: str, value: NDArray, before: NDArray) -> NDArray:
    if value.dtype.kind != "f":
        return value
    absurd = np.isnan(value)
    if any(fnmatchcase(name, pattern) for pattern in VARIANCES) and not np.any(before < 0):
        absurd |= value < 0
    return np.asarray(np.where(absurd, before, value), value.dtype)


def _fitted(spec: ArraySpec, row: NDArray, buffers: Mapping[str, NDArray]) -> NDArray:
    """Return one array of the model with its shape and dtype."""
    if spec.kind is not Kind.PARAMETER:
        return np.asarray(buffers[spec.name], spec.dtype).reshape(spec.shape)
    values = row[spec.columns]
    if values.dtype != spec.dtype:
        values = np.clip(values, np.finfo(spec.dtype).min, np.finfo(spec.dtype).max).astype(spec.dtype)
    return values.reshape(spec.shape)


def _kind_of(name: str, value: NDArray, buffers: Sequence[str]) -> Kind:
    """Return what a trusted array is; a `DtypeError` or `ParameterError` says what is wrong with it."""
    if value.dtype.kind in "iub" and value.dtype.isnative:
        return Kind.OTHER_BUFFER
    if value.dtype not in FLOATS:
        raise DtypeError(
            f"the array {name!r} of the model is {value.dtype}; allowed: float16, float32, float64, integers, booleans"
        )
    if not np.isfinite(value).all():
        raise ParameterError(f"the array {name!r} of the model has NaN or Inf; a model must start finite")
    return Kind.FLOAT_BUFFER if any(fnmatchcase(name, pattern) for pattern in buffers) else Kind.PARAMETER


def _listed(specs: Sequence[ArraySpec]) -> str:
    return ", ".join(spec.name for spec in specs) or "none"
