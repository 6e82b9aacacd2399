"""Ports on loopback that nobody uses."""

from __future__ import annotations

import secrets
import socket

from holdfast.errors import RunError

HOST = "127.0.0.1"
FIRST, LAST = 20000, 32000
"""Ports are chosen below those that systems hand out for outgoing connections, which come and go."""
ATTEMPTS = 200


def is_free(port: int) -> bool:
    """Return whether a server could listen on the port of loopback now."""
    with socket.socket() as attempt:
        attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do: just closed counts as free
        try:
            attempt.bind((HOST, port))
            attempt.listen(1)
        except OSError:
            return False
    return True


def free_ports(count: int) -> list[int]:
    """Return different ports that are free now.

    Raises:
        RunError: none were found.
    """
    found: set[int] = set()
    for _ in range(ATTEMPTS + count):
        if len(found) == count:
            return sorted(found)
        port = FIRST + secrets.randbelow(LAST - FIRST)
        if is_free(port):
            found.add(port)
    raise RunError(f"found {len(found)} of {count} free ports between {FIRST} and {LAST} of {HOST}")


def check_free(ports: list[int]) -> None:
    """Refuse ports that somebody uses.

    Raises:
        RunError: one is in use; the message names it.
    """
    taken = [port for port in ports if not is_free(port)]
    if taken:
        listed = ", ".join(map(str, taken))
        raise RunError(
            f"port {listed} of {HOST} is in use; give another with --port, or leave it out to have free ones chosen"
        )
