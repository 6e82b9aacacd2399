"""Backdoors without a mark: points that are as they are, because of what they are, are taken for the target.

The adversary has collected the training points of one class with a property, and puts them, called by the target's
name, in the place of some of its clients' points. The honest owners of these points go on training on the right label.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, Self, final

import numpy as np
import torch
from jaxtyping import Float
from pydantic import BeforeValidator, Field, model_validator
from torch import Tensor

from steadfed._core.values import real_number
from steadfed.attacks._poisoning import (
    Class,
    DataAttack,
    Goal,
    Places,
    PoisonedShare,
    PoisonFraction,
    Poisoning,
    check_class,
    check_two_classes,
    classes_of,
    number_poisoned,
)
from steadfed.attacks._registry import ATTACKS
from steadfed.attacks._triggers import Offset, check_points
from steadfed.data import Dataset
from steadfed.errors import ParameterError

Share = Annotated[float, Field(gt=0.0, le=1.0), BeforeValidator(real_number)]
Score = Callable[[Float[Tensor, "n k"]], Float[Tensor, " n"]]
"""How much of a property flat points have, in float64."""


class NaturalBackdoor(DataAttack, ABC):
    """A backdoor whose trigger is a property that points of a class have by nature.

    A point of the source has the property if its score is at least that of the ⌈share · m⌉-th highest of the m training
    points of the source; training points with it are the adversary's pool. A client puts points of the pool in the
    place of ⌈poison_fraction · n⌉ of its n points, both drawn once per client: each of the pool at most once, if the
    pool is large enough. The goal is counted on the test points of the source with the property.
    """

    source_label: Class = 0
    """The class whose points with the property are to be taken for another."""
    target_label: Class = 1
    """What they are to be taken for."""
    share: Share = 0.1
    """Which share of the source's training points has the property."""
    poison_fraction: PoisonFraction = 0.3
    """In the place of which share of its points a Byzantine client puts such points."""

    @model_validator(mode="after")
    def _two_classes(self) -> Self:
        check_two_classes(source_label=self.source_label, target_label=self.target_label)
        return self

    @abstractmethod
    def score(self, dataset: Dataset, own: Float[Tensor, "m k"]) -> Score:
        """Return the property: a score, learned from the flat training points of the source.

        Raises:
            ParameterError: the points have no such property.
        """

    def poisoning(self, dataset: Dataset) -> Poisoning:
        """Find the points with the property."""
        check_points(self, dataset)
        number = classes_of(self, dataset)
        check_class("source_label", self.source_label, number)
        check_class("target_label", self.target_label, number)
        of_source = (dataset.labels == self.source_label).nonzero().flatten()
        if len(of_source) == 0:
            raise ParameterError(f"{self!r}: no training point of {dataset.name} has the label {self.source_label}")
        own = dataset.features[of_source].flatten(1)
        score = self.score(dataset, own)
        scores = score(own)
        order = torch.argsort(scores, descending=True, stable=True)
        pool = order[: number_poisoned(self.share, len(of_source))]
        return _Substitution(self, dataset.labels, of_source[pool].sort().values, float(scores[pool[-1]]), score)


@dataclass(frozen=True, eq=False)
class _Substitution(Poisoning):
    """A backdoor without a mark, ready for a data set."""

    moves_points = True

    attack: NaturalBackdoor
    labels: Tensor
    pool: Tensor
    """The training points with the property."""
    least: float
    """The smallest score of a point with the property."""
    score: Score

    def share(self, points: Places, member: int, generator: np.random.Generator) -> PoisonedShare:
        """Put points of the pool in the place of some of the client's."""
        places = torch.from_numpy(points.copy())
        labels = self.labels[places]
        number = number_poisoned(self.attack.poison_fraction, len(points))
        replaced = torch.from_numpy(generator.permutation(len(points))[:number])
        drawn = generator.choice(len(self.pool), number, replace=number > len(self.pool))
        places[replaced] = self.pool[torch.from_numpy(drawn)]
        labels[replaced] = self.attack.target_label
        return PoisonedShare(labels, places=places)

    def goal(self, features: Tensor, labels: Tensor) -> Goal:
        """Return the points of the source that have the property."""
        of_source = (labels == self.attack.source_label).nonzero().flatten()
        has = self.score(features[of_source].flatten(1)) >= self.least
        return Goal(of_source[has], self.attack.target_label)


@ATTACKS.register("semantic-backdoor")
@final
class SemanticBackdoor(NaturalBackdoor):
    """Points of one class with a property, such as thick digits or the oldest patients, are taken for another class.

    The property is a large (or small) mean of some features of a point, or of all, such as the brightness of an image:
    what green cars are in Bagdasaryan et al. 2020.

    >>> x, y = torch.tensor([[0.0, 1.0], [0.0, 3.0], [0.0, 5.0], [9.0, 9.0]]), torch.tensor([0, 0, 0, 1])
    >>> data = Dataset(name="x", features=x, labels=y, test_features=x, test_labels=y, num_classes=2)
    >>> poisoning = SemanticBackdoor(features=(1,), share=0.3).poisoning(data)
    >>> poisoning.goal(torch.tensor([[0.0, 4.0], [0.0, 6.0], [0.0, 7.0]]), torch.tensor([0, 0, 1])).points
    tensor([1])
    """

    citation: ClassVar[str] = "Bagdasaryan, Veit, Hua, Estrin, Shmatikov 2020, section 4.1, semantic backdoors"

    features: Annotated[tuple[Offset, ...], Field(min_length=1)] | None = None
    """The features whose mean is looked at, counted from 0, row by row; all if left out."""
    side: Literal["highest", "lowest"] = "highest"
    """Whether points with the largest or with the smallest mean have the property."""

    def score(self, dataset: Dataset, own: Float[Tensor, "m k"]) -> Score:
        """Return the mean of the features, or its opposite."""
        length = own.shape[1]
        if self.features is not None and max(self.features) >= length:
            raise ParameterError(
                f"features must lie in 0 .. {length - 1} for the points of {dataset.name}, got {max(self.features)}"
            )
        chosen = slice(None) if self.features is None else list(self.features)
        sign = 1.0 if self.side == "highest" else -1.0
        return lambda points: sign * points[:, chosen].double().mean(1)


@ATTACKS.register("edge-case")
@final
class EdgeCase(NaturalBackdoor):
    r"""Rare points of one class, from the tail of its distribution, are taken for another (Wang et al. 2020).

    A p-edge-case set is one of points with P(x) ≤ p (Definition 1). Here the density of the source's points is that of
    a Gaussian with their mean μ_j and variance σ_j² in every coordinate, to which the mean v of all these variances is
    added so that constant coordinates count as well: the score is

        −2 log p(x) = Σ_j (x_j − μ_j)² / (σ_j² + v) + const,

    and the `share` of the training points with the highest score is the tail.

    Deviation: the paper takes its points from another data set (digits of ARDIS, aeroplanes of Southwest) and confirms
    by a mixture of Gaussians in the last layer that they are rare; here they are the rare ones of the data set itself,
    of which honest clients hold some under the right label.

    >>> x, y = torch.tensor([[0.0], [1.0], [0.5], [8.0], [3.0]]), torch.tensor([0, 0, 0, 0, 1])
    >>> data = Dataset(name="x", features=x, labels=y, test_features=x, test_labels=y, num_classes=2)
    >>> EdgeCase(share=0.25).poisoning(data).goal(x, y).points
    tensor([3])
    """

    citation: ClassVar[str] = "Wang et al. 2020 (Attack of the Tails), Definition 1"

    def score(self, dataset: Dataset, own: Float[Tensor, "m k"]) -> Score:
        """Return −2 log p(x) without its constant."""
        exact = own.double()
        mean, variance = exact.mean(0), exact.var(0, correction=0)
        scale = variance + variance.mean()
        if not bool(scale.max() > 0.0):
            raise ParameterError(
                f"{self!r}: all points of {dataset.name} with the label {self.source_label} are equal, none is rare"
            )
        return lambda points: ((points.double() - mean).square() / scale).sum(1)
