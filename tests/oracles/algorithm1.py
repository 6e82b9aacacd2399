"""Algorithm 1 as it is printed, client by client and step by step, with the errata that a program cannot do without.

Three things differ from the paper: line 15 has the sign that descends, the loop over t ends after T/H rounds, and the
model starts where the architecture says and not at 0. Cohorts, batches and who is Byzantine are drawn from the same
streams as in the program under test; nothing else is taken from it.

Everybody answers with finite rows here and every step is finite, as in the paper: no round is skipped, and the K rows
are those of all clients that were asked.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from steadfed.data import Dataset
from steadfed.models._losses import Loss
from steadfed.partitions import Shares
from steadfed.simulation import RunConfig
from steadfed.simulation._batches import batches

Attacked = Callable[[Tensor], Tensor]
"""What a Byzantine client makes of its own accumulated gradient."""


def algorithm_1(config: RunConfig, dataset: Dataset, attacked: Attacked | None = None) -> list[list[Tensor]]:
    """Return the parameters of the global model after every round."""
    dtype = torch.float64
    shares = config.partition.split(dataset, config.seed)
    x = config.model.build(dataset, config.seed).to(dtype)
    T, H, K, R = config.total_steps, config.local_steps, config.cohort_size, shares.num_clients  # noqa: N806
    eta, loss = config.lr, config.model.loss()
    models = []
    t = 0
    while t < T:  # line 2; the paper's t <= T runs one round too many
        cohort = config.cohorts.cohort(t // H, R, K, config.seed)  # line 3
        liars = config.byzantine.among(cohort, t // H, R, config.seed)
        received = []
        for r, lies in zip(cohort.tolist(), liars.tolist(), strict=True):
            x_r = copy.deepcopy(x)  # line 5
            for features, labels in _batches(config, dataset, shares, r, t // H):  # line 6
                _descend(x_r, _gradient(x_r, loss, config.model.l2, features.to(dtype), labels), eta)  # lines 7, 8
            received.append((r, x_r, lies))
        t += H
        accumulated = []
        for _, x_r, lies in received:
            g = (_flat(x) - _flat(x_r)) / eta  # line 15; the paper has x_r - x, which ascends
            accumulated.append(attacked(g) if lies and attacked is not None else g)
        estimate = config.rule(torch.stack(accumulated)).update  # line 16
        _descend(x, _unflat(estimate, x), eta)  # line 17
        models.append([each.detach().clone() for each in x.parameters()])
    return models


def _batches(
    config: RunConfig, dataset: Dataset, shares: Shares, client: int, round_number: int
) -> list[tuple[Tensor, Tensor]]:
    """Return the points of every step of a client."""
    own = shares.order[shares.offsets[client] : shares.offsets[client + 1]]
    if config.batch_size == "full":
        drawn = [np.arange(len(own))] * config.local_steps
    else:
        size = min(config.batch_size, len(own))
        sizes = np.array([len(own)])
        drawn = list(
            batches(config.seed, round_number, np.array([client]), sizes, steps=config.local_steps, batch_size=size)[0]
        )
    points = [torch.from_numpy(own[step]) for step in drawn]
    return [(dataset.features[step], dataset.labels[step]) for step in points]


def _gradient(model: nn.Module, loss: Loss, l2: float, features: Tensor, labels: Tensor) -> list[Tensor]:
    """Return the gradient of the mean loss over the points plus (l2/2) times the squared length of the parameters."""
    objective = loss.mean(model(features), labels)
    for parameter in model.parameters():
        objective = objective + l2 / 2 * parameter.square().sum()
    return list(torch.autograd.grad(objective, list(model.parameters())))


def _descend(model: nn.Module, gradients: list[Tensor], eta: float) -> None:
    with torch.no_grad():
        for parameter, gradient in zip(model.parameters(), gradients, strict=True):
            parameter.copy_(parameter - eta * gradient)


def _flat(model: nn.Module) -> Tensor:
    return torch.cat([each.detach().reshape(-1) for each in model.parameters()])


def _unflat(vector: Tensor, model: nn.Module) -> list[Tensor]:
    parts, place = [], 0
    for parameter in model.parameters():
        parts.append(vector[place : place + parameter.numel()].view_as(parameter))
        place += parameter.numel()
    return parts
