"""Small tasks of every kind for engines."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from tests.oracles.local_steps import local_steps
from torch import Tensor, nn

from steadfed._core.rng import stream
from steadfed.attacks import DataAttack, EdgeCase, FeatureTrigger, LabelFlip
from steadfed.attacks._replacement import AdversarialTraining
from steadfed.data import Dataset
from steadfed.models._layout import Layout
from steadfed.models._losses import CrossEntropy, HalfSquares, Huber, Logistic, Loss
from steadfed.partitions._base import Shares
from steadfed.simulation._engines.base import Engine
from steadfed.simulation._local import Adversarial, Chunk, ClientData, LocalSteps, TrainingTask

SIZES = (20, 20, 7, 33, 20, 12, 7, 20)
"""Points of each client: some have fewer than a batch, some equally many."""
CLASSES = 4

Start = tuple[Tensor, Tensor]
"""Rows of parameters, rows of buffers."""


def softmax() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(12, CLASSES))


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(12, 9), nn.ReLU(), nn.Linear(9, 6, bias=False), nn.ReLU(), nn.Linear(6, CLASSES))


def one_output() -> nn.Module:
    return nn.Sequential(nn.Linear(12, 1))


def two_outputs() -> nn.Module:
    return nn.Sequential(nn.Linear(12, 5, bias=False), nn.Linear(5, 2))


def tanh() -> nn.Module:
    return nn.Sequential(nn.Linear(12, 9), nn.Tanh(), nn.LayerNorm(9), nn.Linear(9, CLASSES))


def convolutions() -> nn.Module:
    return nn.Sequential(
        nn.Unflatten(1, (1, 3, 4)),
        nn.Conv2d(1, 6, 3, padding=1),
        nn.GroupNorm(2, 6),
        nn.ReLU(),
        nn.Conv2d(6, 3, 2),
        nn.Flatten(),
        nn.Linear(18, CLASSES),
    )


def pooled() -> nn.Module:
    return nn.Sequential(
        nn.Unflatten(1, (1, 3, 4)),
        nn.Conv2d(1, 6, 3, padding=1),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(12, CLASSES),
    )


def batch_norm() -> nn.Module:
    return nn.Sequential(nn.Linear(12, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, CLASSES))


class Speaker(nn.Module):
    """A recurrent model of tokens: one guess per token."""

    def __init__(self, kind: type[nn.RNNBase]) -> None:
        super().__init__()
        self.embedding = nn.Embedding(CLASSES, 5)
        self.recurrent: nn.Module = kind(5, 6, batch_first=True)  # type: ignore[arg-type, call-arg]
        self.out = nn.Linear(6, CLASSES)

    def forward(self, tokens: Tensor) -> Tensor:
        states: Tensor = self.recurrent(self.embedding(tokens))[0]
        outputs: Tensor = self.out(states)
        return outputs


def task_of(
    module: nn.Module,
    *,
    loss: Loss | None = None,
    l2: float = 0.0,
    dtype: torch.dtype = torch.float64,
    poison: DataAttack | None = None,
    training: AdversarialTraining | None = None,
    tokens: bool = False,
    sizes: tuple[int, ...] = SIZES,
    **local: Any,
) -> TrainingTask:
    """Return a task on random points whose labels fit the loss."""
    loss = loss if loss is not None else CrossEntropy()
    generator, number = stream(3, "points"), sum(sizes)
    features = torch.from_numpy(generator.standard_normal((number, 12))).to(dtype)
    labels = torch.from_numpy(generator.integers(0, 2 if isinstance(loss, Logistic) else CLASSES, number))
    if isinstance(loss, HalfSquares | Huber):
        labels = torch.from_numpy(generator.standard_normal((number, 2))).to(dtype)
    if tokens:
        features = torch.from_numpy(generator.integers(0, CLASSES, (number, 7)))
        labels = torch.from_numpy(generator.integers(0, CLASSES, (number, 7)))
    shares = Shares(generator.permutation(number), np.concatenate([[0], np.cumsum(sizes)]))
    adversarial = None
    if poison is not None:
        dataset = Dataset(
            name="task",
            features=features,
            labels=labels,
            test_features=features,
            test_labels=labels,
            num_classes=CLASSES,
        )
        members = np.arange(len(sizes)) % 2 == 1
        adversarial = Adversarial(poison.poisoning(dataset), members, training)
    data = ClientData(features, labels, CLASSES, shares, torch.from_numpy(shares.order), adversarial, seed=1)
    with torch.no_grad():
        for parameter in module.to(dtype).parameters():
            parameter.copy_(torch.from_numpy(generator.standard_normal(tuple(parameter.shape))) / 2)
    defaults: dict[str, Any] = {"steps": 5, "batch_size": 8}
    return TrainingTask(module, Layout.of(module), loss, l2, LocalSteps(**(defaults | local)), data, seed=1)


def poisoned_task(module: nn.Module, **options: Any) -> TrainingTask:
    """Return a task whose clients flip their labels while they attack."""
    return task_of(module, poison=LabelFlip(), **options)


def triggered_task(module: nn.Module, **options: Any) -> TrainingTask:
    """Return a task whose clients stamp a trigger on some of their points, each its own part, while they attack."""
    return task_of(module, poison=FeatureTrigger(features=(0, 5, 7), values=(3.0, -2.0, 1.0), num_parts=2), **options)


def replaced_task(module: nn.Module, **options: Any) -> TrainingTask:
    """Return a task whose clients put rare points in the place of some of theirs while they attack."""
    return task_of(module, poison=EdgeCase(share=0.3), **options)


def start_of(task: TrainingTask, number: int) -> Start:
    """Return the rows of so many clients that hold the model, and their buffers."""
    dtype = next(task.module.parameters()).dtype
    rows = task.layout.parameters_of(task.module, dtype).repeat(number, 1)
    return rows, task.layout.buffers_of(task.module, dtype).repeat(number, 1)


def chunk_of(task: TrainingTask, clients: list[int], number: int = 3) -> Chunk:
    """Return a round of these clients; those with odd numbers attack if the task has a poison."""
    ids = np.array(clients)
    return Chunk(number, 0.05, task.local.steps, ids, (ids % 2 == 1) & (task.data.adversarial is not None))


def trained(engine: Engine, largest: int = 100, *, backwards: bool = False, start: Start | None = None) -> Start:
    """Return the rows and buffers of all clients after a round, taken in chunks of at most so many of one kind."""
    task = engine.task
    number = task.data.shares.num_clients
    clients = np.arange(number)[:: -1 if backwards else 1]
    kinds = engine.kinds(clients)
    rows, buffers = (each.clone() for each in (start if start is not None else start_of(task, number)))
    for kind in np.unique(kinds):
        same = clients[kinds == kind]
        for first in range(0, len(same), largest):
            some = same[first : first + largest]
            wide = torch.full((len(some), rows.shape[1] + 3), torch.nan, dtype=rows.dtype)
            own, own_buffers = wide[:, : rows.shape[1]], buffers[some]  # rows of a wider matrix are strided
            own.copy_(rows[some])
            momentum = torch.zeros_like(own) if task.local.momentum else None
            chunk = chunk_of(task, some.tolist())
            engine.train(own, chunk, momentum=momentum, buffers=own_buffers if buffers.shape[1] else None)
            rows[some], buffers[some] = own, own_buffers
    return rows, buffers


def expected(task: TrainingTask) -> Start:
    """Return what the literal loop gives for all clients."""
    rows, buffers = start_of(task, task.data.shares.num_clients)
    results = [
        local_steps(task, chunk_of(task, [client]), rows[client], buffers[client]) for client in range(len(rows))
    ]
    return torch.stack([row for row, _ in results]), torch.stack([own for _, own in results])
