"""F at a model: values, gradients and products with the Hessian are those of the definitions."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.oracles.gradients import client_statistics, point_gradients
from tests.theory.estimate.problems import PROBLEMS, SHARES, buffers_row, model_row, objective

from steadfed._core.rng import stream
from steadfed.data._base import Dataset
from steadfed.errors import DataError, ParameterError
from steadfed.models import Quadratic, ResidualNetwork
from steadfed.partitions import Shares
from steadfed.theory.estimate import Objective, gradient_statistics

NAMES = sorted(PROBLEMS)


def rows(number: int) -> Dataset:
    x = torch.from_numpy(stream(1, "rows").standard_normal((number, 3)))
    return Dataset(name="rows", features=x, labels=x, test_features=x, test_labels=x)


@pytest.mark.parametrize("name", NAMES)
def test_values_and_gradients_weigh_every_client_the_same(name: str) -> None:
    x, buffers = model_row(name), buffers_row(name)
    values, rows = point_gradients(*PROBLEMS[name], x, buffers)
    means, _, _ = client_statistics(rows, SHARES)
    value, gradient = objective(name).at(x, buffers).value_and_gradient()
    each = [float(values[SHARES.points(r)].mean()) for r in range(SHARES.num_clients)]
    assert value == pytest.approx(np.mean(each))
    torch.testing.assert_close(gradient, means.mean(0))


@pytest.mark.parametrize("name", NAMES)
def test_products_with_the_hessian_are_differences_of_gradients(name: str) -> None:
    x, buffers, problem = model_row(name), buffers_row(name), objective(name, points_at_once=5)
    v, step = torch.from_numpy(stream(0, "v").standard_normal(len(x))), 1e-6
    ahead, behind = (problem.at(x + sign * step * v, buffers).value_and_gradient()[1] for sign in (1, -1))
    found = problem.at(x, buffers).hessian_product(v)
    torch.testing.assert_close(found, (ahead - behind) / (2 * step), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("points_at_once", [1, 3, 512])
def test_gradients_of_clients_are_means_of_those_of_their_points(name: str, points_at_once: int) -> None:
    x, buffers = model_row(name), buffers_row(name)
    _, rows = point_gradients(*PROBLEMS[name], x, buffers)
    means, _, _ = client_statistics(rows, SHARES)
    problem = objective(name, points_at_once=points_at_once)
    found = problem.at(x, buffers).client_gradients(np.array([0, 3]), 7) + problem.l2 * x
    torch.testing.assert_close(found, means[[0, 3]])


def test_models_that_cannot_be_vectorised_are_taken_one_group_at_a_time() -> None:
    assert {name for name in NAMES if not objective(name).vectorised} <= {"recurrent"}


def test_groups_of_points_that_would_be_slow_together_are_taken_one_after_the_other() -> None:
    images, classes = torch.from_numpy(stream(0, "images").standard_normal((5, 1, 8, 8))).float(), torch.arange(5) % 2
    data = Dataset(
        name="images", features=images, labels=classes, test_features=images, test_labels=classes, num_classes=2
    )
    shares = Shares(np.arange(5), np.array([0, 1, 5]))
    problem = Objective.of(ResidualNetwork(), data, shares)
    assert problem.vectorised
    x = problem.layout.parameters_of(problem.module, torch.float64)
    found = problem.at(x).client_gradients(np.array([1]), 4)  # a warning would be an error here
    torch.testing.assert_close(found[0], problem.at(x).group_gradients(torch.arange(1, 5)[:, None]).mean(0))


def test_the_module_and_the_model_are_left_as_they_were() -> None:
    problem, x = objective("perceptron"), model_row("perceptron")
    before = [each.clone() for each in problem.module.parameters()], x.clone()
    located = problem.at(x)
    located.value_and_gradient()
    located.hessian_product(torch.ones_like(x))
    located.group_gradients(torch.tensor([[0], [1]]))
    assert all(torch.equal(*pair) for pair in zip(before[0], problem.module.parameters(), strict=True))
    assert torch.equal(before[1], x)


def test_models_of_another_length_or_not_finite_are_refused() -> None:
    problem = objective("softmax")
    with pytest.raises(ParameterError, match=r"model must be a row of 15 numbers, as the model has, got shape \(14,\)"):
        problem.at(torch.zeros(14))
    broken = torch.zeros(15)
    broken[3] = torch.nan
    with pytest.raises(ParameterError, match="model must be finite numbers, 1 of 15 are NaN or Inf"):
        problem.at(broken)
    with pytest.raises(ParameterError, match=r"buffers must be a row of 8 numbers, as the model has, got shape \(0,\)"):
        objective("normalised").at(model_row("normalised"))


def test_losses_that_overflow_are_reported() -> None:
    with pytest.raises(DataError, match="the loss or its gradient is not finite at this model, whose norm is"):
        objective("quadratic").at(torch.full((5,), 1e200, dtype=torch.float64)).value_and_gradient()


def test_shares_of_another_data_set_are_refused() -> None:
    with pytest.raises(DataError, match="has 24 training points, the shares name point 24"):
        Objective.of(*PROBLEMS["softmax"], Shares(np.arange(25), np.array([0, 25])))


@pytest.mark.parametrize("number", [3, 7, 20, 10_000])
def test_a_pool_keeps_few_points_of_every_client_or_one_of_few_clients(number: int) -> None:
    shares = Shares(np.arange(21), np.array([0, 1, 3, 9, 21]))
    objective = Objective.of(Quadratic(), rows(21), shares)
    pooled = objective.pool(number).pooled
    kept = 21 if number >= 21 else sum(min(size, max(1, number // 4)) for size in (1, 2, 6, 12))
    assert len(pooled.order) == (number if number < 4 else kept)
    assert len(np.unique(pooled.order)) == len(pooled.order)
    owners = np.searchsorted(shares.offsets, pooled.order, side="right")
    assert len(np.unique(owners)) == pooled.num_clients == min(4, number)


@pytest.mark.parametrize("number", [2, 8])
def test_a_pool_gives_the_objective_on_average_and_says_how_far_off_it_may_be(number: int) -> None:
    shares = Shares(np.arange(40), np.array([0, 10, 20, 30, 40]))
    objective = Objective.of(Quadratic(), rows(40), shares)
    x = torch.ones(objective.dim)
    value, gradient = objective.at(x).value_and_gradient()
    pooled = [objective.pool(number, seed) for seed in range(400)]
    found = [each.at(x).value_and_gradient() for each in pooled]
    assert np.mean([each for each, _ in found]) == pytest.approx(value, rel=0.1)
    off = torch.stack([each - gradient for _, each in found])
    error = gradient_statistics(pooled[0], x).gradient_error
    assert float(off.mean(0).norm()) < 4 * error / np.sqrt(400)
    assert float(off.square().sum(1).mean().sqrt()) == pytest.approx(error, rel=0.35)
    assert gradient_statistics(objective, x).gradient_error == 0.0


def test_a_pool_has_a_point_at_least() -> None:
    objective = Objective.of(Quadratic(), rows(4), Shares(np.arange(4), np.array([0, 4])))
    with pytest.raises(ParameterError, match="number must be a whole number of at least 1, got 0"):
        objective.pool(0)
