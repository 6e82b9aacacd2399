"""The arrays of a safetensors file as they are stored, without torch: to compare, to hash, not to compute with."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import quote, unquote

import safetensors

from steadfed._core.digests import arrays_digest
from steadfed.errors import CorruptRunError

_DTYPES = {
    "BOOL": "bool",
    "U8": "uint8",
    "I8": "int8",
    "U16": "uint16",
    "I16": "int16",
    "U32": "uint32",
    "I32": "int32",
    "U64": "uint64",
    "I64": "int64",
    "F16": "float16",
    "BF16": "bfloat16",
    "F32": "float32",
    "F64": "float64",
}
"""What the format calls a dtype, and numpy's word for it; numpy itself has no bfloat16."""


_RESERVED = "__metadata__"
"""The one name that the format keeps for itself."""


class StoredArray(NamedTuple):
    """One array of a file."""

    dtype: str
    """In numpy's words."""
    shape: tuple[int, ...]
    numbers: bytes
    """In C order, little-endian."""


def stored_arrays(content: bytes) -> dict[str, StoredArray]:
    """Return the arrays that the content of a safetensors file holds, by name.

    Raises:
        CorruptRunError: it is none, or one with bytes that a run would not write.
    """
    try:
        found = safetensors.deserialize(content)  # type: ignore[no-untyped-call]
    except safetensors.SafetensorError as error:
        raise CorruptRunError(f"no safetensors file: {error}") from None
    if not _has_plain_header(content):
        raise CorruptRunError("no safetensors file that a run writes: its header is written in another way")
    if unknown := sorted({each["dtype"] for _, each in found} - set(_DTYPES)):
        raise CorruptRunError(f"no file that a run writes: it holds arrays of the type {unknown[0]}")
    return {
        plain_name(name): StoredArray(_DTYPES[each["dtype"]], tuple(each["shape"]), bytes(each["data"]))
        for name, each in found
    }


def escaped_name(name: str) -> str:
    """Return a name that the format can hold: as in a web address, so that common names stay as they are.

    `quote` is undone by `unquote` for every string, lone surrogates included. It leaves underscores alone, so the name
    that stands for the reserved one is nobody else's.
    """
    quoted = quote(name, errors="surrogatepass")
    return quoted.replace("_", "%5F", 1) if quoted == _RESERVED else quoted


def plain_name(written: str) -> str:
    """Undo `escaped_name`, for what it writes alone: otherwise two arrays could have one name, and readers differ.

    Raises:
        CorruptRunError: no run writes such a name.
    """
    try:
        name = unquote(written, errors="surrogatepass")
        if escaped_name(name) == written:
            return name
    except ValueError:  # of bytes that are no text
        pass
    raise CorruptRunError(f"no file that a run writes: it holds an array of the name {written[:60]!r}")


def _has_plain_header(content: bytes) -> bool:
    """Tell whether the header is as short as it can be, so that no letter of it can be another unnoticed."""
    length = int.from_bytes(content[:8], "little")
    header = content[8 : 8 + length]
    try:
        plain = json.dumps(json.loads(header), separators=(",", ":"), ensure_ascii=False).encode(errors="replace")
    except (ValueError, RecursionError):
        return False
    return header == plain.ljust(-(-len(plain) // 8) * 8)


def stored_digest(arrays: Mapping[str, StoredArray]) -> str:
    """Return what arrays are called that were read from a file: see `arrays_digest`."""
    return arrays_digest((name, *each) for name, each in arrays.items())
