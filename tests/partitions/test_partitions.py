"""What every partition keeps, and what each one is."""

from __future__ import annotations

import tomllib
from collections.abc import Callable

import numpy as np
import pytest
import tomli_w
from tests.partitions.points import labelled, numbers, tokens

from steadfed._core.rng import stream
from steadfed.data._base import Dataset
from steadfed.errors import DataError, ParameterError, UnknownNameError
from steadfed.partitions import (
    PARTITIONS,
    DirichletPartition,
    ExtremePartition,
    IidPartition,
    NaturalPartition,
    Partition,
    RemotePartition,
    ShardsPartition,
    Shares,
    SimilarityPartition,
    SortedPartition,
    UnequalPartition,
    heterogeneity,
)

OWNERS = np.sort(stream(0, "owners").integers(0, 40, 1000))
VARIANTS: list[Partition] = [
    IidPartition(num_clients=37),
    UnequalPartition(num_clients=37),
    UnequalPartition(num_clients=37, spread=3.0, min_points=5),
    NaturalPartition(),
    NaturalPartition(num_clients=11, min_points=20),
    ShardsPartition(num_clients=37),
    ShardsPartition(num_clients=7, shards_per_client=5),
    SimilarityPartition(num_clients=37, gamma=0.3),
    SimilarityPartition(num_clients=1000, gamma=0.5),
    ExtremePartition(num_clients=37),
    ExtremePartition(num_clients=3),
    ExtremePartition(num_clients=1000),
    SortedPartition(num_clients=37),
    SortedPartition(num_clients=1000, gamma=0.3),
    DirichletPartition(num_clients=37),
    DirichletPartition(num_clients=37, alpha=1e-9),
    DirichletPartition(num_clients=37, alpha=1e-9, equal_sizes=False),
    DirichletPartition(num_clients=37, alpha=1e9),
    DirichletPartition(num_clients=37, alpha=1e3),
    DirichletPartition(num_clients=1000, alpha=0.1),
    DirichletPartition(num_clients=20, alpha=0.05, equal_sizes=False, min_points=32),
    DirichletPartition(num_clients=1000, alpha=0.1, equal_sizes=False),
    DirichletPartition(num_clients=50, min_points=20, alpha=1e-4, equal_sizes=False),
]
ANY_LABELS = (IidPartition, UnequalPartition, NaturalPartition)


def same(one: Shares, other: Shares) -> bool:
    return np.array_equal(one.order, other.order) and np.array_equal(one.offsets, other.offsets)


def class_shares(dataset: Dataset, shares: Shares) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    labels = dataset.labels.numpy()
    assert dataset.num_classes is not None
    rows = [np.bincount(labels[shares.points(r)], minlength=dataset.num_classes) for r in range(shares.num_clients)]
    return np.array([row / row.sum() for row in rows])


@pytest.mark.parametrize("skew", [0.0, 0.8])
@pytest.mark.parametrize("partition", VARIANTS, ids=str)
def test_every_point_is_held_at_most_once_and_every_client_holds_one(partition: Partition, skew: float) -> None:
    shares = partition.split(labelled(1000, 10, skew=skew, groups=OWNERS), seed=1)
    assert len(np.unique(shares.order)) == len(shares.order)
    assert shares.order.min() >= 0
    assert shares.order.max() < 1000
    assert shares.sizes.min() >= getattr(partition, "min_points", 1)
    if not isinstance(partition, NaturalPartition):
        assert len(shares.order) == 1000
        assert shares.num_clients == partition.model_dump()["num_clients"]


@pytest.mark.parametrize("partition", [each for each in VARIANTS if each != NaturalPartition()], ids=str)
def test_seeds_reproduce_and_differ(partition: Partition) -> None:
    dataset = labelled(1000, 10, groups=OWNERS)
    assert same(partition.split(dataset, seed=3), partition.split(dataset, seed=3))
    assert not same(partition.split(dataset, seed=3), partition.split(dataset, seed=4))


def test_every_partition_is_tried() -> None:
    assert {type(each) for each in VARIANTS} == set(PARTITIONS.values()) - {RemotePartition}


@pytest.mark.parametrize("partition", VARIANTS, ids=str)
@pytest.mark.parametrize("make", [tokens, numbers])
def test_only_partitions_by_label_refuse_labels_that_are_no_classes(
    partition: Partition, make: Callable[..., Dataset]
) -> None:
    dataset = make(1000, groups=OWNERS)
    if isinstance(partition, ANY_LABELS):
        assert partition.split(dataset, seed=0).num_clients >= 1
    else:
        with pytest.raises(DataError, match=r"needs one class per point, the labels of (text|numbers) are"):
            partition.split(dataset, seed=0)


@pytest.mark.parametrize("name", sorted(set(PARTITIONS) - {"natural", "remote"}))
def test_more_clients_than_points_are_refused(name: str) -> None:
    with pytest.raises(DataError, match="labelled has 10 training points, enough for at most"):
        PARTITIONS.build(name, num_clients=11).split(labelled(10, 2), seed=0)


@pytest.mark.parametrize("kind", [UnequalPartition, DirichletPartition])
def test_minima_that_cannot_be_kept_are_refused(kind: type[UnequalPartition | DirichletPartition]) -> None:
    with pytest.raises(DataError, match=r"5 clients cannot hold 32 points each: .* at most 3 clients"):
        kind(num_clients=5, min_points=32).split(labelled(100, 2), seed=0)


@pytest.mark.parametrize("name", ["iid", "similarity", "dirichlet"])
def test_equal_sizes_differ_by_at_most_one(name: str) -> None:
    sizes = PARTITIONS.build(name, num_clients=7).split(labelled(100, 3), seed=0).sizes
    assert sizes.max() - sizes.min() <= 1


def test_iid_clients_have_the_labels_of_all() -> None:
    found = heterogeneity(labelled(20_000, 10), IidPartition(num_clients=20).split(labelled(20_000, 10), seed=0))
    assert found.mean_distance is not None
    assert found.iid_distance is not None
    assert abs(found.mean_distance - found.iid_distance) < 0.2 * found.iid_distance


def test_unequal_sizes_are_log_normal_and_keep_the_labels() -> None:
    dataset = labelled(200_000, 4)
    shares = UnequalPartition(num_clients=500, spread=1.2).split(dataset, seed=0)
    assert 1.05 < np.log(shares.sizes).std() < 1.35
    found = heterogeneity(dataset, shares)
    assert found.mean_distance is not None
    assert found.mean_distance < 0.1
    assert heterogeneity(dataset, UnequalPartition(num_clients=500, spread=0.0).split(dataset, seed=0)).largest == 400


def test_natural_clients_are_the_owners_who_have_enough() -> None:
    dataset = labelled(1000, 10, groups=OWNERS)
    partition = NaturalPartition(min_points=22, num_clients=5)
    owners, shares = partition.owners(dataset, seed=2), partition.split(dataset, seed=2)
    for client, owner in enumerate(owners):
        assert np.array_equal(shares.points(client), np.flatnonzero(OWNERS == owner))
    assert shares.sizes.min() >= 22


def test_natural_refuses_what_has_no_owners_or_too_few() -> None:
    with pytest.raises(DataError, match="labelled names none"):
        NaturalPartition().split(labelled(10, 2), seed=0)
    with pytest.raises(DataError, match="owners are counted from 0, labelled has -1"):
        NaturalPartition().split(labelled(2, 2, groups=np.array([0, -1])), seed=0)
    with pytest.raises(DataError, match="40 owners with at least 1 points, asked for 41"):
        NaturalPartition(num_clients=41).split(labelled(1000, 10, groups=OWNERS), seed=0)
    with pytest.raises(DataError, match="0 owners with at least 500 points, asked for 1"):
        NaturalPartition(min_points=500).split(labelled(1000, 10, groups=OWNERS), seed=0)


def test_shards_hold_few_classes() -> None:
    dataset = labelled(10_000, 10)
    held = np.count_nonzero(class_shares(dataset, ShardsPartition(num_clients=100).split(dataset, seed=0)), axis=1)
    assert held.max() <= 4
    assert 1.5 < held.mean() < 2.5


def test_similarity_goes_from_sorted_to_iid() -> None:
    dataset = labelled(10_000, 10)
    tops = [
        class_shares(dataset, SimilarityPartition(num_clients=50, gamma=g).split(dataset, seed=0)).max(1).mean()
        for g in (0, 0.5, 1)
    ]
    assert tops[0] > 0.9
    assert 0.5 < tops[1] < 0.62
    assert tops[2] < 0.2


def test_extreme_clients_hold_one_class_and_classes_get_clients_by_their_points() -> None:
    dataset = labelled(3000, 10, skew=0.5)
    found = class_shares(dataset, ExtremePartition(num_clients=40).split(dataset, seed=0))
    assert np.array_equal(np.count_nonzero(found, axis=1), np.ones(40))
    clients = found.sum(axis=0)
    assert clients.min() == 1
    assert clients[9] > 10


def test_extreme_with_few_clients_splits_no_class() -> None:
    dataset = labelled(1000, 10)
    found = class_shares(dataset, ExtremePartition(num_clients=4).split(dataset, seed=0))
    assert np.array_equal(np.count_nonzero(found, axis=0), np.ones(10))
    assert set(np.count_nonzero(found, axis=1)) == {2, 3}


@pytest.mark.parametrize("alpha", [0.2, 1.0, 5.0])
def test_dirichlet_label_shares_have_the_variance_of_the_distribution(alpha: float) -> None:
    dataset = labelled(400_000, 5)
    found = class_shares(dataset, DirichletPartition(num_clients=2000, alpha=alpha).split(dataset, seed=0))
    expected = 0.2 * 0.8 / (5 * alpha + 1)  # variance of a coordinate of Dir(alpha, ..., alpha) in 5 dimensions
    sampled = expected + (0.2 * 0.8 - expected) / 200  # plus that of drawing 200 labels from it
    assert abs(found.var(axis=0).mean() / sampled - 1) < 0.1
    assert abs(found.mean(axis=0) - 0.2).max() < 0.01


def test_dirichlet_per_class_divides_each_class_by_its_own_proportions() -> None:
    dataset = labelled(400_000, 4)
    shares = DirichletPartition(num_clients=200, alpha=0.5, equal_sizes=False).split(dataset, seed=0)
    labels = dataset.labels.numpy()
    held = np.array([np.mean(labels[shares.points(r)] == 0) * shares.sizes[r] for r in range(200)])
    relative = held / held.mean()
    assert 1.0 < relative.var() < 3.0  # of 200 · Dir(0.5, …): (R − 1) / (0.5 R + 1) = 1.97
    assert shares.sizes.max() > 3 * np.median(shares.sizes)


def test_repair_leaves_those_alone_who_have_enough_for_nobody_lacks() -> None:
    dataset = labelled(5000, 5)
    one = DirichletPartition(num_clients=10, alpha=5.0, equal_sizes=False).split(dataset, seed=0)
    other = DirichletPartition(num_clients=10, alpha=5.0, equal_sizes=False, min_points=100).split(dataset, seed=0)
    assert one.sizes.min() >= 100
    assert same(one, other)


@pytest.mark.parametrize("name", sorted(set(PARTITIONS) - {"remote"}))
def test_two_hundred_thousand_clients_are_dealt_out_at_once(name: str) -> None:
    dataset = labelled(400_000, 10, groups=np.arange(400_000) // 2)
    shares = PARTITIONS.build(name, num_clients=200_000).split(dataset, seed=0)
    assert shares.num_clients == 200_000
    assert heterogeneity(dataset, shares).smallest >= 1


@pytest.mark.parametrize("partition", [*VARIANTS, RemotePartition(num_clients=50)], ids=str)
def test_tables_and_reprs_give_the_same_partition_back(partition: Partition) -> None:
    assert PARTITIONS.from_table(tomllib.loads(tomli_w.dumps(PARTITIONS.to_table(partition)))) == partition
    assert eval(repr(partition), {kind.__name__: kind for kind in PARTITIONS.values()}) == partition  # noqa: S307
    assert PARTITIONS[PARTITIONS.name(partition)] is type(partition)


def test_every_partition_says_where_it_comes_from() -> None:
    assert list(PARTITIONS) == sorted(PARTITIONS)
    for kind in PARTITIONS.values():
        assert kind.citation
        assert ">>>" in str(kind.__doc__)
        assert kind.model_json_schema()["type"] == "object"


def test_wrong_names_and_parameters_are_refused() -> None:
    with pytest.raises(UnknownNameError, match="unknown partition 'dirichelt', did you mean 'dirichlet'"):
        PARTITIONS.build("dirichelt")
    with pytest.raises(ParameterError, match=r"alpha: input should be greater than or equal to 0.000000001, got -1"):
        DirichletPartition(alpha=-1)
    with pytest.raises(ParameterError, match=r"num_clients: input should be a whole number, got 1.5"):
        PARTITIONS.build("iid", num_clients=1.5)
    with pytest.raises(ParameterError, match="gamma: input should be less than or equal to 1"):
        SimilarityPartition(gamma=1.1)


def test_guests_hold_points_of_all_classes_beside_the_others() -> None:
    dataset = labelled(2000, 10)
    alone = ExtremePartition(num_clients=20).split(dataset, seed=3)
    shares = ExtremePartition(num_clients=25, guests=5).split(dataset, seed=3)
    found = class_shares(dataset, shares)
    assert all(np.array_equal(shares.points(client), alone.points(client)) for client in range(20))
    assert ((found[:20] > 0).sum(axis=1) == 1).all()
    assert ((found[20:] > 0).sum(axis=1) == 10).all()
    assert (shares.sizes[20:] == 100).all()
    assert all(len(np.unique(shares.points(client))) == 100 for client in range(20, 25))


@pytest.mark.parametrize("kind", [ExtremePartition, SortedPartition])
def test_more_guests_than_clients_are_refused(kind: type[ExtremePartition | SortedPartition]) -> None:
    with pytest.raises(ParameterError, match="guests must be fewer than the 5 clients, got 5"):
        kind(num_clients=5, guests=5)


def test_sorted_clients_hold_equal_stretches_of_the_sorted_points() -> None:
    dataset = labelled(1000, 10, skew=0.5)
    shares = SortedPartition(num_clients=20).split(dataset, seed=2)
    labels = dataset.labels.numpy()
    held = sorted(sorted(labels[shares.points(client)].tolist()) for client in range(20))
    assert (shares.sizes == 50).all()
    assert [label for stretch in held for label in stretch] == sorted(labels.tolist())


def test_a_share_of_what_sorted_clients_hold_is_random() -> None:
    dataset = labelled(2000, 10)
    alone = SimilarityPartition(num_clients=10, gamma=0.5).split(dataset, seed=3)
    shares = SortedPartition(num_clients=12, guests=2, gamma=0.5).split(dataset, seed=3)
    assert all(np.array_equal(shares.points(client), alone.points(client)) for client in range(10))
    assert (shares.sizes == 200).all()
    assert ((class_shares(dataset, shares)[10:] > 0).sum(axis=1) == 10).all()
