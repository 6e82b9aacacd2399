"""Objects of the user's own code, named by import path."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from steadfed._core.lookup import nearest
from steadfed._core.values import shown
from steadfed.errors import ParameterError

CURRENT_FOLDER_STAYS: ContextVar[bool] = ContextVar("CURRENT_FOLDER_STAYS", default=False)
"""Whether modules are found in the current folder once one was imported from an import path: in programs they are not,
on the command line they are, for what the user's module imports later."""


def import_object(path: str, what: str) -> Any:
    """Return the object at "package.module:attribute"; attributes of attributes are joined with dots.

    Importing runs the module's code, as `import` does; modules are found as Python finds them, and in the
    current folder.

    >>> import_object("math:floor", "a function")(2.5)
    2
    >>> import_object("math:flor", "a function")
    Traceback (most recent call last):
        ...
    steadfed.errors.ParameterError: cannot import a function 'math:flor': math has no 'flor', did you mean 'floor'?

    Args:
        path: where the object is.
        what: what it should be, with its article; said in messages.

    Raises:
        ParameterError: the path is no path, the module is missing or fails to load, or it lacks the attribute.
    """
    check_path(path, what)
    module_name, _, attribute = path.partition(":")
    failure = f"cannot import {what} {path!r}"
    value, owner = _module(module_name, failure), module_name
    for part in attribute.split("."):
        try:
            value, owner = getattr(value, part), f"{owner}.{part}"
        except AttributeError:
            raise ParameterError(f"{failure}: {owner} has no {part!r}{nearest(part, dir(value))}") from None
    return value


def path_of(value: Any, what: str) -> str:
    """Return the import path at which a function or a class is found again, by any process and at any time.

    >>> from math import floor
    >>> path_of(floor, "a function")
    'math:floor'
    >>> path_of(lambda: 0, "a function")
    Traceback (most recent call last):
        ...
    steadfed.errors.ParameterError: a function cannot be named by import: it is a lambda; define it with a name ...

    Raises:
        ParameterError: there is none; the message says why, and what to do.
    """
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    failure = f"{what} cannot be named by import:"
    advice = "define it with a name at the top of a module, such as my_code.py, and import it from there"
    if not isinstance(module, str) or not isinstance(name, str):
        raise ParameterError(
            f"{failure} {shown(value)} is neither a function nor a class; name what makes it, 'module:name', and give "
            f"its arguments beside that"
        )
    if module == "__main__":
        raise ParameterError(f"{failure} {name!r} is defined in the program that runs, or in a notebook; {advice}")
    if "<" in name:
        where = "a lambda" if name.endswith("<lambda>") else f"defined inside {name.partition('.<locals>')[0]!r}"
        raise ParameterError(f"{failure} it is {where}; {advice}")
    if import_object(f"{module}:{name}", what) is not value:
        raise ParameterError(f"{failure} at {module}:{name} there is another object by now; {advice}")
    return f"{module}:{name}"


def check_path(path: str, what: str) -> None:
    """Raise `ParameterError` unless a text is written as an import path is."""
    module_name, colon, attribute = path.partition(":")
    if not colon or not all(part.isidentifier() for part in [*module_name.split("."), *attribute.split(".")]):
        raise ParameterError(f"the import path of {what} is written 'package.module:attribute', got {path!r}")


def _module(name: str, failure: str) -> Any:
    """Import a module; whatever its code raises is told in one line and kept as the cause."""
    try:
        with nullcontext() if name.startswith("steadfed.") else _current_folder():
            return importlib.import_module(name)
    except ModuleNotFoundError as error:
        hint = "" if error.name and name.startswith(error.name) else f" (imported by {name})"
        raise ParameterError(
            f"{failure}: there is no module {error.name!r}{hint}; is it installed, or its folder in PYTHONPATH?"
        ) from error
    except Exception as error:
        raise ParameterError(f"{failure}: importing {name} failed with {type(error).__name__}: {error}") from error


@contextmanager
def _current_folder() -> Iterator[None]:
    """Let modules be found in the current folder too, as they are by `python -m`."""
    folder = str(Path.cwd())
    known = folder in sys.path or "" in sys.path
    sys.path.extend([] if known else [folder])
    try:
        yield
    finally:
        if not known and folder in sys.path and not CURRENT_FOLDER_STAYS.get():
            sys.path.remove(folder)
