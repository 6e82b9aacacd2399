"""Who shows how far a download is: nobody, unless the command line wants to."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from typing import Protocol


class DownloadBar(Protocol):
    """What pooch asks of a progress bar."""

    total: int
    """Bytes in all; 0 before it is known."""

    def update(self, count: int) -> None:
        """Count bytes."""

    def reset(self) -> None:
        """Count from 0 again."""

    def close(self) -> None:
        """Count no more."""


DownloadDisplay = Callable[[str], AbstractContextManager[DownloadBar | None]]
"""What shows the download of an address while it is entered."""


def no_display(url: str) -> AbstractContextManager[None]:
    """Show nothing."""
    del url
    return nullcontext()


DOWNLOAD_DISPLAY: ContextVar[DownloadDisplay] = ContextVar("DOWNLOAD_DISPLAY", default=no_display)
