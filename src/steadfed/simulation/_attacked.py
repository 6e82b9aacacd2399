"""What an attack through the data changes in a setting: who trains on what, and which points its goal is counted on."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from steadfed.attacks import Poisoning
from steadfed.attacks._replacement import training_of
from steadfed.data import Dataset
from steadfed.simulation._config import RunConfig
from steadfed.simulation._local import Adversarial


def adversarial_of(
    config: RunConfig, poisoning: Poisoning | None, num_clients: int, holders: int
) -> Adversarial | None:
    """Return what clients do while they attack through their data; the server, if it holds points, never does."""
    if poisoning is None:
        return None
    members = np.zeros(holders, dtype=np.bool_)
    members[:num_clients] = config.byzantine.ever(num_clients, config.seed)
    return Adversarial(poisoning, members, training_of(config.attack))


def attacked_points(
    poisoning: Poisoning, dataset: Dataset, test_points: NDArray[np.int64]
) -> tuple[Tensor, Tensor] | None:
    """Return the test points that the adversary wants misjudged, trigger and all, and as what; None without a goal.

    They are copied, as many as there are: at most one test set.
    """
    places = torch.from_numpy(test_points)
    goal = poisoning.goal(dataset.test_features[places], dataset.test_labels[places])
    if goal is None:
        return None
    points = dataset.test_features[places[goal.points]]
    if goal.trigger is not None:
        goal.trigger.stamp_(points, torch.ones(len(points), dtype=torch.bool))
    return points, torch.full((len(points),), goal.target_label)
