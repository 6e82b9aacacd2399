"""Partitions that sort the points by label: shards, γ-similarity, one class each."""

from __future__ import annotations

from typing import Annotated, ClassVar, Self, final

import numpy as np
from pydantic import BeforeValidator, Field, model_validator

from steadfed._core.arrays import Indices
from steadfed._core.rng import stream
from steadfed._core.values import real_number, whole_number
from steadfed.data._base import Dataset
from steadfed.partitions._base import NumClients, NumPoints, Partition, Shares, check_points, point_classes
from steadfed.partitions._dealing import apportion, equal_offsets
from steadfed.partitions._registry import PARTITIONS

Guests = Annotated[int, Field(ge=0), BeforeValidator(whole_number)]
Share = Annotated[float, Field(ge=0.0, le=1.0), BeforeValidator(real_number)]


@PARTITIONS.register("shards")
@final
class ShardsPartition(Partition):
    """Sort by label, cut into R · s equal shards, and give every client s of them at random (McMahan et al. 2017).

    A shard no longer than the smallest class holds at most two classes, so a client at most 2 s; most hold s or fewer.

    >>> import torch
    >>> x, y = torch.rand(20, 1), torch.arange(4).repeat_interleave(5)
    >>> data = Dataset(name="x", features=x, labels=y, test_features=x, test_labels=y, num_classes=4)
    >>> shares = ShardsPartition(num_clients=2, shards_per_client=2).split(data, seed=0)
    >>> [len(y[shares.points(client)].unique()) for client in range(2)]
    [2, 2]
    """

    citation: ClassVar[str] = "McMahan, Moore, Ramage, Hampson, Aguera y Arcas 2017, section 3: non-IID"

    num_clients: NumClients = 100
    """R, how many clients there are."""
    shards_per_client: NumPoints = 2
    """s, how many shards a client holds; the fewer, the fewer classes."""

    def split(self, dataset: Dataset, seed: int) -> Shares:
        """Sort, cut, and deal the shards."""
        check_points(dataset, self.num_clients, self.shards_per_client)
        generator = stream(seed, "partition", "shards")
        order = sort_by_label(point_classes(dataset)[0], generator)
        num_shards = self.num_clients * self.shards_per_client
        holder = generator.permutation(num_shards) // self.shards_per_client
        owners = np.empty(len(order), dtype=np.int64)
        owners[order] = np.repeat(holder, np.diff(equal_offsets(len(order), num_shards)))
        return Shares.of_owners(owners, self.num_clients)


@PARTITIONS.register("similarity")
@final
class SimilarityPartition(Partition):
    """Deal a share γ of the points at random and the rest sorted by label (Karimireddy et al. 2020).

    γ = 1 is IID; γ = 0 is sorted by label. All clients hold equally many points, up to 1, and each the same share γ of
    random ones, up to 1 point; who gets which stretch of the sorted rest is random.

    **Deviations.** Where others cut the random and the sorted part separately, the sizes are cut first, so that no
    client is empty while there is a point for each.

    >>> import torch
    >>> x, y = torch.rand(1000, 1), torch.arange(10).repeat_interleave(100)
    >>> data = Dataset(name="x", features=x, labels=y, test_features=x, test_labels=y, num_classes=10)
    >>> shares = SimilarityPartition(num_clients=10, gamma=0.2).split(data, seed=0)
    >>> [int(y[shares.points(client)].bincount().max()) for client in range(10)]
    [71, 80, 79, 81, 79, 74, 78, 81, 77, 77]
    """

    citation: ClassVar[str] = "Karimireddy, Kale, Mohri, Reddi, Stich, Suresh 2020 (SCAFFOLD), section 7: similarity"

    num_clients: NumClients = 100
    """R, how many clients there are."""
    gamma: Share = 0.5
    """γ, the share of the points that is dealt at random."""

    def split(self, dataset: Dataset, seed: int) -> Shares:
        """Cut the sizes, then the share of each that is random."""
        check_points(dataset, self.num_clients)
        classes, _ = point_classes(dataset)
        generator = stream(seed, "partition", "similarity")
        ends = equal_offsets(len(classes), self.num_clients)
        random_ends = np.floor(self.gamma * ends).astype(np.int64)
        random_part, rest = np.split(generator.permutation(len(classes)), [random_ends[-1]])
        clients = generator.permutation(self.num_clients)
        owners = np.empty(len(classes), dtype=np.int64)
        owners[random_part] = np.repeat(clients, np.diff(random_ends))
        in_order = rest[np.argsort(classes[rest], kind="stable")]
        owners[in_order] = np.repeat(clients, np.diff(ends - random_ends))
        return Shares.of_owners(owners, self.num_clients)


@PARTITIONS.register("extreme")
@final
class ExtremePartition(Partition):
    """Give every client points of one class only (Karimireddy et al. 2022, the fully non-IID setting).

    A class gets clients in proportion to its points, one at least, and deals its points equally to them. With fewer
    clients than classes a client holds several whole classes, as equally many as can be. Who holds what is random.

    With guests the last of the clients hold random points of all classes instead, as many as the others on average; the
    others hold these points as well. In the experiments of the paper the Byzantine clients are such guests.

    >>> import torch
    >>> x, y = torch.rand(12, 1), torch.arange(12) % 3
    >>> data = Dataset(name="x", features=x, labels=y, test_features=x, test_labels=y, num_classes=3)
    >>> shares = ExtremePartition(num_clients=6).split(data, seed=0)
    >>> [len(y[shares.points(client)].unique()) for client in range(6)]
    [1, 1, 1, 1, 1, 1]
    """

    citation: ClassVar[str] = "Karimireddy, He, Jaggi 2022 (bucketing), the fully non-IID setting"

    num_clients: NumClients = 100
    """R, how many clients there are."""
    guests: Guests = 0
    """How many of them, the last ones, hold points of all classes."""

    @model_validator(mode="after")
    def _guests_are_fewer(self) -> Self:
        _check_guests(self.guests, self.num_clients)
        return self

    def split(self, dataset: Dataset, seed: int) -> Shares:
        """Give the classes to clients, or the clients to classes if there are more of them; then guests get theirs."""
        residents = self.num_clients - self.guests
        check_points(dataset, residents)
        classes, num_classes = point_classes(dataset)
        generator = stream(seed, "partition", "extreme")
        order = sort_by_label(classes, generator)
        counts = np.bincount(classes, minlength=num_classes)
        sizes = self._sizes(counts[counts > 0], residents)
        owners = np.empty(len(order), dtype=np.int64)
        owners[order] = np.repeat(generator.permutation(residents), sizes)
        return _with_guests(Shares.of_owners(owners, residents), self.guests, generator)

    @staticmethod
    def _sizes(counts: Indices, num_clients: int) -> Indices:
        """Return the sizes of the clients along the points sorted by label."""
        present, total = len(counts), int(counts.sum())
        if num_clients <= present:
            return np.add.reduceat(counts, equal_offsets(present, num_clients)[:-1])
        # One client for each class, and the others in proportion to the points beyond the first.
        more = apportion(num_clients - present, counts - 1) if total > present else np.zeros_like(counts)
        return np.concatenate([np.diff(equal_offsets(int(n), int(k))) for n, k in zip(counts, 1 + more, strict=True)])


@PARTITIONS.register("sorted")
@final
class SortedPartition(Partition):
    """Sort by label and cut into equal stretches, as published code does, with guests as in `extreme`.

    This is how the code of Karimireddy et al. 2022 makes its fully non-IID setting: where a class ends inside a
    stretch, its client holds two (of 20 clients with MNIST nine do, four of them a fifth or more of the second), while
    `extreme` gives nobody two. With γ > 0 it is byzfl's gamma-similarity: that of `similarity`, and guests beside it.

    >>> import torch
    >>> x, y = torch.rand(12, 1), torch.tensor([0, 0, 0, 0, 0, 1, 1, 1, 2, 2, 2, 2])
    >>> data = Dataset(name="x", features=x, labels=y, test_features=x, test_labels=y, num_classes=3)
    >>> shares = SortedPartition(num_clients=3).split(data, seed=0)
    >>> sorted(y[shares.points(client)].tolist() for client in range(3))
    [[0, 0, 0, 0], [0, 1, 1, 1], [2, 2, 2, 2]]
    """

    citation: ClassVar[str] = "Karimireddy, He, Jaggi 2022 (bucketing), as in their code; byzfl 2025"

    num_clients: NumClients = 100
    """R, how many clients there are."""
    guests: Guests = 0
    """How many of them, the last ones, hold random points of all classes, as many as the others on average."""
    gamma: Share = 0.0
    """γ, the share of the points that is dealt at random to the others before the rest is cut."""

    @model_validator(mode="after")
    def _guests_are_fewer(self) -> Self:
        _check_guests(self.guests, self.num_clients)
        return self

    def split(self, dataset: Dataset, seed: int) -> Shares:
        """Divide the points among the others; then guests get theirs."""
        residents = self.num_clients - self.guests
        shares = SimilarityPartition(num_clients=residents, gamma=self.gamma).split(dataset, seed)
        return _with_guests(shares, self.guests, stream(seed, "partition", "guests"))


def _check_guests(guests: int, num_clients: int) -> None:
    if guests >= num_clients:
        raise ValueError(f"guests must be fewer than the {num_clients} clients, got {guests}")


def _with_guests(shares: Shares, guests: int, generator: np.random.Generator) -> Shares:
    """Return the shares and, behind them, those of guests: random points of all, as many as the others on average."""
    points = len(shares.order)
    size = points // shares.num_clients
    drawn = [generator.permutation(points)[:size] for _ in range(guests)]
    return Shares(
        np.concatenate([shares.order, *drawn]),
        np.concatenate([shares.offsets, points + size * np.arange(1, guests + 1)]),
    )


def sort_by_label(classes: Indices, generator: np.random.Generator) -> Indices:
    """Return the points sorted by class, in random order within each class."""
    shuffled = generator.permutation(len(classes))
    return shuffled[np.argsort(classes[shuffled], kind="stable")]
