"""Arrays in .npy files of the user, read where they lie on disk."""

from __future__ import annotations

import struct
from pathlib import Path
from tokenize import TokenError

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from steadfed.errors import ParameterError

UNREADABLE = (
    *(OSError, EOFError, ValueError, OverflowError, MemoryError, RecursionError),
    *(SyntaxError, TokenError, TypeError, struct.error),
)
"""What numpy raises of a header that is none: it reads it as Python's parser does, and as its tokenizer does then."""


def recorded_array(path: Path, what: str) -> NDArray[np.generic]:
    """Return the array of a .npy file, mapped into memory: no more is taken than is read, and nothing is unpickled.

    Args:
        path: the file; a pipe, which would be waited for, is none.
        what: what it should hold, said in messages.

    Raises:
        ParameterError: it cannot be read, is no .npy file, or has another length than its header says.
    """
    try:
        there = path.is_file()
        found = npy.open_memmap(path, mode="r") if there else None
    except UNREADABLE as error:
        raise ParameterError(f"cannot read {str(path)!r} as a .npy {what}: {error or type(error).__name__}") from None
    if found is None:
        raise ParameterError(f"cannot read {str(path)!r} as a .npy {what}: there is no such file")
    return found
