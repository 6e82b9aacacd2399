"""The live page served: one socket, ended by the first Ctrl-C although visitors are listening."""

from __future__ import annotations

import errno
import importlib
import secrets
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import final

from steadfed._ui.app import create_app
from steadfed._ui.catalogue import Catalogue
from steadfed._ui.guards import is_loopback, names_here
from steadfed.errors import ParameterError

SHORTEST_TOKEN = 8
_GRACE = 1
"""Seconds for which an answer in progress may keep the server from ending."""


@final
@dataclass(frozen=True, kw_only=True)
class PageAddress:
    """Where the page is to be found."""

    host: str
    port: int
    token: str | None

    @property
    def address(self) -> str:
        """What to open in a browser."""
        host = {"0.0.0.0": socket.gethostname(), "::": socket.gethostname()}.get(self.host, self.host)  # noqa: S104
        shown = f"[{host}]" if ":" in host else host
        return f"http://{shown}:{self.port}/" + (f"?token={self.token}" if self.token else "")


def serve(folder: Path, *, host: str, port: int, token: str | None, ready: Callable[[PageAddress], None]) -> None:
    """Serve the page until a signal ends it.

    Args:
        folder: where the runs are.
        host: the address to listen at.
        port: the port; 0 for any that is free.
        token: what visitors must show. Made up if None and others than this machine can reach the host.
        ready: called when visitors can connect.

    Raises:
        ParameterError: the folder is a file, the token is too short, or the address cannot be listened at.
    """
    import uvicorn

    if folder.exists() and not folder.is_dir():
        raise ParameterError(f"{str(folder)!r} is not a folder; give one that holds runs, or will")
    token = check_token(token, host)
    with listen(host, port) as listener:
        place = PageAddress(host=host, port=listener.getsockname()[1], token=token)
        app = create_app(folder, token=token, names=frozenset() if is_loopback(host) else names_here(host))
        config = uvicorn.Config(
            app,
            ws="none",
            log_level="critical",
            access_log=False,
            timeout_graceful_shutdown=_GRACE,
            server_header=False,
        )
        threading.Thread(target=_warm_up, args=(app.state.catalogue,), daemon=True).start()
        ready(place)
        uvicorn.Server(config).run(sockets=[listener])


def _warm_up(catalogue: Catalogue) -> None:
    """Make the list, and then load what the first page of a run needs: configurations take torch."""
    catalogue.listing()
    with suppress(ImportError):
        importlib.import_module("steadfed.runs")


def check_token(token: str | None, host: str) -> str | None:
    """Return the token to ask for at a host: the given one, a new one where others can come, or none.

    Raises:
        ParameterError: it is too short, or has letters that an address cannot show.
    """
    if token is None:
        return None if is_loopback(host) else secrets.token_urlsafe(24)
    if len(token) < SHORTEST_TOKEN or not all(
        letter.isascii() and (letter.isalnum() or letter in "-_.~") for letter in token
    ):
        raise ParameterError(f"a token has at least {SHORTEST_TOKEN} letters, digits or -_.~, got {len(token)} letters")
    return token


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens.

    Raises:
        ParameterError: the port is taken, or the host is none of this machine's.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        listener = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        raise ParameterError(
            f"{host!r} is no address of this machine: {error.strerror}; give another with --host"
        ) from None
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise ParameterError(_listen_failure(host, port, error)) from None
    return listener


def _listen_failure(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} of {host} is in use, perhaps by another `steadfed ui`; give another with --port"
    if error.errno == errno.EACCES:
        return f"port {port} is not for everybody; give one above 1023 with --port"
    return f"cannot listen at {host} port {port}: {error.strerror}; give another place with --host and --port"
