"""Losses: what a model is trained to make small, the mean over a batch."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, final

from pydantic import BeforeValidator, Field
from torch import Tensor
from torch.nn import functional

from steadfed._core.values import ValueObject, real_number
from steadfed.data._base import Dataset
from steadfed.errors import DataError
from steadfed.metrics import Task


class Loss(ValueObject, ABC):
    """The mean over a batch of how wrong each output is."""

    @abstractmethod
    def num_outputs(self, dataset: Dataset) -> int:
        """Return how many numbers a model puts out per point, or per token.

        Raises:
            DataError: the loss does not fit the labels.
        """

    def output_shape(self, dataset: Dataset) -> tuple[int, ...]:
        """Return the shape of a model's outputs for one point."""
        return (*dataset.labels.shape[1:], self.num_outputs(dataset))

    @abstractmethod
    def mean(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """Return the mean loss of a batch, a scalar that can be differentiated."""

    @abstractmethod
    def num_correct(self, outputs: Tensor, labels: Tensor) -> int | None:
        """Return how many labels were guessed right; None if there is no right or wrong."""

    def task(self, dataset: Dataset) -> Task | None:
        """Return what a model with this loss does, by its outputs: name classes, say numbers, or neither."""
        outputs = self.output_shape(dataset)
        point = tuple(dataset.labels.shape[1:])
        if dataset.num_classes is not None:
            widths = {dataset.num_classes} | ({1} if dataset.num_classes == 2 else set())
            return "classification" if outputs[:-1] == point and outputs[-1] in widths else None
        matches = dataset.labels.is_floating_point() and math.prod(outputs) == math.prod(point)
        return "regression" if matches else None

    def num_guesses(self, labels: Tensor) -> int:
        """Return out of how many `num_correct` counts."""
        return labels.numel()


@final
class CrossEntropy(Loss):
    """The negative log-likelihood of the right class under a softmax; the last dimension holds the classes."""

    def num_outputs(self, dataset: Dataset) -> int:
        """Return the number of classes."""
        if dataset.num_classes is None:
            raise DataError(f"cross-entropy needs classes, and the labels of {dataset.name} are none")
        return dataset.num_classes

    def mean(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """Return the mean over points, or over tokens."""
        return functional.cross_entropy(outputs.reshape(-1, outputs.shape[-1]), labels.reshape(-1))

    def num_correct(self, outputs: Tensor, labels: Tensor) -> int | None:
        """Count the points whose largest output is the right one."""
        return int((outputs.argmax(-1) == labels).sum())


@final
class Logistic(Loss):
    """log(1 + exp(−y z)) with y = ±1 for the classes 1 and 0, and one output z."""

    def num_outputs(self, dataset: Dataset) -> int:
        """Return 1."""
        if dataset.num_classes != 2:
            raise DataError(
                f"the logistic loss needs two classes, {dataset.name} has {dataset.num_classes or 'no'} classes"
            )
        return 1

    def mean(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """Return the mean of −log σ(y z)."""
        signs = (2 * labels - 1).to(outputs.dtype)
        return -functional.logsigmoid(signs * outputs.squeeze(-1)).mean()

    def num_correct(self, outputs: Tensor, labels: Tensor) -> int | None:
        """Count the points on the right side of 0."""
        return int(((outputs.squeeze(-1) > 0) == (labels == 1)).sum())


class DistanceLoss(Loss, ABC):
    """A loss that measures how far off flat outputs are: nearer or farther, never right or wrong."""

    def output_shape(self, dataset: Dataset) -> tuple[int, ...]:
        """Return how many numbers a model puts out per point."""
        return (self.num_outputs(dataset),)

    def num_correct(self, outputs: Tensor, labels: Tensor) -> int | None:
        """Return None."""
        return None


@final
class HalfSquares(DistanceLoss):
    """½ ‖output − label‖² for labels that are vectors or numbers."""

    def num_outputs(self, dataset: Dataset) -> int:
        """Return the length of a label."""
        if not dataset.labels.is_floating_point():
            raise DataError(
                f"the squared loss needs labels that are floats, those of {dataset.name} are {dataset.labels.dtype}"
            )
        return math.prod(dataset.labels.shape[1:])

    def mean(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """Return the mean over points."""
        return 0.5 * (outputs.reshape(labels.shape) - labels).square().sum() / len(labels)


@final
class Huber(DistanceLoss):
    """Σ h(output − label), h(r) = ½ r² for |r| ≤ δ, else δ (|r| − ½ δ): no point pulls harder than δ (Huber 1964)."""

    delta: Annotated[float, Field(gt=0.0), BeforeValidator(real_number)] = 1.0
    """δ, in the unit of the labels."""

    def num_outputs(self, dataset: Dataset) -> int:
        """Return the length of a label."""
        return HalfSquares().num_outputs(dataset)

    def mean(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """Return the mean over points."""
        return functional.huber_loss(outputs.reshape(labels.shape), labels, "sum", self.delta) / len(labels)


@final
class HalfNorm(DistanceLoss):
    """½ ‖output‖², whatever the labels: the model itself puts out how wrong it is."""

    def num_outputs(self, dataset: Dataset) -> int:
        """Return how many numbers a point has."""
        return math.prod(dataset.point_shape)

    def task(self, dataset: Dataset) -> Task | None:
        """Return None: nothing is predicted."""
        return None

    def mean(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """Return the mean over points."""
        return 0.5 * outputs.square().sum() / len(outputs)


LOSSES: Mapping[str, type[Loss]] = MappingProxyType(
    {
        "cross-entropy": CrossEntropy,
        "half-norm": HalfNorm,
        "half-squares": HalfSquares,
        "huber": Huber,
        "logistic": Logistic,
    }
)
