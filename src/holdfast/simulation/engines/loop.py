"""The loop: one client after the other, its parameters views of its row, updated in place."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar, final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from holdfast.rng import stream
from holdfast.simulation.engines.base import Engine
from holdfast.simulation.local import Chunk, Task


@final
class LoopEngine(Engine):
    """Any module at all, and the fastest way for convolutions: their weights and images are channels-last.

    Modules that draw at random (dropout) draw from a stream of (seed, round, client).
    """

    name: ClassVar[str] = "loop"
    chunk_size: int = 1

    def __init__(self, task: Task) -> None:
        """Find the parameters once; each client's row is put in by changing where they point."""
        super().__init__(task)
        self._module = task.module
        self._parameters = dict(task.module.named_parameters())
        self._buffers = dict(task.module.named_buffers())
        self._channels_last = any(isinstance(part, nn.Conv2d) for part in task.module.modules())

    def train(
        self,
        rows: Float[Tensor, "c d"],
        chunk: Chunk,
        *,
        momentum: Float[Tensor, "c d"] | None = None,
        buffers: Float[Tensor, "c m"] | None = None,
    ) -> None:
        """Take the steps of one client after the other."""
        for i in range(len(chunk)):
            with _own_randomness(self.task.seed, chunk.round, int(chunk.clients[i])):
                self._train_one(
                    rows[i],
                    chunk.part(i, i + 1),
                    momentum[i] if momentum is not None else None,
                    buffers[i] if buffers is not None else None,
                )

    def _train_one(self, row: Tensor, chunk: Chunk, momentum: Tensor | None, buffers: Tensor | None) -> None:
        self._point_at(row, buffers)
        self._module.train()
        positions = self.task.positions(chunk)
        parameters: list[Tensor] = list(self._parameters.values())
        velocities = None
        if momentum is not None:
            velocities = list(self.task.layout.parameter_views(momentum).values())
        for step in range(self.task.local.steps):
            if step < positions.shape[1]:  # a full batch is gathered once
                features, labels = self._batch(chunk, positions[:, step])
            loss = self.task.loss.mean(self._module(features), labels)
            gradients = list(torch.autograd.grad(loss, parameters))
            self._step(parameters, gradients, velocities, chunk.lr)

    def _batch(self, chunk: Chunk, positions: object) -> tuple[Tensor, Tensor]:
        features, labels = self.task.data.gather(chunk, positions)  # type: ignore[arg-type]
        batch = features[0]
        return (batch.contiguous(memory_format=torch.channels_last) if self._channels_last else batch), labels[0]

    @torch.no_grad()
    def _step(
        self, parameters: list[Tensor], gradients: list[Tensor], velocities: list[Tensor] | None, lr: float
    ) -> None:
        """Do what `Task.step_` does, tensor by tensor."""
        if self.task.decay:
            torch._foreach_add_(gradients, parameters, alpha=self.task.decay)
        if self.task.local.clip is not None:
            length = float(torch.stack([g.double().square().sum() for g in gradients]).sum().sqrt())
            if length > self.task.local.clip:
                torch._foreach_mul_(gradients, self.task.local.clip / length)
        if velocities is not None:
            torch._foreach_mul_(velocities, self.task.local.momentum)
            torch._foreach_add_(velocities, gradients)
            gradients = velocities
        torch._foreach_add_(parameters, gradients, alpha=-lr)

    @torch.no_grad()
    def _point_at(self, row: Tensor, buffers: Tensor | None) -> None:
        """Make the module's parameters, and its buffers, views of a client's rows."""
        for name, view in self.task.layout.parameter_views(row).items():
            self._parameters[name].data = view
        if buffers is not None:
            for name, view in self.task.layout.buffer_views(buffers).items():
                self._buffers[name].data = view


@contextmanager
def _own_randomness(seed: int, round: int, client: int) -> Iterator[None]:  # noqa: A002  the one word for it
    """Let a module draw from a stream of its client and round, and put torch's generator back."""
    before = torch.default_generator.get_state()
    torch.default_generator.manual_seed(int(stream(seed, "module", round, client).integers(2**63)))
    try:
        yield
    finally:
        torch.default_generator.set_state(before)
