"""The files of a run's folder, whole, or an error that says which cannot be read."""

from __future__ import annotations

from pathlib import Path

from steadfed._core.durable import own_file
from steadfed.errors import CorruptRunError


def content_of(path: Path) -> bytes:
    """Return the bytes of a file; no link is followed.

    Raises:
        CorruptRunError: it cannot be read.
    """
    try:
        with own_file(path) as file:
            return file.read()
    except OSError as error:
        raise CorruptRunError(f"{path} cannot be read: {error.strerror}") from None


def text_of(path: Path) -> str:
    """Return the text of a file; no link is followed.

    Raises:
        CorruptRunError: it cannot be read, or is no text.
    """
    try:
        return content_of(path).decode()
    except UnicodeDecodeError as error:
        raise CorruptRunError(f"{path} is not UTF-8: {error}") from None
