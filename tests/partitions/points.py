"""Small data sets to deal out."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from steadfed._core.rng import stream
from steadfed.data._base import Dataset


def labelled(
    num_points: int, num_classes: int, *, skew: float = 0.0, groups: NDArray[np.int64] | None = None
) -> Dataset:
    """Return points with random classes; class c is exp(skew · c) times as frequent as class 0."""
    weights = np.exp(skew * np.arange(num_classes))
    labels = stream(0, "labels").choice(num_classes, num_points, p=weights / weights.sum())
    features = torch.arange(num_points, dtype=torch.float32)[:, None]
    return Dataset(
        name="labelled",
        features=features,
        labels=torch.from_numpy(labels),
        test_features=features[:1],
        test_labels=torch.from_numpy(labels[:1]),
        num_classes=num_classes,
        groups=groups,
    )


def tokens(num_points: int, groups: NDArray[np.int64] | None = None) -> Dataset:
    """Return texts with one label per token."""
    text = torch.zeros((num_points, 5), dtype=torch.int64)
    return Dataset(
        name="text",
        features=text,
        labels=text,
        test_features=text[:1],
        test_labels=text[:1],
        num_classes=3,
        groups=groups,
    )


def numbers(num_points: int, groups: NDArray[np.int64] | None = None) -> Dataset:
    """Return points whose labels are numbers."""
    values = torch.zeros(num_points)
    return Dataset(
        name="numbers",
        features=values[:, None],
        labels=values,
        test_features=values[:1, None],
        test_labels=values[:1],
        groups=groups,
    )
