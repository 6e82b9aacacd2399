"""Changes as server-sent events: what a page needs to be as the runs are.

    page      everything; on connecting, unless the visitor has it already, and when the panels are others
    panels    the head and the panels that changed
    gone      the run is not there (any more); it may come back
    changed   the list is another; which part of it to ask for is the visitor's business

The id of an event is the version of what was sent, so a visitor who reconnects, to this server or to the next one, is
sent nothing if nothing changed.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from typing import Any, final

import anyio
from sse_starlette.sse import EventSourceResponse
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from steadfed._ui.catalogue import Listing
from steadfed._ui.views import PageSnapshot

AGAIN = 1_000
"""After how many milliseconds a browser tries again."""
MOST = 200
"""Visitors who listen at a time: a process may have about a thousand connections."""
SLOWEST = 30.0
"""Seconds after which a visitor who does not take what is sent is given up."""

Events = AsyncGenerator[dict[str, Any], None]


@final
class Listeners:
    """Those who listen, of whom there are only so many."""

    def __init__(self, *, most: int = MOST) -> None:
        self._most = most
        self._now = 0

    def stream_to(self, events: Events) -> EventSourceResponse:
        """Return the answer to somebody who wants to listen.

        Raises:
            HTTPException: there is no place left.
        """
        if self._now >= self._most:
            raise HTTPException(503, f"{self._most} pages are listening already; close some of them")
        return EventSourceResponse(self._counted(events), send_timeout=SLOWEST)

    async def _counted(self, events: Events) -> AsyncIterator[dict[str, Any]]:
        self._now += 1
        try:
            async with aclosing(events):
                async for event in events:
                    yield event
        finally:
            self._now -= 1


async def page_changes(look: Callable[[], PageSnapshot | None], *, known: str | None, pause: float) -> Events:
    """Yield the changes of a page for ever.

    Args:
        look: returns the page; runs in a thread.
        known: the version that the visitor has.
        pause: seconds between two looks.
    """
    sent: PageSnapshot | None = None
    while True:
        found = await run_in_threadpool(look)
        if found is None:
            if known != "gone":
                yield {"event": "gone", "data": "{}", "id": "gone", "retry": AGAIN}
            known, sent = "gone", None
        elif found.version != known:
            same = sent is not None and sent.layout == found.layout
            data = found.since(sent) if same and sent is not None else found.whole
            yield {"event": "panels" if same else "page", "data": data, "id": found.version, "retry": AGAIN}
            known, sent = found.version, found
        else:
            sent = found
        await anyio.sleep(pause)


async def list_changes(look: Callable[[], Listing], *, known: str | None, pause: float) -> Events:
    """Yield that the list changed, whenever it did."""
    while True:
        found = await run_in_threadpool(look)
        if found.version != known:
            yield {"event": "changed", "data": "{}", "id": found.version, "retry": AGAIN}
            known = found.version
        await anyio.sleep(pause)
