"""torch.func: the gradient of one client, vectorised over the clients of a chunk."""

from __future__ import annotations

import warnings
from typing import ClassVar, final

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.func import functional_call, grad, vmap

from steadfed.simulation._engines.base import Engine, EngineRefusalError
from steadfed.simulation._engines.points import DrawnPoints, Scratch
from steadfed.simulation._local import Chunk, TrainingTask

_ROW_NUMBERS = 2**21
"""How many parameters the clients of a chunk may have together."""

Tensors = dict[str, Tensor]


@final
class VmapEngine(Engine):
    """Any module that `torch.func.vmap` can take: no buffers that change, no dropout, no branch on data."""

    name: ClassVar[str] = "vmap"
    company_matters: ClassVar[bool] = True

    def __init__(self, task: TrainingTask) -> None:
        """Try one step of two clients; whatever goes wrong becomes a refusal."""
        super().__init__(task)
        self._module = task.module
        self._floats = frozenset(place.name for place in task.layout.buffers)
        self._gradients = vmap(grad(self._objective), in_dims=(0, 0, None, 0, 0))
        self._batch, self._into = Scratch(), Scratch()
        self.chunk_size = max(1, min(32, _ROW_NUMBERS // task.layout.dim))
        self._try()

    @torch.no_grad()
    def train(
        self,
        rows: Float[Tensor, "c d"],
        chunk: Chunk,
        *,
        momentum: Float[Tensor, "c d"] | None = None,
        buffers: Float[Tensor, "c m"] | None = None,
    ) -> None:
        """Take the steps of all clients together."""
        self._take(rows, chunk, momentum, buffers)

    def _take(self, rows: Tensor, chunk: Chunk, momentum: Tensor | None, buffers: Tensor | None) -> None:
        drawn, layout = DrawnPoints.of(self.task, chunk), self.task.layout
        self._module.train()
        parameters = layout.parameter_views(rows)
        own = layout.buffer_views(buffers) if buffers is not None else {}
        counts = {name: each for name, each in self._module.named_buffers() if name not in self._floats}
        into = None if self.task.local.is_plain else self._into.empty(tuple(rows.shape), rows)
        for step in range(chunk.steps):
            if step < drawn.points.shape[1]:  # a full batch is gathered once
                features = drawn.gather(self.task.data.features, step, self._batch)
            labels = drawn.labels_of(step)
            gradients = self._gradients(parameters, own, counts, features, labels)
            if into is None:
                self._descend(parameters, gradients, chunk.lr)
            else:
                for name, view in layout.parameter_views(into).items():
                    view.copy_(gradients[name])
                self.task.step_(rows, into, momentum, chunk.lr)

    def _objective(
        self, parameters: Tensors, buffers: Tensors, counts: Tensors, features: Tensor, labels: Tensor
    ) -> Tensor:
        outputs = functional_call(self._module, (parameters, buffers, counts), (features,))
        return self.task.loss.mean(outputs, labels)

    def _descend(self, parameters: Tensors, gradients: Tensors, lr: float) -> None:
        """Take a plain step: x ← (1 − ηλ) x − η g."""
        keep = 1.0 - lr * self.task.decay
        for name, parameter in parameters.items():
            if keep != 1.0:
                parameter.mul_(keep)
            parameter.add_(gradients[name], alpha=-lr)

    @torch.no_grad()
    def _try(self) -> None:
        """Take a step of the first clients of a kind, or say why not."""
        kinds = self.kinds(np.arange(min(64, self.task.data.shares.num_clients)))
        clients = np.flatnonzero(kinds == kinds[0])[:2]
        layout, some = self.task.layout, next(self._module.parameters())
        rows = layout.parameters_of(self._module, some.dtype).to(some.device).repeat(len(clients), 1)
        buffers = layout.buffers_of(self._module, some.dtype).to(some.device).repeat(len(clients), 1)
        own, module_own = buffers.clone(), [each.clone() for each in self._module.buffers()]
        momentum = torch.zeros_like(rows) if self.task.local.momentum else None
        chunk = Chunk(0, 1e-3, 1, clients, np.zeros(len(clients), dtype=np.bool_))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                self._take(rows, chunk, momentum, buffers)
        except Exception as error:  # noqa: BLE001  whatever a module does that vmap cannot take
            raise EngineRefusalError(f"vmap cannot take the model: {_one_line(error)}") from None
        finally:
            changed = [not torch.equal(*pair) for pair in zip(self._module.buffers(), module_own, strict=True)]
            for buffer, before in zip(self._module.buffers(), module_own, strict=True):
                buffer.copy_(before)
        if any(changed) or not torch.equal(own, buffers):
            raise EngineRefusalError("vmap cannot take the model: it changes its buffers, such as running means")


def _one_line(error: Exception) -> str:
    """Return the first sentence of an error, at most 160 characters."""
    text = " ".join(str(error).split()) or type(error).__name__
    sentence = text.partition(". ")[0]
    return sentence if len(sentence) <= 160 else f"{sentence[:159]}…"
