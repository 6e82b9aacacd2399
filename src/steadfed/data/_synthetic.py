"""Problems that are drawn, not read: points of a quadratic and of a logistic regression, with owners that differ."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Annotated, ClassVar, Self, final

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field, model_validator
from torch import Tensor

from steadfed._core.rng import stream
from steadfed._core.values import real_number, whole_number
from steadfed.data._base import Dataset, DataSource
from steadfed.data._pixels import classes
from steadfed.data._registry import DATASETS

Count = Annotated[int, Field(ge=1), BeforeValidator(whole_number)]
NonNegative = Annotated[float, Field(ge=0.0), BeforeValidator(real_number)]
Points = NDArray[np.float32]


class SyntheticPoints(DataSource, ABC):
    """Points drawn around one centre for each owner.

    Owner g has the centre c_g = heterogeneity · u_g with u_g uniform on the unit sphere; its points are c_g + noise · z
    with z standard normal. The owners hold consecutive points, as equally many as can be; test points are drawn alike.
    """

    citation: ClassVar[str] = "drawn; no data"
    kind: ClassVar[str]
    """What its random streams are called."""
    num_classes: ClassVar[int | None] = None
    """How many classes the labels have."""

    num_points: Count = 1000
    """Points to train on."""
    num_test_points: Annotated[int, Field(ge=0), BeforeValidator(whole_number)] = 200
    """Points to test on."""
    dim: Count = 10
    """Features of a point."""
    num_groups: Count = 10
    """Owners."""
    heterogeneity: NonNegative = 1.0
    """Distance of each owner's centre from the origin; 0 makes all owners alike."""
    noise: NonNegative = 1.0
    """Standard deviation of each feature around its owner's centre."""
    seed: Annotated[int, Field(ge=0), BeforeValidator(whole_number)] = 0
    """Seed of the draw; it belongs to the data, not to the run."""

    @model_validator(mode="after")
    def _every_owner_has_a_point(self) -> Self:
        if self.num_groups > self.num_points:
            raise ValueError(f"num_groups must be at most num_points = {self.num_points}, got {self.num_groups}")
        return self

    def load(self) -> Dataset:
        """Draw the points and their labels."""
        points, owners = self._points("train", self.num_points)
        tests, test_owners = self._points("test", self.num_test_points)
        return Dataset(
            name=DATASETS.name(self),
            features=torch.from_numpy(points),
            labels=self._labels(points, "train"),
            test_features=torch.from_numpy(tests),
            test_labels=self._labels(tests, "test"),
            num_classes=self.num_classes,
            groups=owners,
            test_groups=test_owners,
        )

    @abstractmethod
    def _labels(self, points: Points, part: str) -> Tensor:
        """Return the labels of the points to train on or to test on."""

    def _stream(self, *names: str) -> np.random.Generator:
        return stream(self.seed, "data", self.kind, *names)

    def _points(self, part: str, count: int) -> tuple[Points, NDArray[np.int64]]:
        """Return points and the owner of each."""
        owners = np.arange(count, dtype=np.int64) * self.num_groups // max(1, count)
        directions = self._stream("centres").standard_normal((self.num_groups, self.dim))
        norms = np.linalg.norm(directions, axis=1, keepdims=True)
        centres = (self.heterogeneity * directions / norms).astype(np.float32)
        points = self._stream(part).standard_normal((count, self.dim), dtype=np.float32)
        points *= np.float32(self.noise)
        points += centres[owners]
        return points, owners


@DATASETS.register("quadratic")
@final
class QuadraticPoints(SyntheticPoints):
    """Points a_i of the problem min ½ mean ‖x − a_i‖², drawn around a centre for each owner.

    The labels are a column of zeros: there is nothing to predict.

    >>> QuadraticPoints(num_points=6, dim=2, num_groups=3).load().groups
    array([0, 0, 1, 1, 2, 2])
    """

    kind: ClassVar[str] = "quadratic"

    def _labels(self, points: Points, part: str) -> Tensor:
        del part
        return torch.zeros(len(points), 1)


@DATASETS.register("synthetic-logistic")
@final
class LogisticPoints(SyntheticPoints):
    """Points of two classes, separated by a planted direction but for wrong labels.

    y = 1 if ⟨w, a⟩ > s, else 0, with w uniform on the unit sphere and s = 0, or such that a share `positive_rate` of
    the points is of class 1; a label is turned round with probability `label_noise`, those of the test points too.

    >>> LogisticPoints(num_points=4, num_groups=2, label_noise=0.0).load().num_classes
    2
    """

    kind: ClassVar[str] = "logistic"
    num_classes: ClassVar[int | None] = 2

    label_noise: Annotated[float, Field(ge=0.0, le=0.5), BeforeValidator(real_number)] = 0.1
    """Probability that a label is wrong."""
    positive_rate: Annotated[float, Field(gt=0.0, lt=1.0), BeforeValidator(real_number)] | None = None
    """The share of points of class 1, before labels are turned round; if not given, about a half."""

    def _labels(self, points: Points, part: str) -> Tensor:
        planted = self._stream("planted").standard_normal(self.dim)
        wrong = self._stream(part, "wrong").random(len(points)) < self.label_noise
        scores, least = points @ planted, 0.0
        if self.positive_rate is not None and len(scores):
            least = float(np.quantile(scores, 1.0 - self.positive_rate))
        return classes((scores > least) ^ wrong)


@DATASETS.register("synthetic-linear")
@final
class LinearPoints(SyntheticPoints):
    """Points with a number each: y = ⟨w, a⟩ + label_noise · z, with w uniform on the unit sphere and z standard normal.

    A share `outlier_rate` of the labels, those of the test points excepted, has noise of 20 instead: least squares
    suffers from them, the Huber loss little.

    >>> LinearPoints(num_points=4, num_groups=2).load().labels.shape
    torch.Size([4])
    """

    kind: ClassVar[str] = "linear"

    label_noise: NonNegative = 0.1
    """Standard deviation of what is added to a label."""
    outlier_rate: Annotated[float, Field(ge=0.0, le=1.0), BeforeValidator(real_number)] = 0.0
    """The share of labels to train on that are far off."""

    def _labels(self, points: Points, part: str) -> Tensor:
        direction = self._stream("planted").standard_normal(self.dim)
        direction /= np.linalg.norm(direction)
        generator = self._stream(part, "noise")
        noise = self.label_noise * generator.standard_normal(len(points))
        if part == "train":
            far = generator.random(len(points)) < self.outlier_rate
            noise = np.where(far, 20.0 * generator.standard_normal(len(points)), noise)
        return torch.from_numpy((points @ direction + noise).astype(np.float32))
