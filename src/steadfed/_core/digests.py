"""SHA-256 of bytes, and of a model: what it is called in orders and in the history, whoever computes it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import TypeAlias

ArrayParts: TypeAlias = tuple[str, str, Sequence[int], bytes | memoryview]
"""The name of an array, its dtype in numpy's words, its shape, and its numbers in C order, little-endian."""


def sha256(content: bytes) -> str:
    """Return the SHA-256 of some bytes, in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def arrays_digest(arrays: Iterable[ArrayParts]) -> str:
    """Return the SHA-256 of named arrays, in hexadecimal; their order does not matter.

    Hashed is, for every array in the order of the names' UTF-8, a line of JSON [name, dtype, shape], its end, and the
    bytes of the numbers. A line says how many bytes follow, so no two lists of arrays are hashed alike.

    >>> arrays_digest([("bias", "float32", (1,), bytes(4))])
    '31606782be6d935cbbe5150c9a6b9f3ac6274052278d5cb1cfad1f4afd70bb7f'
    """
    digest = hashlib.sha256()
    for name, dtype, shape, numbers in sorted(arrays, key=lambda each: each[0].encode()):
        line = json.dumps([name, dtype, [int(size) for size in shape]], separators=(",", ":"))
        digest.update(line.encode() + b"\n")
        digest.update(numbers)
    return digest.hexdigest()
