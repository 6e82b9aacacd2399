"""The idx format of MNIST: a magic number, the sizes, and the numbers, all big-endian."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steadfed.errors import CorruptDataError

TYPES: Mapping[int, str] = MappingProxyType(
    {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
)
"""The code of the third byte and the numbers it announces."""


def parse_idx(content: bytes, shape: tuple[int | None, ...], name: str) -> NDArray[Any]:
    """Return the array of an idx file, of the given shape; None stands for any size.

    The sizes of the header are compared with the shape and with the bytes that are there before anything is made of
    them.

    >>> parse_idx(bytes([0, 0, 8, 1, 0, 0, 0, 2, 7, 9]), (2,), "labels")
    array([7, 9], dtype=uint8)
    """
    head = 4 + 4 * len(shape)
    if len(content) < head or content[:2] != b"\0\0" or content[2] not in TYPES or content[3] != len(shape):
        start = content[:4].hex(" ") or "nothing"
        raise CorruptDataError(
            f"{name} is no idx file of {len(shape)} dimensions: expected 00 00 TYPE {len(shape):02x}, got {start}"
        )
    sizes = struct.unpack(f">{len(shape)}I", content[4:head])
    if any(want not in {None, size} for want, size in zip(shape, sizes, strict=True)):
        expected = " × ".join("any" if size is None else str(size) for size in shape)
        raise CorruptDataError(f"{name}: expected {expected} numbers, the header says {' × '.join(map(str, sizes))}")
    dtype = np.dtype(TYPES[content[2]])
    expected_bytes = head + math.prod(sizes) * dtype.itemsize
    if len(content) != expected_bytes:
        raise CorruptDataError(f"{name}: expected {expected_bytes:,} bytes, as its header says, got {len(content):,}")
    return np.frombuffer(content, dtype, offset=head).reshape(sizes)
