"""The loop: one client after the other, its parameters views of its row, updated in place."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import ClassVar, final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from holdfast.rng import stream
from holdfast.simulation.engines.base import Engine
from holdfast.simulation.engines.points import Drawn, Scratch
from holdfast.simulation.local import Chunk, Task

_DRAWING = (nn.modules.dropout._DropoutNd, nn.RReLU, nn.FractionalMaxPool2d, nn.FractionalMaxPool3d)  # noqa: SLF001
_DRAWING_AT_A_RATE = (nn.RNNBase, nn.MultiheadAttention)


@final
class LoopEngine(Engine):
    """Any module at all, and the fastest way for convolutions: their weights and images are channels-last.

    Modules that draw at random (dropout) draw from a stream of (seed, round, client). Buffers that are no floats, such
    as counts of batches, are put back before every client.
    """

    name: ClassVar[str] = "loop"
    chunk_size: int = 8

    def __init__(self, task: Task) -> None:
        """Find the parameters once; each client's row is put in by changing where they point."""
        super().__init__(task)
        self._module = task.module
        self._parameters = list(task.module.parameters())
        named = dict(task.module.named_buffers())
        self._buffers = [named[place.name] for place in task.layout.buffers]
        self._counts = [(each, each.clone()) for each in named.values() if not each.is_floating_point()]
        convolves = any(isinstance(part, nn.Conv2d) for part in task.module.modules())
        self._channels_last = convolves and task.data.features.dim() == 4
        self._draws = may_draw(task.module)
        self._batch = Scratch()

    def train(
        self,
        rows: Float[Tensor, "c d"],
        chunk: Chunk,
        *,
        momentum: Float[Tensor, "c d"] | None = None,
        buffers: Float[Tensor, "c m"] | None = None,
    ) -> None:
        """Take the steps of one client after the other."""
        drawn = Drawn.of(self.task, chunk)
        self._module.train()
        for i, client in enumerate(chunk.clients.tolist()):
            self._point_at(rows[i], buffers[i] if buffers is not None else None)
            velocities = None
            if momentum is not None:
                velocities = list(self.task.layout.parameter_views(momentum[i]).values())
            randomness = _own_randomness(self.task.seed, chunk.round, client) if self._draws else nullcontext()
            with randomness:
                self._train_one(drawn.points[i], drawn.labels[i], velocities, chunk.lr)

    def _train_one(self, points: Tensor, labels: Tensor, velocities: list[Tensor] | None, lr: float) -> None:
        number = len(points)
        for step in range(self.task.local.steps):
            if step < number:  # a full batch is gathered once
                features = self._gathered(points[step])
            loss = self.task.loss.mean(self._module(features), labels[min(step, number - 1)])
            self._step(list(torch.autograd.grad(loss, self._parameters)), velocities, lr)

    def _gathered(self, points: Tensor) -> Tensor:
        batch = self._batch.rows(self.task.data.features, points)
        return batch.contiguous(memory_format=torch.channels_last) if self._channels_last else batch

    @torch.no_grad()
    def _step(self, gradients: list[Tensor], velocities: list[Tensor] | None, lr: float) -> None:
        """Do what `Task.step_` does, tensor by tensor."""
        parameters: list[Tensor] = list(self._parameters)
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
        for parameter, place in zip(self._parameters, self.task.layout.parameters, strict=True):
            parameter.data = place.view(row)
        if buffers is not None:
            for buffer, place in zip(self._buffers, self.task.layout.buffers, strict=True):
                buffer.data = place.view(buffers)
        for count, start in self._counts:
            count.copy_(start)


def may_draw(module: nn.Module) -> bool:
    """Tell whether a module may draw at random; of modules that are not torch's own it cannot be known.

    >>> may_draw(nn.Sequential(nn.Linear(3, 2), nn.ReLU())), may_draw(nn.Sequential(nn.Dropout(0.5)))
    (False, True)
    """
    for part in module.modules():
        if not type(part).__module__.startswith("torch.nn.modules.") or isinstance(part, _DRAWING):
            return True
        if isinstance(part, _DRAWING_AT_A_RATE) and part.dropout > 0.0:
            return True
    return False


@contextmanager
def _own_randomness(seed: int, round: int, client: int) -> Iterator[None]:  # noqa: A002  the one word for it
    """Let a module draw from a stream of its client and round, and put torch's generator back."""
    before = torch.default_generator.get_state()
    torch.default_generator.manual_seed(int(stream(seed, "module", round, client).integers(2**63)))
    try:
        yield
    finally:
        torch.default_generator.set_state(before)
