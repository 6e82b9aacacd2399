"""Where the arrays of a trusted model lie in a row: parameters in columns, buffers beside it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any, final

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from steadfed.errors import ParameterError
from steadfed.server._buffers import variance_columns
from steadfed.server._state import ServerState
from steadfed.states._arrays import ArraySpec, Kind, NDArray, Numbers, dtype_of, held, kind_of

BUFFERS = ("*running_mean", "*running_var", "*num_batches_tracked")
"""Names of arrays that are not trained: what batch normalisation keeps."""
COORDINATES = "steadfed-coordinates"
"""Name of the array that a reply holds in the place of the parameters, if only some coordinates were asked for."""


@final
@dataclass(frozen=True)
class ModelLayout:
    """Names, shapes, dtypes and kinds of the arrays of a trusted model, and the columns of its parameters.

    A row holds the parameters one after the other in the order of the model, each in C order. Arrays whose name
    matches a pattern of `buffers`, and all that are not real numbers, are buffers: they are not in the row. Those that
    are real numbers lie in a row of their own, the others are counters.

    Tensors and arrays of numpy are the same here; what is made of a row are arrays of numpy, of float32 for what is
    bfloat16 in the model.

    >>> model = {"w": torch.ones(2, 3), "b": np.zeros(2, np.float32), "steps": torch.tensor(7)}
    >>> layout = ModelLayout.of(model)
    >>> layout.dim, layout.dtype, [(spec.name, spec.kind.value, spec.offset) for spec in layout.specs]
    (8, torch.float32, [('w', 'parameter', 0), ('b', 'parameter', 6), ('steps', 'other buffer', -1)])
    >>> new = layout.to_arrays(torch.arange(8.0), layout.buffers_of(model))
    >>> new["w"].tolist(), new["steps"].tolist()
    ([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]], 7)
    """

    specs: tuple[ArraySpec, ...]
    """One per array, in the order of the trusted model."""

    @classmethod
    def of(cls, arrays: Mapping[str, Numbers], buffers: Sequence[str] = BUFFERS) -> ModelLayout:
        """Return the layout of a trusted model.

        Raises:
            DtypeError: an array is neither float16, bfloat16, float32 or float64 nor of integers or booleans.
            ParameterError: an array is not finite, or there is no parameter.
        """
        specs: list[ArraySpec] = []
        ends = {Kind.PARAMETER: 0, Kind.FLOAT_BUFFER: 0}
        for name, value in arrays.items():
            kind = kind_of(name, value, is_buffer=any(fnmatchcase(name, pattern) for pattern in buffers))
            spec = ArraySpec(name, tuple(value.shape), dtype_of(value), kind, ends.get(kind, -1))
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
        return torch.float64 if self.row_dtype == np.float64 else torch.float32

    @property
    def is_of_coordinates(self) -> bool:
        """Whether it is the layout of a reply that holds some coordinates of the parameters, not all."""
        return [spec.name for spec in self.parameters] == [COORDINATES]

    def of_coordinates(self, number: int) -> ModelLayout:
        """Return what a reply with so many coordinates looks like: one array of them, and the buffers as they are.

        >>> layout = ModelLayout.of({"w": np.ones((2, 3), np.float32), "steps": np.array(7)})
        >>> [(spec.name, spec.shape) for spec in layout.of_coordinates(2).specs]
        [('steadfed-coordinates', (2,)), ('steps', ())]
        """
        dtype = np.result_type(*(spec.held for spec in self.parameters)).name
        return ModelLayout((ArraySpec(COORDINATES, (number,), dtype, Kind.PARAMETER, 0), *self.buffers))

    def parameters_of(self, arrays: Mapping[str, Numbers]) -> Float[Tensor, " d"]:
        """Return the parameters of a trusted model as a row."""
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

    def state_of(self, arrays: Mapping[str, Numbers], round: int = 0) -> ServerState:
        """Return the state of a server that starts a round with a trusted model."""
        row, counters = self.pack_buffers(self.buffers_of(arrays))
        return ServerState(round, self.parameters_of(arrays), torch.from_numpy(row), counters)

    def arrays_of(self, state: ServerState) -> dict[str, NDArray]:
        """Return the model of a state as arrays like the trusted ones."""
        row = state.buffers.numpy()
        floats = {spec.name: row[spec.columns] for spec in self.float_buffers}
        return self.to_arrays(state.model, {**floats, **state.counters})

    def representable(self, state: ServerState) -> ServerState:
        """Return the state with the model that the clients will be sent: rounded to the dtypes of its arrays."""
        if all(spec.dtype == self.row_dtype.name for spec in self.parameters):
            return state
        return replace(state, model=self.parameters_of(self.arrays_of(state)))

    def buffers_of(self, arrays: Mapping[str, Numbers]) -> dict[str, NDArray]:
        """Return the buffers of a trusted model by name."""
        return {spec.name: value for spec, value in self._read(arrays, self.buffers)}

    def to_arrays(self, parameters: Float[Tensor, " d"], buffers: Mapping[str, NDArray]) -> dict[str, NDArray]:
        """Return arrays like the trusted ones, with these parameters and buffers.

        A number beyond the range of its array's dtype, which is narrower than the row's for parameters of 16 bits,
        becomes the largest there is: a model never gets Inf by being sent.
        """
        row = parameters.detach().cpu().numpy()
        if row.shape != (self.dim,):
            raise ParameterError(f"the parameters must be a row of {self.dim} numbers, got the shape {row.shape}")
        return {spec.name: _fitted(spec, row, buffers) for spec in self.specs}

    def fingerprint(self) -> str:
        """Return the SHA-256 of names, shapes, dtypes and kinds, by which two layouts are the same."""
        words = [[spec.name, spec.shape, spec.code, spec.kind.value] for spec in self.specs]
        return hashlib.sha256(json.dumps(words).encode()).hexdigest()

    def _read(self, arrays: Mapping[str, Numbers], specs: Sequence[ArraySpec]) -> Iterator[tuple[ArraySpec, NDArray]]:
        if set(arrays) != {spec.name for spec in self.specs}:
            raise ParameterError(
                f"the model must hold the arrays {_listed(self.specs)}, got {', '.join(arrays) or 'none'}"
            )
        for spec in specs:
            value = arrays[spec.name]
            if tuple(value.shape) != spec.shape or dtype_of(value) != spec.dtype:
                got = f"{dtype_of(value)} of shape {tuple(value.shape)}"
                raise ParameterError(f"the array {spec.name!r} must be {spec.dtype} of shape {spec.shape}, got {got}")
            yield spec, held(value)


def _widest(specs: Sequence[ArraySpec]) -> np.dtype[Any]:
    """Return the dtype that holds all numbers of these arrays in a row: float64 if one is, else float32."""
    return np.dtype(np.float64 if any(spec.dtype == "float64" for spec in specs) else np.float32)


def _fitted(spec: ArraySpec, row: NDArray, buffers: Mapping[str, NDArray]) -> NDArray:
    """Return one array of the model with its shape and dtype."""
    values = row[spec.columns] if spec.kind is Kind.PARAMETER else np.asarray(buffers[spec.name])
    return spec.rounded(values).reshape(spec.shape)


def _listed(specs: Sequence[ArraySpec]) -> str:
    return ", ".join(spec.name for spec in specs) or "none"
