"""Algorithm 1 as it is printed, client by client and step by step, with the errata that a program cannot do without.

Three things differ from the paper: line 15 has the sign that descends, the loop over t ends at the last synchronisation
index, and the model starts where the architecture says and not at 0. Cohorts, batches and who is Byzantine are drawn
from the same streams as in the program under test; nothing else is taken from it. The synchronisation indices I_T are
handed over as a set, whatever the gaps between them are.

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


def algorithm_1(
    config: RunConfig, dataset: Dataset, attacked: Attacked | None = None, indices: set[int] | None = None
) -> list[list[Tensor]]:
    """Return the parameters of the global model after every round.

    `indices` is I_T, 0 and T among them; the multiples of H = `local_steps` up to T if left out.
    """
    dtype = torch.float64
    shares = config.partition.split(dataset, config.seed)
    x = config.model.build(dataset, config.seed).to(dtype)
    I_T = indices or set(range(0, config.total_steps + 1, _constant(config)))  # noqa: N806
    T, K, R = max(I_T), config.cohort_size, shares.num_clients  # noqa: N806
    eta, loss = config.lr, config.model.loss()
    models = []
    t, number = 0, 0
    while t < T:  # line 2; the paper's t <= T runs one round too many
        cohort = config.cohorts.cohort(number, R, K, config.seed)  # line 3
        liars = config.byzantine.among(cohort, number, R, config.seed)
        most = (
            min(index for index in I_T if index > t) - t
        )  # batches that are drawn; which of them are used is line 9's
        received = []
        for r, lies in zip(cohort.tolist(), liars.tolist(), strict=True):
            x_r, own_t = copy.deepcopy(x), t  # line 5
            drawn = iter(_batches(config, dataset, shares, r, (number, most)))
            while True:  # line 6
                features, labels = next(drawn)
                _descend(x_r, _gradient(x_r, loss, config.model.l2, features.to(dtype), labels), eta)  # line 7
                own_t += 1  # line 8
                if own_t in I_T:  # line 9
                    break  # line 11
            received.append((r, x_r, lies))
        t, number = own_t, number + 1
        accumulated = []
        for _, x_r, lies in received:
            g = (_flat(x) - _flat(x_r)) / eta  # line 15; the paper has x_r - x, which ascends
            accumulated.append(attacked(g) if lies and attacked is not None else g)
        estimate = config.rule(torch.stack(accumulated)).update  # line 16
        _descend(x, _unflat(estimate, x), eta)  # line 17
        models.append([each.detach().clone() for each in x.parameters()])
    return models


def _constant(config: RunConfig) -> int:
    if not isinstance(config.local_steps, int):
        raise TypeError("give the synchronisation indices of a run whose gaps differ")
    return config.local_steps


def _batches(
    config: RunConfig, dataset: Dataset, shares: Shares, client: int, round_and_steps: tuple[int, int]
) -> list[tuple[Tensor, Tensor]]:
    """Return the points of every step of a client."""
    round_number, steps = round_and_steps
    own = shares.order[shares.offsets[client] : shares.offsets[client + 1]]
    if config.batch_size == "full":
        drawn = [np.arange(len(own))] * steps
    else:
        size = min(config.batch_size, len(own))
        sizes = np.array([len(own)])
        drawn = list(batches(config.seed, round_number, np.array([client]), sizes, steps=steps, batch_size=size)[0])
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
