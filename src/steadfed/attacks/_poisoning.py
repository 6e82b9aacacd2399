"""What attacks through the data come down to: triggers, what Byzantine clients train on, what the adversary wants.

Nothing is copied: a poisoned client's points are places in the data set, labels, and the marks of those that bear a
trigger, which is put on a batch when it has been gathered.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field
from torch import Tensor

from steadfed._core.values import real_number, whole_number
from steadfed.attacks._base import Attack, Forged, sent_by_all
from steadfed.attacks._view import AdversaryView
from steadfed.data import Dataset
from steadfed.errors import ParameterError

Places = NDArray[np.int64]
Class = Annotated[int, Field(ge=0), BeforeValidator(whole_number)]
PoisonFraction = Annotated[float, Field(gt=0.0, le=1.0), BeforeValidator(real_number)]
"""Which share of its points a Byzantine client poisons."""


@dataclass(frozen=True, eq=False)
class Trigger:
    """Numbers of a point that are set to values: a pattern of pixels, or a few features."""

    coordinates: Int64[Tensor, " k"]
    """Which numbers of the flattened point."""
    values: Float[Tensor, " k"]
    """What they become."""

    def stamp_(self, points: Tensor, marked: Bool[Tensor, " n"]) -> None:
        """Put the trigger on the marked ones of some points, in place: x_j becomes v_j for every j of the trigger.

        >>> points = torch.zeros(2, 1, 2, 2)
        >>> Trigger(torch.tensor([3]), torch.tensor([5.0])).stamp_(points, torch.tensor([False, True]))
        >>> points.flatten(1)
        tensor([[0., 0., 0., 0.],
                [0., 0., 0., 5.]])
        """
        places = torch.unravel_index(self.coordinates.to(points.device), points.shape[1:])
        rows = marked.to(points.device).nonzero()
        points[(rows, *places)] = self.values.to(points)  # whatever lies next to what in memory


@dataclass(frozen=True, eq=False)
class PoisonedShare:
    """What a Byzantine client trains on in the place of its own points, in their order."""

    labels: Tensor
    places: Int64[Tensor, " n"] | None = None
    """Where in the data set the points lie; None if they are the client's own."""
    marked: Bool[Tensor, " n"] | None = None
    """Which of them bear the trigger; None if there is none."""
    trigger: Trigger | None = None

    def to(self, device: torch.device) -> PoisonedShare:
        """Return the share with its tensors on a device."""
        places = None if self.places is None else self.places.to(device)
        marked = None if self.marked is None else self.marked.to(device)
        return PoisonedShare(self.labels.to(device), places, marked, self.trigger)


@dataclass(frozen=True, eq=False)
class Goal:
    """What the adversary wants of a model: that some points, with the trigger on them, are taken for a class.

    The attack success rate (ASR) is the share of these points that are. None of them belongs to the class.
    """

    points: Int64[Tensor, " m"]
    """Which of the points that were looked through."""
    target_label: int
    trigger: Trigger | None = None
    """What is put on them; None if they are taken as they are."""


class Poisoning(ABC):
    """An attack through the data, ready for one data set."""

    moves_points: bool = False
    """Whether clients train on other inputs than their own, and not on other labels only."""

    @abstractmethod
    def share(self, points: Places, member: int, generator: np.random.Generator) -> PoisonedShare:
        """Return what a Byzantine client trains on.

        Args:
            points: the places of its own points in the data set.
            member: the client's number among the adversary's, for attacks that divide work.
            generator: the client's own randomness.
        """

    def goal(self, features: Tensor, labels: Tensor) -> Goal | None:
        """Return what the adversary wants of some test points; None for attacks that only want to do harm."""
        return None


class DataAttack(Attack, ABC):
    """An attack on the data of the Byzantine clients.

    Who runs the clients trains the Byzantine ones on what `poisoning` says; what they then compute is `own_rows`, and
    that is what they send, unless the attack stands inside another one.
    """

    @abstractmethod
    def poisoning(self, dataset: Dataset) -> Poisoning:
        """Return the attack on a data set, whose points and labels stay as they are.

        Raises:
            ParameterError: the attack makes no sense on such points or labels.
        """

    def forge(self, view: AdversaryView) -> Forged:
        """Send what the clients computed on their data."""
        return sent_by_all(view.own.clone())


def classes_of(attack: Attack, dataset: Dataset) -> int:
    """Return how many classes there are; raises `ParameterError` if the labels are none."""
    if dataset.num_classes is None:
        raise ParameterError(
            f"{attack!r} changes classes, and the labels of {dataset.name} are no classes; choose another attack"
        )
    return dataset.num_classes


def check_class(name: str, value: int, num_classes: int) -> None:
    """Raise `ParameterError` unless the parameter of this name is a class."""
    if value >= num_classes:
        raise ParameterError(f"{name} must lie in 0 .. {num_classes - 1} for {num_classes} classes, got {value}")


def check_two_classes(**named: int | None) -> None:
    """Raise `ValueError` if two parameters, given by name, are one class."""
    (one, first), (other, second) = named.items()
    if first == second:
        raise ValueError(f"{one} and {other} must be two classes, got {first} for both")


def data_attack_of(attack: Attack) -> DataAttack | None:
    """Return the attack on data that may act in some round, inside however many others; None if there is none."""
    return next((each for each in attack.chain() if isinstance(each, DataAttack)), None)


def number_poisoned(fraction: float, number: int) -> int:
    """Return ⌈fraction · number⌉, with the fraction read as the simple one that was meant.

    >>> number_poisoned(0.1, 30), number_poisoned(0.3125, 64), number_poisoned(0.01, 20)
    (3, 20, 1)
    """
    simple = Fraction(fraction).limit_denominator(10**6) or Fraction(fraction)  # what is not 0 stays above it
    return math.ceil(simple * number)
