"""What the faults of dropped replies mean for the client: it was absent, it lied, or nobody had asked it."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.server.record import Client, DroppedReply, RoundRecord

ABSENT = frozenset({"error", "silent", "undelivered"})
"""Nothing was claimed: the client counts as erased, not as Byzantine."""
STRAY = frozenset({"not asked", "repeated"})
"""Nobody had asked for the reply, and its sender may be somebody else: it is written down and held against nobody."""


def is_malformed(drop: DroppedReply) -> bool:
    """Tell whether a reply was asked for and was no model: its row counts against the assumed Byzantine ones.

    >>> is_malformed(DroppedReply(client="a", fault="shape")), is_malformed(DroppedReply(client="a", fault="silent"))
    (True, False)
    """
    return drop.fault not in ABSENT | STRAY


def malformed(record: RoundRecord) -> Iterator[Client]:
    """Yield every client of the cohort whose reply was malformed, once.

    >>> drops = (DroppedReply(client="a", fault="shape"), DroppedReply(client="b", fault="silent"))
    >>> list(malformed(RoundRecord(round=0, step=1, lr=0.1, cohort=("a", "b"), drops=drops)))
    ['a']
    """
    asked = set(record.cohort)
    yield from dict.fromkeys(drop.client for drop in record.drops if is_malformed(drop) and drop.client in asked)
