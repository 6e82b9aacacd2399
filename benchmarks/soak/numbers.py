"""The arithmetic of honest nodes: each goes half of the way to a place of its own; all places are near each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]
LR = 0.5
SHAPES = {"weight": (40, 50), "bias": (50,)}


def initial() -> Arrays:
    """Return the model before the first round: far from where everybody wants it."""
    return {name: np.zeros(shape, np.float32) for name, shape in SHAPES.items()}


def liked(name: str, node: int) -> NDArray[np.float32]:
    """Return where a node wants an array to be."""
    size = int(np.prod(SHAPES[name]))
    waves = np.sin((0.4 + 0.3 * node) * np.arange(1, size + 1)).reshape(SHAPES[name])
    return np.asarray(2.0 + 0.1 * waves, np.float32)


def trained(arrays: Mapping[str, NDArray[Any]], node: int) -> Arrays:
    """Return what an honest node makes of the model."""
    half = np.float32(0.5)
    return {name: arrays[name] + half * (liked(name, node) - arrays[name]) for name in SHAPES}


def distance(arrays: Mapping[str, NDArray[Any]], honest: int) -> float:
    """Return how far the model is from the middle of the honest places: 1 as the farthest of them is.

    >>> distance({name: liked(name, 0) for name in SHAPES}, 1)
    0.0
    """
    here = _row(arrays)
    places = np.stack([_row({name: liked(name, node) for name in SHAPES}) for node in range(honest)])
    middle = places.mean(axis=0)
    unit = max(float(np.linalg.norm(place - middle)) for place in places) or 1.0
    return float(np.linalg.norm(here - middle)) / unit


def _row(arrays: Mapping[str, NDArray[Any]]) -> NDArray[np.float64]:
    return np.concatenate([np.asarray(arrays[name], np.float64).ravel() for name in SHAPES])
