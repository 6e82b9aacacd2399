"""Exactly K, by name, seeded; who has no name is not asked; nobody is waited for for ever."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from tests.flower.federations import LR, NODES, either, honest, model
from tests.flower.grids import Clock, ScriptedGrid

from steadfed._core.rng import stream
from steadfed.aggregators import Mean
from steadfed.errors import ParameterError
from steadfed.flower._nodes import Member, NodeDirectory, NodeWaiter, cohort_of, evaluators_of
from steadfed.flower._strategies import RobustStrategy
from steadfed.simulation._cohorts import ListedCohorts, RoundRobinCohorts, UniformCohorts

pytestmark = pytest.mark.usefixtures("clock")


def members(count: int) -> list[Member]:
    return [Member(number, 1000 + number) for number in range(count)]


def asked(strategy: RobustStrategy, nodes: list[int], rounds: int = 3) -> list[set[int]]:
    grid = ScriptedGrid(lambda _node, _message: None, nodes, wired=False)
    cohorts = []
    for server_round in range(1, rounds + 1):
        messages = list(strategy.configure_train(server_round, model(), {}, grid))  # type: ignore[arg-type]
        assert len({message.metadata.dst_node_id for message in messages}) == len(messages)
        cohorts.append({message.metadata.dst_node_id for message in messages})
    return cohorts


@pytest.mark.parametrize("size", [1, 3, 7, 10])
def test_exactly_so_many_are_asked(size: int) -> None:
    strategy = RobustStrategy(Mean(), num_train_nodes=size)
    assert [len(cohort) for cohort in asked(strategy, list(NODES))] == [size] * 3


@pytest.mark.parametrize(("share", "least", "wanted"), [(0.5, 2, 5), (0.55, 2, 5), (0.1, 3, 3), (1.0, 2, 10)])
def test_a_share_is_rounded_down_but_not_below_the_least(share: float, least: int, wanted: int) -> None:
    strategy = RobustStrategy(Mean(), fraction_train=share, min_train_nodes=least)
    assert [len(cohort) for cohort in asked(strategy, list(NODES))] == [wanted] * 3


def test_no_training_asks_nobody() -> None:
    assert asked(RobustStrategy(Mean(), fraction_train=0.0), list(NODES)) == [set()] * 3


def test_the_cohort_depends_on_the_seed_and_the_round_not_on_the_order_of_nodes() -> None:
    def cohorts(nodes: list[int], seed: int) -> list[set[int]]:
        return asked(RobustStrategy(Mean(), num_train_nodes=4, seed=seed), nodes)

    first = cohorts(list(NODES), 0)
    for shift in range(10):
        order = [NODES[place] for place in stream(shift, "order").permutation(10)]
        assert cohorts(order, 0) == first
    assert cohorts(list(NODES), 1) != first
    assert len({frozenset(cohort) for cohort in first}) > 1


def test_with_names_the_cohort_is_one_of_names_whatever_the_node_ids_are() -> None:
    def names(nodes: dict[int, int]) -> list[set[int]]:
        strategy = RobustStrategy(Mean(), num_train_nodes=4, nodes=nodes)
        return [{nodes[node] for node in cohort} for cohort in asked(strategy, list(nodes))]

    plain = names({1000 + number: number for number in range(12)})
    assert names({5000 - number: number for number in range(12)}) == plain
    drawn = [set(UniformCohorts().cohort(number, 12, 4, 0).tolist()) for number in range(3)]
    assert plain == drawn


def test_who_is_not_in_the_directory_is_not_asked() -> None:
    strategy = RobustStrategy(Mean(), nodes={101: "clinic", 103: "ward"})
    assert asked(strategy, [*NODES, 999]) == [{101, 103}] * 3


def test_numbers_come_first_then_words() -> None:
    directory = NodeDirectory.of({1: "b", 2: 10, 3: "a", 4: 9})
    assert [member.name for member in directory.members([1, 2, 3, 4, 5])] == [9, 10, "a", "b"]
    assert directory.name(5) == "5"


def test_names_may_stand_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "nodes.json"
    path.write_text(json.dumps({"101": "clinic", "18446744073709551615": 3}))
    assert NodeDirectory.of(path).names == {101: "clinic", 2**64 - 1: 3}
    assert NodeDirectory.of(str(path)) == NodeDirectory.of(path)


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        ({}, "{}"),
        ({1: "a", 2: "a"}, "'a'"),
        ({1: 5, 2: "5"}, "'5'"),
        ({"x": "a"}, "'x'"),
        ({None: "a"}, "None"),
        ({1: ""}, "''"),
        ({1: True}, "True"),
        ({1: 1.5}, "1.5"),
        ({1: None}, "None"),
        ({1.5: "a"}, "1.5"),
        ({True: "a"}, "True"),
        (3, "3"),
        ([1, 2], r"\[1, 2\]"),
        ("no/such/file.json", "no/such/file.json"),
    ],
)
def test_directories_that_cannot_be_are_refused_with_what_was_given(names: Any, shown: str) -> None:
    with pytest.raises(ParameterError, match=shown):
        NodeDirectory.of(names)


@pytest.mark.parametrize("text", ["", "[1, 2]", "{", "3", '{"a": "b"}', "\xff"])
def test_files_that_hold_no_names_are_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "nodes.json"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(ParameterError):
        NodeDirectory.of(path)


def test_waiting_for_nodes_ends(clock: Clock) -> None:
    waiter = NodeWaiter(NodeDirectory.of(None), patience=30.0)
    grid = ScriptedGrid(honest, NODES[:3])
    assert len(waiter.wait_for_nodes(grid, least=2, wanted=5)) == 3
    assert 30 <= clock.now < 32


def test_whoever_is_waited_for_is_named_in_the_log_from_the_beginning_on(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    directory = NodeDirectory.of({node: f"clinic-{place}" for place, node in enumerate(NODES[:5])})
    waiter = NodeWaiter(directory, patience=70.0)
    with caplog.at_level(logging.INFO, "flwr"):
        waiter.wait_for_nodes(ScriptedGrid(honest, NODES[:3]), least=2, wanted=5)
    assert [record.getMessage() for record in caplog.records] == [
        "waiting for nodes: 3 of 5 are online, not clinic-3, clinic-4; 70 s left",
        "waiting for nodes: 3 of 5 are online, not clinic-3, clinic-4; 40 s left",
        "waiting for nodes: 3 of 5 are online, not clinic-3, clinic-4; 10 s left",
        "waited in vain: 3 of 5 nodes are online; the round begins without others",
    ]
    caplog.clear()
    with caplog.at_level(logging.INFO, "flwr"):
        NodeWaiter(directory, patience=70.0).wait_for_nodes(ScriptedGrid(honest, NODES[:5]), least=2, wanted=5)
    assert not caplog.records


def test_no_longer_than_needed(clock: Clock) -> None:
    class Growing:
        def get_node_ids(self) -> list[int]:
            return list(NODES[: int(clock.now)])

    waiter = NodeWaiter(NodeDirectory.of(None), patience=30.0)
    assert len(waiter.wait_for_nodes(Growing(), least=2, wanted=5)) == 5  # type: ignore[arg-type]
    assert clock.now == pytest.approx(5.0)


def test_a_node_that_has_gone_is_waited_for_once(clock: Clock) -> None:
    grid = ScriptedGrid(honest, NODES)
    waiter = NodeWaiter(NodeDirectory.of(None), patience=30.0)
    assert len(waiter.wait_for_nodes(grid, least=2, wanted=10)) == 10
    grid.nodes.remove(NODES[0])
    assert len(waiter.wait_for_nodes(grid, least=2, wanted=10)) == 9
    waited = clock.now
    assert waited >= 30
    assert len(waiter.wait_for_nodes(grid, least=2, wanted=10)) == 9
    assert clock.now == waited


def test_a_node_that_comes_and_goes_is_waited_for_once(clock: Clock) -> None:
    grid = ScriptedGrid(honest, NODES)
    waiter = NodeWaiter(NodeDirectory.of(None), patience=30.0)
    for _ in range(5):
        grid.nodes[:] = NODES[1:]
        assert len(waiter.wait_for_nodes(grid, least=2, wanted=10)) == 9
        grid.nodes[:] = NODES
        assert len(waiter.wait_for_nodes(grid, least=2, wanted=10)) == 10
    assert 30 <= clock.now < 32


def test_a_round_without_enough_nodes_is_skipped_and_the_next_one_played(clock: Clock) -> None:
    rounds: list[int] = []
    grid = ScriptedGrid(either(honest), NODES, clock=clock)

    class Evaluated:
        def __call__(self, server_round: int, arrays: Any) -> None:
            rounds.append(server_round)
            grid.nodes[:] = NODES[:3] if server_round == 1 else NODES

    strategy = RobustStrategy(Mean(), lr=LR, min_available_nodes=5, wait_for_nodes=20.0)
    strategy.start(grid, model(), num_rounds=3, timeout=9, evaluate_fn=Evaluated())
    assert [record.skipped for record in strategy.records] == [False, True, False]
    assert strategy.records[1].cohort == ()
    assert rounds == [0, 1, 2, 3]


def test_listed_and_round_robin_cohorts_are_kept_to() -> None:
    listed = ListedCohorts(rounds=((0, 2), (1, 99)))
    assert [member.name for member in cohort_of(members(5), listed, round=0, size=2, seed=0)] == [0, 2]
    assert [member.name for member in cohort_of(members(5), listed, round=1, size=2, seed=0)] == [1]
    turn = cohort_of(members(5), RoundRobinCohorts(), round=1, size=3, seed=0)
    assert [member.name for member in turn] == [3, 4, 0]


def test_evaluators_are_as_many_as_wanted_and_differ_from_round_to_round() -> None:
    drawn = [evaluators_of(members(20), round=number, size=5, seed=0) for number in range(4)]
    assert [len(set(each)) for each in drawn] == [5] * 4
    assert len({tuple(each) for each in drawn}) == 4
    assert drawn[0] == evaluators_of(members(20), round=0, size=5, seed=0)
    assert evaluators_of(members(3), round=0, size=5, seed=0) == members(3)
