"""Constants of convex problems, recomputed point by point with autograd."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.models.points import dataset as data_set, numbers, points
from tests.oracles.gradients import measured

from steadfed._core.rng import stream
from steadfed.errors import DataError, ParameterError
from steadfed.models import LogisticRegression, Quadratic
from steadfed.models._convex import LogisticProblem, logistic_constants, quadratic_constants
from steadfed.partitions import DirichletPartition, IidPartition, Shares, UnequalPartition

pytestmark = pytest.mark.portable

LOGISTIC = points(4, num_classes=2, num_points=40, dtype=torch.float64)
LOGISTIC_SHARES = DirichletPartition(num_clients=6, alpha=0.3, equal_sizes=False, min_points=2).split(LOGISTIC, seed=0)
QUADRATIC = numbers(5, num_points=40, dtype=torch.float64)
QUADRATIC_SHARES = UnequalPartition(num_clients=6).split(QUADRATIC, seed=0)


@pytest.mark.parametrize("l2", [0.0, 0.3])
def test_quadratic_constants_are_those_of_autograd_at_every_point(l2: float) -> None:
    model = Quadratic(strong_convexity=0.2, smoothness=5.0, l2=l2)
    found = quadratic_constants(model, QUADRATIC, QUADRATIC_SHARES)
    for w in stream(0, "w").standard_normal((3, 5)):
        _, _, variance, apart = measured(model, QUADRATIC, QUADRATIC_SHARES, w)
        assert found.gradient_variance == pytest.approx(variance)
        assert found.dissimilarity == pytest.approx(apart)
    value, gradient, _, _ = measured(model, QUADRATIC, QUADRATIC_SHARES, found.minimiser)
    assert found.minimum == pytest.approx(value)
    assert gradient.abs().max() < 1e-12
    assert found.smoothness == found.client_smoothness == pytest.approx(5.0 + l2)
    assert found.strong_convexity == pytest.approx(0.2 + l2)


@pytest.mark.parametrize("bias", [True, False])
def test_logistic_values_gradients_and_differences_are_those_of_autograd(bias: bool) -> None:
    model = LogisticRegression(bias=bias, l2=0.1)
    problem = LogisticProblem.of(model, LOGISTIC, LOGISTIC_SHARES)
    for w in 3 * stream(0, "w").standard_normal((3, 4 + bias)):
        value, gradient, variance, apart = measured(model, LOGISTIC, LOGISTIC_SHARES, w)
        assert problem.value(w) == pytest.approx(value)
        assert problem.gradient(w) == pytest.approx(gradient.numpy())
        assert problem.gradient_variance_at(w) == pytest.approx(variance)
        assert problem.dissimilarity_at(w) == pytest.approx(apart)


def test_logistic_curvature_is_that_of_differences_and_largest_at_zero() -> None:
    problem = LogisticProblem.of(LogisticRegression(l2=0.1), LOGISTIC, LOGISTIC_SHARES)
    w, step = stream(0, "w").standard_normal(5), 1e-6
    columns = [(problem.gradient(w + step * e) - problem.gradient(w - step * e)) / (2 * step) for e in np.eye(5)]
    assert problem.hessian(w) == pytest.approx(np.array(columns), abs=1e-8)
    smoothness, client_smoothness = problem.smoothness()
    assert smoothness == pytest.approx(np.linalg.eigvalsh(problem.hessian(np.zeros(5)))[-1])
    assert np.linalg.eigvalsh(problem.hessian(w))[-1] < smoothness
    alone = [
        LogisticProblem.of(LogisticRegression(l2=0.1), LOGISTIC, Shares(own, np.array([0, len(own)]))).smoothness()[0]
        for own in (LOGISTIC_SHARES.points(r) for r in range(6))
    ]
    assert client_smoothness == pytest.approx(max(alone))


def test_logistic_curvature_comes_down_to_l2() -> None:
    problem = LogisticProblem.of(LogisticRegression(l2=0.1), LOGISTIC, LOGISTIC_SHARES)
    far = 1e3 * stream(0, "far").standard_normal(5)
    assert np.linalg.eigvalsh(problem.hessian(far))[0] == pytest.approx(0.1, abs=1e-3)


@pytest.mark.parametrize("num_clients", [1, 2, 6])
def test_bounds_hold_where_the_differences_are_largest(num_clients: int) -> None:
    shares = IidPartition(num_clients=num_clients).split(LOGISTIC, seed=0)
    problem = LogisticProblem.of(LogisticRegression(l2=0.1), LOGISTIC, shares)
    found = problem.constants()
    tried = [scale * w for scale in (0.0, 0.3, 3.0, 100.0) for w in stream(0, "w").standard_normal((200, 5))]
    variance = max(problem.gradient_variance_at(w) for w in tried)
    apart = max(problem.dissimilarity_at(w) for w in tried)
    assert variance <= found.gradient_variance < 6 * variance
    assert apart <= found.dissimilarity + 1e-12
    assert num_clients > 1 or found.dissimilarity == 0.0


def test_the_minimiser_has_no_gradient_and_nothing_is_lower() -> None:
    found = logistic_constants(LogisticRegression(l2=1e-3), LOGISTIC, LOGISTIC_SHARES)
    problem = LogisticProblem.of(LogisticRegression(l2=1e-3), LOGISTIC, LOGISTIC_SHARES)
    assert np.linalg.norm(problem.gradient(found.minimiser)) < 1e-12
    for direction in stream(0, "directions").standard_normal((20, 5)):
        assert problem.value(found.minimiser + 1e-3 * direction) > found.minimum


def test_newtons_method_arrives_from_far_with_little_l2() -> None:
    generator = stream(0, "hard")
    features = torch.from_numpy(100 * generator.standard_normal((30, 3)))
    hard = data_set("hard", features, (features[:, 0] > 0).long(), 2)
    found = logistic_constants(LogisticRegression(l2=1e-4), hard, Shares(np.arange(30), np.array([0, 30])))
    assert found.minimum < 1e-3


def test_problems_without_a_minimiser_or_with_other_data_are_refused() -> None:
    with pytest.raises(ParameterError, match=r"only with l2 > 0, got 0.0"):
        logistic_constants(LogisticRegression(), LOGISTIC, LOGISTIC_SHARES)
    with pytest.raises(DataError, match="needs two classes"):
        logistic_constants(LogisticRegression(l2=1.0), points(4), LOGISTIC_SHARES)


def test_the_optimum_of_a9a_is_the_known_one() -> None:
    folder = os.environ.get("STEADFED_DATA")
    files = sorted(Path(folder).glob("a9a/a9a*")) if folder else []
    if not files:
        pytest.skip("$STEADFED_DATA is not set or has no a9a")
    from sklearn.datasets import load_svmlight_file

    matrix, signs = load_svmlight_file(str(files[0]), n_features=123)
    features, labels = torch.from_numpy(matrix.toarray()), torch.from_numpy((signs > 0).astype(np.int64))
    a9a = data_set("a9a", features, labels, 2)
    whole = Shares(np.arange(len(labels)), np.array([0, len(labels)]))
    found = logistic_constants(LogisticRegression(l2=1e-3, bias=False), a9a, whole)
    assert found.minimum == pytest.approx(0.333340752069, abs=5e-13)
    assert np.linalg.norm(found.minimiser) == pytest.approx(3.988335, abs=1e-6)
    assert found.smoothness == pytest.approx(1.5729, abs=5e-5)
