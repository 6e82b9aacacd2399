"""Calling functions of the user's own: what they take is told by the names of their parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from steadfed._core.lookup import nearest
from steadfed.errors import ParameterError

Offers = Mapping[str, Callable[[], Any]]
"""What a function may ask for, by the name of its parameter, and how that is found."""
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_REST = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def asks_for(function: Callable[..., Any], name: str) -> bool:
    """Tell whether a function has a parameter of this name, after its first one."""
    return any(each.name == name for each in parameters_of(function)[1:])


def check_call(function: Callable[..., Any], offers: Offers, arguments: Mapping[str, Any], who: str) -> None:
    """Raise `ParameterError` unless a function takes rows first, and all else that it must have is there."""
    bound(function, offers, arguments, who)


def build_own(factory: Callable[..., Any], offers: Offers, arguments: Mapping[str, Any], who: str) -> Any:
    """Return what a class makes of the arguments, and of what is offered to it by the names of its parameters.

    Raises:
        ParameterError: it takes something that it is not given, is given something that it does not take, or fails.
    """
    positional, named = _chosen(parameters_of(factory), offers, arguments, who)
    try:
        return factory(*positional, **named)
    except Exception as error:
        raise ParameterError(f"{who} failed with {type(error).__name__}: {error}") from error


def parameters_of(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return what a function takes; of one that does not say, because it is written in C, the rows only."""
    try:
        return [*inspect.signature(function).parameters.values()]
    except (TypeError, ValueError):
        return [inspect.Parameter("updates", inspect.Parameter.POSITIONAL_ONLY)]


def bound(
    function: Callable[..., Any], offers: Offers, arguments: Mapping[str, Any], who: str
) -> tuple[list[Any], dict[str, Any]]:
    """Return what a function is given after the rows, by place and by name; raise as `check_call` does."""
    parameters = parameters_of(function)
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
