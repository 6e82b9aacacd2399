"""A user's own `torch.utils.data.Dataset`, stacked once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, ClassVar, final

import numpy as np
import torch
from pydantic import Field
from torch import Tensor
from torch.utils.data import Dataset as TorchData, IterableDataset

from steadfed._core.importing import import_object
from steadfed.data._base import Dataset, DataSource
from steadfed.data._registry import DATASETS
from steadfed.data._tensors import from_tensors
from steadfed.errors import DataError


@DATASETS.register("torch-dataset")
@final
class TorchDataset(DataSource):
    """What a function of the user's own returns: a `torch.utils.data.Dataset`, or a pair to train and to test on.

    The points are read once, at load, and stacked: a transform is applied once to each point, so a random one is drawn
    once and stays for the whole run.

    >>> TorchDataset(factory="mypackage.data:digits")
    TorchDataset(factory='mypackage.data:digits')
    """

    citation: ClassVar[str] = "the user's own data"

    factory: Annotated[str, Field(examples=["our.data:training_set"])]
    """The function, as package.module:function; it is called without arguments."""

    def load(self) -> Dataset:
        """Call the function and stack what it returns."""
        function = import_object(self.factory, "the data set")
        if not callable(function):
            raise DataError(f"the data set {self.factory!r} must be a function, got {type(function).__name__}")
        try:
            made = function()
        except Exception as error:
            raise DataError(f"{self.factory} failed with {type(error).__name__}: {error}") from error
        train, test = made if isinstance(made, tuple) and len(made) == 2 else (made, None)
        if not isinstance(train, TorchData) or not isinstance(test, TorchData | None):
            raise DataError(
                f"{self.factory} must return a torch.utils.data.Dataset or a pair of them, got {type(made).__name__}"
            )
        return from_torch(train, test, name=self.factory)


def from_torch(
    train: Any, test: Any = None, *, groups: Any = None, num_classes: int | None = None, name: str = "torch-dataset"
) -> Dataset:
    """Return a data set of torch data sets whose points are pairs (features, label).

    The points are read once and stacked: transforms are applied once, random ones too.

    Args:
        train: The points to train on.
        test: The points to test on; None for no test.
        groups: The owner of each training point, by number or by name.
        num_classes: How many classes there are; None counts up to the largest seen.
        name: What the data set is called.

    >>> points = torch.utils.data.TensorDataset(torch.eye(3), torch.tensor([0, 1, 1]))
    >>> from_torch(points).num_classes
    2
    """
    tests = (None, None) if test is None else _stack(test, name)
    return from_tensors(*_stack(train, name), *tests, groups=groups, num_classes=num_classes, name=name)


def _stack(points: Any, name: str) -> tuple[Tensor, Tensor]:
    entries: Iterable[Any] = (
        points if isinstance(points, IterableDataset) else (points[index] for index in range(len(points)))
    )
    features, labels = [], []
    for number, entry in enumerate(entries):
        if not isinstance(entry, tuple | list) or len(entry) != 2:
            raise DataError(
                f"{name}: points must be pairs (features, label), got {type(entry).__name__} as number {number}"
            )
        features.append(_tensor(entry[0], f"{name}: the features of point {number}"))
        labels.append(_tensor(entry[1], f"{name}: the label of point {number}"))
    try:
        return torch.stack(features), torch.stack(labels)
    except RuntimeError as error:
        raise DataError(
            f"{name}: the points cannot be stacked, there must be some and all of one shape: {error}"
        ) from error


def _tensor(value: Any, what: str) -> Tensor:
    if isinstance(value, Tensor | np.ndarray | np.generic | int | float | list | tuple):
        return torch.as_tensor(value)
    raise DataError(
        f"{what} must be a tensor, an array or a number, got {type(value).__name__}; an image needs a transform to one"
    )
