"""Constants of softmax regression, recomputed point by point with autograd and by search."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.models.points import dataset as data_set, points, texts
from tests.oracles.gradients import hessian, measured

from steadfed._core.rng import stream
from steadfed.errors import DataError, ParameterError
from steadfed.models import LogisticRegression, SoftmaxRegression
from steadfed.models._convex import logistic_constants
from steadfed.models._layout import Layout
from steadfed.models._softmax import SoftmaxProblem, softmax_constants
from steadfed.partitions import DirichletPartition, IidPartition, Shares

pytestmark = pytest.mark.portable

POINTS = points(4, num_classes=3, num_points=40, dtype=torch.float64)
SHARES = DirichletPartition(num_clients=6, alpha=0.3, equal_sizes=False, min_points=2).split(POINTS, seed=0)


@pytest.mark.parametrize("bias", [True, False])
def test_softmax_values_gradients_and_differences_are_those_of_autograd(bias: bool) -> None:
    model = SoftmaxRegression(bias=bias, l2=0.1)
    problem = SoftmaxProblem.of(model, POINTS, SHARES)
    assert problem.dim == Layout.of(model.build(POINTS, seed=0)).dim
    for w in 3 * stream(0, "w").standard_normal((3, problem.dim)):
        value, gradient, variance, apart = measured(model, POINTS, SHARES, w)
        assert problem.value(w) == pytest.approx(value)
        assert problem.gradient(w) == pytest.approx(gradient.numpy())
        assert problem.gradient_variance_at(w) == pytest.approx(variance)
        assert problem.dissimilarity_at(w) == pytest.approx(apart)


@pytest.mark.parametrize("bias", [True, False])
def test_products_with_the_hessian_are_those_of_autograd(bias: bool) -> None:
    model = SoftmaxRegression(bias=bias, l2=0.1)
    problem = SoftmaxProblem.of(model, POINTS, SHARES)
    w, v = stream(0, "w").standard_normal((2, problem.dim))
    dense = hessian(model, POINTS, SHARES, torch.from_numpy(w)).numpy()
    assert problem.hessian_product(w, v) == pytest.approx(dense @ v)
    assert np.linalg.eigvalsh(dense)[0] == pytest.approx(problem.constants().strong_convexity, rel=1e-9)


def test_no_curvature_exceeds_the_bound_and_with_a_bias_it_is_approached() -> None:
    model = SoftmaxRegression(l2=0.1)
    problem = SoftmaxProblem.of(model, POINTS, SHARES)
    largest, of_a_client = problem.smoothness()
    for w in stream(0, "w").standard_normal((5, 15)):
        assert np.linalg.eigvalsh(hessian(model, POINTS, SHARES, torch.from_numpy(w)).numpy())[-1] < largest
    limit = torch.zeros(15, dtype=torch.float64)
    limit[-1] = -40.0  # the third class is out of the question
    assert np.linalg.eigvalsh(hessian(model, POINTS, SHARES, limit).numpy())[-1] == pytest.approx(largest)
    alone = [Shares(own, np.array([0, len(own)])) for own in (SHARES.points(r) for r in range(6))]
    assert of_a_client == pytest.approx(max(SoftmaxProblem.of(model, POINTS, own).smoothness()[0] for own in alone))


@pytest.mark.parametrize("num_clients", [1, 2, 6])
@pytest.mark.parametrize("num_classes", [2, 3])
def test_bounds_hold_where_the_differences_are_largest(num_clients: int, num_classes: int) -> None:
    data = points(4, num_classes=num_classes, num_points=40, dtype=torch.float64)
    shares = IidPartition(num_clients=num_clients).split(data, seed=0)
    problem = SoftmaxProblem.of(SoftmaxRegression(l2=0.1), data, shares)
    found = problem.constants()
    tried = [scale * w for scale in (0.0, 0.3, 3.0, 100.0) for w in stream(0, "w").standard_normal((100, problem.dim))]
    variance = max(problem.gradient_variance_at(w) for w in tried)
    apart = max(problem.dissimilarity_at(w) for w in tried)
    assert variance <= found.gradient_variance < 6 * variance
    assert apart <= found.dissimilarity + 1e-12
    assert num_clients > 1 or found.dissimilarity == pytest.approx(0.0, abs=1e-20)


def test_the_minimiser_has_no_gradient_and_nothing_is_lower() -> None:
    problem = SoftmaxProblem.of(SoftmaxRegression(l2=1e-3), POINTS, SHARES)
    found = problem.constants()
    assert np.linalg.norm(problem.gradient(found.minimiser)) < 1e-10
    for direction in stream(0, "directions").standard_normal((20, 15)):
        assert problem.value(found.minimiser + 1e-3 * direction) > found.minimum


def test_two_classes_are_logistic_regression_with_twice_the_l2() -> None:
    # W = (−w/2, w/2) has the scores of w, and ‖W‖² = ‖w‖²/2.
    data = points(4, num_classes=2, num_points=40, dtype=torch.float64)
    logistic = logistic_constants(LogisticRegression(l2=0.1), data, SHARES)
    softmax = softmax_constants(SoftmaxRegression(l2=0.2), data, SHARES)
    assert softmax.minimum == pytest.approx(logistic.minimum)
    weights, biases = softmax.minimiser[:8].reshape(2, 4), softmax.minimiser[8:]
    assert [*(weights[1] - weights[0]), biases[1] - biases[0]] == pytest.approx(logistic.minimiser)


def test_newtons_method_arrives_from_far_with_little_l2() -> None:
    features = torch.from_numpy(100 * stream(0, "hard").standard_normal((30, 3)))
    hard = data_set("hard", features, features.argmax(1), 3)
    found = softmax_constants(SoftmaxRegression(l2=1e-4), hard, Shares(np.arange(30), np.array([0, 30])))
    assert found.minimum < 1e-2


def test_problems_without_a_minimiser_or_with_other_data_are_refused() -> None:
    with pytest.raises(ParameterError, match=r"only with l2 > 0, got 0.0"):
        softmax_constants(SoftmaxRegression(), POINTS, SHARES)
    with pytest.raises(DataError, match="takes points of floats"):
        softmax_constants(SoftmaxRegression(l2=1.0), texts(), SHARES)
