"""A run written down round by round, in the order in which a crash at any moment loses nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import final

from torch import Tensor

from steadfed._core.signatures import SigningKey
from steadfed.server._checkpoint import Checkpoint
from steadfed.server._folder import RunFolder
from steadfed.server._history import Rounds, summary_of
from steadfed.server._record import RoundRecord
from steadfed.server._snapshots import Snapshot
from steadfed.server._state import ServerState
from steadfed.simulation import RunConfig


@final
@dataclass(frozen=True, eq=False)
class RunWriter:
    """Writes rounds into the folder of a run, which the caller holds `locked()`."""

    config: RunConfig
    folder: RunFolder
    to_checkpoint: Callable[[ServerState], Checkpoint] = ServerState.to_checkpoint
    """Makes a checkpoint of the state after a round."""
    to_snapshot: Callable[[ServerState], Snapshot] = ServerState.to_snapshot
    """Makes a snapshot of the state before a round that is measured."""
    signer: SigningKey | None = None
    """Signs every line; None for a simulation, or a deployment without a key."""

    def rewind(self) -> Checkpoint | None:
        """Return where to go on, None for the start; what was written after it is forgotten."""
        checkpoint = self.folder.latest_checkpoint()
        self.folder.rewind(checkpoint.round if checkpoint is not None else 0)
        return checkpoint

    def write(self, before: ServerState, record: RoundRecord, after: ServerState) -> RoundRecord:
        """Write a round down: the model it started from if it is measured, its record, then the state after it.

        Returns:
            The record as it is written.
        """
        if self.config.measures(before.round):
            self.folder.save_snapshot(self.to_snapshot(before))
        due = after.round % self.config.checkpoint_every == 0 or after.round == self.config.rounds
        checkpoint = self.to_checkpoint(after) if due else None
        if checkpoint is not None and self.signer is not None:
            record = record.model_copy(update={"state_after": checkpoint.digest})
        record = self.folder.append(record, self.signer)
        if checkpoint is not None:
            self.folder.save_checkpoint(checkpoint)
        return record

    def finish(self, state: ServerState, model: Mapping[str, Tensor], *, deployed: bool = False) -> None:
        """Write the last snapshot, the model by the names of its tensors and the summary, unless they are there."""
        if self.folder.is_done():
            return
        if self.config.evaluation.measured_rounds:
            self.folder.save_snapshot(self.to_snapshot(state))
        self.folder.write_model(model)
        self.folder.write_summary(summary_of(Rounds.of(self.folder.records(), deployed=deployed)))
