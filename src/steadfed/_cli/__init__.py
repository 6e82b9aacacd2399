"""The command line. Commands import what they need when they run, so that `steadfed --help` does not load torch."""

from __future__ import annotations

import io
import sys
from contextlib import AbstractContextManager

from steadfed._cli.app import app
from steadfed._core.downloads import DOWNLOAD_DISPLAY, DownloadBar
from steadfed._core.importing import CURRENT_FOLDER_STAYS
from steadfed._core.wording import prose
from steadfed.errors import SteadfedError


def main() -> None:
    """Run the command line; an error that steadfed raises on purpose is one line on stderr and exit code 2.

    Letters that the terminal cannot show become question marks; control characters, which names of files and foreign
    configurations may have, are spelled out. Import paths in a configuration may name modules in the
    current folder: from the first that is imported on, it is searched, and last, so that it hides nothing. A command
    that imports none does not search it, for a package that is not installed might be found there.
    """
    CURRENT_FOLDER_STAYS.set(True)
    DOWNLOAD_DISPLAY.set(_download_bar)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        app()
    except SteadfedError as error:
        sys.stderr.write(f"steadfed: {prose(error)}\n")
        sys.exit(2)


def _download_bar(url: str) -> AbstractContextManager[DownloadBar | None]:
    from steadfed._cli.progress import download_bar

    return download_bar(url)
