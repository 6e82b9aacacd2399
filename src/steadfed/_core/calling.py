"""Calling functions of the user's own: what they take is told by the names of their parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from steadfed._core.lookup import nearest
from steadfed._core.wording import plural
from steadfed.errors import OwnCodeError, ParameterError

Offers = Mapping[str, Callable[[], Any]]
"""What a function may ask for, by the name of its parameter, and how that is found."""
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_REST = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def asks_for(function: Callable[..., Any], name: str) -> bool:
    """Tell whether a function has a parameter of this name, after its first one."""
    return any(each.name == name for each in _parameters(function)[1:])


def check_call(function: Callable[..., Any], offers: Offers, arguments: Mapping[str, Any], who: str) -> None:
    """Raise `ParameterError` unless a function takes rows first, and all else that it must have is there."""
    _bound(function, offers, arguments, who)


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
    positional, named = _bound(function, offers, arguments, who)
    first = rows.numpy(force=True) if _wants_numpy(function) else rows
    try:
        return function(first, *positional, **named)
    except Exception as error:
        shape = " x ".join(map(str, rows.shape))
        hint = "" if first is not rows else _numpy_hint(function)
        said = f"{who} failed on {shape} updates with {type(error).__name__}: {error}"
        raise OwnCodeError(f"{said}{hint}") from error


def build_own(factory: Callable[..., Any], offers: Offers, arguments: Mapping[str, Any], who: str) -> Any:
    """Return what a class makes of the arguments, and of what is offered to it by the names of its parameters.

    Raises:
        ParameterError: it takes something that it is not given, is given something that it does not take, or fails.
    """
    positional, named = _chosen(_parameters(factory), offers, arguments, who)
    try:
        return factory(*positional, **named)
    except Exception as error:
        raise ParameterError(f"{who} failed with {type(error).__name__}: {error}") from error


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
        names = ", ".join(getattr(value, "_fields", ()))
        hint = "; of torch's own, such as median(0), take .values" if type(value).__module__ == "torch.return_types" else ""
        what = f"a tuple ({names})" if names else f"a tuple of {len(value)}"
        raise OwnCodeError(f"{who} must return a tensor or an array, got {what}{hint}")
    try:
        tensor = torch.as_tensor(np.asarray(value) if isinstance(value, (list, np.generic)) else value)
    except (TypeError, ValueError, RuntimeError):
        tensor = None
    if tensor is None or tensor.is_complex() or tensor.layout is not torch.strided:
        raise OwnCodeError(f"{who} must return a tensor or an array of real numbers, got {type(value).__name__}")
    return tensor


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return what a function takes; of one that does not say, because it is written in C, the rows only."""
    try:
        return [*inspect.signature(function).parameters.values()]
    except (TypeError, ValueError):
        return [inspect.Parameter("updates", inspect.Parameter.POSITIONAL_ONLY)]


def _bound(
    function: Callable[..., Any], offers: Offers, arguments: Mapping[str, Any], who: str
) -> tuple[list[Any], dict[str, Any]]:
    parameters = _parameters(function)
    if not parameters or parameters[0].kind not in (*_POSITIONAL, inspect.Parameter.VAR_POSITIONAL):
        raise ParameterError(f"{who} must take the updates, a matrix with one row for each client, first")
    rest = parameters if parameters[0].kind is inspect.Parameter.VAR_POSITIONAL else parameters[1:]
    return _chosen(rest, offers, arguments, who)


def _chosen(
    parameters: list[inspect.Parameter], offers: Offers, arguments: Mapping[str, Any], who: str
) -> tuple[list[Any], dict[str, Any]]:
    """Return what is handed over by place, and what by name."""
    names = [each.name for each in parameters if each.kind not in _REST]
    open_ended = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters)
    for name in arguments:
        if name not in names and not open_ended:
            known = ", ".join(names) or "none"
            raise ParameterError(f"{who} takes no {name!r}{nearest(name, names)}; its parameters: {known}")
    positional: list[Any] = []
    named = {name: value for name, value in arguments.items() if name not in names}
    for each in parameters:
        if each.kind in _REST:
            continue
        if each.name in arguments:
            value = arguments[each.name]
        elif each.name in offers:
            value = offers[each.name]()
        elif each.default is not each.empty:
            value = each.default
        else:
            raise ParameterError(
                f"{who} takes {each.name!r}, which it was not given: write {each.name} = … beside its import path, or "
                f"give it a default; without that a function may ask for {', '.join(offers)}"
            )
        if each.kind is inspect.Parameter.POSITIONAL_ONLY:
            positional.append(value)
        else:
            named[each.name] = value
    return positional, named


def _wants_numpy(function: Callable[..., Any]) -> bool:
    """Tell whether the first parameter is annotated as an array of numpy's, or the function is numpy's own."""
    said = str(_parameters(function)[0].annotation)
    return "NDArray" in said or "ndarray" in said or str(getattr(function, "__module__", "")).startswith("numpy")


def _numpy_hint(function: Callable[..., Any]) -> str:
    """Return what may help a function that was given a tensor and whose module knows numpy."""
    known = getattr(function, "__globals__", {}).values()
    return (
        "; it was given a tensor: to be given an array, write `updates: np.ndarray` for its first parameter"
        if any(each is np for each in known)
        else ""
    )
