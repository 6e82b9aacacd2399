"""Attacks through the data: the clients compute honestly, on points that are not what they should be; here, labels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Annotated, ClassVar, Self, final

import numpy as np
import torch
from jaxtyping import Int64
from pydantic import BeforeValidator, Field, model_validator
from torch import Tensor

from steadfed._core.rng import stream
from steadfed._core.values import real_number
from steadfed.attacks._poisoning import (
    Class,
    DataAttack,
    Goal,
    Places,
    PoisonedShare,
    Poisoning,
    check_class,
    check_two_classes,
    classes_of,
)
from steadfed.attacks._registry import ATTACKS
from steadfed.data import Dataset
from steadfed.errors import ParameterError

Labels = Int64[Tensor, "..."]


class LabelAttack(DataAttack, ABC):
    """An attack on the labels of the Byzantine clients, which are `corrupt`ed."""

    def poisoning(self, dataset: Dataset) -> Poisoning:
        """Relabel all points of a client."""
        num_classes = classes_of(self, dataset)
        self.corrupt(dataset.labels[:0], num_classes, stream(0, "poison"))  # refuses classes that do not exist
        return _Relabelling(self, dataset.labels, num_classes)

    def goal(self, features: Tensor, labels: Tensor) -> Goal | None:
        """Return what the adversary wants of some test points; None for an attack that only wants to do harm."""
        return None

    def corrupt(self, labels: Labels, num_classes: int, generator: np.random.Generator) -> Labels:
        """Return the labels that a Byzantine client trains on, a new tensor.

        Raises:
            ParameterError: labels that are no classes, or a class of the attack that does not exist.
        """
        if labels.dtype != torch.int64:
            raise ParameterError(f"labels must be int64, got {labels.dtype}")
        if num_classes < 1:
            raise ParameterError(f"num_classes must be at least 1, got {num_classes}")
        outside = labels[(labels < 0) | (labels >= num_classes)]
        if len(outside):
            raise ParameterError(
                f"labels must lie in 0 .. {num_classes - 1} for {num_classes} classes, got {int(outside[0])}"
            )
        return self.relabel(labels, num_classes, generator)

    @abstractmethod
    def relabel(self, labels: Labels, num_classes: int, generator: np.random.Generator) -> Labels:
        """Return new labels; called by `corrupt` after the checks."""


@dataclass(frozen=True, eq=False)
class _Relabelling(Poisoning):
    """An attack on labels, ready for a data set."""

    attack: LabelAttack
    labels: Tensor
    num_classes: int

    def share(self, points: Places, member: int, generator: np.random.Generator) -> PoisonedShare:
        """Corrupt the labels of the client's points."""
        own = self.labels[torch.from_numpy(points)]
        return PoisonedShare(self.attack.corrupt(own, self.num_classes, generator))

    def goal(self, features: Tensor, labels: Tensor) -> Goal | None:
        """Return the attack's own."""
        return self.attack.goal(features, labels)


@ATTACKS.register("label-flip")
@final
class LabelFlip(LabelAttack):
    """Count the classes from the other end: y becomes num_classes − 1 − y (Fang et al. 2020, evaluation).

    >>> from steadfed._core.rng import stream
    >>> LabelFlip().corrupt(torch.tensor([0, 1, 2, 9]), 10, stream(0, "labels"))
    tensor([9, 8, 7, 0])
    """

    citation: ClassVar[str] = "Fang, Cao, Jia, Gong 2020, label flipping attack of the evaluation"

    def relabel(self, labels: Labels, num_classes: int, generator: np.random.Generator) -> Labels:
        """Count from the other end."""
        return num_classes - 1 - labels


@ATTACKS.register("class-flip")
@final
class ClassFlip(LabelAttack):
    """Call one class by the name of another: y = source becomes target (Tolpegin et al. 2020).

    The adversary wants test points of the source taken for the target, as they are: a targeted attack without a
    trigger. Its success rate is the share of the source's test points that are.

    >>> from steadfed._core.rng import stream
    >>> ClassFlip(source=7, target=1).corrupt(torch.tensor([7, 1, 3]), 10, stream(0, "labels"))
    tensor([1, 1, 3])
    """

    citation: ClassVar[str] = "Tolpegin, Truex, Gursoy, Liu 2020, label flipping from a source to a target class"

    source: Class = 0
    """The class that is called by a wrong name."""
    target: Class = 1
    """The wrong name."""

    @model_validator(mode="after")
    def _two_classes(self) -> Self:
        check_two_classes(source=self.source, target=self.target)
        return self

    def relabel(self, labels: Labels, num_classes: int, generator: np.random.Generator) -> Labels:
        """Replace the source."""
        for name, value in (("source", self.source), ("target", self.target)):
            check_class(name, value, num_classes)
        return torch.where(labels == self.source, self.target, labels)

    def goal(self, features: Tensor, labels: Tensor) -> Goal:
        """Return the points of the source."""
        return Goal((labels == self.source).nonzero().flatten(), self.target)


@ATTACKS.register("label-noise")
@final
class LabelNoise(LabelAttack):
    """Replace each label with some probability by another class, all others equally likely (Angluin, Laird 1988).

    If there is only one class, no label has another to become, and all stay.

    >>> from steadfed._core.rng import stream
    >>> LabelNoise(probability=1.0).corrupt(torch.tensor([0, 1, 1]), 2, stream(0, "labels"))
    tensor([1, 0, 0])
    """

    citation: ClassVar[str] = "Angluin, Laird 1988, random classification noise, with more than two classes"

    probability: Annotated[float, Field(ge=0.0, le=1.0), BeforeValidator(real_number)] = 0.5
    """How likely a label is to be replaced."""

    def relabel(self, labels: Labels, num_classes: int, generator: np.random.Generator) -> Labels:
        """Draw which labels are wrong, and by how many classes."""
        shape = tuple(labels.shape)
        wrong = generator.random(shape) < self.probability
        steps = generator.integers(1, max(2, num_classes), shape)
        return (labels + torch.as_tensor(wrong * steps, device=labels.device)) % num_classes
