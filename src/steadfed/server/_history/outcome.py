"""Whether a run is a success: the one judgement that exit codes, logs, audits and reports repeat."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from steadfed._core.wording import harmless, plural
from steadfed.server._history.fate import Fate
from steadfed.server._history.rounds import Rounds
from steadfed.server._history.silence import listed
from steadfed.server._record import Client

_MISSING = (Fate.ABSENT, Fate.MALFORMED, Fate.UNUSABLE)
"""What of a client's doing can make a round be skipped."""


@final
@dataclass(frozen=True, kw_only=True)
class RunOutcome:
    """What a run is worth, besides its figures."""

    rounds: int
    skipped: int
    """Rounds that left the model as it was."""
    silenced: int
    """Rounds in which more clients were silent than are assumed to be Byzantine."""
    reasons: tuple[str, ...] = ()
    """Why the run is no success, a sentence each; parts may come from clients and are spelled out already."""
    culprits: Mapping[Client, int]
    """Whose replies were missing or of no use in the rounds that the reasons are about, and how often; most often
    first. Whether it was the client or somebody who cut it off, nobody knows."""

    @property
    def success(self) -> bool:
        """Whether nothing speaks against it."""
        return not self.reasons

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain values, ready for JSON."""
        named = [{"client": client, "rounds": count} for client, count in self.culprits.items()]
        return {**vars(self), "success": self.success, "reasons": list(self.reasons), "culprits": named}


def outcome_of(rounds: Rounds) -> RunOutcome:
    """Return whether the rounds so far are a success, and if not, why, and whose replies were missing.

    They are none if every round was skipped: the model is the one that it began with. In a deployment they are none
    either if in some round more clients were silent than are assumed to be Byzantine. That is no sign of who lies, but
    somebody cuts clients off, or they are broken, and those who are left decide. A simulation silences whom its
    configuration says, so it is not held against it.

    >>> outcome_of(Rounds()).success
    True
    """
    skipped = int(rounds.tally.skipped)
    silences = [silence for silence in rounds.silences if silence.too_many and rounds.deployed]
    all_skipped = len(rounds) > 0 and skipped == len(rounds)
    reasons = []
    if all_skipped:
        first = harmless(rounds.skips[0][1], limit=160)
        reasons.append(f"{_every(skipped)} skipped, so the model is the one it began with: {first}")
    if silences:
        times = Counter(client for silence in silences for client in silence.silent)
        named = listed([f"{client} ({count}×)" for client, count in times.most_common()])
        reasons.append(
            f"in {len(silences)} of {plural(len(rounds), 'round')} more clients were silent than are assumed to be "
            f"Byzantine: {named}"
        )
    numbers = {*range(len(rounds))} if all_skipped else {silence.round for silence in silences}
    return RunOutcome(
        rounds=len(rounds),
        skipped=skipped,
        silenced=len(silences),
        reasons=tuple(reasons),
        culprits=_missing_in(rounds, numbers),
    )


def _every(count: int) -> str:
    return "the only round was" if count == 1 else f"all {count:,} rounds were"


def _missing_in(rounds: Rounds, numbers: set[int]) -> dict[Client, int]:
    """Return whose replies were missing or of no use in some rounds, and in how many."""
    if not numbers:
        return {}
    entries = rounds.entries
    chosen = np.isin(entries.round, sorted(numbers)) & np.isin(entries.fate, [int(fate) for fate in _MISSING])
    counts = np.bincount(entries.client[chosen], minlength=len(rounds.places)).tolist()
    named = Counter({client: counts[place] for client, place in rounds.places.items() if counts[place]})
    return dict(named.most_common())
