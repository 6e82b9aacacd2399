"""The local steps of clients that attack, if they train in another way than the others."""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from steadfed.attacks._replacement import AdversarialTraining
from steadfed.simulation._engines.base import Engine
from steadfed.simulation._local import Chunk

_TINY = 1e-30
"""In the place of a length of 0, by which nothing can be divided."""


@torch.no_grad()
def adversarial_steps(
    engine: Engine,
    training: AdversarialTraining,
    chunk: Chunk,
    model: Float[Tensor, " d"],
    rows: Float[Tensor, "c d"],
    *,
    momentum: Float[Tensor, "c d"] | None = None,
    buffers: Float[Tensor, "c m"] | None = None,
) -> None:
    """Take as many steps as the adversary likes, as long as it likes, near the global model, in place.

    A step is one of the engine, with α times the step size. The pull of L_ano = ‖X − G‖, at the X before the step, and
    the projection onto the ball around G are computed row by row, so a client's bits do not depend on who else is in
    the chunk.
    """
    steps, lr = training.steps or chunk.steps, training.lr or chunk.lr
    if training.alpha == 1.0 and training.radius is None:
        with torch.enable_grad():
            engine.train(rows, replace(chunk, steps=steps, lr=lr), momentum=momentum, buffers=buffers)
        return
    for step in range(steps):
        away = rows - model
        pull = away * (lr * (1.0 - training.alpha) / _lengths(away))
        if training.alpha > 0.0:
            one = replace(chunk, steps=1, first=step, lr=lr * training.alpha)
            with torch.enable_grad():
                engine.train(rows, one, momentum=momentum, buffers=buffers)
        rows.sub_(pull)
        if training.radius is not None:
            away = rows - model
            torch.add(model, away * (training.radius / _lengths(away)).clamp_max(1.0), out=rows)


def _lengths(rows: Float[Tensor, "c d"]) -> Float[Tensor, "c 1"]:
    """Return the length of every row, each summed by itself; never 0."""
    each = [torch.linalg.vector_norm(row, dtype=torch.float64) for row in rows]
    return torch.stack(each).clamp_min(_TINY).to(rows)[:, None]
