"""Small federations, and what is asked of them again and again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from steadfed._core.rng import stream
from steadfed.aggregators import Mean
from steadfed.data import Dataset
from steadfed.models import SoftmaxRegression
from steadfed.partitions import IidPartition
from steadfed.server._record import RoundRecord
from steadfed.server._state import ServerState
from steadfed.simulation import Federation, RunConfig

Played = tuple[list[ServerState], list[RoundRecord]]
"""The states, the first before any round, and the records."""


def classes(num_points: int = 120, dim: int = 5, num_classes: int = 3) -> Dataset:
    """Return points around a centre for each class, owned by ten owners."""
    generator = stream(5, "small", num_points, dim)
    centres = generator.standard_normal((num_classes, dim))
    labels = generator.integers(0, num_classes, num_points + 20)
    features = torch.from_numpy(centres[labels] + 0.7 * generator.standard_normal((num_points + 20, dim))).float()
    whole = torch.from_numpy(labels)
    return Dataset(
        name="small",
        features=features[20:],
        labels=whole[20:],
        test_features=features[:20],
        test_labels=whole[:20],
        num_classes=num_classes,
        groups=np.arange(num_points) % 10,
    )


def images() -> Dataset:
    """Return the points of three classes as images of 2 × 2 pixels."""
    flat = classes(dim=4)
    features, test_features = (each.view(-1, 1, 2, 2) for each in (flat.features, flat.test_features))
    return replace(flat, name="images", features=features, test_features=test_features)


def numbers(num_points: int = 40, dim: int = 3) -> Dataset:
    """Return points whose label is a number."""
    features = torch.from_numpy(stream(5, "numbers").standard_normal((num_points, dim))).float()
    sums = features.sum(1, keepdim=True)
    return Dataset(name="numbers", features=features, labels=sums, test_features=features[:4], test_labels=sums[:4])


def config(**changes: Any) -> RunConfig:
    """Return a configuration that takes milliseconds a round: 12 clients of 10 points, 6 a round, averaged."""
    small: dict[str, Any] = {
        "rounds": 3,
        "cohort_size": 6,
        "local_steps": 2,
        "batch_size": 4,
        "partition": IidPartition(num_clients=12),
        "model": SoftmaxRegression(),
        "rule": Mean(),
        "dtype": "float64",
    }
    return RunConfig(**(small | changes))


def played(what: RunConfig, dataset: Dataset | None = None, *, jobs: int = 1) -> Played:
    """Return the states and records of a whole run."""
    with Federation(what, dataset=dataset if dataset is not None else classes(), jobs=jobs) as federation:
        states, records = [federation.start()], []
        for _ in range(what.rounds):
            state, record = federation.play(states[-1])
            states.append(state)
            records.append(record)
    return states, records


def bits(states: list[ServerState]) -> list[Tensor]:
    """Return the models."""
    return [state.model for state in states]


def same_bits(one: Played, other: Played) -> bool:
    """Tell whether two runs agree to the last bit, but for how long they took."""
    records = [[record.model_copy(update={"seconds": {}}) for record in each[1]] for each in (one, other)]
    equal = all(
        torch.equal(a.model, b.model) and torch.equal(a.buffers, b.buffers)
        for a, b in zip(one[0], other[0], strict=True)
    )
    return equal and records[0] == records[1]
