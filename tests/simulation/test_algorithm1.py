"""Whole runs against Algorithm 1 as it is printed, and against what is known in closed form."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tests.oracles.algorithm1 import algorithm_1
from tests.simulation.small import classes, config, played

from steadfed.aggregators import Aggregator, Mean, Rage
from steadfed.attacks import FractionMembers, SignFlip
from steadfed.data import LogisticPoints, QuadraticPoints
from steadfed.models import Architecture, LogisticRegression, MultilayerPerceptron, Quadratic, SoftmaxRegression
from steadfed.models._convex import LogisticProblem, quadratic_constants
from steadfed.partitions import IidPartition, NaturalPartition, UnequalPartition
from steadfed.simulation import Federation, RunConfig


def assert_equal_to_the_paper(what: RunConfig, **attack: Any) -> None:
    states, records = played(what)
    expected = algorithm_1(what, classes(), **attack)
    assert len(records) == len(expected) == what.rounds
    with Federation(what, dataset=classes()) as federation:
        layout = federation.setting.layout
    for state, parameters in zip(states[1:], expected, strict=True):
        for view, parameter in zip(layout.parameter_views(state.model).values(), parameters, strict=True):
            torch.testing.assert_close(view, parameter, rtol=1e-9, atol=1e-9)
    assert all(not record.skipped for record in records)


@pytest.mark.parametrize("model", [SoftmaxRegression(l2=0.01), MultilayerPerceptron(hidden=(7,))])
@pytest.mark.parametrize("rule", [Mean(), Rage(byzantine_fraction=0.25)])
@pytest.mark.parametrize("batch_size", [4, "full"])
@pytest.mark.parametrize("attacks", [False, True])
def test_a_run_is_algorithm_1(model: Architecture, rule: Aggregator, batch_size: int | str, attacks: bool) -> None:
    adversary: dict[str, Any] = {}
    if attacks:
        adversary = {"attack": SignFlip(factor=2.0), "byzantine": FractionMembers(fraction=0.25)}
    what = config(rounds=4, local_steps=3, model=model, rule=rule, batch_size=batch_size, **adversary)
    assert_equal_to_the_paper(what, attacked=lambda row: -2.0 * row)


@pytest.mark.parametrize("engine", ["stacked", "vmap", "loop"])
def test_every_engine_is_algorithm_1(engine: str) -> None:
    assert_equal_to_the_paper(config(model=MultilayerPerceptron(hidden=(4,)), engine=engine))


def test_clients_with_fewer_points_than_a_batch_use_all_of_them() -> None:
    what = config(batch_size=8, partition=UnequalPartition(num_clients=12, spread=1.0), cohort_size=9)
    sizes = what.partition.split(classes(), what.seed).sizes
    assert sizes.min() < 8 < sizes.max()
    assert_equal_to_the_paper(what)


def test_one_client_alone_and_all_clients_together_are_algorithm_1() -> None:
    assert_equal_to_the_paper(config(cohort_size=1))
    assert_equal_to_the_paper(config(cohort_size=12, local_steps=1))


def test_total_steps_over_local_steps_rounds_are_played() -> None:
    what = config(rounds=3, local_steps=4)
    _, records = played(what)
    assert [record.step for record in records] == [4, 8, 12]
    assert records[-1].step == what.total_steps


def test_full_batches_of_a_quadratic_are_gradient_descent_in_closed_form() -> None:
    """x_t − x* = (I − η Λ)ᵗ (x_0 − x*), coordinate by coordinate."""
    model, data = Quadratic(strong_convexity=0.2, smoothness=2.0), QuadraticPoints(num_points=60, dim=4, num_groups=6)
    what = config(
        rounds=30,
        local_steps=1,
        batch_size="full",
        lr=0.3,
        cohort_size=6,
        model=model,
        data=data,
        partition=NaturalPartition(),
    )
    dataset = data.load()
    states, _ = played(what, dataset)
    shares = what.partition.split(dataset, 0)
    least = torch.from_numpy(quadratic_constants(model, dataset, shares).minimiser)
    shrinking = 1.0 - 0.3 * model.curvatures(4)
    for number, state in enumerate(states):
        torch.testing.assert_close(state.model, least - shrinking**number * least, rtol=0.0, atol=1e-12)


def test_a_run_on_a_logistic_problem_ends_at_its_minimiser() -> None:
    data, model = LogisticPoints(num_points=300, dim=6, num_groups=8), LogisticRegression(l2=0.05)
    what = config(
        rounds=600,
        local_steps=1,
        batch_size="full",
        lr=1.0,
        cohort_size=8,
        model=model,
        data=data,
        partition=IidPartition(num_clients=8),
        evaluation={"every": 600},
    )
    dataset = data.load()
    states, records = played(what, dataset)
    problem = LogisticProblem.of(model, dataset, what.partition.split(dataset, 0))
    np.testing.assert_allclose(states[-1].model.numpy(), problem.minimiser(), atol=1e-8)
    assert records[-1].train_loss is not None
    assert records[-2].train_loss is None


def test_clients_count_alike_however_many_points_they_hold() -> None:
    what = config(
        rounds=1,
        local_steps=1,
        batch_size="full",
        lr=1.0,
        cohort_size=4,
        model=Quadratic(strong_convexity=1.0),
        partition=UnequalPartition(num_clients=4, spread=2.0),
    )
    dataset = QuadraticPoints(num_points=50, dim=3).load()
    states, _ = played(what, dataset)
    shares = what.partition.split(dataset, what.seed)
    assert shares.sizes.max() > 3 * shares.sizes.min()
    means = torch.stack([dataset.features[torch.from_numpy(shares.points(r))].double().mean(0) for r in range(4)])
    torch.testing.assert_close(states[1].model, means.mean(0), rtol=0.0, atol=1e-12)
