"""Questions to the SuperLink: one that fails is asked again, a few times over minutes, and then given up."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from logging import WARNING
from typing import Any, TypeVar, final

import httpx
from flwr.serverapp import Grid
from flwr.supercore import log
from flwr.supercore.runtime import RuntimeHttpClient

from steadfed.errors import LinkError, RunError
from steadfed.states._faults import describe_error

PAUSES = (2.0, 10.0, 30.0, 60.0)
"""Seconds between the tries of a question that fails."""
LONGEST_ABSENCE = 120.0
"""Seconds for which Flower itself tries to reach a SuperLink that does not answer; without end if nobody says so."""
MOST_LOST = 5
"""How many rounds in a row may be lost to the SuperLink before the run ends."""
RESTS = (60.0, 120.0, 240.0, 480.0)
"""Seconds before the next round after the first, second, … lost one in a row."""
Answer = TypeVar("Answer")


def ask(question: Callable[[], Answer], what: str) -> Answer:
    """Return the answer to a question to the SuperLink, which is asked again after each of `PAUSES` if it fails.

    Whatever Flower raises counts as a failure: a lost connection, a status of any number, an answer that cannot be
    parsed, a check of its own. What says that the run was stopped is no `Exception` in Flower (`KeyboardInterrupt`,
    `SystemExit`, `RunNotRunningException` for status 403), and passes.

    Raises:
        LinkError: it failed every time.
    """
    for pause in PAUSES:
        try:
            return question()
        except Exception as error:  # noqa: BLE001  no list of types would be complete
            log(WARNING, "%s failed (%s); tried again in %g s", what, _in_a_line(error), pause)
            time.sleep(pause)
    try:
        return question()
    except Exception as error:
        tries, minutes = len(PAUSES) + 1, sum(PAUSES) / 60.0
        raise LinkError(
            f"{what} failed {tries} times within {minutes:.0f} minutes or more: {_in_a_line(error)}"
        ) from error


def _in_a_line(error: Exception) -> str:
    """Return a short text of an error without line breaks and escapes, for logs and records."""
    return "".join(each if each.isprintable() else " " for each in describe_error(error))


def nodes_online(grid: Grid) -> list[int]:
    """Return the ids of the nodes online.

    Raises:
        LinkError: the SuperLink does not say.
    """
    return ask(lambda: list(grid.get_node_ids()), "asking the SuperLink who is online")


@contextmanager
def bounded_patience(grid: Grid) -> Iterator[None]:
    """Let Flower give up a SuperLink that is away, and let its own threads survive one that fails.

    Flower's grid tries to connect without end, so that one question could last for days; here it gives up after
    `LONGEST_ABSENCE`. Its threads that report that the task is alive, and what it prints, end for good at the first
    status 500, after which the SuperLink fails the run: here that is a lost connection to them, which they try again.
    """
    retries = getattr(grid, "_retry_invoker", None)  # of Flower's HTTP grid, which has no setting for it
    before = None if retries is None else retries.max_time
    if retries is not None:
        retries.max_time = LONGEST_ABSENCE
    calls = {name: vars(RuntimeHttpClient)[name] for name in ("SendTaskHeartbeat", "PushLogs")}
    for name, call in calls.items():
        setattr(RuntimeHttpClient, name, _forgiving(call))
    try:
        yield
    finally:
        for name, call in calls.items():
            setattr(RuntimeHttpClient, name, call)
        if retries is not None:
            retries.max_time = before


def _forgiving(call: Callable[..., Any]) -> Callable[..., Any]:
    """Return a call of Flower's client that takes an error inside the SuperLink for a lost connection."""

    def forgiving(client: RuntimeHttpClient, request: Any) -> Any:
        try:
            return call(client, request)
        except httpx.HTTPStatusError as error:
            if not error.response.is_server_error:
                raise
            raise httpx.ReadError(str(error), request=error.request) from error

    return forgiving


@final
class LostRounds:
    """Counts rounds in a row that could not be played because the SuperLink failed."""

    def __init__(self) -> None:
        self._in_a_row = 0

    def played(self) -> None:
        """Take note that a round was played."""
        self._in_a_row = 0

    def lost(self, error: LinkError) -> None:
        """Take note that a round was lost, and wait before the next, longer each time.

        Raises:
            RunError: so many were lost in a row that the run had better end.
        """
        self._in_a_row += 1
        if self._in_a_row >= MOST_LOST:
            raise RunError(
                f"{self._in_a_row} rounds in a row could not be played, because the SuperLink failed: {error}. Nothing "
                f"that was written is lost: look at the SuperLink, then start the run again with the same folder"
            ) from error
        rest = RESTS[self._in_a_row - 1]
        log(WARNING, "round lost: %s; the next one begins in %g s", error, rest)
        time.sleep(rest)
