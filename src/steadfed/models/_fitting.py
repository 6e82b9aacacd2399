"""What a model needs of the data: vectors, images or texts, refused with both shapes if they are not."""

from __future__ import annotations

import math

from steadfed.data._base import Dataset
from steadfed.errors import DataError


def vector_length(dataset: Dataset, model: str) -> int:
    """Return how many numbers a point has, whatever its shape, if points are floats with one label each."""
    if not dataset.features.is_floating_point():
        raise _misfit(dataset, model, "points of floats")
    if dataset.num_classes is not None and dataset.labels.ndim != 1:
        raise _misfit(dataset, model, "one label per point")
    return math.prod(dataset.point_shape)


def image_shape(dataset: Dataset, model: str, *, smallest: int) -> tuple[int, int, int]:
    """Return channels, height and width of an image, if points are images with sides of at least `smallest`."""
    vector_length(dataset, model)
    if len(dataset.point_shape) != 3 or min(dataset.point_shape[1:]) < smallest:
        raise _misfit(dataset, model, f"images, channels × height × width with sides of at least {smallest}")
    channels, height, width = dataset.point_shape
    return channels, height, width


def num_symbols(dataset: Dataset, model: str) -> int:
    """Return how many symbols there are, if points are texts of int64 tokens with one label per token."""
    if dataset.features.is_floating_point() or dataset.num_classes is None or len(dataset.point_shape) != 1:
        raise _misfit(dataset, model, "texts, one row of int64 tokens per point")
    if dataset.labels.shape != dataset.features.shape:
        raise _misfit(dataset, model, "one label per token")
    outside = dataset.features[(dataset.features < 0) | (dataset.features >= dataset.num_classes)]
    if len(outside):
        raise DataError(f"{dataset.name}: tokens must lie in 0 .. {dataset.num_classes - 1}, got {int(outside[0])}")
    return dataset.num_classes


def _misfit(dataset: Dataset, model: str, wanted: str) -> DataError:
    kind = str(dataset.features.dtype).removeprefix("torch.")
    return DataError(
        f"{model} takes {wanted}; a point of {dataset.name} has shape {dataset.point_shape} of {kind}, "
        f"its label shape {tuple(dataset.labels.shape[1:])}"
    )
