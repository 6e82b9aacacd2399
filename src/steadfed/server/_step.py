"""The server's step: x ← x − η ĝ, or along its momentum; refused if it leads out of the floats."""

from __future__ import annotations

from dataclasses import replace

import torch

from steadfed.aggregators import Aggregation
from steadfed.server._decision import Skipped
from steadfed.server._state import ServerState


def take_step(state: ServerState, aggregation: Aggregation, *, lr: float, momentum: float) -> ServerState | Skipped:
    """Return the state after v ← β v + ĝ and x ← x − η v, where v is ĝ itself without momentum; buffers stay.

    A model that would not be finite is not taken: nobody could train from it, and no later update leads back.
    """
    velocity, direction = None, aggregation.update
    if momentum:
        velocity = direction if state.velocity is None else momentum * state.velocity + direction
        direction = velocity
    model = torch.sub(state.model, direction, alpha=lr)
    if not bool(torch.isfinite(model).all()):
        return Skipped(
            "the model would not be finite after this update",
            assumed=aggregation.num_byzantine,
            contradicted=aggregation.assumption_violated,
        )
    return replace(state, round=state.round + 1, model=model, velocity=velocity, rule_memory=aggregation.memory)
