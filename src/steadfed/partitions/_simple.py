"""Partitions that do not look at the labels."""

from __future__ import annotations

from typing import Annotated, ClassVar, final

import numpy as np
from pydantic import BeforeValidator, Field

from steadfed._core.arrays import Indices
from steadfed._core.rng import stream
from steadfed._core.values import real_number
from steadfed.data._base import Dataset
from steadfed.errors import DataError
from steadfed.partitions._base import NumClients, NumPoints, Partition, Shares, check_points
from steadfed.partitions._dealing import apportion, equal_offsets
from steadfed.partitions._registry import PARTITIONS


@PARTITIONS.register("iid")
@final
class IidPartition(Partition):
    """Shuffle the points and cut them into equal parts: sizes differ by at most 1 (McMahan et al. 2017, section 3).

    >>> import torch
    >>> x, y = torch.rand(10, 1), torch.arange(10) % 2
    >>> data = Dataset(name="x", features=x, labels=y, test_features=x, test_labels=y, num_classes=2)
    >>> IidPartition(num_clients=3).split(data, seed=0).sizes
    array([3, 3, 4])
    """

    citation: ClassVar[str] = "McMahan, Moore, Ramage, Hampson, Aguera y Arcas 2017, section 3: IID"

    num_clients: NumClients = 100
    """R, how many clients there are."""

    def split(self, dataset: Dataset, seed: int) -> Shares:
        """Shuffle and cut."""
        check_points(dataset, self.num_clients)
        total = len(dataset.features)
        return Shares(stream(seed, "partition", "iid").permutation(total), equal_offsets(total, self.num_clients))


@PARTITIONS.register("unequal")
@final
class UnequalPartition(Partition):
    r"""Shuffle the points and cut them into parts of very different sizes (Li et al. 2020, section 5.1).

    With z_r standard normal, client r holds n_r = m + (N − R m) exp(s z_r) / Σ exp(s z), rounded to whole numbers that
    sum to N, for m = `min_points` and s = `spread`: the part above the minimum is log-normal.

    **Deviations.** The paper draws the sizes and then makes the data; here the data are given, so the sizes are scaled
    to use them up.

    >>> import torch
    >>> x = torch.rand(100, 1)
    >>> data = Dataset(name="x", features=x, labels=x, test_features=x, test_labels=x)
    >>> UnequalPartition(num_clients=4, spread=1.5).split(data, seed=0).sizes
    array([ 3, 22, 69,  6])
    """

    citation: ClassVar[str] = "Li, Sahu, Zaheer, Sanjabi, Talwalkar, Smith 2020 (FedProx), section 5.1: unequal sizes"

    num_clients: NumClients = 100
    """R, how many clients there are."""
    spread: Annotated[float, Field(ge=0.0, le=10.0), BeforeValidator(real_number)] = 1.0
    """Standard deviation of the logarithm of a size; 0 for equal sizes."""
    min_points: NumPoints = 1
    """How many points every client holds at least."""

    def split(self, dataset: Dataset, seed: int) -> Shares:
        """Draw the sizes, shuffle and cut."""
        check_points(dataset, self.num_clients, self.min_points)
        generator, total = stream(seed, "partition", "unequal"), len(dataset.features)
        weights = np.exp(self.spread * generator.standard_normal(self.num_clients))
        sizes = self.min_points + apportion(total - self.num_clients * self.min_points, weights)
        return Shares(generator.permutation(total), np.concatenate([[0], np.cumsum(sizes)]))


@PARTITIONS.register("natural")
@final
class NaturalPartition(Partition):
    """Give every natural owner of points (writer, hospital, speaker) its own points (Caldas et al. 2018, LEAF).

    >>> import torch
    >>> x, groups = torch.rand(10, 1), np.array([0, 0, 0, 1, 1, 2, 2, 2, 2, 3])
    >>> data = Dataset(name="x", features=x, labels=x, test_features=x, test_labels=x, groups=groups)
    >>> NaturalPartition(min_points=2).split(data, seed=0).sizes
    array([3, 2, 4])
    """

    citation: ClassVar[str] = "Caldas, Duddu, Wu, Li, Konecny, McMahan, Smith, Talwalkar 2018 (LEAF), section 3"

    num_clients: NumClients | None = None
    """How many owners take part, drawn at random; all if not given."""
    min_points: NumPoints = 1
    """Owners with fewer points take no part, and their points are nobody's."""

    def split(self, dataset: Dataset, seed: int) -> Shares:
        """Number the owners who take part from 0, in their own order."""
        owners = self.owners(dataset, seed)
        groups = self._groups(dataset)
        client = np.full(int(groups.max()) + 1, -1)
        client[owners] = np.arange(len(owners))
        return Shares.of_owners(client[groups], len(owners))

    def owners(self, dataset: Dataset, seed: int) -> Indices:
        """Return which owner each client is, as the data set numbers them.

        Raises:
            DataError: the data set names no owners, or too few have enough points.
        """
        owners = np.flatnonzero(np.bincount(self._groups(dataset)) >= self.min_points)
        wanted = 1 if self.num_clients is None else self.num_clients
        if len(owners) < wanted:
            raise DataError(
                f"{dataset.name} has {len(owners)} owners with at least {self.min_points} points, asked for {wanted}"
            )
        if self.num_clients is None:
            return owners
        return np.sort(stream(seed, "partition", "natural").permutation(owners)[:wanted])

    def _groups(self, dataset: Dataset) -> Indices:
        if dataset.groups is None:
            raise DataError(f"the natural partition needs the owner of every point, {dataset.name} names none")
        if dataset.groups.min() < 0:
            raise DataError(f"owners are counted from 0, {dataset.name} has {dataset.groups.min()}")
        return dataset.groups
