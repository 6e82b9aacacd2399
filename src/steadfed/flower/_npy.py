"""The .npy format, in which Flower sends arrays: headers that are read with bounds, and headers that hold a secret.

Clients start a process for every message; this module needs numpy and Flower's records only.
"""

from __future__ import annotations

import io
import secrets
import tokenize
import warnings
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from flwr.app import Array, ArrayRecord
from flwr.app.message.arraychunk import ArrayChunk
from flwr.common.constant import FLWR_PRIVATE_MAX_ARRAY_CHUNK_SIZE as LARGEST_CHUNK

from steadfed._core.digests import arrays_digest

STYPE = "numpy.ndarray"
"""How Flower calls the .npy format."""
MOST_HEADER = 2048
"""Longest header in bytes: 64 dimensions, which is all numpy has, of 19 digits take 1344."""
HEADER_ERRORS = (
    *(ValueError, TypeError, LookupError, AttributeError, OverflowError),
    *(SyntaxError, tokenize.TokenError, RecursionError, MemoryError),
)
"""What numpy and the parser of literals raise over headers that are none."""
SECRET_BITS = 128
_PREFIX = 12  # magic, version and length of the header in the longest form
_ALIGNMENT = 64


class Header(NamedTuple):
    """What the .npy header of an array claims."""

    shape: tuple[int, ...]
    fortran_order: bool
    dtype: np.dtype[Any]
    end: int
    """Where the numbers begin."""


def read_header(data: bytes) -> Header:
    """Return what the header claims; one of `HEADER_ERRORS` says that it is none.

    numpy reads it with `ast.literal_eval`, whose cost and depth grow with the text, and makes a dtype of what it finds.
    It sees about `MOST_HEADER` bytes only: a longer header ends too early, an error like any other.
    """
    file = io.BytesIO(data[: _PREFIX + MOST_HEADER])
    # numpy warns of headers that Python 2 wrote and of old names of dtypes; the parser of odd literals.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shape, fortran_order, dtype = _read(file)
    return Header(shape, fortran_order, dtype, file.tell())


def view_of(data: bytes, header: Header) -> npt.NDArray[Any]:
    """Return the numbers after the header, in place; they must be as many as it claims."""
    count = len(data) - header.end
    flat = np.frombuffer(data, header.dtype, offset=header.end) if count else np.empty(0, header.dtype)
    return flat.reshape(header.shape, order="F" if header.fortran_order else "C")


def header_bytes(text: str, version: tuple[int, int] = (1, 0)) -> bytes:
    """Return the first bytes of an .npy file up to its numbers: magic word, version, length, header.

    >>> values = np.arange(3.0)
    >>> file = header_bytes(repr({"descr": "<f8", "fortran_order": False, "shape": (3,)})) + values.tobytes()
    >>> np.load(io.BytesIO(file), allow_pickle=False)
    array([0., 1., 2.])
    """
    start = b"\x93NUMPY" + bytes(version)
    width = 2 if version[0] == 1 else 4
    padding = -(len(start) + width + len(text) + 1) % _ALIGNMENT
    line = text.encode() + b" " * padding + b"\n"
    return start + len(line).to_bytes(width, "little") + line


def model_digest(arrays: ArrayRecord) -> str:
    """Return the one name of a model (`arrays_digest`), whatever the headers of its arrays look like.

    Nothing is allocated that the bytes do not hold, and nothing is unpickled. A `ValueError` says which array is none:
    its bytes must be as many as its header claims, and what Flower says beside it the same.

    >>> one, other = (with_secret(ArrayRecord([np.arange(3.0)])) for _ in range(2))
    >>> one["0"].data == other["0"].data, model_digest(one) == model_digest(other)
    (False, True)
    """
    return arrays_digest((name, *_parts(name, array)) for name, array in arrays.items())


def with_secret(arrays: ArrayRecord) -> ArrayRecord:
    """Return the same numbers in other bytes, which nobody can foresee; so the ids of the objects are unforeseeable.

    The padding of every array's header, which readers skip, becomes `SECRET_BITS` characters that are spaces or tabs.
    An array that takes more than one of Flower's chunks is cut at places that are drawn, too: a chunk in the middle is
    one of more than 10^12.

    **Deviations.** The last chunk of an array of more than 5 MB lies at one of two and a half million places and holds
    no secret: who knows the numbers beforehand can name it with that many guesses, each a SHA-256 over up to 5 MB.
    """
    padding = "".join(" \t"[bit] for bit in map(int, f"{secrets.randbits(SECRET_BITS):0{SECRET_BITS}b}"))
    written = ArrayRecord()
    for name, array in arrays.items():
        written[name] = _rewritten(array, padding)  # taken as it is, not copied
    return written


def _rewritten(array: Array, padding: str) -> Array:
    header = read_header(array.data)
    numbers = memoryview(array.data)[header.end :]
    if header.fortran_order:
        numbers = memoryview(view_of(array.data, header).tobytes())  # in C order
    entries = {"descr": np.lib.format.dtype_to_descr(header.dtype), "fortran_order": False, "shape": header.shape}
    written = Array(str(header.dtype), header.shape, STYPE, b"".join([header_bytes(repr(entries) + padding), numbers]))
    if len(written.data) > LARGEST_CHUNK:
        vars(written)["_chunks"] = _cut(written.data)  # where `Array.slice_array` looks for them
    return written


def _cut(data: bytes) -> list[tuple[str, ArrayChunk]]:
    """Return an array's bytes in chunks of at least half the size that Flower takes, whose ends are drawn."""
    view, start, chunks = memoryview(data), 0, []
    while start < len(view):
        end = start + LARGEST_CHUNK - secrets.randbelow(LARGEST_CHUNK // 2)
        chunk = ArrayChunk(view[start:end])
        chunks.append((chunk.object_id, chunk))
        start = end
    return chunks


def _parts(name: str, array: Array) -> tuple[str, tuple[int, ...], memoryview]:
    """Return the dtype, the shape and the numbers of an array, in C order."""
    try:
        header = read_header(array.data)
        if (array.dtype, array.shape, array.stype) != (str(header.dtype), header.shape, STYPE):
            raise ValueError("its dtype, its shape or its serialisation is said to be another beside it")
        numbers = np.ascontiguousarray(view_of(array.data, header)).reshape(-1).view(np.uint8)
    except HEADER_ERRORS as error:
        raise ValueError(f"the array {name!r} is no .npy file of as many numbers as it claims: {error}") from None
    return str(header.dtype), header.shape, numbers.data


def _read(file: io.BytesIO) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        return np.lib.format.read_array_header_1_0(file, max_header_size=MOST_HEADER)
    if version not in {(2, 0), (3, 0)}:
        raise ValueError(f"version {version} of the format is not known")
    # 3.0 is 2.0 with names of fields in UTF-8; an array with fields is refused anyway.
    return np.lib.format.read_array_header_2_0(file, max_header_size=MOST_HEADER)
