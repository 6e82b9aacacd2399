"""Functions of the user's own by their import path."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from holdfast.errors import DataError, nearest

ImportPath = Annotated[str, Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")]
"""Where a function is found: package.module:function."""


def imported(path: str) -> Callable[..., Any]:
    """Return the function that "package.module:function" names; the current folder is searched after Python's own path.

    >>> imported("math:hypot")(3, 4)
    5.0
    """
    module_name, _, name = path.partition(":")
    try:
        with _current_folder():
            module = importlib.import_module(module_name)
    except ImportError as error:
        msg = f"{path!r} cannot be imported: {error}; it must be written package.module:function and be importable here"
        raise DataError(msg) from error
    function = vars(module).get(name)
    if not callable(function):
        msg = f"{module_name} has no function {name!r}{nearest(name, vars(module))}"
        raise DataError(msg)
    return function  # type: ignore[no-any-return]  # whatever a user's module holds


@contextmanager
def _current_folder() -> Iterator[None]:
    """Let modules be found in the current folder too, as they are by `python -m`."""
    folder = str(Path.cwd())
    known = folder in sys.path or "" in sys.path
    sys.path.extend([] if known else [folder])
    try:
        yield
    finally:
        if not known and folder in sys.path:
            sys.path.remove(folder)
