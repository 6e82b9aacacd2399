"""All that one round hands to the next on the server, as a checkpoint and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, final

import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from steadfed.aggregators import Memory
from steadfed.errors import CorruptRunError
from steadfed.server._checkpoint import Checkpoint
from steadfed.server._snapshots import Snapshot

_COUNTER, _RULE = "counters/", "rule/"
_VELOCITY = "server/velocity"


@final
@dataclass(frozen=True, eq=False)
class ServerState:
    """The state of a server between two rounds. It is never changed; a round makes a new one."""

    round: int
    """How many rounds are done."""
    model: Float[Tensor, " d"]
    """x."""
    buffers: Float[Tensor, " m"]
    """The floating-point buffers of the model in a row, such as running means."""
    counters: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    """The other buffers by name: whole numbers and booleans. Only a deployment has them."""
    velocity: Float[Tensor, " d"] | None = None
    """The server's momentum."""
    rule_memory: Memory = field(default_factory=dict)
    """What the rule asked to be given back."""
    extra: Memory = field(default_factory=dict)
    """What the server keeps for others, such as the memory of a simulated attack, by names of their own."""

    def to_checkpoint(self) -> Checkpoint:
        """Return everything that the next round depends on."""
        tensors = {"model": self.model, "buffers": self.buffers, **self.extra}
        tensors |= {_COUNTER + name: torch.from_numpy(array.copy()) for name, array in self.counters.items()}
        tensors |= with_prefix(_RULE, self.rule_memory)
        if self.velocity is not None:
            tensors[_VELOCITY] = self.velocity
        return Checkpoint(round=self.round, tensors=tensors)

    @classmethod
    def from_checkpoint(cls, checkpoint: Checkpoint, device: str = "cpu") -> ServerState:
        """Return the state that a checkpoint holds; what is not the server's own is `extra`.

        Raises:
            CorruptRunError: it holds no model.
        """
        tensors = {name: tensor.to(device) for name, tensor in checkpoint.tensors.items()}
        if missing := sorted({"model", "buffers"} - set(tensors)):
            raise CorruptRunError(f"the checkpoint after {checkpoint.round} rounds holds no {' and no '.join(missing)}")
        own = ("model", "buffers", _VELOCITY)
        return cls(
            round=checkpoint.round,
            model=tensors["model"],
            buffers=tensors["buffers"],
            counters={name: tensor.numpy() for name, tensor in below(_COUNTER, tensors).items()},
            velocity=tensors.get(_VELOCITY),
            rule_memory=below(_RULE, tensors),
            extra={
                name: tensor
                for name, tensor in tensors.items()
                if name not in own and not name.startswith((_COUNTER, _RULE))
            },
        )

    def to_snapshot(self) -> Snapshot:
        """Return the model."""
        return Snapshot(round=self.round, model=self.model, buffers=self.buffers)


def with_prefix(word: str, tensors: Memory) -> dict[str, Tensor]:
    """Return the tensors under names that begin with the word.

    >>> sorted(with_prefix("rule/", {"centre": Tensor([1.0])}))
    ['rule/centre']
    """
    return {word + name: tensor for name, tensor in tensors.items()}


def below(word: str, tensors: Memory) -> dict[str, Tensor]:
    """Return the tensors whose names begin with the word, by the rest of the name."""
    return {name.removeprefix(word): tensor for name, tensor in tensors.items() if name.startswith(word)}
