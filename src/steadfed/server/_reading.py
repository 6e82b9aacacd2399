"""The files of a run's folder, whole, or an error that says which cannot be read."""

from __future__ import annotations

import os
from pathlib import Path

from steadfed._core.durable import own_file
from steadfed.errors import CorruptRunError

LARGEST = 4 << 20
"""Bytes of a configuration, a summary, the JSON of a checkpoint; what is larger, no run has written."""
_PART_OF_MEMORY = 2
"""A file of tensors may take half of the memory of this machine: more would not come back as tensors."""


def content_of(path: Path, most: int = LARGEST) -> bytes:
    """Return the bytes of a file; no link is followed, and none is read that is larger than allowed.

    Raises:
        CorruptRunError: it cannot be read, or is larger.
    """
    try:
        with own_file(path) as file:
            if (size := os.fstat(file.fileno()).st_size) > most:
                raise CorruptRunError(f"{path} has {size:,} bytes, and may have {most:,} here")
            return file.read(size)
    except OSError as error:
        raise CorruptRunError(f"{path} cannot be read: {error.strerror}") from None


def tensors_of(path: Path) -> bytes:
    """Return the bytes of a file of tensors, see `content_of`; its size is bounded by the memory of this machine."""
    return content_of(path, memory_of_machine() // _PART_OF_MEMORY)


def text_of(path: Path) -> str:
    """Return the text of a file; no link is followed.

    Raises:
        CorruptRunError: it cannot be read, is larger than `LARGEST`, or is no text.
    """
    try:
        return content_of(path).decode()
    except UnicodeDecodeError as error:
        raise CorruptRunError(f"{path} is not UTF-8: {error}") from None


def memory_of_machine() -> int:
    """Return the bytes of this machine's memory; where the system does not say, what most have."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 16 << 30
