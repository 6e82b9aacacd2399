"""The server's step: x ← x − η ĝ, or along its momentum."""

from __future__ import annotations

from dataclasses import replace

import torch

from holdfast.aggregators import Aggregation
from holdfast.server.state import ServerState


def take_step(state: ServerState, aggregation: Aggregation, *, lr: float, momentum: float) -> ServerState:
    """Return the state after v ← β v + ĝ and x ← x − η v; v is ĝ itself without momentum. Buffers stay."""
    velocity, direction = None, aggregation.update
    if momentum:
        velocity = direction if state.velocity is None else momentum * state.velocity + direction
        direction = velocity
    model = torch.sub(state.model, direction, alpha=lr)
    return replace(state, round=state.round + 1, model=model, velocity=velocity, rule_memory=aggregation.memory)
