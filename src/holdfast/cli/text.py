"""How the command line words things."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby


def ranges(numbers: Iterable[int]) -> str:
    """Return ascending numbers with runs shortened.

    >>> ranges([0, 1, 2, 5, 7, 8])
    '0-2, 5, 7, 8'
    """
    texts = []
    for _, run in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]):
        members = [number for _, number in run]
        texts += [f"{members[0]}-{members[-1]}"] if len(members) > 2 else [str(number) for number in members]
    return ", ".join(texts)
