"""Small data sets for models."""

from __future__ import annotations

import torch

from steadfed._core.rng import stream
from steadfed.data._base import Dataset


def points(*shape: int, num_classes: int = 3, num_points: int = 24, dtype: torch.dtype = torch.float32) -> Dataset:
    """Return points around a centre for each class, so that there is something to learn."""
    generator = stream(0, "points", *shape)
    labels = torch.arange(num_points) % num_classes
    centres = torch.from_numpy(generator.standard_normal((num_classes, *shape)))
    noise = torch.from_numpy(generator.standard_normal((num_points, *shape)))
    features = (centres[labels] + 0.3 * noise).to(dtype)
    return dataset("points", features, labels, num_classes)


def texts(num_symbols: int = 5, length: int = 8, num_points: int = 24) -> Dataset:
    """Return texts that count through the symbols from a random one on."""
    starts = torch.from_numpy(stream(0, "texts").integers(0, num_symbols, num_points))
    text = (starts[:, None] + torch.arange(length + 1)) % num_symbols
    return dataset("texts", text[:, :-1].contiguous(), text[:, 1:].contiguous(), num_symbols)


def numbers(dim: int = 4, num_points: int = 24, dtype: torch.dtype = torch.float32) -> Dataset:
    """Return points whose label is a number each, their sum."""
    features = torch.from_numpy(stream(0, "numbers").standard_normal((num_points, dim))).to(dtype)
    return dataset("numbers", features, features.sum(1), None)


def dataset(name: str, features: torch.Tensor, labels: torch.Tensor, num_classes: int | None) -> Dataset:
    """Return a data set that is tested on its first points."""
    return Dataset(
        name=name,
        features=features,
        labels=labels,
        test_features=features[:2],
        test_labels=labels[:2],
        num_classes=num_classes,
    )
