"""Images as models take them: float32 in [0, 1] or standardized, channels first."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from steadfed.data._base import Dataset


def scale_pixels(images: NDArray[np.uint8]) -> Tensor:
    """Return bytes as float32 numbers in [0, 1].

    >>> scale_pixels(np.array([0, 255], dtype=np.uint8))
    tensor([0., 1.])
    """
    return torch.from_numpy(np.divide(images, np.float32(255), dtype=np.float32))


def standardize(dataset: Dataset) -> Dataset:
    """Return images whose numbers have mean 0 and variance 1 over the training set; test images go with them.

    >>> images = torch.tensor([[[[0.0, 1.0]]], [[[1.0, 0.0]]]])
    >>> labels = torch.tensor([0, 1])
    >>> data = Dataset(name="x", features=images, labels=labels, test_features=images, test_labels=labels)
    >>> standardize(data).features.flatten()
    tensor([-1.,  1.,  1., -1.])
    """
    spread, mean = torch.std_mean(dataset.features.double(), correction=0)
    features, tests = (
        ((images.double() - mean) / spread).to(images.dtype) for images in (dataset.features, dataset.test_features)
    )
    return replace(dataset, features=features, test_features=tests)


def classes(labels: NDArray[np.integer | np.bool_]) -> Tensor:
    """Return class numbers as int64."""
    return torch.from_numpy(labels.astype(np.int64))
