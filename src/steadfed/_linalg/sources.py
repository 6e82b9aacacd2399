"""The public boundary: what a user may hand over as updates, checked and turned into columns."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from steadfed._linalg.columns import Columns, DenseColumns, RowColumns
from steadfed.errors import DtypeError, ShapeError

FLOATS = (torch.float32, torch.float64)


def as_columns(updates: Any) -> Columns:
    """Return a source of columns for a K x d tensor or array, a list of K rows, or a source of columns itself."""
    if isinstance(updates, Columns):
        return updates
    if isinstance(updates, (Tensor, np.ndarray)):
        return _dense(_as_tensor(updates, "updates"))
    if isinstance(updates, Sequence) and not isinstance(updates, (str, bytes, memoryview)):
        return _rows(updates)
    raise ShapeError(
        f"updates must be a K x d tensor or array, or a list of K one-dimensional ones, got {type(updates).__name__}"
        + ("; for models as dicts of arrays use steadfed.aggregate_state_dicts" if isinstance(updates, Mapping) else "")
    )


def _dense(tensor: Tensor) -> Columns:
    if tensor.ndim != 2:
        hint = "; for a single client use a matrix of one row" if tensor.ndim == 1 else ""
        raise ShapeError(f"updates must have 2 dimensions (clients, parameters), got shape {tuple(tensor.shape)}{hint}")
    _check_size(*tensor.shape)
    return DenseColumns(tensor)


def _rows(updates: Sequence[Any]) -> Columns:
    rows = [_as_tensor(row, f"update {index}") for index, row in enumerate(updates)]
    for index, row in enumerate(rows):
        if row.ndim != 1:
            raise ShapeError(f"update {index} must be one-dimensional, got shape {tuple(row.shape)}; flatten it")
        if row.shape != rows[0].shape:
            raise ShapeError(
                f"updates must have one length, got {rows[0].shape[0]} in update 0 and {row.shape[0]} in update {index}"
                f"; steadfed.aggregate_state_dicts leaves out whose model is of another shape"
            )
        if (row.dtype, row.device) != (rows[0].dtype, rows[0].device):
            raise DtypeError(
                f"updates must have one dtype and device, got {rows[0].dtype} on {rows[0].device} in update 0 and "
                f"{row.dtype} on {row.device} in update {index}"
            )
    _check_size(len(rows), rows[0].shape[0] if rows else 1)
    return RowColumns(rows)


def _as_tensor(value: Any, name: str) -> Tensor:
    """Return a tensor that shares memory with a tensor or array of float32 or float64."""
    if isinstance(value, np.ndarray):
        if value.dtype not in (np.dtype(np.float32), np.dtype(np.float64)):
            raise DtypeError(f"{name} must be float32 or float64 in native byte order, got {value.dtype}")
        if isinstance(value, np.ma.MaskedArray):
            raise DtypeError(
                f"{name} must not be a masked array: the mask would be ignored; fill it or leave masked updates out"
            )
        with warnings.catch_warnings():  # torch warns of read-only memory; nothing here writes to it
            warnings.simplefilter("ignore", UserWarning)
            value = torch.from_numpy(value if _has_plain_strides(value) else value.copy())
    if not isinstance(value, Tensor):
        whole = isinstance(value, (Mapping, Sequence)) and not isinstance(value, (str, bytes))
        hint = "; for models of many arrays use steadfed.aggregate_state_dicts" if whole else ""
        raise ShapeError(f"{name} must be a tensor or a numpy array, got {type(value).__name__}{hint}")
    if value.layout != torch.strided:
        raise DtypeError(f"{name} must be a dense tensor, got layout {value.layout}; use .to_dense()")
    if value.is_meta:
        raise DtypeError(f"{name} must hold numbers, got a tensor on the device 'meta', which has none")
    if value.dtype not in FLOATS:
        raise DtypeError(
            f"{name} must be float32 or float64, got {str(value.dtype).removeprefix('torch.')}; use .float()"
        )
    return value.detach().resolve_neg().resolve_conj()


def _has_plain_strides(array: np.ndarray[Any, Any]) -> bool:
    return all(stride >= 0 and stride % array.itemsize == 0 for stride in array.strides)


def _check_size(num_rows: int, num_columns: int) -> None:
    if num_rows < 1 or num_columns < 1:
        raise ShapeError(f"updates must have at least one row and one column, got {num_rows} x {num_columns}")
