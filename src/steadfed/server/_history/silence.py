"""Whether those who replied in a round were enough for what is assumed of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from steadfed._core.wording import harmless, percent, plural
from steadfed.server._history.fate import Fate, fates_of
from steadfed.server._record import Client, RoundRecord

QUARTER = 4
"""Up to f/n = 1/4 what RAGE proves is good; above, its constant grows fast."""
_GOOD = "what RAGE proves is good up to 25 %"
_LONGEST = 40
"""Letters of a name."""
_MOST = 10
"""Names in a sentence."""


@final
@dataclass(frozen=True, kw_only=True)
class Silence:
    """A round in which silent clients left too few replies for what is assumed of the others."""

    round: int
    asked: int
    replied: int
    """n: how many sent something, whatever it was."""
    assumed: int | None
    """f, how many of these are assumed to be Byzantine; None if nobody replied."""
    silent: tuple[Client, ...]
    """Who was asked and sent nothing."""

    @property
    def too_many(self) -> bool:
        """Whether more clients were silent than are assumed to be Byzantine: then honest ones are cut off, too.

        If not, only f/n is above 1/4: a step was taken, and less is proved of it than the operator counted on.
        """
        return self.assumed is None or len(self.silent) > self.assumed

    @property
    def why(self) -> str:
        """What is wrong, as a sentence that names the clients."""
        were = f"{len(self.silent)} of {self.asked} were silent: {listed(self.silent)}"
        if self.assumed is None:
            return f"{were}; nobody replied"
        share = _share(self.assumed, self.replied)
        if not self.too_many:
            return f"{were}; {share}, and {_GOOD}"
        return f"{were}; more than the {plural(self.assumed, 'client')} assumed to be Byzantine ({share})"


def silence_of(record: RoundRecord) -> Silence | None:
    """Return what is wrong with the silence of clients in a round; None if nothing is.

    Silent clients shrink the cohort, and with it what f of those who replied may do. Where nothing is assumed (f = 0),
    or a record does not know f, nothing can be held against it. Where f/n was above 1/4 from the start, silence is
    not to blame.

    >>> few = {"cohort": tuple("abcdefgh"), "received": tuple("abcdef"), "certificate": {}, "num_byzantine": 2}
    >>> silence_of(RoundRecord(round=0, step=1, lr=0.1, **few)).why
    '2 of 8 were silent: g, h; f/n = 2/6 = 33 % of those who replied, and what RAGE proves is good up to 25 %'
    """
    silent = tuple(client for client, fate in fates_of(record).items() if fate is Fate.ABSENT)
    asked, replied, assumed = len(record.cohort), len(record.received), record.num_byzantine
    if not silent or (replied and not assumed):
        return None
    found = Silence(
        round=record.round, asked=asked, replied=replied, assumed=assumed if replied else None, silent=silent
    )
    pushed = QUARTER * (assumed or 0) <= asked and QUARTER * (assumed or 0) > replied
    filtered = record.certificate is not None and not record.skipped
    return found if found.too_many or (pushed and filtered) else None


def weak_ratio(record: RoundRecord) -> str | None:
    """Return, as a sentence, that f/n is above what a filter's bound is good for, whatever made it so; None if not.

    Nodes that were offline were not asked, so it is nobody's silence; or it was meant so from the start.
    """
    replied, assumed = len(record.received), record.num_byzantine or 0
    if record.skipped or record.certificate is None or QUARTER * assumed <= replied:
        return None
    return f"{_share(assumed, replied)}, and {_GOOD}"


def _share(assumed: int, replied: int) -> str:
    return f"f/n = {assumed}/{replied} = {percent(assumed / replied, 0)} of those who replied"


def listed(clients: Sequence[Client], most: int = _MOST) -> str:
    r"""Return names as they may be shown, those that a sentence has room for.

    >>> listed([3, "a\x1b"]), listed(range(9), most=2)
    ('3, a\\x1b', '0, 1 and 7 others')
    """
    names = ", ".join(harmless(client, limit=_LONGEST) for client in clients[:most])
    return f"{names} and {plural(len(clients) - most, 'other')}" if len(clients) > most else names
