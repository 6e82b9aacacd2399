"""What clients are told: H of the round, η, b; in the words of a simulation's configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, final

from flwr.app import ConfigRecord

from steadfed.data._remote import RemoteData
from steadfed.models._remote import RemoteModel
from steadfed.partitions._remote import RemotePartition
from steadfed.simulation import RunConfig
from steadfed.simulation._config import Evaluation
from steadfed.states._layout import ModelLayout

FULL_BATCH = 0
"""What stands for "all points of the client" in a ConfigRecord, which has numbers for batch sizes."""


NOTHING: Mapping[str, int] = MappingProxyType({})
"""No coordinates in particular."""


@final
@dataclass(frozen=True)
class ClientConfig:
    """H, η, b and the rule of a run; and what of it is sent."""

    run: RunConfig
    sends_lr: bool

    @classmethod
    def of(cls, *, lr: float | None, **settings: Any) -> ClientConfig:
        """Check settings of `RunConfig`, by its own names.

        Raises:
            ParameterError: a value is outside its range.
        """
        return cls(RunConfig(lr=1.0 if lr is None else lr, **settings), lr is not None)

    def with_rounds(self, rounds: int) -> ClientConfig:
        """Return the same for so many rounds; schedules look at it."""
        self.run.step_schedule.check(rounds)
        return replace(self, run=RunConfig(**{**dict(self.run), "rounds": rounds}))

    def steps_until(self, round: int) -> int:
        """Return how many local steps are taken before a round."""
        return self.run.steps_until(round)

    def lr_of(self, round: int) -> float:
        """Return η of a round: what updates are divided by, and what the step is multiplied with."""
        return self.run.lr_of(round)

    def config(self, round: int, given: ConfigRecord, asked: Mapping[str, int] = NOTHING) -> ConfigRecord:
        """Return what a client is told in a round; the user's own entries come first, and cannot replace these.

        Args:
            round: the number of the round, from 0.
            given: the user's own entries.
            asked: which coordinates are asked for, if not the whole model.
        """
        batch_size = self.run.batch_size
        own: dict[str, int | float] = {
            "server-round": round + 1,
            "round": round,
            "local-steps": self.run.steps_of(round),
            "batch-size": FULL_BATCH if batch_size == "full" else batch_size,
            "seed": self.run.seed,
        }
        if self.sends_lr:
            own["lr"] = self.lr_of(round)
        return ConfigRecord({**given, **own, **asked})

    def to_run_config(
        self, layout: ModelLayout, *, num_clients: int, cohort_size: int, twin: RunConfig | None
    ) -> RunConfig:
        """Return the configuration that is written into the run folder; of the data only what the operator knows."""
        changes: dict[str, Any] = {"cohort_size": cohort_size}
        if twin is None:
            changes |= {
                "data": RemoteData(),
                "partition": RemotePartition(num_clients=num_clients),
                "model": RemoteModel(dim=layout.dim, fingerprint=layout.fingerprint()),
                "evaluation": Evaluation(measured_rounds=0),
            }
        else:
            same = ("data", "partition", "model", "byzantine", "attack", "adversary_knows", "client", "dtype")
            changes |= {name: getattr(twin, name) for name in same}
            changes["evaluation"] = Evaluation(measured_rounds=twin.evaluation.measured_rounds)
        return RunConfig(**{**dict(self.run), **changes})
