"""A rule inside clusters, against slow code and by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tests.oracles import similarity
from tests.oracles.clouds import CLOUDS
from tests.oracles.coordinatewise import Array

from steadfed._core.rng import stream
from steadfed.aggregators import (
    Aggregator,
    GeometricMedian,
    Krum,
    Mean,
    Median,
    MultiKrum,
    NearestNeighborMixing,
    Rage,
    ServerView,
    Stop,
    TrimmedMean,
)
from steadfed.aggregators._base import LooselyBoundedAggregator
from steadfed.aggregators._similarity.clustered import Clustered, cluster_clients
from steadfed.aggregators._similarity.flame import Flame
from steadfed.aggregators._similarity.fltrust import FlTrust
from steadfed.aggregators._similarity.foolsgold import FoolsGold
from steadfed.aggregators._similarity.trimmed_k_means import starting_rows, trimmed_k_means
from steadfed.errors import CohortTooSmallError, ParameterError
from steadfed.testing.contract import check_contract

SEEDS = 8
DTYPES = (torch.float64, torch.float32)
TIED = {"grid", "duplicates", "near duplicates"}
"""Clouds with rows that are equally far from two centres or equally far to be trimmed, but for rounding."""


def cohort(name: str, seed: int, dtype: torch.dtype) -> tuple[torch.Tensor, Array, int, int]:
    """Return rows of the dtype, the same numbers as float64, a bound, and a number of clusters."""
    rng = stream(seed, "clustered", name)
    number = int(rng.integers(3, 30))
    bad = int(rng.integers(0, (number - 1) // 2 + 1))
    updates = torch.from_numpy(CLOUDS[name](rng, number, bad, int(rng.integers(1, 20)))).to(dtype)
    return updates, updates.double().numpy(), bad, int(rng.integers(1, 5))


def squared(rows: Array) -> Array:
    return np.asarray(((rows[:, None] - rows) ** 2).sum(axis=2))


def on_a_line(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)[:, None]


@pytest.mark.parametrize(
    "rule",
    [
        Clustered(rule=Krum(num_byzantine=3)),
        Clustered(rule=GeometricMedian()),
        Clustered(rule=Mean(), num_clusters=3),
        Clustered(rule=Median(num_byzantine=2), num_clusters=4),
        Clustered(rule=Rage(byzantine_fraction=0.2), num_clusters=1),
        Clustered(rule=FoolsGold(num_byzantine=3)),
        Clustered(rule=FlTrust(num_byzantine=3)),
        Clustered(rule=NearestNeighborMixing(rule=Flame(num_byzantine=3))),
        NearestNeighborMixing(rule=Clustered(rule=Median(num_byzantine=3))),
    ],
    ids=str,
)
def test_rule_keeps_the_contract(rule: Aggregator) -> None:
    check_contract(rule)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", sorted(set(CLOUDS) - TIED))
def test_clusters_are_those_of_explicit_centres(name: str, dtype: torch.dtype) -> None:
    for seed in range(SEEDS):
        updates, rows, bad, number = cohort(name, seed, dtype)
        starts = starting_rows(squared(rows), number, bad)
        expected, _ = similarity.trimmed_k_means(rows, bad, rows[starts], 100)
        assert cluster_clients(updates, number, bad).tolist() == expected


@pytest.mark.parametrize("name", CLOUDS)
def test_trimmed_k_means_ends_where_no_step_improves_it(name: str) -> None:
    for seed in range(SEEDS):
        _, rows, bad, number = cohort(name, seed, torch.float64)
        centred = rows - rows[0]
        found = trimmed_k_means(centred @ centred.T, number, bad, 100)
        assert found.converged
        size = float(np.abs(rows).max())
        kept = np.argsort(found.distances, kind="stable")[: len(rows) - bad]
        members = [kept[found.labels[kept] == label] for label in np.unique(found.labels[kept])]
        centres = np.array([rows[group].mean(axis=0) for group in members])
        to_centres = np.sqrt(((rows[:, None] - centres) ** 2).sum(axis=2))
        np.testing.assert_allclose(found.distances[kept], to_centres[kept].min(axis=1), atol=1e-6 * size)


def trusted_members(updates: torch.Tensor, num_clusters: int, num_byzantine: int) -> list[NDArray[np.intp]]:
    """Return the clusters with more than f rows that were not trimmed and fewer that were, or all rows as one."""
    labels = cluster_clients(updates, num_clusters, num_byzantine)
    scores = Clustered(rule=Median(num_byzantine=num_byzantine), num_clusters=num_clusters)(updates).scores.numpy()
    trimmed = np.argsort(scores, kind="stable")[max(1, len(labels) - num_byzantine) :]
    members = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    left = [len(np.setdiff1d(group, trimmed)) for group in members]
    trusted = [
        group
        for group, number in zip(members, left, strict=True)
        if number > num_byzantine and 2 * (len(group) - number) < len(group)
    ]
    return trusted or [np.arange(len(labels))]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CLOUDS)
def test_update_is_the_rule_in_each_cluster_that_is_no_minority(name: str, dtype: torch.dtype) -> None:
    for seed in range(SEEDS):
        updates, rows, bad, number = cohort(name, seed, dtype)
        members = trusted_members(updates, number, bad)
        counted = sum(len(group) for group in members)
        inside = [Median(num_byzantine=min(bad, (len(group) - 1) // 2)) for group in members]
        expected = sum(
            len(group) / counted * rule(rows[group]).update.numpy() for group, rule in zip(members, inside, strict=True)
        )
        found = Clustered(rule=Median(num_byzantine=bad), num_clusters=number)(updates)
        within = (1e-9 if dtype == torch.float64 else 1e-5) * float(np.abs(rows).max())
        np.testing.assert_allclose(found.update.double().numpy(), expected, rtol=0.0, atol=within)
        assert set(found.kept.nonzero().flatten().tolist()) <= set(np.concatenate(members).tolist())


def test_centres_start_apart_and_not_at_the_farthest_rows() -> None:
    """5 is the most central; 900 is passed over as the one that may be Byzantine, so 20 and 0 come next."""
    rows = on_a_line(0.0, 4.0, 5.0, 6.0, 5.5, 20.0, 900.0).numpy()
    assert starting_rows(squared(rows), 3, 1).tolist() == [2, 5, 0]
    assert starting_rows(squared(rows), 2, 0).tolist() == [2, 6]
    assert len(starting_rows(squared(rows), 9, 3)) == 7


def test_clustered_by_hand() -> None:
    rows = on_a_line(1.0, 2.0, 3.0, 11.0, 12.0, 13.0, 900.0)
    found = Clustered(rule=Median(num_byzantine=1))(rows)
    assert cluster_clients(rows, 2, 1).tolist() == [0, 0, 0, 1, 1, 1, 1]
    assert found.update.tolist() == pytest.approx([3.0 / 7.0 * 2.0 + 4.0 / 7.0 * 12.5])
    assert found.scores.tolist() == pytest.approx([1.0, 0.0, 1.0, 1.0, 0.0, 1.0, 888.0])
    assert found.weights.tolist() == pytest.approx([0.0, 3.0 / 7.0, 0.0, 0.0, 2.0 / 7.0, 2.0 / 7.0, 0.0])


def test_a_cluster_that_may_be_byzantine_altogether_has_no_share() -> None:
    rows = on_a_line(1.0, 2.0, 3.0, 2.5, 2.2, 50.0, 51.0, -90.0)
    assert cluster_clients(rows, 2, 2).tolist() == [0, 0, 0, 0, 0, 1, 1, 0]
    found = Clustered(rule=Median(num_byzantine=2))(rows)
    assert {5, 6} <= set(found.removed)
    assert found.update.tolist() == pytest.approx([2.1])


def test_all_rows_are_one_cluster_if_each_cluster_may_be_byzantine() -> None:
    rows = on_a_line(1.0, 2.0, 11.0, 12.0, 12.5)
    assert Clustered(rule=Median(num_byzantine=2), num_clusters=3)(rows).update.tolist() == [11.0]


@pytest.mark.parametrize("inside", [Median, Krum, MultiKrum, Rage, TrimmedMean], ids=lambda rule: rule.__name__)
@pytest.mark.parametrize("together", [True, False])
def test_far_rows_do_not_enter_with_a_small_cluster_that_they_joined(
    inside: type[LooselyBoundedAggregator], together: bool
) -> None:
    """In many dimensions clusters of honest rows may have one row or two, where far rows would be the majority."""
    for seed in range(20):
        rng = stream(seed, "far rows")
        rows = rng.standard_normal((20, 60))
        rows[:4] += 1e6 * rng.standard_normal(60 if together else (4, 60))
        found = Clustered(rule=inside(num_byzantine=4))(torch.from_numpy(rows))
        assert found.update.norm() < 60.0**0.5


def test_the_rule_inside_assumes_what_it_stands_among_so_few() -> None:
    """Krum stands f among 2f + 3: of three rows it takes the one nearest to another."""
    rows = on_a_line(1.0, 2.0, 4.0, 100.0, 101.0, 103.0, 104.5, 104.0, 500.0)
    found = Clustered(rule=Krum(num_byzantine=1))(rows)
    labels = cluster_clients(rows, 2, 1)
    assert labels.tolist() == [labels[0]] * 3 + [labels[3]] * 6
    expected = Krum(num_byzantine=0)(rows[:3]).update / 3.0 + Krum(num_byzantine=1)(rows[3:]).update * 2.0 / 3.0
    torch.testing.assert_close(found.update, expected)


def test_one_cluster_is_the_rule_itself() -> None:
    rows = stream(0, "one cluster").standard_normal((12, 5))
    for rule in (Krum(num_byzantine=2), Median(), Rage(num_byzantine=3), Flame()):
        found = Clustered(rule=rule, num_clusters=1)(rows)
        torch.testing.assert_close(found.update, rule(rows).update)
        torch.testing.assert_close(found.weights, rule(rows).weights)
        assert found.stop is rule(rows).stop


def test_unusable_rows_are_in_no_cluster_and_count_as_byzantine() -> None:
    rows = on_a_line(1.0, 2.0, math.nan, 11.0, 12.0, 13.0, 3.0)
    assert cluster_clients(rows, 2, 1).tolist().index(-1) == 2
    found = Clustered(rule=Median(num_byzantine=1))(rows)
    assert found.update.tolist() == pytest.approx([7.0])
    assert found.removed[:3] == [0, 2, 3]
    assert Clustered(rule=Median(num_byzantine=0))(rows).stop is Stop.TOO_MANY_UNUSABLE


def test_rules_that_remember_clients_remember_them_by_their_own_names() -> None:
    rows = torch.tensor([[1.0, 0.0], [1.1, 0.0], [9.0, 1.0], [9.0, 2.0], [math.nan, 0.0]])
    rule = Clustered(rule=FoolsGold(num_byzantine=1))
    first = rule(rows, ServerView(clients=["a", "b", "c", "d", "e"]))
    assert {name: row.tolist() for name, row in first.memory.items()} == {
        name: row.tolist() for name, row in zip("abcd", rows, strict=False)
    }
    second = rule(rows, ServerView(clients=["a", "x", "c", "y", "z"], memory=first.memory))
    assert sorted(second.memory) == ["a", "b", "c", "d", "x", "y"]
    torch.testing.assert_close(second.memory["c"], 2.0 * rows[2])
    torch.testing.assert_close(second.memory["d"], rows[3])


def test_a_cluster_nobody_trusts_leaves_the_weights_to_the_others() -> None:
    rows = on_a_line(1.0, 2.0, 3.0, -50.0, -51.0, -52.0)
    rule = Clustered(rule=FlTrust(num_byzantine=1))
    found = rule(rows, ServerView(trusted_row=torch.tensor([2.0], dtype=torch.float64)))
    assert found.update.tolist() == pytest.approx([2.0])
    assert found.weights.tolist() == pytest.approx([1.0 / 3.0] * 3 + [0.0] * 3)
    nobody = rule(-rows.abs(), ServerView(trusted_row=torch.tensor([2.0], dtype=torch.float64)))
    assert nobody.stop is Stop.NOBODY_TRUSTED
    assert nobody.weights.tolist() == [0.0] * 6


def test_a_clustering_that_did_not_end_says_so() -> None:
    rows = stream(0, "not ended").standard_normal((30, 2))
    assert Clustered(rule=Median(), max_iterations=1)(rows).stop is Stop.NOT_CONVERGED
    assert Clustered(rule=Median())(rows).stop is Stop.COORDINATES


def test_parameters_and_cohorts_are_checked() -> None:
    with pytest.raises(ParameterError, match="num_clusters"):
        Clustered(rule=Mean(), num_clusters=0)
    with pytest.raises(ParameterError, match="rule"):
        Clustered(rule="mean")
    with pytest.raises(CohortTooSmallError, match="needs at least 4"):
        Clustered(rule=Mean(num_byzantine=3))(on_a_line(1.0, 2.0, 3.0))
    assert Clustered(rule=Krum(num_byzantine=2)).smallest_cohort(2) == 7
