"""Downloads by pooch: the hash is checked before a file gets its name, and nothing waits for long."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, final

from steadfed._core.downloads import DOWNLOAD_DISPLAY
from steadfed.data._files import unpack
from steadfed.errors import MissingDataError

SECONDS_TO_ANSWER = 10
"""How long a server may be silent."""
OFFLINE = "STEADFED_OFFLINE"
"""The environment variable that forbids downloads."""
_CHUNK = 1 << 16


def download(url: str, target: Path, *, sha256: str, unpacked_size: int | None = None) -> None:
    """Download a file once and check its SHA-256; with a size, the file is unpacked before it is checked.

    Raises:
        MissingDataError: downloads are forbidden, the server does not answer, or the content is not what it should be.
    """
    if os.environ.get(OFFLINE, "0") not in {"", "0"}:
        raise MissingDataError(f"downloads are off ({OFFLINE}={os.environ[OFFLINE]})")
    try:
        with _silent_pooch() as pooch:
            pooch.retrieve(
                url,
                known_hash=f"sha256:{sha256}",
                fname=target.name,
                path=target.parent,
                downloader=_Downloader(unpacked_size),
            )
    except (OSError, ValueError) as error:  # requests' errors are OSErrors; pooch says ValueError of a wrong hash
        raise MissingDataError(f"{url}: {error}") from error


@final
class _Downloader:
    """Downloads into the file that pooch then checks, and unpacks it there if its unpacked size is known."""

    def __init__(self, unpacked_size: int | None) -> None:
        self._unpacked_size = unpacked_size

    def __call__(self, url: str, output_file: str, pooch: Any) -> None:
        """Write what the URL holds to the output file."""
        from pooch import HTTPDownloader

        with DOWNLOAD_DISPLAY.get()(url) as bar:
            HTTPDownloader(progressbar=bar or False, chunk_size=_CHUNK, timeout=SECONDS_TO_ANSWER)(
                url, output_file, pooch
            )
        if self._unpacked_size is not None:
            Path(output_file).write_bytes(unpack(Path(output_file), self._unpacked_size))


@contextmanager
def _silent_pooch() -> Iterator[Any]:
    """Import pooch, whose log would go to the standard error, and keep it silent meanwhile."""
    import pooch

    log = pooch.get_logger()
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        yield pooch
    finally:
        log.setLevel(level)
