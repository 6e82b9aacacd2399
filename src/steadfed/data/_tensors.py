"""A user's own arrays as a data set."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from steadfed.data._base import Dataset
from steadfed.data._pixels import scale_pixels
from steadfed.errors import DataError

MOST_CLASSES = 1 << 20
"""A model makes room for every class: a label of 10¹⁵ is no class."""


def from_tensors(
    features: Any,
    labels: Any,
    test_features: Any = None,
    test_labels: Any = None,
    *,
    groups: Any = None,
    num_classes: int | None = None,
    name: str = "tensors",
) -> Dataset:
    """Return a data set of tensors, arrays or nested lists, one point per entry of the first dimension.

    Features: float32 and float64 stay (a run has a dtype of its own), other floats become float32, bytes (uint8) are
    pixels and become float32 in [0, 1], other integers are tokens and become int64. Labels: integers are classes,
    floating numbers are targets of a regression.

    Args:
        features: The points to train on.
        labels: Their labels.
        test_features: The points to test on; None for no test.
        test_labels: Their labels.
        groups: The owner of each training point, by number or by name; None if the points have no owners.
        num_classes: How many classes (or symbols, for tokens) there are; None counts up to the largest seen.
        name: What the data set is called.

    >>> from_tensors([[0.5], [1.0], [2.0]], [0, 1, 1], groups=["anna", "bert", "anna"]).group_names
    ('anna', 'bert')
    """
    points, targets = _features(features, name), _labels(labels, name)
    if (test_features is None) != (test_labels is None):
        raise DataError(f"{name}: test points and test labels must be given together, or neither")
    tests = points[:0] if test_features is None else _features(test_features, name)
    test_targets = targets[:0] if test_labels is None else _labels(test_labels, name)
    owners, owner_names = (None, ()) if groups is None else owners_of(groups, name)
    if num_classes is None:
        num_classes = _count(name, points, targets, tests, test_targets)
    return Dataset(
        name=name,
        features=points,
        labels=targets,
        test_features=tests,
        test_labels=test_targets,
        num_classes=num_classes,
        groups=owners,
        group_names=owner_names,
    )


def with_test_owners(dataset: Dataset, groups: Any) -> Dataset:
    """Return the data set with the owner of each test point, so that every client has test points of its own.

    Args:
        dataset: Data whose training points have owners.
        groups: The owner of each test point, by the numbers or names that training points have; others are nobody.

    Raises:
        DataError: the training points have no owners, or there is not one for every test point.

    >>> data = from_tensors([[0.5], [1.0]], [0, 1], [[2.0], [3.0]], [0, 1], groups=["anna", "bert"])
    >>> with_test_owners(data, ["bert", "carl"]).test_groups
    array([ 1, -1])
    """
    if dataset.groups is None:
        raise DataError(f"{dataset.name}: owners of test points are among those of training points, which have none")
    owners, called = owners_of(groups, dataset.name)
    known = dataset.group_names or tuple(str(each) for each in range(int(dataset.groups.max()) + 1))
    places = {name: place for place, name in enumerate(known)}
    return replace(dataset, test_groups=np.array([places.get(name, -1) for name in called], dtype=np.int64)[owners])


def owners_of(groups: Any, name: str) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Return owners counted from 0 in the order of their numbers or names, and what they are called."""
    given = array_of(groups, f"{name}: the owners")
    if given.ndim != 1 or given.dtype.kind not in "iuUb":
        raise DataError(
            f"{name}: owners must be one number or name for each point, got {given.dtype} of shape {given.shape}"
        )
    names, owners = np.unique(given, return_inverse=True)
    return owners.astype(np.int64), tuple(str(each) for each in names)


def array_of(values: Any, what: str) -> NDArray[Any]:
    """Return a tensor, an array or a nested list as an array of numbers or strings."""
    try:
        array = values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)
    except (ValueError, TypeError, RuntimeError) as error:
        raise DataError(f"{what} are no array: {error}") from error
    if array.dtype.kind not in "biufU":
        raise DataError(f"{what} must be numbers, got {array.dtype} of shape {array.shape}")
    return array


def _features(values: Any, name: str) -> Tensor:
    array = array_of(values, f"{name}: the points")
    if array.ndim < 2 or array.dtype.kind == "U":
        raise DataError(
            f"{name}: points must be arrays of numbers with a first dimension that counts them, got {array.dtype} of "
            f"shape {array.shape}"
        )
    if array.dtype == np.uint8:
        return scale_pixels(array)
    kind = _kind(array)
    largest = float(np.finfo(np.float32).max)
    if kind is np.float64 and bool((np.isfinite(array) & (np.abs(array) > largest)).any()):
        raise DataError(f"{name}: a point exceeds ±{largest:.3g} and would be NaN or Inf in a run with float32")
    with np.errstate(over="ignore"):  # what overflows is Inf, which the data set refuses
        return torch.from_numpy(array.astype(kind))


def _labels(values: Any, name: str) -> Tensor:
    array = array_of(values, f"{name}: the labels")
    if array.ndim < 1 or array.dtype.kind == "U":
        raise DataError(
            f"{name}: labels must be numbers, one or more for each point, got {array.dtype} of shape {array.shape}"
        )
    return torch.from_numpy(array.astype(_kind(array)))


def _kind(array: NDArray[Any]) -> type[np.generic]:
    """Return the dtype in which numbers are kept."""
    if array.dtype.kind != "f":
        return np.int64
    return np.float64 if array.dtype == np.float64 else np.float32


def _count(name: str, points: Tensor, labels: Tensor, *tests: Tensor) -> int | None:
    """Return how many classes or symbols integer labels (and tokens) count up to."""
    if labels.is_floating_point():
        return None
    counted = [each for each in (points, labels, *tests) if not each.is_floating_point() and each.numel()]
    number = 1 + max((int(each.max()) for each in counted), default=0)
    if number > MOST_CLASSES:
        raise DataError(
            f"{name}: whole numbers are classes or symbols, counted up to the largest; at most {MOST_CLASSES:,} are, "
            f"got {number:,}"
        )
    return number
