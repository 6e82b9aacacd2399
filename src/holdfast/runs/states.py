"""The state of a federation as a checkpoint, and back; its model as a snapshot."""

from __future__ import annotations

from collections.abc import Mapping

from jaxtyping import Float
from torch import Tensor

from holdfast.server.checkpoint import Checkpoint
from holdfast.server.snapshots import Snapshot
from holdfast.simulation import State

RULE, _ATTACK = "rule/", "attack/"


def to_checkpoint(state: State, momentum: Float[Tensor, "R d"] | None) -> Checkpoint:
    """Return everything that the next round depends on; of the clients' momentum only what is not zero."""
    tensors = {"model": state.model, "buffers": state.buffers}
    if state.velocity is not None:
        tensors["server/velocity"] = state.velocity
    if momentum is not None:
        touched = momentum.any(dim=1).nonzero().flatten()
        tensors |= {"clients/who": touched, "clients/momentum": momentum[touched]}
    tensors |= {RULE + name: tensor for name, tensor in state.rule_memory.items()}
    tensors |= {_ATTACK + name: tensor for name, tensor in state.attack_memory.items()}
    return Checkpoint(round=state.round, tensors=tensors)


def from_checkpoint(checkpoint: Checkpoint, momentum: Float[Tensor, "R d"] | None, device: str) -> State:
    """Return the state that a checkpoint holds, and put the clients' momentum in its place."""
    tensors = {name: tensor.to(device) for name, tensor in checkpoint.tensors.items()}
    if momentum is not None:
        momentum.zero_()
        momentum[tensors["clients/who"]] = tensors["clients/momentum"]
    return State(
        round=checkpoint.round,
        model=tensors["model"],
        buffers=tensors["buffers"],
        velocity=tensors.get("server/velocity"),
        rule_memory=below(RULE, tensors),
        attack_memory=below(_ATTACK, tensors),
    )


def to_snapshot(state: State) -> Snapshot:
    """Return the model that a state holds."""
    return Snapshot(round=state.round, model=state.model, buffers=state.buffers)


def below(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors whose names begin with the prefix, by the rest of the name."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
