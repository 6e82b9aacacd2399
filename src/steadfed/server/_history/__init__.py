"""One history of a run: what became of whom in which round, and everything that is counted.

    RunFolder ──► RunHistory ──► columns by name, Fate of every client, Tally, ClientSummary, Conduct, RunOutcome
    (1,000 folders ──► RunSummaries ──► a RunSummary each, without reading what need not be read)

Whoever says how many updates were removed reads it here. Nothing here loads torch.
"""

from __future__ import annotations

from steadfed.server._history.clients import ClientSummary, suspects
from steadfed.server._history.conduct import Conduct, Narrator, conduct_of
from steadfed.server._history.entries import Entries
from steadfed.server._history.events import Event, RoundOutcome, Shade, events_of
from steadfed.server._history.fate import Fate, fate_of_fault, fates_of, nearly_removed
from steadfed.server._history.files import RunState
from steadfed.server._history.history import RunHistory, open_run
from steadfed.server._history.listing import RunSummaries, RunSummary
from steadfed.server._history.outcome import RunOutcome, outcome_of
from steadfed.server._history.rounds import Rounds
from steadfed.server._history.scores import ScoreMeaning, meaning_of
from steadfed.server._history.silence import Silence, silence_of, weak_ratio
from steadfed.server._history.summary import summary_of
from steadfed.server._history.tally import Tally, tally_of

__all__ = [
    "ClientSummary",
    "Conduct",
    "Entries",
    "Event",
    "Fate",
    "Narrator",
    "RoundOutcome",
    "Rounds",
    "RunHistory",
    "RunOutcome",
    "RunState",
    "RunSummaries",
    "RunSummary",
    "ScoreMeaning",
    "Shade",
    "Silence",
    "Tally",
    "conduct_of",
    "events_of",
    "fate_of_fault",
    "fates_of",
    "meaning_of",
    "nearly_removed",
    "open_run",
    "outcome_of",
    "silence_of",
    "summary_of",
    "suspects",
    "tally_of",
    "weak_ratio",
]
