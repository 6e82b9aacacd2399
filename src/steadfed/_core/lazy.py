"""Packages whose names are imported when they are first used."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def lazy_names(
    package: str, modules: Mapping[str, Sequence[str]], always: Sequence[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package that imports its names when they are asked for.

    >>> getattr_, dir_ = lazy_names("collections", {"abc": ["Sized"]}, always=["deque"])
    >>> getattr_("Sized").__name__, dir_()
    ('Sized', ['Sized', 'deque'])

    Args:
        package: the package's own name.
        modules: the names by the module of the package that holds them.
        always: names that are there already, for `dir`.
    """
    places = {name: module for module, names in modules.items() for name in names}

    def __getattr__(name: str) -> Any:  # noqa: N807  the package's
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{places[name]}"), name)

    def __dir__() -> list[str]:  # noqa: N807  the package's
        return sorted({*places, *always})

    return __getattr__, __dir__
