"""Where the arrays of a trusted model lie in a row: parameters in columns, buffers beside it."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from fnmatch import fnmatchcase
from typing import Any, TypeAlias, final

import numpy as np
import numpy.typing as npt
import torch
from flwr.app import Array, ArrayRecord
from jaxtyping import Bool, Float
from torch import Tensor

from steadfed.errors import DtypeError, ParameterError
from steadfed.server._buffers import variance_columns
from steadfed.server._state import ServerState

NDArray: TypeAlias = npt.NDArray[Any]

BUFFERS = ("*running_mean", "*running_var", "*num_batches_tracked")
"""Names of arrays that are not trained: what batch normalisation keeps."""
COORDINATES = "steadfed-coordinates"
"""Name of the array that a reply holds in the place of the parameters, if only some coordinates were asked for."""
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
    """The first column in the row of parameters, or in that of buffers; -1 for what is no float, which has none."""

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
        """The columns of a parameter or a float buffer in its row."""
        return slice(self.offset, self.offset + self.size)


@final
@dataclass(frozen=True)
class ModelLayout:
    """Names, shapes, dtypes and kinds of the arrays of a trusted model, and the columns of its parameters.

    A row holds the parameters one after the other in the order of the record, each in C order. Arrays whose name
    matches a pattern of `buffers`, and all that are not real numbers, are buffers: they are not in the row. Those that
    are real numbers lie in a row of their own, the others are counters.

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
        ends = {Kind.PARAMETER: 0, Kind.FLOAT_BUFFER: 0}
        for name, array in arrays.items():
            value = array.numpy()
            kind = _kind_of(name, value, buffers)
            spec = ArraySpec(name, tuple(value.shape), value.dtype, kind, ends.get(kind, -1))
            if kind in ends:
                ends[kind] += spec.size
            specs.append(spec)
        if not ends[Kind.PARAMETER]:
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
    def float_buffers(self) -> tuple[ArraySpec, ...]:
        """Those of them that are real numbers."""
        return tuple(spec for spec in self.specs if spec.kind is Kind.FLOAT_BUFFER)

    @property
    def variances(self) -> Bool[Tensor, " m"]:
        """Which columns of the row of buffers hold variances."""
        return variance_columns((spec.name, spec.size) for spec in self.float_buffers)

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
        return _widest(self.parameters)

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of a row, as torch calls it."""
        return torch.float64 if self.row_dtype == FLOATS[2] else torch.float32

    @property
    def is_of_coordinates(self) -> bool:
        """Whether it is the layout of a reply that holds some coordinates of the parameters, not all."""
        return [spec.name for spec in self.parameters] == [COORDINATES]

    def of_coordinates(self, number: int) -> ModelLayout:
        """Return what a reply with so many coordinates looks like: one array of them, and the buffers as they are.

        >>> layout = ModelLayout.of(ArrayRecord([np.ones((2, 3), np.float32), np.array(7)]))
        >>> [(spec.name, spec.shape) for spec in layout.of_coordinates(2).specs]
        [('steadfed-coordinates', (2,)), ('1', ())]
        """
        dtype = np.result_type(*(spec.dtype for spec in self.parameters))
        return ModelLayout((ArraySpec(COORDINATES, (number,), dtype, Kind.PARAMETER, 0), *self.buffers))

    def parameters_of(self, arrays: ArrayRecord) -> Float[Tensor, " d"]:
        """Return the parameters of a trusted record as a row."""
        row = np.empty(self.dim, self.row_dtype)
        for spec, value in self._read(arrays, self.parameters):
            row[spec.columns] = value.reshape(-1)
        return torch.from_numpy(row)

    def pack_buffers(self, named: Mapping[str, NDArray]) -> tuple[NDArray, dict[str, NDArray]]:
        """Return the real numbers of buffers in a row, and the others by name."""
        floats = self.float_buffers
        row = np.empty(sum(spec.size for spec in floats), _widest(floats))
        for spec in floats:
            row[spec.columns] = named[spec.name].reshape(-1)
        return row, {spec.name: named[spec.name] for spec in self.buffers if spec.kind is Kind.OTHER_BUFFER}

    def stack_buffers(
        self, replies: Sequence[Mapping[str, NDArray]]
    ) -> tuple[Float[Tensor, "n m"], tuple[dict[str, NDArray], ...]]:
        """Return the buffers of replies, a row each, and their counters."""
        packed = [self.pack_buffers(each) for each in replies]
        rows = np.stack([row for row, _ in packed]) if packed else np.empty((0, 0))
        return torch.from_numpy(rows), tuple(counters for _, counters in packed)

    def state_of(self, arrays: ArrayRecord, round: int = 0) -> ServerState:
        """Return the state of a server that starts a round with a trusted record."""
        row, counters = self.pack_buffers(self.buffers_of(arrays))
        return ServerState(round, self.parameters_of(arrays), torch.from_numpy(row), counters)

    def arrays_of(self, state: ServerState) -> ArrayRecord:
        """Return the model of a state as a record like the trusted one."""
        row = state.buffers.numpy()
        floats = {spec.name: row[spec.columns] for spec in self.float_buffers}
        return self.to_arrays(state.model, {**floats, **state.counters})

    def representable(self, state: ServerState) -> ServerState:
        """Return the state with the model that the clients will be sent: rounded to the dtypes of its arrays."""
        if all(spec.dtype == self.row_dtype for spec in self.parameters):
            return state
        return replace(state, model=self.parameters_of(self.arrays_of(state)))

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


def _widest(specs: Sequence[ArraySpec]) -> np.dtype[Any]:
    """Return the dtype that holds all numbers of these arrays in a row: float64 if one is, else float32."""
    return FLOATS[2] if any(spec.dtype == FLOATS[2] for spec in specs) else FLOATS[1]


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
