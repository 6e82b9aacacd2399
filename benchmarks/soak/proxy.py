"""A bad line between a node and the SuperLink: a small proxy whose connections can be slowed, trickled and cut.

It stands where ``tc netem`` in a network namespace would: it works on every machine, for one node and not for the
others, and what it does to a connection is known to the byte. TLS goes through it untouched.
"""

from __future__ import annotations

import selectors
import socket
import threading
import time
from contextlib import suppress
from enum import StrEnum
from typing import Self, final

HOST = "127.0.0.1"
CHUNK = 1 << 16
DELAY = 0.4
"""Seconds that every piece of a slow connection waits."""
TRICKLE = 2048
"""Bytes of a trickling connection at a time; ten times a second."""
_LOOK = 0.2


class LineState(StrEnum):
    """How a line is."""

    GOOD = "good"
    SLOW = "slow"
    TRICKLES = "trickles"
    CUT = "cut"


@final
class Line:
    """A port of its own from which everything goes to the SuperLink's, and back."""

    def __init__(self, target: int) -> None:
        """Begin to listen."""
        self.state = LineState.GOOD
        self.bytes = 0
        """What has gone through, both ways."""
        self._target = target
        self._closed = threading.Event()
        self._pairs: set[tuple[socket.socket, socket.socket]] = set()
        self._lock = threading.Lock()
        self._listener = socket.create_server((HOST, 0))
        self._listener.settimeout(_LOOK)
        self.port: int = self._listener.getsockname()[1]
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def set(self, state: LineState) -> None:
        """Make the line good or bad; a cut ends every connection at once, and lets none in."""
        self.state = state
        if state is LineState.CUT:
            self._end_connections()

    @property
    def connections(self) -> int:
        """How many connections go through now."""
        with self._lock:
            return len(self._pairs)

    def close(self) -> None:
        """End everything."""
        self._closed.set()
        self._listener.close()
        self._end_connections()
        for thread in self._threads:
            thread.join(10.0)

    def __enter__(self) -> Self:
        """Be closed at the end."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    def _end_connections(self) -> None:
        with self._lock:
            pairs = list(self._pairs)
        for pair in pairs:
            for end in pair:
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while not self._closed.is_set():
            try:
                client, _ = self._listener.accept()
            except TimeoutError:
                continue
            except OSError:
                return
            thread = threading.Thread(target=self._serve, args=(client,), daemon=True)
            self._threads = [each for each in self._threads if each.is_alive()] + [thread]
            thread.start()

    def _serve(self, client: socket.socket) -> None:
        """Carry one connection until one end is closed."""
        with client, suppress(OSError):
            if self.state is LineState.CUT:
                return
            with socket.create_connection((HOST, self._target), timeout=10.0) as server:
                pair = (client, server)
                with self._lock:
                    self._pairs.add(pair)
                try:
                    self._carry(*pair)
                finally:
                    with self._lock:
                        self._pairs.discard(pair)

    def _carry(self, client: socket.socket, server: socket.socket) -> None:
        with selectors.DefaultSelector() as waiting:
            waiting.register(client, selectors.EVENT_READ, server)
            waiting.register(server, selectors.EVENT_READ, client)
            while not self._closed.is_set() and self.state is not LineState.CUT:
                for key, _ in waiting.select(_LOOK):
                    source, to = key.fileobj, key.data
                    assert isinstance(source, socket.socket)
                    data = source.recv(TRICKLE if self.state is LineState.TRICKLES else CHUNK)
                    if not data:
                        return
                    self._wait()
                    self.bytes += len(data)
                    to.sendall(data)

    def _wait(self) -> None:
        if self.state is LineState.SLOW:
            time.sleep(DELAY)
        elif self.state is LineState.TRICKLES:
            time.sleep(0.1)
