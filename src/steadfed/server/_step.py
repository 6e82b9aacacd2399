"""The server's step: x ← x − η ĝ, or along its momentum; refused if it leads out of the floats."""

from __future__ import annotations

from dataclasses import replace

import torch

from steadfed.aggregators import Aggregation
from steadfed.server._coordinates import Places, part_of, with_part
from steadfed.server._decision import Skipped
from steadfed.server._state import ServerState


def take_step(
    state: ServerState, aggregation: Aggregation, *, lr: float, momentum: float, places: Places = None
) -> ServerState | Skipped:
    """Return the state after v ← β v + ĝ and x ← x − η v, where v is ĝ itself without momentum; buffers stay.

    If the round is about some coordinates only, these move and no others: each has the momentum of the rounds that were
    about it. A model that would not be finite is not taken: nobody could train from it, and no later update leads back.
    """
    velocity, direction = None, aggregation.update
    if momentum:
        before = torch.zeros_like(state.model) if state.velocity is None else state.velocity
        if state.velocity is not None:
            direction = momentum * part_of(before, places) + direction
        velocity = with_part(before, direction, places)
    part = torch.sub(part_of(state.model, places), direction, alpha=lr)
    if not bool(torch.isfinite(part).all()):
        return Skipped(
            "the model would not be finite after this update",
            assumed=aggregation.num_byzantine,
            contradicted=aggregation.assumption_violated,
        )
    model = with_part(state.model, part, places)
    return replace(state, round=state.round + 1, model=model, velocity=velocity, rule_memory=aggregation.memory)
