"""The literal loop: a copy of the model and torch's own SGD for one client, step by step."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from steadfed.attacks._replacement import AdversarialTraining
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
        features, labels = _poisoned(task, client, features)
    if local.batch_size == "full":
        return [(features, labels)] * chunk.steps
    drawn = batches(
        task.seed,
        chunk.round,
        np.array([client]),
        np.array([len(points)]),
        steps=chunk.steps,
        batch_size=min(local.batch_size, len(points)),
    )[0]
    return [(features[torch.from_numpy(step)], labels[torch.from_numpy(step)]) for step in drawn]


def _poisoned(task: TrainingTask, client: int, features: Tensor) -> tuple[Tensor, Tensor]:
    """Return the points and labels of a client that attacks, point by point and number by number."""
    share = task.data.poisoned(client)
    own = []
    for position, point in enumerate(features):
        new = (point if share.places is None else task.data.features[share.places[position]]).clone()
        if share.trigger is not None and share.marked is not None and bool(share.marked[position]):
            for coordinate, value in zip(share.trigger.coordinates, share.trigger.values, strict=True):
                new.view(-1)[coordinate] = value
        own.append(new)
    return torch.stack(own), share.labels


def adversarial_local_steps(task: TrainingTask, chunk: Chunk, row: Tensor, training: AdversarialTraining) -> Tensor:
    """Return X of the one client of the chunk, which attacks, by autograd on α L_class + (1 − α) ‖X − G‖ as written."""
    module = copy.deepcopy(task.module).train()
    task.layout.load(module, row, torch.empty(0, dtype=row.dtype))
    steps, lr = training.steps or chunk.steps, training.lr or chunk.lr
    start = [each.detach().clone() for each in module.parameters()]
    for features, labels in _batches(task, replace(chunk, steps=steps)):
        parameters = list(module.parameters())
        squares = torch.stack([each.square().sum() for each in parameters]).sum()
        away = torch.cat([(each - old).flatten() for each, old in zip(parameters, start, strict=True)])
        on_class = task.loss.mean(module(features), labels) + task.decay / 2 * squares
        gradients = torch.autograd.grad(training.alpha * on_class, parameters, retain_graph=True)
        if bool(away.any()):  # at X = G the distance has no gradient, and 0 is taken
            pulls = torch.autograd.grad((1.0 - training.alpha) * away.norm(), parameters)
            gradients = tuple(own + pull for own, pull in zip(gradients, pulls, strict=True))
        with torch.no_grad():
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter.sub_(lr * gradient)
            length = torch.cat([(each - old).flatten() for each, old in zip(parameters, start, strict=True)]).norm()
            if training.radius is not None and length > training.radius:
                for parameter, old in zip(parameters, start, strict=True):
                    parameter.copy_(old + training.radius / length * (parameter - old))
    return task.layout.parameters_of(module, row.dtype)
