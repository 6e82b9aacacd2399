"""Random coordinates one word at a time, and Algorithm 1 about them, client by client and number by number."""

from __future__ import annotations

import copy

import torch
from tests.oracles.algorithm1 import Attacked, _batches, _descend, _flat, _gradient, _unflat
from torch import Tensor

from steadfed._core.coordinates import seed_of_round
from steadfed._core.rng import stream
from steadfed.data import Dataset
from steadfed.simulation import RunConfig


def first_different(seed: int, number: int, dim: int) -> list[int]:
    """Return the coordinates as a person would draw them: a word, its remainder, and again if that was there before."""
    words = stream(seed, "coordinates").bit_generator
    wanted = number if 2 * number <= dim else dim - number
    drawn: list[int] = []
    while len(drawn) < wanted:
        word = int(words.random_raw())
        if word < 2**64 // dim * dim and word % dim not in drawn:
            drawn.append(word % dim)
    return sorted(drawn) if wanted == number else [each for each in range(dim) if each not in drawn]


def algorithm_1_about_coordinates(
    config: RunConfig, dataset: Dataset, number: int, attacked: Attacked | None = None
) -> list[Tensor]:
    """Return the global model after every round, of which k coordinates have moved."""
    shares = config.partition.split(dataset, config.seed)
    x = config.model.build(dataset, config.seed).double()
    velocity = torch.zeros_like(_flat(x))
    models = []
    for k in range(config.rounds):
        chosen = first_different(seed_of_round(config.seed, k), number, len(_flat(x)))
        cohort = config.cohorts.cohort(k, shares.num_clients, config.cohort_size, config.seed)
        liars = config.byzantine.among(cohort, k, shares.num_clients, config.seed)
        rows = []
        for r, lies in zip(cohort.tolist(), liars.tolist(), strict=True):
            x_r = copy.deepcopy(x)
            for features, labels in _batches(config, dataset, shares, r, (k, config.steps_of(k))):
                gradient = _gradient(x_r, config.model.loss(), config.model.l2, features.double(), labels)
                _descend(x_r, gradient, config.lr)
            update = (_flat(x) - _flat(x_r)) / config.lr
            part = torch.stack([update[place] for place in chosen])
            rows.append(attacked(part) if lies and attacked is not None else part)
        estimate = config.rule(torch.stack(rows)).update
        step = torch.zeros_like(_flat(x))
        for place, value in zip(chosen, estimate, strict=True):
            velocity[place] = config.server.momentum * velocity[place] + value
            step[place] = velocity[place]
        _descend(x, _unflat(step, x), config.lr)
        models.append(_flat(x))
    return models
