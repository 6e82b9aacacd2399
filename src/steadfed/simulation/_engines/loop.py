"""The loop: one client after the other, parameters that are views of one row, updated in place."""

from __future__ import annotations

from contextlib import nullcontext
from typing import ClassVar, final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from steadfed.models._drawing import drawing_from
from steadfed.simulation._engines.base import Engine
from steadfed.simulation._engines.points import DrawnPoints, Scratch
from steadfed.simulation._local import Chunk, TrainingTask

_DROPOUT = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout)
_DRAWING = (*_DROPOUT, nn.RReLU, nn.FractionalMaxPool2d, nn.FractionalMaxPool3d)
_DRAWING_AT_A_RATE = (nn.RNNBase, nn.MultiheadAttention)


@final
class LoopEngine(Engine):
    """Any module at all, and the fastest way for convolutions.

    Every client's row is copied to the same place, so that its bits do not depend on where the row lies. Convolutions
    with maxima between them work channels-last (measured: 1.4 times as fast), others as torch does by default
    (residual networks with group normalisation are 8 % slower channels-last). Modules that draw at random (dropout)
    draw from a stream of (seed, round, client). Buffers that are no floats, such as counts of batches, are put back
    before every client.
    """

    name: ClassVar[str] = "loop"
    chunk_size: int = 8

    def __init__(self, task: TrainingTask) -> None:
        """Make the module's parameters and buffers views of one row each, into which clients are copied."""
        super().__init__(task)
        self._module = task.module
        self._parameters: list[Tensor] = list(task.module.parameters())
        named = dict(task.module.named_buffers())
        self._counts = [(each, each.clone()) for each in named.values() if not each.is_floating_point()]
        layout, some = task.layout, self._parameters[0]
        self._row = layout.parameters_of(task.module, some.dtype).to(some.device)
        self._buffers = layout.buffers_of(task.module, some.dtype).to(some.device)
        self._views = list(layout.parameter_views(self._row).values())
        channels_last = prefers_channels_last(task.module)
        self._channels_last = channels_last and task.data.features.dim() == 4
        self._apart = task.local.is_plain and not channels_last and has_convolutions(task.module)
        for parameter, view in zip(self._parameters, self._views, strict=True):
            parameter.data = view.contiguous() if self._apart else view
        for place in layout.buffers:
            named[place.name].data = place.view(self._buffers)
        self._velocity = torch.zeros_like(self._row) if task.local.momentum else None
        self._into = torch.empty_like(self._row)
        self._into_views = list(layout.parameter_views(self._into).values())
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
        drawn = DrawnPoints.of(self.task, chunk)
        self._module.train()
        pairs = [(self._row, rows), (self._buffers, buffers), (self._velocity, momentum)]
        own = [(mine, theirs) for mine, theirs in pairs if mine is not None and theirs is not None]
        for i, client in enumerate(chunk.clients.tolist()):
            for mine, theirs in own:
                mine.copy_(theirs[i])
            for count, start in self._counts:
                count.copy_(start)
            if self._apart:
                _copy(self._parameters, self._views)
            names = ("module", chunk.round, client, *([chunk.first] if chunk.first else []))
            randomness = drawing_from(self.task.seed, *names) if self._draws else nullcontext()
            with randomness:
                self._train_one(drawn.of_row(i), chunk)
            if self._apart:
                _copy(self._views, self._parameters)
            for mine, theirs in own:
                theirs[i] = mine

    def _train_one(self, drawn: DrawnPoints, chunk: Chunk) -> None:
        for step in range(chunk.steps):
            if step < drawn.points.shape[1]:  # a full batch is gathered once
                features = self._gather(drawn, step)
            loss = self.task.loss.mean(self._module(features), drawn.labels_of(step)[0])
            gradients = torch.autograd.grad(loss, self._parameters, materialize_grads=True)  # 0 for what is not used
            self._step(list(gradients), chunk.lr)

    def _gather(self, drawn: DrawnPoints, step: int) -> Tensor:
        batch = drawn.gather(self.task.data.features, step, self._batch)[0]
        return batch.contiguous(memory_format=torch.channels_last) if self._channels_last else batch

    @torch.no_grad()
    def _step(self, gradients: list[Tensor], lr: float) -> None:
        """Take one step: tensor by tensor if it is a plain one, or else of the whole row."""
        if self.task.local.is_plain:
            if self.task.decay:
                torch._foreach_mul_(self._parameters, 1.0 - lr * self.task.decay)
            torch._foreach_add_(self._parameters, gradients, alpha=-lr)
            return
        for view, gradient in zip(self._into_views, gradients, strict=True):
            view.copy_(gradient)
        velocity = self._velocity[None] if self._velocity is not None else None
        self.task.step_(self._row[None], self._into[None], velocity, lr)


def has_convolutions(module: nn.Module) -> bool:
    """Tell whether there are two-dimensional convolutions, whose weights a row holds channels-last."""
    return any(isinstance(part, nn.Conv2d) for part in module.modules())


def prefers_channels_last(module: nn.Module) -> bool:
    """Tell whether a convolutional module is faster channels-last on a CPU: a maximum over windows is, by far."""
    return has_convolutions(module) and any(isinstance(part, nn.MaxPool2d) for part in module.modules())


@torch.no_grad()
def _copy(into: list[Tensor], source: list[Tensor]) -> None:
    for target, tensor in zip(into, source, strict=True):
        target.copy_(tensor)


def draws(module: nn.Module) -> bool:
    """Tell whether a module has a part of torch's own that draws at random.

    >>> draws(nn.Sequential(nn.Linear(3, 2), nn.ReLU())), draws(nn.Sequential(nn.Dropout(0.5)))
    (False, True)
    """
    return any(
        isinstance(part, _DRAWING) or (isinstance(part, _DRAWING_AT_A_RATE) and part.dropout > 0.0)
        for part in module.modules()
    )


def may_draw(module: nn.Module) -> bool:
    """Tell whether a module may draw at random; of modules that are not torch's own it cannot be known."""
    foreign = any(not type(part).__module__.startswith("torch.nn.modules.") for part in module.modules())
    return foreign or draws(module)
