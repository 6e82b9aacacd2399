"""Images as models take them: float32 in [0, 1], channels first."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def scaled(images: NDArray[np.uint8]) -> Tensor:
    """Return bytes as float32 numbers in [0, 1].

    >>> scaled(np.array([0, 255], dtype=np.uint8))
    tensor([0., 1.])
    """
    return torch.from_numpy(np.divide(images, np.float32(255), dtype=np.float32))


def classes(labels: NDArray[np.integer]) -> Tensor:
    """Return class numbers as int64."""
    return torch.from_numpy(labels.astype(np.int64))
