"""The run folder of a deployment: the same as the simulator's, so everything that reads a run reads this one too."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, final

import flwr
import torch
from flwr.app import ArrayRecord
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor, nn

from holdfast import __version__
from holdfast.data.remote import RemoteData
from holdfast.errors import RunError
from holdfast.flower.layout import ModelLayout
from holdfast.models.layout import Layout
from holdfast.runs import config_of
from holdfast.runs.deployments import OWN_STEPS, has_own_steps
from holdfast.runs.files import sealed
from holdfast.runs.states import RULE, below
from holdfast.server.checkpoint import Checkpoint
from holdfast.server.folder import RunFolder
from holdfast.server.history import Rounds, summary_of
from holdfast.server.history.files import DEPLOYED
from holdfast.server.record import RoundRecord
from holdfast.server.snapshots import Snapshot
from holdfast.simulation import RunConfig

Buffers = Mapping[str, NDArray[Any]]
_BUFFER, _VELOCITY = "buffers/", "server/velocity"
_FREE = ("partition", "cohort_size", "evaluation")
"""What may be different when a run goes on: how many nodes there are is not the server's choice."""


@final
@dataclass(frozen=True, eq=False)
class ServerState:
    """All that one round hands to the next, on the server."""

    round: int
    """How many rounds are done."""
    model: Float[Tensor, " d"]
    buffers: Buffers
    velocity: Float[Tensor, " d"] | None = None
    """The server's momentum."""
    rule_memory: Mapping[str, Tensor] = field(default_factory=dict)


@final
@dataclass(frozen=True, eq=False)
class Journal:
    """Writes a run down, round by round; without a folder it writes nothing."""

    config: RunConfig
    layout: ModelLayout
    folder: RunFolder | None = None

    @classmethod
    def begin(
        cls, config: RunConfig, layout: ModelLayout, path: str | os.PathLike[str] | None, *, own_steps: bool = False
    ) -> Journal:
        """Make the folder of a run, or open it if there is one.

        Args:
            config: what is written down.
            layout: what the model looks like.
            path: the folder; None for none.
            own_steps: whether the clients choose their step sizes themselves.

        Raises:
            RunError: it holds a run of another configuration, or of another model.
        """
        if path is None:
            return cls(config, layout)
        if not cls.exists(path):
            return cls(config, layout, RunFolder.create(path, sealed(config, _made_with(config, own_steps=own_steps))))
        folder = RunFolder.open(path)
        found = config_of(folder)
        _compare(found, config, folder)
        if has_own_steps(folder) != own_steps:
            raise RunError(
                f"{str(folder.path)!r} holds a run in which lr was {'not ' if has_own_steps(folder) else ''}sent"
            )
        return cls(found, layout, folder)

    @staticmethod
    def exists(path: str | os.PathLike[str] | None) -> bool:
        """Return whether there is a run to go on with, whose number of clients is known."""
        return path is not None and (Path(path) / "config.toml").exists()

    def locked(self) -> AbstractContextManager[None]:
        """Keep every other process from working in the folder."""
        return nullcontext() if self.folder is None else self.folder.locked()

    def state(self, initial: ServerState) -> tuple[ServerState, list[RoundRecord]]:
        """Return where to go on and the rounds before it; what was written after it is forgotten."""
        if self.folder is None:
            return initial, []
        checkpoint = self.folder.latest_checkpoint()
        self.folder.rewind(checkpoint.round if checkpoint is not None else 0)
        if checkpoint is None:
            return initial, []
        return _from_checkpoint(checkpoint, initial, self.folder), list(self.folder.records())

    def write(self, before: ServerState, record: RoundRecord, after: ServerState) -> None:
        """Write down a round: the model it started from if it is to be measured, its record, the state after it."""
        if self.folder is None:
            return
        if self.config.measures(before.round):
            self._keep(before)
        self.folder.append(record)
        self.folder.save_checkpoint(_to_checkpoint(after))

    def finish(self, state: ServerState, arrays: ArrayRecord) -> None:
        """Write the last model and the summary, unless they are there."""
        if self.folder is None or self.folder.summary() is not None:
            return
        if self.config.evaluation.measured_rounds:
            self._keep(state)
        self.folder.write_model({name: torch.from_numpy(array.numpy()) for name, array in arrays.items()})
        self.folder.write_summary(summary_of(Rounds.of(self.folder.records(), deployed=True)))

    @cached_property
    def _module(self) -> nn.Module:
        """The configuration's own model, whose weights are nobody's."""
        return self.config.model.build(self.config.data.load(), self.config.seed)

    def _keep(self, state: ServerState) -> None:
        """Keep a model as the simulator would: in the layout of the configuration's own model."""
        assert self.folder is not None  # noqa: S101  asked only where there is one
        module = self._module.to(state.model.dtype)
        arrays = self.layout.to_arrays(state.model, state.buffers)
        module.load_state_dict(arrays.to_torch_state_dict())
        places = Layout.of(module)
        dtype = state.model.dtype
        self.folder.save_snapshot(
            Snapshot(
                round=state.round,
                model=places.parameters_of(module, dtype),
                buffers=places.buffers_of(module, dtype),
            )
        )


def _made_with(config: RunConfig, *, own_steps: bool) -> dict[str, str]:
    """Return what a result depends on besides the configuration; points that only clients have cannot be named."""
    remote = isinstance(config.data, RemoteData)
    return {
        **({OWN_STEPS: "chosen by the clients"} if own_steps else {}),
        "holdfast": __version__,
        "torch": torch.__version__,
        DEPLOYED: flwr.__version__,
        "data_sha256": "remote" if remote else config.data.load().checksum,
    }


def _compare(found: RunConfig, config: RunConfig, folder: RunFolder) -> None:
    """Refuse to go on with a run of another configuration."""
    changed = [
        f"{name} was {getattr(found, name)!r}, is {getattr(config, name)!r}"
        for name in RunConfig.model_fields
        if name not in _FREE and getattr(found, name) != getattr(config, name)
    ]
    if changed:
        raise RunError(
            f"{str(folder.path)!r} holds a run of another configuration: {'; '.join(changed)}; continue it with the "
            f"same one, or choose another folder"
        )


def _to_checkpoint(state: ServerState) -> Checkpoint:
    tensors = {"model": state.model}
    tensors |= {_BUFFER + name: torch.from_numpy(array.copy()) for name, array in state.buffers.items()}
    if state.velocity is not None:
        tensors[_VELOCITY] = state.velocity
    tensors |= {RULE + name: tensor for name, tensor in state.rule_memory.items()}
    return Checkpoint(round=state.round, tensors=tensors)


def _from_checkpoint(checkpoint: Checkpoint, initial: ServerState, folder: RunFolder) -> ServerState:
    tensors = checkpoint.tensors
    model = tensors.get("model")
    buffers = {name: each.numpy() for name, each in below(_BUFFER, tensors).items()}
    same = {name: (each.shape, each.dtype) for name, each in buffers.items()}
    wanted = {name: (each.shape, each.dtype) for name, each in initial.buffers.items()}
    if model is None or model.shape != initial.model.shape or model.dtype != initial.model.dtype or same != wanted:
        raise RunError(
            f"the checkpoint after {checkpoint.round} rounds in {str(folder.path)!r} is not of the model that the "
            f"server app starts with; a run continues only with the model it was started with"
        )
    return replace(
        initial,
        round=checkpoint.round,
        model=model,
        buffers=buffers,
        velocity=tensors.get(_VELOCITY),
        rule_memory=below(RULE, tensors),
    )
