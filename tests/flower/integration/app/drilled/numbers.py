"""The arithmetic of honest nodes, so simple that a test can repeat it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]
LR, LOCAL_STEPS = 0.1, 3
LIAR = 3


def initial() -> Arrays:
    """Return the model before the first round: parameters, and buffers of all kinds."""
    return {
        "weight": _waves((3, 4), 0.7),
        "bias": _waves((4,), 1.3),
        "norm.running_mean": np.zeros(2, np.float32),
        "norm.running_var": np.ones(2, np.float32),
        "norm.num_batches_tracked": np.array(0, np.int64),
    }


def trained(arrays: Mapping[str, NDArray[Any]], node: int) -> Arrays:
    """Return what an honest node makes of the model: steps towards what it would like best."""
    result = {name: np.array(values) for name, values in arrays.items()}
    for name in ("weight", "bias"):
        liked = np.float32(2.0) + np.float32(0.1) * _waves(result[name].shape, 0.4 + node)
        for _ in range(LOCAL_STEPS):
            result[name] = result[name] - np.float32(LR) * (result[name] - liked)
    result["norm.running_mean"] += np.float32(0.01 * (node + 1))
    result["norm.running_var"] *= np.float32(0.9 + 0.01 * node)
    result["norm.num_batches_tracked"] += 1
    return result


def distance(arrays: Mapping[str, NDArray[Any]]) -> float:
    """Return what nodes report when they evaluate a model."""
    return float(np.abs(arrays["weight"] - 2.0).mean())


def _waves(shape: tuple[int, ...], pace: float) -> NDArray[np.float32]:
    size = int(np.prod(shape))
    return np.array(np.sin(pace * np.arange(1, size + 1)).reshape(shape), np.float32)
