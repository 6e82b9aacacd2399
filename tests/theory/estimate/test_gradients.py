"""Variance and dissimilarity: against loops over points, exact constants, and the errors they claim."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.models.points import numbers
from tests.oracles.gradients import client_statistics, point_gradients
from tests.theory.estimate.problems import PROBLEMS, SHARES, SIZES, buffers_row, model_row, objective

from steadfed._core.rng import stream
from steadfed.errors import ParameterError
from steadfed.models import Quadratic
from steadfed.models._convex import LogisticProblem, quadratic_constants
from steadfed.partitions import Shares
from steadfed.theory.estimate import Objective, gradient_statistics
from steadfed.theory.estimate._gradients import Clients, Samples


@pytest.mark.parametrize("name", sorted(PROBLEMS))
def test_statistics_are_those_of_a_loop_over_points(name: str) -> None:
    x, buffers = model_row(name), buffers_row(name)
    _, rows = point_gradients(*PROBLEMS[name], x, buffers)
    means, variances, apart = client_statistics(rows, SHARES)
    found = gradient_statistics(objective(name), x, buffers)
    assert found.variances == pytest.approx(variances.numpy())
    assert found.dissimilarities == pytest.approx(apart.numpy())
    torch.testing.assert_close(found.gradient, means.mean(0))
    assert found.gradient_norm == pytest.approx(float(means.mean(0).norm()))
    assert found.gradient_variance.value == pytest.approx(float(variances.max()))
    assert found.mean_gradient_variance.value == pytest.approx(float(variances.mean()))
    assert found.dissimilarity.value == pytest.approx(float(apart.max()))
    assert found.mean_dissimilarity.value == pytest.approx(float(apart.mean()))
    assert found.dissimilarities.max() == found.dissimilarity.value
    assert np.median(found.variances) == pytest.approx(np.median(variances.numpy()))
    for each in (found.dissimilarity, found.gradient_variance, found.mean_gradient_variance):
        assert (each.standard_error, each.note, each.exact) == (0.0, "exact at this point", True)


def test_a_quadratic_has_its_constants_at_every_model() -> None:
    model, dataset = PROBLEMS["quadratic"]
    constants = quadratic_constants(model, dataset, SHARES)  # type: ignore[arg-type]
    for x in (torch.zeros(5), model_row("quadratic")):
        found = gradient_statistics(objective("quadratic"), x)
        assert found.gradient_variance.value == pytest.approx(constants.gradient_variance)
        assert found.dissimilarity.value == pytest.approx(constants.dissimilarity)
    there = gradient_statistics(objective("quadratic"), torch.from_numpy(constants.minimiser))
    assert there.value == pytest.approx(constants.minimum)
    assert there.gradient_norm < 1e-12


def test_logistic_regression_agrees_with_its_own_formulas() -> None:
    x = model_row("logistic")
    problem = LogisticProblem.of(*PROBLEMS["logistic"], SHARES)  # type: ignore[arg-type]
    found = gradient_statistics(objective("logistic"), x)
    assert found.value == pytest.approx(problem.value(x.numpy()))
    assert found.gradient.numpy() == pytest.approx(problem.gradient(x.numpy()))
    assert found.gradient_variance.value == pytest.approx(problem.gradient_variance_at(x.numpy()))
    assert found.dissimilarity.value == pytest.approx(problem.dissimilarity_at(x.numpy()))


@pytest.mark.parametrize("limits", [{"points_at_once": 1}, {"points_at_once": 4}, {"numbers_at_once": 1}])
@pytest.mark.parametrize("samples", ["all", 3])
def test_how_much_is_computed_at_once_does_not_matter(limits: dict[str, int], samples: Samples) -> None:
    x = model_row("perceptron")
    found = gradient_statistics(objective("perceptron", **limits), x, samples=samples)
    whole = gradient_statistics(objective("perceptron"), x, samples=samples)
    assert found.variances == pytest.approx(whole.variances, rel=1e-10)
    assert found.variance_errors == pytest.approx(whole.variance_errors, rel=1e-10)
    assert found.dissimilarities == pytest.approx(whole.dissimilarities, rel=1e-10)


def test_clients_asked_for_are_measured_as_among_all() -> None:
    x = model_row("softmax")
    whole = gradient_statistics(objective("softmax"), x)
    found = gradient_statistics(objective("softmax"), x, clients=[4, 0])
    assert found.clients.tolist() == [0, 4]
    assert found.variances == pytest.approx(whole.variances[[0, 4]])
    assert found.dissimilarities == pytest.approx(whole.dissimilarities[[0, 4]])
    assert found.value == pytest.approx(whole.value)
    assert found.dissimilarity.note == (
        "the largest of 2 clients asked for out of 6; a lower bound of the largest of all"
    )
    assert not found.dissimilarity.exact
    assert found.mean_dissimilarity.standard_error == 0.0


def test_a_sample_of_clients_says_how_many_may_exceed_it() -> None:
    found = gradient_statistics(objective("softmax"), model_row("softmax"), clients=3)
    assert len(set(found.clients.tolist())) == 3
    assert found.dissimilarity.note == (
        "the largest of 3 clients drawn at random out of 6; a lower bound of the largest of all; "
        "with 95 % confidence at most 63 % of clients exceed it"  # 1 − 0.05^(1/3)
    )
    assert (
        found.dissimilarity.value <= gradient_statistics(objective("softmax"), model_row("softmax")).dissimilarity.value
    )
    assert found.mean_dissimilarity.standard_error > 0.0
    other = gradient_statistics(objective("softmax"), model_row("softmax"), clients=3, seed=1)
    assert other.clients.tolist() != found.clients.tolist()


def test_clients_with_few_points_are_exact_beside_sampled_ones() -> None:
    x = model_row("softmax")
    whole, found = (gradient_statistics(objective("softmax"), x, samples=number) for number in ("all", 3))
    small = SIZES <= 3
    assert found.variances[small] == pytest.approx(whole.variances[small])
    assert (found.variance_errors[small] == 0.0).all()
    assert (found.variance_errors[~small] > 0.0).all()
    assert found.dissimilarities == pytest.approx(whole.dissimilarities)
    assert found.dissimilarity.exact
    assert "a client's value is that of 3 of its points at most" in found.gradient_variance.note
    assert gradient_statistics(objective("softmax"), x, samples=7).gradient_variance.exact


def many(num_clients: int, size: int) -> tuple[Objective, float, float]:
    """Return a quadratic with clients of one size, its largest and its mean variance."""
    spread = stream(0, "spread").random(num_clients).repeat(size)[:, None]
    data = numbers(3, num_points=num_clients * size, dtype=torch.float64)
    data.features.mul_(torch.from_numpy(1 + 3 * spread))
    shares = Shares(np.arange(num_clients * size), np.arange(num_clients + 1) * size)
    problem = Objective.of(Quadratic(), data, shares)
    exact = gradient_statistics(problem, torch.zeros(3))
    assert exact.gradient_variance.value == pytest.approx(
        quadratic_constants(Quadratic(), data, shares).gradient_variance
    )
    return problem, exact.gradient_variance.value, exact.mean_gradient_variance.value


@pytest.mark.parametrize(("clients", "samples"), [("all", 25), (40, "all"), (40, 5)])
def test_the_truth_lies_within_four_standard_errors(clients: Clients, samples: Samples) -> None:
    problem, _, mean = many(200, 10) if clients != "all" else many(2, 200)
    found = [
        gradient_statistics(problem, torch.zeros(3), clients=clients, samples=samples, seed=seed).mean_gradient_variance
        for seed in range(60)
    ]
    values, errors = np.array([each.value for each in found]), np.array([each.standard_error for each in found])
    assert np.mean(np.abs(values - mean) < 4 * errors) >= 0.95
    assert abs(values.mean() - mean) < 4 * values.std() / np.sqrt(60)  # unbiased
    assert errors.mean() == pytest.approx(values.std(), rel=0.4)  # and not wider than it is


def test_the_error_of_the_largest_is_that_of_its_client() -> None:
    problem, largest, _ = many(1, 200)
    found = [gradient_statistics(problem, torch.zeros(3), samples=25, seed=seed) for seed in range(60)]
    inside = [abs(each.gradient_variance.value - largest) < 4 * each.gradient_variance.standard_error for each in found]
    assert np.mean(inside) >= 0.95


@pytest.mark.parametrize("clients", [0, 7, [], [6], [-1], [0.5], "some", True])
def test_clients_that_are_not_there_are_refused(clients: Clients) -> None:
    with pytest.raises(ParameterError, match="clients must be"):
        gradient_statistics(objective("softmax"), model_row("softmax"), clients=clients)


def test_other_bad_settings_are_refused() -> None:
    with pytest.raises(ParameterError, match="samples must be a whole number of at least 2, got 1"):
        gradient_statistics(objective("softmax"), model_row("softmax"), samples=1)
    with pytest.raises(ParameterError, match="model must be finite"):
        gradient_statistics(objective("softmax"), torch.full((15,), torch.inf))
