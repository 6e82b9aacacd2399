"""What a data set is: stacked tensors, classes, and natural groups of points."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from steadfed._core.values import ValueObject
from steadfed.data._places import FileSet
from steadfed.errors import DataError


@dataclass(frozen=True, kw_only=True, eq=False)
class Dataset:
    """Points to train on and points to test on, ready for a model; one point per entry of the first dimension."""

    name: str
    features: Tensor
    """Floats scaled for a model (images are channels × height × width), or int64 tokens."""
    labels: Tensor
    """int64 classes, one per point or one per token; floats for regression."""
    test_features: Tensor
    test_labels: Tensor
    num_classes: int | None = None
    """How many classes the labels count, or symbols the tokens do; None if the labels are no classes."""
    groups: NDArray[np.int64] | None = None
    """The natural owner of each training point (writer, hospital, speaker), counted from 0; None if there is none."""
    group_names: tuple[str, ...] = field(default=())
    """What the owners are called, if they have names."""
    test_groups: NDArray[np.int64] | None = None
    """The owner of each test point, numbered as the training points' are; −1 for somebody else. None if the data do
    not say; then nobody has test points of its own."""

    def __post_init__(self) -> None:
        """Refuse tensors that do not belong together."""
        for part, features, labels in (
            ("training", self.features, self.labels),
            ("test", self.test_features, self.test_labels),
        ):
            if len(features) != len(labels):
                raise DataError(f"{self.name}: {len(features)} {part} points have {len(labels)} labels")
            if features.is_floating_point() and features.numel() and not _finite(features):
                raise DataError(f"{self.name}: the {part} points hold NaN or Inf")
            if labels.is_floating_point() and labels.numel() and not _finite(labels):
                raise DataError(f"{self.name}: the {part} labels hold NaN or Inf")
            if self.num_classes is not None:
                self._check_classes(part, labels, self.num_classes)
        if len(self.features) == 0:
            raise DataError(f"{self.name}: there is no training point")
        if self.test_features.shape[1:] != self.features.shape[1:]:
            shapes = f"{tuple(self.test_features.shape[1:])} and {tuple(self.features.shape[1:])}"
            raise DataError(f"{self.name}: test and training points must have one shape, got {shapes}")
        if self.groups is not None and len(self.groups) != len(self.features):
            raise DataError(f"{self.name}: {len(self.features)} points have {len(self.groups)} owners")
        if self.test_groups is not None and len(self.test_groups) != len(self.test_features):
            have = len(self.test_features)
            raise DataError(f"{self.name}: {have} test points have {len(self.test_groups)} owners")

    @classmethod
    def from_split(
        cls, features: Tensor, labels: Tensor, train: NDArray[np.int64], test: NDArray[np.int64], **others: Any
    ) -> Self:
        """Return the data set that trains on some of the points and tests on others."""
        return cls(
            features=features[train],
            labels=labels[train],
            test_features=features[test],
            test_labels=labels[test],
            **others,
        )

    @property
    def point_shape(self) -> tuple[int, ...]:
        """The shape of one point."""
        return tuple(self.features.shape[1:])

    @cached_property
    def checksum(self) -> str:
        """SHA-256 of everything that training can see: all tensors, their shapes and dtypes, and the owners.

        The owners of test points are left out: they only say for whom a result is written down once more.
        """
        digest = hashlib.sha256()
        owners = () if self.groups is None else (torch.from_numpy(self.groups),)
        for tensor in (self.features, self.labels, self.test_features, self.test_labels, *owners):
            digest.update(f"{tensor.dtype} {tuple(tensor.shape)};".encode())
            digest.update(tensor.cpu().contiguous().view(-1).numpy().data)
        return digest.hexdigest()

    def take(self, points: NDArray[np.int64]) -> Dataset:
        """Return the data set with only these training points."""
        places = torch.from_numpy(points)
        owners = None if self.groups is None else self.groups[points]
        return replace(self, features=self.features[places], labels=self.labels[places], groups=owners)

    def _check_classes(self, part: str, labels: Tensor, num_classes: int) -> None:
        if labels.dtype != torch.int64:
            raise DataError(f"{self.name}: classes must be int64, the {part} labels are {labels.dtype}")
        outside = labels[(labels < 0) | (labels >= num_classes)]
        if len(outside):
            raise DataError(f"{self.name}: {part} labels must lie in 0 .. {num_classes - 1}, got {int(outside[0])}")


def _finite(values: Tensor) -> bool:
    """Return whether all values are finite: NaN spreads to the extremes, Inf is one; no mask is formed."""
    return all(bool(torch.isfinite(extreme)) for extreme in torch.aminmax(values))


class DataSource(ValueObject, ABC):
    """Where a data set comes from: the object is its configuration, `load` reads it."""

    citation: ClassVar[str]
    """Who made the data, and its licence."""
    files: ClassVar[tuple[FileSet, ...]] = ()
    """The files it is read from, if they are known ones; `find_folder` says where they are."""
    here: ClassVar[bool] = True
    """Whether a machine can have the points; those of a deployment are with its clients."""

    @abstractmethod
    def load(self) -> Dataset:
        """Read the data set.

        Raises:
            MissingDataError: the files are nowhere, and the message says what gets them.
            CorruptDataError: a file is not what it should be.
        """
