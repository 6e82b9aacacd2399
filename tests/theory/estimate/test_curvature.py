"""Curvature by Lanczos: against dense Hessians, and how sure it is."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from tests.models.points import numbers
from tests.oracles.gradients import hessian
from tests.theory.estimate.problems import PROBLEMS, SHARES, buffers_row, model_row, objective

from steadfed._core.rng import stream
from steadfed.errors import ParameterError
from steadfed.models import Quadratic
from steadfed.models._convex import LogisticProblem
from steadfed.theory.estimate import Objective, Point, along, curvature, exact_constants, relative_gap, segment

pytestmark = pytest.mark.portable


def wide(dim: int = 60) -> Objective:
    """Return a quadratic of many curvatures from 0.01 to 1."""
    return Objective.of(Quadratic(strong_convexity=0.01, smoothness=1.0), numbers(dim, dtype=torch.float64), SHARES)


@pytest.mark.parametrize("name", sorted(set(PROBLEMS) - {"recurrent"}))  # a dense Hessian of that is slow
def test_extreme_curvatures_are_those_of_the_dense_hessian(name: str) -> None:
    x, buffers = model_row(name), buffers_row(name)
    values = torch.linalg.eigvalsh(hessian(*PROBLEMS[name], SHARES, x, buffers))
    found = curvature(objective(name), x, buffers, steps=len(x))
    assert found.largest == pytest.approx(float(values[-1]), rel=1e-9)
    assert found.smallest == pytest.approx(float(values[0]), rel=1e-9, abs=1e-9)
    assert found.exact
    assert found.at_most == found.largest
    assert found.residual == 0.0


def test_curvatures_of_a_quadratic_are_its_constants_everywhere() -> None:
    constants = exact_constants(*PROBLEMS["quadratic"], SHARES)
    assert constants is not None
    found = curvature(objective("quadratic"), model_row("quadratic"))
    assert found.largest == pytest.approx(constants.smoothness)
    assert found.smallest == pytest.approx(constants.strong_convexity)


def test_curvature_at_zero_is_the_smoothness_of_logistic_regression() -> None:
    model, dataset = PROBLEMS["logistic"]
    constants = exact_constants(model, dataset, SHARES)
    assert constants is not None
    assert curvature(objective("logistic"), torch.zeros(5)).largest == pytest.approx(constants.smoothness)
    x = model_row("logistic")
    dense = np.linalg.eigvalsh(LogisticProblem.of(model, dataset, SHARES).hessian(x.numpy()))  # type: ignore[arg-type]
    assert curvature(objective("logistic"), x).largest == pytest.approx(dense[-1])


def test_an_eigenvalue_lies_within_the_residual_and_none_beyond_the_ritz_values() -> None:
    truth = Quadratic(strong_convexity=0.01, smoothness=1.0).curvatures(60).numpy()
    for steps in (3, 6, 12):
        found = curvature(wide(), torch.zeros(60), steps=steps)
        for value in (found.largest, found.smallest):
            assert np.abs(truth - value).min() <= found.residual + 1e-12
        assert 0.01 - 1e-12 <= found.smallest
        assert found.largest <= 1.0 + 1e-12
        assert found.residual > 0.0
        assert not found.exact


def test_bounds_hold_as_often_as_they_say() -> None:
    problem, x = wide(), torch.zeros(60)
    found = [curvature(problem, x, steps=16, confidence=0.5, seed=seed) for seed in range(20)]
    assert all(math.isfinite(each.at_most) for each in found)
    assert np.mean([each.at_most >= 1.0 and each.at_least <= 0.01 for each in found]) >= 0.5
    sure = curvature(problem, x, steps=16, confidence=0.99)
    assert sure.at_most > found[0].at_most > found[0].largest


def test_the_gap_is_no_smaller_than_what_random_starts_leave() -> None:
    dim, steps, failure = 40, 3, 0.2
    gap = relative_gap(steps, dim, failure)
    truth = np.concatenate([np.linspace(0.0, 1.0 - gap, dim - 1), [1.0]])
    starts = stream(0, "starts").standard_normal((400, dim))
    missed = []
    for start in starts:
        basis = np.linalg.qr(np.stack([start * truth**power for power in range(steps)], axis=1))[0]
        missed.append(np.linalg.eigvalsh(basis.T @ (truth[:, None] * basis))[-1] < 1.0 - gap)
    assert np.mean(missed) <= failure
    assert gap > relative_gap(2 * steps, dim, failure)
    assert gap > relative_gap(steps, dim, 2 * failure)


def test_few_steps_leave_everything_open() -> None:
    found = curvature(wide(), torch.zeros(60), steps=2)
    assert found.at_most == math.inf
    assert found.at_least == -math.inf


def test_the_same_seed_gives_the_same_bits_and_batches_do_not_matter() -> None:
    x = model_row("perceptron")
    found = curvature(objective("perceptron"), x, steps=8)
    assert found == curvature(objective("perceptron"), x, steps=8)
    small = curvature(objective("perceptron", points_at_once=3), x, steps=8)
    assert small.largest == pytest.approx(found.largest, rel=1e-9)
    assert found.largest != curvature(objective("perceptron"), x, steps=8, seed=1).largest


def test_the_steepest_point_of_a_segment_is_found() -> None:
    zero, far = Point("start", torch.zeros(5)), Point("far", 20 * model_row("logistic"))
    found = along(objective("logistic"), segment(zero, far, 4)).steepest
    assert found is not None
    assert found.where == "0 from start to far"  # logistic losses are steepest at 0
    assert found.smoothness == found.largest


def test_bad_settings_are_refused() -> None:
    with pytest.raises(ParameterError, match="steps must be a whole number of at least 2, got 1"):
        curvature(objective("logistic"), torch.zeros(5), steps=1)
    with pytest.raises(ParameterError, match=r"confidence must be a number strictly between 0 and 1, got 1\.0"):
        curvature(objective("logistic"), torch.zeros(5), confidence=1.0)
    with pytest.raises(ParameterError, match="model must be finite"):
        curvature(objective("logistic"), torch.full((5,), torch.nan))
