"""The server's step: x ← x − η ĝ, checked before it counts."""

from __future__ import annotations

from dataclasses import replace

import torch

from holdfast.aggregators import Aggregation
from holdfast.flower.layout import ModelLayout, combined_buffers
from holdfast.flower.replies.matrix import Received, Start
from holdfast.flower.run_folder import ServerState


def stepped(
    state: ServerState, start: Start, received: Received, outcome: Aggregation, momentum: float, layout: ModelLayout
) -> ServerState | str:
    """Return the state after a round, or why the model stays as it is.

    The new model is what the clients will be sent: rounded to the dtypes of its arrays.
    """
    velocity = None
    if momentum:
        velocity = outcome.update if state.velocity is None else momentum * state.velocity + outcome.update
    model = torch.sub(start.model, outcome.update if velocity is None else velocity, alpha=start.lr)
    if not bool(torch.isfinite(model).all()):
        return "the model would not be finite after this update"
    buffers = combined_buffers(received.buffers, state.buffers)
    if any(spec.dtype != layout.row_dtype for spec in layout.parameters):
        model = layout.parameters_of(layout.to_arrays(model, buffers))
    return replace(state, model=model, buffers=buffers, velocity=velocity, rule_memory=outcome.memory)
