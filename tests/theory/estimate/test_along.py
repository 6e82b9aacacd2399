"""Maxima along a run, and where they are."""

from __future__ import annotations

import pytest
import torch
from tests.theory.estimate.problems import model_row, objective

from steadfed.errors import ParameterError
from steadfed.theory.estimate import Point, along, curvature, gradient_statistics

X = model_row("logistic")
POINTS = [Point(f"round {number}", scale * X) for number, scale in enumerate((8.0, 0.0, 4.0))]


def test_the_largest_of_everything_is_found_with_its_place() -> None:
    problem = objective("logistic")
    found = along(problem, iter(POINTS))
    each = [gradient_statistics(problem, point.model, where=point.where) for point in POINTS]
    variance = max(each, key=lambda one: one.gradient_variance.value)
    apart = max(each, key=lambda one: one.dissimilarity.value)
    noisiest, farthest = found.noisiest, found.most_dissimilar
    assert (noisiest.gradient_variance, noisiest.where) == (variance.gradient_variance, variance.where)
    assert (farthest.dissimilarity, farthest.where) == (apart.dissimilarity, apart.where)
    assert found.steepest == curvature(problem, torch.zeros(5), where="round 1")


def test_curvatures_are_left_out_if_not_asked_for() -> None:
    found = along(objective("logistic"), POINTS, steps=0, clients=3, samples=2)
    assert (found.curvatures, found.steepest) == ((), None)
    assert len({tuple(each.clients) for each in found.statistics}) == 1


def test_no_points_and_broken_ones_are_refused() -> None:
    with pytest.raises(ParameterError, match="points must be one or more, got none"):
        along(objective("logistic"), [])
    with pytest.raises(ParameterError, match="model must be finite"):
        along(objective("logistic"), [Point("bad", torch.full((5,), torch.nan))])
