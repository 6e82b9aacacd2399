"""What can be wrong with a reply, or with its absence, and how it is said."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import NoReturn

from steadfed.errors import ReplyError
from steadfed.server._history import Fate, fate_of_fault

_SHOWN = 80
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 70


class Fault(StrEnum):
    """Why a reply was not used as it came; the words stand in `RoundRecord.drops`."""

    ERROR = "error"
    """The client reports an error, or its node has died."""
    SILENT = "silent"
    """No reply within the time allowed."""
    UNDELIVERED = "undelivered"
    """The message to the client could not be sent."""
    UNREADABLE = "unreadable"
    """The reply cannot be put together from what was sent."""
    KEYS = "keys"
    """Records or arrays are missing or too many."""
    SHAPE = "shape"
    """An array has another shape than the model's."""
    DTYPE = "dtype"
    """An array has another dtype than the model's."""
    SIZE = "size"
    """An array has fewer or more bytes than its shape takes, or claims to."""
    GARBAGE = "garbage"
    """An array cannot be read as one."""
    NOT_FINITE = "not finite"
    """An array holds NaN or Inf."""
    NOT_ASKED = "not asked"
    """A reply of somebody who was not asked, or to a message of another round."""
    REPEATED = "repeated"
    """A second reply to the same message."""

    @property
    def means_absent(self) -> bool:
        """Whether nothing at all was claimed, so that the client counts as absent, not as Byzantine."""
        return fate_of_fault(self) is Fate.ABSENT


def refuse(fault: Fault, detail: str) -> NoReturn:
    """Raise a `ReplyError`."""
    raise ReplyError(fault, detail)


def short_repr(value: object) -> str:
    """Return a short repr of anything a client may have sent, at a cost that does not grow with it.

    >>> short_repr("a" * 1000)[-12:], short_repr((10**5000,))
    ("aaaaaaaaaaa'", 'a tuple that cannot be shown')
    """
    try:
        text = _SHORT.repr(value[:_SHOWN] if type(value) is bytes else value)
    except ValueError:  # Python does not write integers of more than 4300 digits
        return f"a {type(value).__name__} that cannot be shown"
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def type_of(value: object) -> str:
    """Return what the type of anything is called, for a message that shows nothing of the value.

    >>> type_of(3.5), type_of(None)
    ("'float'", "'NoneType'")
    """
    return short_repr(str(type(value).__name__))


def describe_error(error: Exception) -> str:
    """Return a short text of an error that something sent by a client has caused.

    >>> describe_error(KeyError("weight"))
    "KeyError: 'weight'"
    """
    try:
        text = str(error)[: _SHOWN + 1]
    except Exception:  # noqa: BLE001 - an error may hold an object that cannot be shown
        return type(error).__name__
    return f"{type(error).__name__}: {text if len(text) <= _SHOWN else text[: _SHOWN - 3] + '...'}"


@contextmanager
def only_reply_errors(describe: Callable[[Exception], str] = describe_error) -> Iterator[None]:
    """Turn whatever a reply makes go wrong into a `ReplyError`."""
    try:
        yield
    except ReplyError:
        raise
    # The safety net. Everything known to go wrong is refused by name where replies are read. What is left are objects
    # that do not behave as their class says (a record whose keys cannot be compared, an array without its
    # fields) and failures of the parsers that nobody has seen yet. All of it is one client's doing, and one client
    # must not end the round of all others; the fault and the error are on record. It stands here and not further
    # in because this is where the last thing that a client sent is touched. What is not an `Exception` passes: an
    # interrupt or the end of the run is no property of a reply.
    except Exception as error:
        raise ReplyError(Fault.GARBAGE, f"the reply cannot be read: {describe(error)}") from error
