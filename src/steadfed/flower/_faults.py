"""What can be wrong with a reply, or with its absence."""

from __future__ import annotations

from enum import StrEnum

from steadfed.server._history import Fate, fate_of_fault


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
