"""Changes as server-sent events: what a page needs to be as the runs are.

    page      everything; on connecting, unless the visitor has it already, and when the panels are others
    panels    the head and the panels that changed
    gone      the run is not there (any more); it may come back
    changed   the list is another; which part of it to ask for is the visitor's business

The id of an event is the version of what was sent, so a visitor who reconnects, to this server or to the next one, is
sent nothing if nothing changed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
from starlette.concurrency import run_in_threadpool

from holdfast.ui.catalogue import Listing
from holdfast.ui.views import Snapshot

AGAIN = 1_000
"""After how many milliseconds a browser tries again."""


async def page_changes(
    look: Callable[[], Snapshot | None], *, known: str | None, pause: float
) -> AsyncIterator[dict[str, Any]]:
    """Yield the changes of a page for ever.

    Args:
        look: returns the page; runs in a thread.
        known: the version that the visitor has.
        pause: seconds between two looks.
    """
    sent: Snapshot | None = None
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


async def list_changes(
    look: Callable[[], Listing], *, known: str | None, pause: float
) -> AsyncIterator[dict[str, Any]]:
    """Yield that the list changed, whenever it did."""
    while True:
        found = await run_in_threadpool(look)
        if found.version != known:
            yield {"event": "changed", "data": "{}", "id": found.version, "retry": AGAIN}
            known = found.version
        await anyio.sleep(pause)
