"""How good a model is: the objective, the accuracy and other metrics on training and test points."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor, nn

from steadfed.metrics import Metric
from steadfed.models._layout import Layout
from steadfed.models._losses import Loss
from steadfed.simulation._reading import OutputReader, Outputs

_BATCH = 1_000


@dataclass(frozen=True)
class Score:
    """What came of looking at a model."""

    loss: float
    accuracy: float | None
    """None if there is no right or wrong."""
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    """What was asked for besides, by its name in records."""
    outputs: Outputs | None = None
    """What the model says of each point, if anything but loss and accuracy is asked for."""


@dataclass(frozen=True, eq=False)
class Evaluator:
    """Looks at models on some points."""

    module: nn.Module
    """A module of its own, whose weights are overwritten."""
    layout: Layout
    loss: Loss
    l2: float
    features: Tensor
    labels: Tensor
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    """What else is looked at, by its name in records."""
    reader: OutputReader | None = None
    """How outputs are read as predictions; None if there is nothing else to look at."""

    @torch.no_grad()
    def score(self, model: Float[Tensor, " d"], buffers: Float[Tensor, " m"]) -> Score | None:
        """Return the mean loss plus (l2 / 2) ‖x‖², the accuracy and the metrics; None if there is no point."""
        if len(self.features) == 0:
            return None
        self.layout.load(self.module, model, buffers)
        self.module.eval()
        total, correct, guesses = 0.0, 0, 0
        read = None if self.reader is None else Outputs(self.reader, self.labels)
        for start in range(0, len(self.features), _BATCH):
            labels = self.labels[start : start + _BATCH]
            outputs = self.module(self.features[start : start + _BATCH])
            total += float(self.loss.mean(outputs, labels)) * len(labels)
            right = self.loss.num_correct(outputs, labels)
            if right is not None:
                correct, guesses = correct + right, guesses + self.loss.num_guesses(labels)
            if read is not None:
                read.add(outputs, start)
        penalty = 0.5 * self.l2 * float(model.double().square().sum())
        metrics = {} if read is None else {name: each.value(read.predictions()) for name, each in self.metrics.items()}
        return Score(total / len(self.features) + penalty, correct / guesses if guesses else None, metrics, read)


def take_evenly(points: NDArray[np.int64], at_most: int | Literal["all"]) -> NDArray[np.int64]:
    """Return at most so many of the points, evenly spread.

    >>> take_evenly(np.arange(10), 3)
    array([0, 4, 9])
    """
    if at_most == "all" or len(points) <= at_most:
        return points
    return points[np.linspace(0, len(points) - 1, at_most).round().astype(np.int64)] if at_most else points[:0]
