"""Replies one at a time: what cannot be read, is too large or comes too slowly is one client's affair."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import final

import httpx
from flwr.app import Message
from flwr.serverapp import Grid

from steadfed.flower._link import ask, nodes_online
from steadfed.flower._nodes import NodeDirectory
from steadfed.flower._replies.bounds import LONGEST_WAIT, MOST_OBJECTS, bounded
from steadfed.flower._replies.lookout import Lookout
from steadfed.states._faults import Fault, describe_error

POLL = 1.0
"""Seconds between two rounds of asking for replies."""
TRIES = 3
"""How often a SuperLink is asked that fails over one reply while it is there for others."""

SUPERLINK_ERRORS = (httpx.HTTPError, httpx.StreamError, httpx.InvalidURL, OSError)
"""What says that the SuperLink cannot be reached or refuses to answer. One of these a reply can cause: status 500."""


@final
@dataclass(frozen=True)
class Unreadable:
    """A message that brought no reply that could be looked at."""

    message_id: str
    """The message that was sent."""
    node_id: int
    """Whom it was sent to."""
    detail: str
    """What went wrong."""
    fault: Fault = Fault.UNREADABLE
    """`UNREADABLE`, or `UNDELIVERED` if the message itself could not be sent."""


def replies_to(
    grid: Grid,
    messages: Sequence[Message],
    *,
    timeout: float | None,
    limit: int,
    objects: int = MOST_OBJECTS,
    write_again: Callable[[], Iterable[Message]] | None = None,
    lookout: Lookout | None = None,
) -> Iterator[Message | Unreadable]:
    """Send the messages and yield the replies as they come, until all have come or the time is over.

    One message id is asked for at a time, so that one reply is in memory however many there are; Flower has no call
    that tells which replies are there without handing them over. A reply that was pulled under the id of one message
    and says that it answers another one is `Unreadable`: Flower takes these words from the client unchecked, so that it
    could answer for others, or be taken for somebody who was not asked.

    A SuperLink that fails is asked again for minutes, see `ask`. Messages that it does not take are written again, with
    new secrets: a node that knew the id of a part of them may have announced it with other parts, and the SuperLink
    takes it no other way from then on. Over one reply it is asked `TRIES` times; if it answers other questions
    meanwhile, the reply is to blame and becomes `Unreadable`, such as one that says it was written at the time NaN,
    which is stored and never found again. Everything else that is raised while a reply is put together is caused by
    what the reply consists of, and the reply is gone from the SuperLink: it becomes `Unreadable` and its id is not
    asked for again. What is no `Exception` (the run was stopped) passes.

    Args:
        grid: the way to the clients.
        messages: what to send, one message per client.
        timeout: seconds from when the messages are sent; None waits for all. A round of asking that has begun is
            finished.
        limit: most bytes of numbers that one reply may hold.
        objects: most objects that one reply may consist of, besides the chunks of its arrays.
        write_again: writes the messages once more, in the same order; the same ones are sent again if left out.
        lookout: tells now and then who is waited for.

    Raises:
        LinkError: the SuperLink takes no messages, or is gone while replies are waited for.
    """
    if not messages:
        return
    asked, delivered, began = _push(grid, messages, write_again)
    deadline = math.inf if timeout is None else began + timeout
    for message_id, node in asked.items():
        if message_id not in delivered:
            yield Unreadable(message_id, node, f"the message to node {node} could not be sent", Fault.UNDELIVERED)
    waiting = {message_id: node for message_id, node in asked.items() if message_id in delivered}
    lookout = lookout or Lookout(NodeDirectory(None))
    lookout.begin(len(asked), len(asked) - len(waiting), began)
    try:
        yield from _replies_until(deadline, grid, waiting, partial(bounded, limit, objects=objects), lookout)
    finally:
        lookout.end()


def _replies_until(
    deadline: float,
    grid: Grid,
    waiting: dict[str, int],
    bounds_within: Callable[[float], AbstractContextManager[None]],
    lookout: Lookout,
) -> Iterator[Message | Unreadable]:
    """Yield replies to messages, which are struck off, until none is left or the time is over."""
    while waiting:
        for message_id, node in list(waiting.items()):
            # Nobody who withholds parts of a reply can take more than an equal share of the time that is left.
            share = max(0.0, deadline - time.monotonic()) / len(waiting)
            for reply in _pull(grid, message_id, node, partial(bounds_within, min(LONGEST_WAIT, share))):
                waiting.pop(message_id, None)
                yield reply
                del reply  # or it would be in memory beside the next one
            now = time.monotonic()
            lookout.look(waiting.values(), now, deadline - now)
        left = deadline - time.monotonic()
        if left <= 0:
            return
        if waiting:
            time.sleep(min(POLL, left))


def _push(
    grid: Grid, messages: Sequence[Message], write_again: Callable[[], Iterable[Message]] | None
) -> tuple[dict[str, int], set[str], float]:
    """Send messages, written again if they are not taken; return whose each is, which arrived, and when it began."""
    written = [list(messages)]

    def push() -> tuple[dict[str, int], set[str], float]:
        sent = written.pop() if written or write_again is None else list(write_again())
        if write_again is None:
            written.append(sent)
        began = time.monotonic()
        delivered = {message_id for message_id in grid.push_messages(sent) if message_id}
        return {each.metadata.message_id: each.metadata.dst_node_id for each in sent}, delivered, began

    return ask(push, "sending messages to clients")


def _pull(
    grid: Grid, message_id: str, node_id: int, bounds: Callable[[], AbstractContextManager[None]]
) -> list[Message | Unreadable]:
    """Return what has come in reply to one message: nothing, a reply, or an account of why there is none."""
    for remaining in reversed(range(TRIES)):
        try:
            with bounds():
                found = list(grid.pull_messages([message_id]))
        except SUPERLINK_ERRORS:
            nodes_online(grid)  # is it there for others?
            if remaining:
                time.sleep(POLL)
        # Whatever the parts of a reply make Flower's own classes raise: no list of types would be complete.
        except Exception as error:  # noqa: BLE001
            return [Unreadable(message_id, node_id, f"the reply cannot be put together: {describe_error(error)}")]
        else:
            return [_check_attribution(reply, message_id, node_id) for reply in found]
    return [Unreadable(message_id, node_id, "the SuperLink fails over the reply")]


def _check_attribution(reply: Message, message_id: str, node_id: int) -> Message | Unreadable:
    """Return the reply, unless it claims to be the reply to another message than the one it was left for."""
    claimed = reply.metadata.reply_to_message_id
    if claimed == message_id:
        return reply
    return Unreadable(message_id, node_id, f"the reply says that it answers another message, {claimed[:16]!r}")
