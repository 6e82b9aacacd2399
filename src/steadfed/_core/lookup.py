"""Names that are looked up: an unknown one is refused with the nearest that is known."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import TypeVar

from steadfed.errors import UnknownNameError

Entry = TypeVar("Entry")


def find(kind: str, name: str, table: Mapping[str, Entry]) -> Entry:
    """Return the entry called `name`; an `UnknownNameError` names the nearest known name and lists them all."""
    if name not in table:
        names = sorted(table)
        raise UnknownNameError(f"unknown {kind} {name!r}{nearest(name, names)}; known: {', '.join(names)}")
    return table[name]


def nearest(name: object, known: Iterable[str]) -> str:
    """Return ", did you mean 'x'?" for the nearest known name, or the empty string.

    >>> nearest("ALIE", ["alie", "zero"])
    ", did you mean 'alie'?"
    """
    spelled = {each.casefold(): each for each in known}
    close = difflib.get_close_matches(str(name).casefold(), list(spelled), n=1)
    return f", did you mean {spelled[close[0]]!r}?" if close else ""
