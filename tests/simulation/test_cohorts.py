"""Who is sampled, who is Byzantine, and that neither depends on how many clients there are."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from scipy.stats import chisquare
from tests.simulation.small import classes, config, played

from steadfed._core.rng import shuffled_places
from steadfed.attacks import ChangingMembers, FixedMembers, FractionMembers, Membership
from steadfed.errors import ParameterError
from steadfed.simulation import Federation
from steadfed.simulation._cohorts import Cohorts, ListedCohorts, RoundRobinCohorts, UniformCohorts


def test_uniform_cohorts_draw_every_client_equally_often() -> None:
    cohorts = [UniformCohorts().cohort(number, 20, 5, seed=3) for number in range(4_000)]
    assert all(len(set(cohort.tolist())) == 5 for cohort in cohorts)
    counts = np.bincount(np.concatenate(cohorts), minlength=20)
    assert chisquare(counts).pvalue > 1e-4


def test_uniform_cohorts_draw_every_pair_equally_often() -> None:
    pairs = [frozenset(UniformCohorts().cohort(number, 5, 2, seed=0).tolist()) for number in range(4_000)]
    counts = [pairs.count(pair) for pair in set(pairs)]
    assert len(counts) == 10
    assert chisquare(counts).pvalue > 1e-4


def test_cohorts_of_a_round_do_not_depend_on_other_rounds() -> None:
    first = [UniformCohorts().cohort(number, 50, 7, seed=1).tolist() for number in (3, 1, 2)]
    assert first[1] == UniformCohorts().cohort(1, 50, 7, seed=1).tolist()
    assert first[0] != first[2]
    assert first[0] != UniformCohorts().cohort(3, 50, 7, seed=2).tolist()


@pytest.mark.parametrize("cohorts", [UniformCohorts(), RoundRobinCohorts()])
def test_choosing_a_cohort_takes_memory_for_the_cohort_only(cohorts: Cohorts) -> None:
    members: list[Membership] = [FractionMembers(fraction=0.2), ChangingMembers(fraction=0.2)]
    tracemalloc.start()
    for number in range(3):
        chosen = cohorts.cohort(number, 1_000_000_000, 2_000, seed=0)
        liars = [each.among(chosen, number, 1_000_000_000, 0).sum() for each in members]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5_000_000
    assert len(np.unique(chosen)) == 2_000
    assert all(300 < number < 500 for number in liars)


def test_round_robin_counts_on_and_takes_every_client_equally_often() -> None:
    cohorts = [RoundRobinCohorts().cohort(number, 10, 4, seed=0).tolist() for number in range(5)]
    assert cohorts[:3] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 0, 1]]
    assert np.bincount(np.concatenate(cohorts)).tolist() == [2] * 10


def test_listed_cohorts_are_played_in_turn_and_may_differ_in_size() -> None:
    what = config(cohorts=ListedCohorts(rounds=((0, 5), (7, 1, 2))), rounds=3)
    _, records = played(what)
    assert [sorted(record.cohort) for record in records] == [[0, 5], [1, 2, 7], [0, 5]]
    assert [record.cohort for record in records][1] == (7, 1, 2)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"cohort_size": 13}, "cohort_size must be at most the number of clients, 12; got 13"),
        ({"cohorts": ListedCohorts(rounds=((0, 12),))}, "0 .. 11 for 12 clients, got 12"),
        ({"cohorts": ListedCohorts(rounds=(tuple(range(7)),))}, "cohort_size must be at least 7.*got 6"),
        ({"byzantine": FixedMembers(clients=(3, 12))}, "0 .. 11 for 12 clients, got 12"),
    ],
)
def test_clients_that_do_not_exist_are_refused_before_the_first_round(changes: dict[str, object], words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        Federation(config(**changes), dataset=classes())


@pytest.mark.parametrize("rounds", [(), ((),), ((1, 1),), ((-1,),), ((0.5,),)])
def test_lists_that_are_no_cohorts_are_refused(rounds: object) -> None:
    with pytest.raises(ParameterError, match="rounds"):
        ListedCohorts(rounds=rounds)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 16, 17, 100, 1000])
def test_a_shuffled_order_has_every_place_once(size: int) -> None:
    assert sorted(shuffled_places(np.arange(size), size, 7, "order").tolist()) == list(range(size))


@pytest.mark.parametrize("size", [2, 5, 12])
def test_every_place_of_a_shuffled_order_is_equally_likely(size: int) -> None:
    places = np.stack([shuffled_places(np.arange(size), size, seed, "order") for seed in range(1_500)])
    for client in range(size):
        assert chisquare(np.bincount(places[:, client], minlength=size)).pvalue > 1e-4


@pytest.mark.parametrize("members", [FractionMembers(fraction=0.29), ChangingMembers(fraction=0.29)])
def test_a_part_of_the_clients_is_byzantine_as_among_all(members: Membership) -> None:
    everybody = members.members(4, 100, seed=2)
    some = np.array([17, 3, 99, 50])
    assert everybody.sum() == 29
    assert members.among(some, 4, 100, 2).tolist() == everybody[some].tolist()


def test_every_client_is_equally_often_among_changing_members() -> None:
    counts = sum(ChangingMembers(fraction=0.25).members(number, 12, seed=0).astype(int) for number in range(2_000))
    assert chisquare(counts).pvalue > 1e-4
