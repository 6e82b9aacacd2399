"""What arrives slowly, is broken off or comes from nobody known is not kept in the SuperLink's memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from flwr.supercore.primitives.asymmetric import generate_key_pairs
from tests.flower.test_superlink import OBJECT, Link

from steadfed.flower._bodies import DRAINED, Body, TooLargeError
from steadfed.flower._doorkeeper import ENVELOPE, Doorkeeper, DoorLimits, RefusalError
from steadfed.flower.superlink import SizeDoor

pytestmark = pytest.mark.usefixtures("flowers_own_superlink")
PIECE = 64 * 1024


def pieces(*contents: bytes, more: bool = False) -> Callable[[], Any]:
    """Return what receives a body in pieces, after which its sender is gone; with more, it stays and says nothing."""
    waiting: list[dict[str, Any]] = [{"type": "http.request", "body": each, "more_body": True} for each in contents]

    async def receive() -> dict[str, Any]:
        if not waiting and more:
            await asyncio.Event().wait()
        return waiting.pop(0) if waiting else {"type": "http.disconnect"}

    return receive


class Asked:
    """What becomes of a request that arrives piece by piece."""

    def __init__(self, link: Link, receive: Callable[[], Any], keeper: Doorkeeper, key: Any = None) -> None:
        headers = [(name.encode(), value.encode()) for name, value in link.headers(key or link.key).items()]
        scope = {"type": "http", "method": "POST", "path": OBJECT, "headers": headers, "app": link.app}
        self.passed, self.sent = list[bytes](), list[Any]()

        async def app(_scope: Any, receive: Any, _send: Any) -> None:
            self.passed.append((await receive())["body"])

        async def send(event: Any) -> None:
            self.sent.append(event)

        asyncio.run(SizeDoor(app, keeper)(scope | {"query_string": b""}, receive, send))

    @property
    def status(self) -> int:
        return int(self.sent[0]["status"])


@pytest.mark.parametrize("content", [b"half", bytes(2 * ENVELOPE)])
def test_what_is_broken_off_is_not_looked_at(content: bytes) -> None:
    asked = Asked(Link(), pieces(content), Doorkeeper(DoorLimits()))
    assert (asked.passed, asked.sent) == ([], [])


def test_of_who_is_not_registered_little_is_read() -> None:
    stranger, _ = generate_key_pairs()
    receive = pieces(*[bytes(PIECE)] * 10)
    asked = Asked(Link(), receive, Doorkeeper(DoorLimits()), stranger)
    assert (asked.passed, asked.status) == ([], 401)
    assert dict(asked.sent[0]["headers"])[b"connection"] == b"close"
    left = asyncio.run(receive())
    assert len(left["body"]) == PIECE


def test_nobody_sends_many_objects_at_the_same_time() -> None:
    link, keeper = Link(), Doorkeeper(DoorLimits(uploads=1))
    with keeper.upload(str(link.node)):
        assert Asked(link, pieces(bytes(2 * ENVELOPE)), keeper).status == 503
        with keeper.upload("another"):
            pass
    with keeper.upload(str(link.node)), pytest.raises(RefusalError, match="1 uploads at the same time"):
        keeper.upload(str(link.node)).__enter__()


def test_what_takes_too_long_to_arrive_is_refused() -> None:
    asked = Asked(Link(), pieces(b"half", more=True), Doorkeeper(DoorLimits(seconds=0)))
    assert (asked.passed, asked.status) == ([], 408)


def test_a_body_is_whole_or_nothing() -> None:
    async def read(body: Body, *numbers: int) -> list[bool]:
        return [await body.has_come(number) for number in numbers]

    body = Body(pieces(b"ab", b"cd"), 10)
    assert asyncio.run(read(body, 1, 3, 10)) == [False, False, True]
    assert body.content is None
    with pytest.raises(TooLargeError):
        asyncio.run(read(Body(pieces(b"ab", b"cd"), 3), 10))


def test_of_what_is_too_large_no_more_is_thrown_away_than_has_to_be() -> None:
    endless = pieces(*[bytes(DRAINED // 4)] * 8)
    with pytest.raises(TooLargeError):
        asyncio.run(Body(endless, 10).has_come(10))
    assert asyncio.run(endless())["type"] == "http.request"
