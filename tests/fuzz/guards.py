"""Watches that nothing is imported while something is only read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from tests.fuzz.harness import BrokenPromiseError


@contextmanager
def no_code() -> Iterator[None]:
    """Break the promise of whoever imports what an input names."""

    def refused(name: str, failure: str) -> None:
        raise BrokenPromiseError(f"{failure}: it imports {name!r}")

    with patch("steadfed._core.importing._module", refused):
        yield
