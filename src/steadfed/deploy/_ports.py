"""Ports on loopback that nobody uses."""

from __future__ import annotations

import secrets
import socket

from steadfed.errors import ParameterError, RunError

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


def requested_ports(nodes: int, port: int) -> list[int]:
    """Return the ports of a SuperLink and its nodes, from the one that was asked for on, if all are free.

    Raises:
        ParameterError: there are not so many.
        RunError: one is in use; the message names it.
    """
    if not 1 <= port <= 65535 - nodes:
        raise ParameterError(
            f"the SuperLink gets the port and {nodes} nodes the next ones: 1 to {65535 - nodes}, got {port}"
        )
    ports = list(range(port, port + nodes + 1))
    taken = [each for each in ports if not is_free(each)]
    if taken:
        listed = ", ".join(map(str, taken))
        raise RunError(
            f"port {listed} of {HOST} is in use; give another with --port, or leave it out to have free ones chosen"
        )
    return ports
