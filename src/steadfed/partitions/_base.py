"""Who holds which points: index arrays, and nothing per client beyond them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from pydantic import BeforeValidator, Field

from steadfed._core.arrays import Indices
from steadfed._core.values import ValueObject, whole_number
from steadfed.data._base import Dataset
from steadfed.errors import DataError

NumClients = Annotated[int, Field(ge=1), BeforeValidator(whole_number)]
NumPoints = Annotated[int, Field(ge=1), BeforeValidator(whole_number)]


@dataclass(frozen=True, eq=False)
class Shares:
    """The points of every client: client r holds order[offsets[r] : offsets[r + 1]]."""

    order: Indices
    offsets: Indices
    """One more than there are clients; the first is 0, the last the number of points given out."""

    def __post_init__(self) -> None:
        """Refuse offsets that are no offsets, and clients without a point."""
        if len(self.offsets) < 2 or self.offsets[0] != 0 or self.offsets[-1] != len(self.order):
            raise DataError(
                f"offsets must go from 0 to the {len(self.order)} points given out, got {self.offsets[[0, -1]]}"
            )
        empty = np.flatnonzero(np.diff(self.offsets) < 1)
        if len(empty):
            raise DataError(f"{len(empty)} of {self.num_clients} clients hold no point, the first is client {empty[0]}")

    @property
    def num_clients(self) -> int:
        """R, how many clients there are."""
        return len(self.offsets) - 1

    @property
    def sizes(self) -> Indices:
        """n_r, how many points each client holds."""
        return np.diff(self.offsets)

    def points(self, client: int) -> Indices:
        """Return the points of a client."""
        return self.order[self.offsets[client] : self.offsets[client + 1]]

    @classmethod
    def of_owners(cls, owners: Indices, num_clients: int) -> Shares:
        """Return the shares in which client owners[i] holds point i; points of owner −1 are nobody's.

        >>> Shares.of_owners(np.array([1, 0, 1, -1]), 2).points(1)
        array([0, 2])
        """
        held = np.flatnonzero(owners >= 0)
        order = held[np.argsort(owners[held], kind="stable")]
        counts = np.bincount(owners[held], minlength=num_clients)
        return cls(order.astype(np.int64), np.concatenate([[0], np.cumsum(counts)]).astype(np.int64))


class Partition(ValueObject, ABC):
    """A way to deal the training points out to clients, reproducible by seed."""

    citation: ClassVar[str]
    """Where the partition is defined."""

    @abstractmethod
    def split(self, dataset: Dataset, seed: int) -> Shares:
        """Return who holds which training points.

        Raises:
            DataError: the data set cannot be split this way, such as by owners that it does not name.
        """


def check_points(dataset: Dataset, num_clients: int, min_points: int = 1) -> None:
    """Refuse more clients than the training points can supply."""
    have = len(dataset.features)
    if num_clients * min_points > have:
        each = "a point" if min_points == 1 else f"{min_points} points"
        raise DataError(
            f"{num_clients} clients cannot hold {each} each: {dataset.name} has {have} training points, "
            f"enough for at most {have // min_points} clients"
        )


def point_classes(dataset: Dataset) -> tuple[Indices, int]:
    """Return the class of every training point and how many classes there are.

    Raises:
        DataError: the points have no class each, but one per token, or a number.
    """
    if dataset.num_classes is None or dataset.labels.ndim != 1:
        got = "no classes" if dataset.num_classes is None else f"one label per token, {tuple(dataset.labels.shape)}"
        raise DataError(
            f"a partition by label needs one class per point, the labels of {dataset.name} are {got}; "
            "iid, natural and unequal take any labels"
        )
    return dataset.labels.cpu().numpy(), dataset.num_classes
