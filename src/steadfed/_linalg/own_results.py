"""Rows for functions of the user's own, and what these return: checked, and turned into vectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from steadfed._core.calling import Offers, bound, parameters_of
from steadfed._core.wording import plural
from steadfed.errors import InputError, OwnCodeError


def call_with_rows(
    function: Callable[..., Any], rows: Tensor, offers: Offers, arguments: Mapping[str, Any], who: str
) -> Any:
    """Return what a function makes of rows, and of what else it asks for by name.

    Its first parameter is the rows: a tensor, or an array if it is annotated as one. Others are taken from the
    arguments, or from what is offered.

    Raises:
        ParameterError: it takes something that it is not given, or is given something that it does not take.
        OwnCodeError: it fails.
    """
    positional, named = bound(function, offers, arguments, who)
    first = rows.numpy(force=True) if _wants_numpy(function) else rows
    try:
        return function(first, *positional, **named)
    except InputError:  # such as that of an attack which tries the rule on too few rows
        raise
    except Exception as error:
        shape = " x ".join(map(str, rows.shape))
        hint = _numpy_hint(function) if first is rows and isinstance(error, (TypeError, AttributeError)) else ""
        said = f"{who} failed on {shape} updates with {type(error).__name__}: {error}"
        raise OwnCodeError(f"{said}{hint}") from error


def vector_of(value: Any, rows: Tensor, who: str, *, finite: bool = True) -> Tensor:
    """Return what a function returned as a vector of its own memory, in the dtype and on the device of the rows.

    Raises:
        OwnCodeError: it is not one number for each column; or not finite, where it has to be.
    """
    tensor = tensor_of(value, who)
    if tensor.shape != rows.shape[1:]:
        raise OwnCodeError(
            f"{who} must return one number for each of the {rows.shape[1]:,} columns, got shape {tuple(tensor.shape)}"
        )
    vector = tensor.detach().to(dtype=rows.dtype, device=rows.device, copy=True)
    if finite and not bool((good := torch.isfinite(vector)).all()):
        bad = f"{int((~good).sum()):,} of {plural(len(vector), 'number')}"
        raise OwnCodeError(f"{who} must return finite numbers, got NaN or Inf in {bad}")
    return vector


def tensor_of(value: Any, who: str) -> Tensor:
    """Return a tensor, an array or a list of numbers as a tensor of floats."""
    if isinstance(value, tuple) and not isinstance(value, torch.Size):
        torchs = type(value).__module__ == "torch.return_types"
        hint = "; of torch's own, such as median(0), take .values" if torchs else ""
        raise OwnCodeError(f"{who} must return a tensor or an array, got a tuple of {len(value)}{hint}")
    try:
        tensor = torch.as_tensor(np.asarray(value) if isinstance(value, (list, np.generic)) else value)
    except (TypeError, ValueError, RuntimeError):
        tensor = None
    if tensor is None or tensor.is_complex() or tensor.layout is not torch.strided:
        raise OwnCodeError(f"{who} must return a tensor or an array of real numbers, got {type(value).__name__}")
    return tensor


def _wants_numpy(function: Callable[..., Any]) -> bool:
    """Tell whether the first parameter is annotated as an array of numpy's, or the function is numpy's own."""
    said = str(parameters_of(function)[0].annotation)
    return "NDArray" in said or "ndarray" in said or str(getattr(function, "__module__", "")).startswith("numpy")


def _numpy_hint(function: Callable[..., Any]) -> str:
    """Return what may help a function that was given a tensor and whose module knows numpy."""
    known = getattr(function, "__globals__", {}).values()
    return (
        "; it was given a tensor: to be given an array, write `updates: np.ndarray` for its first parameter"
        if any(each is np for each in known)
        else ""
    )
