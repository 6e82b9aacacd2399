"""Bodies of requests as they arrive: counted, and never more of them in memory than is allowed."""

from __future__ import annotations

from typing import final

from starlette.types import Message, Receive

DRAINED = 64 * 2**20
"""Bytes of a request that is refused which are read and thrown away, or its sender would not read the answer."""


class TooLargeError(Exception):
    """A body has more bytes than allowed; up to `DRAINED` of them were thrown away."""


@final
class Body:
    """The body of a request, read piece by piece."""

    def __init__(self, receive: Receive, most: int) -> None:
        """Read at most so many bytes."""
        self._receive, self._most = receive, most
        self._read, self._thrown = bytearray(), 0
        self._more, self._broken_off = True, False

    @property
    def content(self) -> bytes | None:
        """All of it; None if its sender has gone before its end: half a message may look like a whole one."""
        return None if self._broken_off else bytes(self._read)

    async def has_come(self, number: int) -> bool:
        """Read on until there is no more, or there are more than so many bytes; return whether there is no more.

        Raises:
            TooLargeError: there are more bytes than allowed.
        """
        while self._more and self._thrown <= DRAINED and (self._thrown or len(self._read) <= number):
            self._take(await self._receive())
        if self._thrown:
            raise TooLargeError
        return not self._more

    def _take(self, event: Message) -> None:
        self._broken_off = event["type"] != "http.request"
        self._more = not self._broken_off and event.get("more_body", False)
        piece = event.get("body", b"")
        if self._thrown or len(self._read) + len(piece) > self._most:
            self._thrown += len(piece)
            self._read.clear()
        else:
            self._read += piece


def once(body: bytes, receive: Receive) -> Receive:
    """Return what hands over a body that was read, and then what else comes."""
    events: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return events.pop() if events else await receive()

    return replay
