"""`steadfed ui`: a page over a folder of runs that stays as they are."""

from __future__ import annotations

import importlib.util
import signal
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from steadfed._core.wording import harmless
from steadfed.errors import RunError
from steadfed.server._places import RUNS

if TYPE_CHECKING:
    from steadfed._ui.server import PageAddress

_NEEDED = ("starlette", "uvicorn", "sse_starlette", "jinja2", "plotly")


def ui(
    folder: Annotated[Path, typer.Argument(help="The folder with the runs, which may be added later.")] = RUNS,
    host: Annotated[
        str, typer.Option(help="Where to listen. Others than this machine can come only with a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 for any that is free.")] = 8750,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="STEADFED_UI_TOKEN",
            show_envvar=True,
            help="What visitors must show. Made up and printed if left out and --host is not this machine only.",
        ),
    ] = None,
    open_: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
) -> None:
    """Show a folder of runs as a local page: a list, live curves, heat maps of clients, runs side by side.

    Reads only, and changes nothing. Works while simulations and deployments are running. Ctrl-C ends it.
    """
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise RunError(f"the page needs {', '.join(missing)}; get what is missing with: pip install 'steadfed[ui]'")
    from steadfed._ui.server import serve

    def ready(place: PageAddress) -> None:
        console = Console(highlight=False, markup=False, soft_wrap=True)
        where = harmless(folder) if folder.exists() else f"{harmless(folder)}, which is not there yet"
        console.print(f"runs in {where}: {place.address}   (Ctrl-C ends this)")
        if open_:
            webbrowser.open(place.address)

    before = signal.signal(signal.SIGINT, signal.SIG_DFL)  # nothing was written, so nothing is to be put in order
    try:
        serve(folder, host=host, port=port, token=token, ready=ready)
    finally:
        signal.signal(signal.SIGINT, before)
