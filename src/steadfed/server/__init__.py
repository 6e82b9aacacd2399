"""Everything after the K × d matrix, for simulation and deployment: the decision, the step, and what is written down.

    Received ──► decision ──► step ──► state ──► record ──► folder ──► history

Here are the names for whoever reads runs. None of them loads torch before it needs tensors.
"""

from steadfed.server._checkpoint import Checkpoint as Checkpoint
from steadfed.server._folder import RunFolder as RunFolder
from steadfed.server._history import (
    ClientSummary as ClientSummary,
    Conduct as Conduct,
    Entries as Entries,
    Event as Event,
    Fate as Fate,
    RoundOutcome as RoundOutcome,
    Rounds as Rounds,
    RunHistory as RunHistory,
    RunOutcome as RunOutcome,
    RunState as RunState,
    RunSummaries as RunSummaries,
    RunSummary as RunSummary,
    ScoreMeaning as ScoreMeaning,
    Shade as Shade,
    Silence as Silence,
    Tally as Tally,
    conduct_of as conduct_of,
    events_of as events_of,
    fate_of_fault as fate_of_fault,
    fates_of as fates_of,
    meaning_of as meaning_of,
    open_run as open_run,
    outcome_of as outcome_of,
    silence_of as silence_of,
    summary_of as summary_of,
    suspects as suspects,
    tally_of as tally_of,
)
from steadfed.server._record import (
    ClientScores as ClientScores,
    Deviation as Deviation,
    DroppedReply as DroppedReply,
    RoundRecord as RoundRecord,
)
