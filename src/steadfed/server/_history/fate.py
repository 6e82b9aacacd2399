"""What became of a client in a round: one word for it, found in one place."""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum

from steadfed.server._record import Client, DroppedReply, RoundRecord


class Fate(int, Enum):
    """What became of a client in a round, from nothing special to worst."""

    KEPT = 0
    """Its update got weight, or went into a rule that does not say whose updates it used."""
    UNASKED = 1
    """Nobody had asked for its reply, and its sender may be somebody else: it is held against nobody."""
    SKIPPED = 2
    """It sent an update, and the round was skipped: nobody was judged."""
    ABSENT = 3
    """It sent nothing: nothing was claimed, so it does not count as Byzantine."""
    REMOVED = 4
    """The rule gave its update weight 0."""
    UNUSABLE = 5
    """Its update was a model whose numbers are of no use: NaN, Inf, or squares that overflow."""
    MALFORMED = 6
    """Its reply was no model like the one it was sent: a row that counts against the assumed Byzantine ones."""

    @property
    def word(self) -> str:
        """The fate as a word.

        >>> Fate.ABSENT.word
        'absent'
        """
        return self.name.lower()

    def __str__(self) -> str:
        return self.word


LITTLE = 0.1
"""An update with less than this share of an equal weight is as good as removed: of liars that stand together a filter
often takes the weight of one whole, and nearly all of the others'."""
_FATES = {
    **dict.fromkeys(("error", "silent", "undelivered"), Fate.ABSENT),
    **dict.fromkeys(("not asked", "repeated"), Fate.UNASKED),
}


def fate_of_fault(fault: str) -> Fate:
    """Return what a fault of a reply means for the client that was asked; whatever is not known is malformed.

    >>> fate_of_fault("silent").word, fate_of_fault("repeated").word, fate_of_fault("shape").word
    ('absent', 'unasked', 'malformed')
    """
    return _FATES.get(fault, Fate.MALFORMED)


def fate_of_drop(drop: DroppedReply, asked: Collection[Client]) -> Fate:
    """Return what a dropped reply means for its client; whoever is not among those asked was not asked."""
    return fate_of_fault(drop.fault) if drop.client in asked else Fate.UNASKED


def fates_of(record: RoundRecord) -> dict[Client, Fate]:
    """Return what became of every client of the cohort; the worst, if several things did.

    >>> drops = (DroppedReply(client="a", fault="shape"), DroppedReply(client="b", fault="silent"))
    >>> rows = {"received": ("a", "c", "d"), "weights": (0.0, 0.0, 1.0), "kept": ("d",)}
    >>> found = fates_of(RoundRecord(round=0, step=1, lr=0.1, cohort=tuple("abcd"), drops=drops, **rows))
    >>> {client: fate.word for client, fate in found.items()}
    {'a': 'malformed', 'b': 'absent', 'c': 'removed', 'd': 'kept'}
    """
    found = dict.fromkeys(record.cohort, Fate.ABSENT)
    found |= dict.fromkeys(record.received, Fate.SKIPPED if record.skipped else Fate.REMOVED)
    found |= dict.fromkeys(record.unusable, Fate.UNUSABLE)
    asked = set(record.cohort) if record.drops else ()
    for drop in record.drops:
        if fate_of_drop(drop, asked) is Fate.MALFORMED:
            found[drop.client] = Fate.MALFORMED
    return found if record.skipped else found | dict.fromkeys(record.kept, Fate.KEPT)


def nearly_removed(record: RoundRecord) -> dict[Client, float]:
    """Return whose updates were kept with less than a tenth of their share, and the part of it they had.

    That is an equal share, or what the operator lets a site weigh.

    >>> rows = {"received": ("a", "b", "c"), "weights": (0.004, 0.498, 0.498), "kept": ("a", "b", "c")}
    >>> nearly_removed(RoundRecord(round=0, step=1, lr=0.1, cohort=tuple("abc"), **rows))
    {'a': 0.012}
    """
    kept = set(record.kept)
    return {
        client: share for client, share in record.parts_of_own_shares().items() if client in kept and share < LITTLE
    }
