"""Small problems to measure: unequal clients, tiny networks."""

from __future__ import annotations

import numpy as np
import torch
from tests.models.points import numbers, points, texts
from torch import Tensor

from steadfed._core.rng import stream
from steadfed.data._base import Dataset
from steadfed.models import (
    Architecture,
    ConvolutionalNetwork,
    GatedRecurrent,
    ImportedModel,
    LogisticRegression,
    MultilayerPerceptron,
    Quadratic,
    SoftmaxRegression,
)
from steadfed.partitions import Shares
from steadfed.theory.estimate import Objective

SIZES = np.array([7, 1, 2, 7, 3, 4])
"""Clients of different sizes, two of them of one size; 24 points."""
SHARES = Shares(stream(0, "order").permutation(24), np.concatenate([[0], np.cumsum(SIZES)]))

Problem = tuple[Architecture, Dataset]
PROBLEMS: dict[str, Problem] = {
    "quadratic": (Quadratic(strong_convexity=0.2, smoothness=5.0, l2=0.3), numbers(5, dtype=torch.float64)),
    "logistic": (LogisticRegression(l2=0.1), points(4, num_classes=2, dtype=torch.float64)),
    "softmax": (SoftmaxRegression(l2=0.1), points(4, dtype=torch.float64)),
    "perceptron": (MultilayerPerceptron(hidden=(4,), l2=0.01), points(3)),
    "convolutional": (ConvolutionalNetwork(channels=(2, 2), hidden=2), points(1, 4, 4)),
    "normalised": (ImportedModel(factory="tests.models.factories:normalised"), points(4)),
    "recurrent": (GatedRecurrent(embedding=2, hidden=3, layers=1), texts(length=4)),
}


def objective(name: str, **limits: int) -> Objective:
    model, dataset = PROBLEMS[name]
    return Objective.of(model, dataset, SHARES, **limits)


def model_row(name: str) -> Tensor:
    """Return a model that is nowhere special."""
    dim = objective(name).dim
    return torch.from_numpy(0.5 * stream(0, "model", name).standard_normal(dim))


def buffers_row(name: str) -> Tensor | None:
    """Return running statistics, if the model has any; variances among them must be positive."""
    number = objective(name).layout.buffer_dim
    return torch.from_numpy(0.5 + stream(0, "buffers", name).random(number)) if number else None
