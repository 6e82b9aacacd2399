"""The literal loop: a copy of the model and torch's own SGD for one client, step by step."""

from __future__ import annotations

import copy

import numpy as np
import torch
from torch import Tensor

from steadfed.simulation._batches import batches
from steadfed.simulation._local import Chunk, TrainingTask


def local_steps(task: TrainingTask, chunk: Chunk, row: Tensor, buffers: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return x_r and the buffers of the one client of the chunk after its H steps from the model in the row."""
    module = copy.deepcopy(task.module).train()
    task.layout.load(module, row, torch.empty(0) if buffers is None else buffers)
    local = task.local
    optimizer = torch.optim.SGD(module.parameters(), lr=chunk.lr, momentum=local.momentum)
    for features, labels in _batches(task, chunk):
        optimizer.zero_grad()
        objective = task.loss.mean(module(features), labels)
        objective = objective + task.l2 / 2 * sum(each.square().sum() for each in module.parameters())
        torch.autograd.backward(objective)
        for each in module.parameters():  # before clipping, which torch's own decay would come after
            assert each.grad is not None
            each.grad.add_(each.detach(), alpha=local.weight_decay)
        if local.clip is not None:
            _clip(list(module.parameters()), local.clip)
        optimizer.step()
    return task.layout.parameters_of(module, row.dtype), task.layout.buffers_of(module, row.dtype)


def _clip(parameters: list[torch.nn.Parameter], longest: float) -> None:
    """Do what `torch.nn.utils.clip_grad_norm_` does, without its 1e-6 in the denominator."""
    gradients = [each.grad for each in parameters if each.grad is not None]
    length = torch.nn.utils.get_total_norm(gradients)
    if length > longest:
        for gradient in gradients:
            gradient.mul_(longest / length)


def _batches(task: TrainingTask, chunk: Chunk) -> list[tuple[Tensor, Tensor]]:
    client, data, local = int(chunk.clients[0]), task.data, task.local
    points = torch.from_numpy(data.shares.points(client))
    features, labels = data.features[points], data.labels[points]
    if chunk.poisoned[0]:
        labels = data.poisoned(client).labels
    if local.batch_size == "full":
        return [(features, labels)] * local.steps
    drawn = batches(
        task.seed,
        chunk.round,
        np.array([client]),
        np.array([len(points)]),
        steps=local.steps,
        batch_size=min(local.batch_size, len(points)),
    )[0]
    return [(features[torch.from_numpy(step)], labels[torch.from_numpy(step)]) for step in drawn]
