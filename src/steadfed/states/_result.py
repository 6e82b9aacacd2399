"""What comes of a round whose replies were state dicts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

from steadfed._core.wording import plural
from steadfed.aggregators import Aggregation
from steadfed.server._history import Fate, fate_of_fault, fates_of
from steadfed.server._record import Client, RoundRecord


@final
@dataclass(frozen=True, eq=False, repr=False)
class StateAggregation:
    """The new model, and the evidence for it by the names of the clients."""

    state: dict[str, Any]
    """The new model, like the reference: its keys in its order, shapes, dtypes, devices; it shares no memory with the
    reference or a reply. The reference itself, copied, if nothing was done."""
    aggregation: Aggregation | None
    """What the rule made of the updates; None if nothing was done. `aggregation.memory` goes into the view of the next
    round, for rules that remember."""
    record: RoundRecord
    """The round as runs are written down: one line of JSON is `record.to_line()`."""
    layers: Mapping[Client, Mapping[str, float]]
    """For every client whose update was removed each layer's share of its squared distance from the update, the largest
    first."""

    @property
    def skipped(self) -> str | None:
        """Why nothing was done, as a sentence; None if the model is a new one."""
        return self.record.reason if self.record.skipped else None

    @property
    def weights(self) -> dict[Client, float]:
        """Every client's share in the update; 0 if it was removed or its reply was no model, or nothing was done."""
        return dict.fromkeys(self.record.cohort, 0.0) | self.record.by_client(self.record.weights)

    @property
    def removed(self) -> tuple[Client, ...]:
        """Whose replies were models, and the rule gave them no share."""
        return tuple(client for client, fate in self.fates.items() if fate is Fate.REMOVED)

    @cached_property
    def fates(self) -> dict[Client, Fate]:
        """What became of every client."""
        return fates_of(self.record)

    @property
    def dropped(self) -> dict[Client, str]:
        """Whose replies were no models like the reference, or did not come, and why."""
        drops = (drop for drop in self.record.drops if fate_of_fault(drop.fault) is not Fate.UNASKED)
        return {drop.client: drop.why for drop in drops}

    def __repr__(self) -> str:
        """Return the verdicts, and of the model how large it is."""
        fates = ", ".join(f"{client!r}: {fate.word}" for client, fate in self.fates.items())
        why = f", skipped={self.skipped!r}" if self.skipped else ""
        return f"StateAggregation({plural(len(self.state), 'array')}, {{{fates}}}{why})"
