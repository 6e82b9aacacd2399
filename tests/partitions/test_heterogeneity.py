"""Distances between clients, recomputed one client at a time."""

from __future__ import annotations

import json
from dataclasses import asdict

import numpy as np
import pytest
from tests.partitions.points import labelled, numbers, tokens

from steadfed._core.rng import stream
from steadfed.partitions import (
    DirichletPartition,
    ExtremePartition,
    IidPartition,
    NaturalPartition,
    Shares,
    UnequalPartition,
    heterogeneity,
)
from steadfed.partitions._dealing import apportion, ranks, with_at_least


def test_distances_are_those_of_a_literal_loop() -> None:
    dataset = labelled(500, 6, skew=0.3)
    shares = DirichletPartition(num_clients=17, alpha=0.3, equal_sizes=False).split(dataset, seed=5)
    labels = dataset.labels.numpy()
    pooled = np.bincount(labels, minlength=6) / 500
    distances, classes = [], []
    for client in range(17):
        own = labels[shares.points(client)]
        distances.append(0.5 * sum(abs(np.mean(own == c) - pooled[c]) for c in range(6)))
        classes.append(len(set(own)))
    found = heterogeneity(dataset, shares)
    assert found.mean_distance == pytest.approx(np.mean(distances))
    assert found.max_distance == pytest.approx(max(distances))
    assert found.mean_classes == pytest.approx(np.mean(classes))
    assert (found.smallest, found.largest, found.num_points) == (shares.sizes.min(), shares.sizes.max(), 500)


@pytest.mark.parametrize("num_clients", [1, 2, 9, 60])
def test_the_distance_of_random_deals_is_their_mean(num_clients: int) -> None:
    dataset = labelled(60, 3, skew=0.7)
    sizes = UnequalPartition(num_clients=num_clients).split(dataset, seed=0).offsets
    generator = stream(0, "deals")
    deals = [heterogeneity(dataset, Shares(generator.permutation(60), sizes)).mean_distance for _ in range(400)]
    expected = heterogeneity(dataset, Shares(np.arange(60), sizes)).iid_distance
    assert expected is not None
    assert np.mean([deal for deal in deals if deal is not None]) == pytest.approx(expected, rel=0.03, abs=1e-12)


def test_points_that_are_nobodys_do_not_count() -> None:
    dataset = labelled(40, 2, groups=np.repeat([0, 1, 2], [1, 19, 20]))
    found = heterogeneity(dataset, NaturalPartition(min_points=2).split(dataset, seed=0))
    assert (found.num_clients, found.num_points) == (2, 39)


def test_one_class_each_is_as_far_as_can_be() -> None:
    dataset = labelled(10_000, 10)
    found = heterogeneity(dataset, ExtremePartition(num_clients=50).split(dataset, seed=0))
    assert found.mean_distance == pytest.approx(0.9, abs=0.01)


@pytest.mark.parametrize("dataset", [tokens(30), numbers(30)], ids=lambda each: each.name)
def test_labels_that_are_no_classes_have_no_distance(dataset: object) -> None:
    found = heterogeneity(dataset, IidPartition(num_clients=4).split(dataset, seed=0))  # type: ignore[arg-type]
    assert found.mean_distance is found.iid_distance is found.mean_classes is None
    assert found.median == 7.5


def test_tables_are_plain() -> None:
    table = asdict(heterogeneity(labelled(30, 3), IidPartition(num_clients=4).split(labelled(30, 3), seed=0)))
    assert json.loads(json.dumps(table)) == table


def test_apportioned_numbers_sum_up_and_stay_within_one_of_their_quota() -> None:
    generator = stream(0, "quotas")
    for _ in range(50):
        weights = generator.integers(0, 9, 12)
        total = int(generator.integers(0, weights.sum() + 1))
        counts = apportion(total, weights)
        assert counts.sum() == total
        assert (counts <= weights).all()
        assert (np.abs(counts - total * weights / weights.sum()) < 1).all()


def test_repaired_owners_have_enough_and_keep_what_they_need() -> None:
    generator = stream(0, "repairs")
    for _ in range(50):
        owners = generator.integers(0, 8, 60) ** 2 // 8
        repaired = with_at_least(owners, 8, 5, generator)
        before, after = np.bincount(owners, minlength=8), np.bincount(repaired, minlength=8)
        assert after.min() >= 5
        assert (after[before >= 5] <= before[before >= 5]).all()
        assert np.count_nonzero(owners != repaired) == np.maximum(5 - before, 0).sum()
        assert (ranks(owners, 8)[repaired != owners] < before[owners[repaired != owners]] - 5).all()
