"""Losses against their formulas."""

from __future__ import annotations

import math

import pytest
import torch
from tests.models.points import numbers, points, texts

from steadfed.errors import DataError
from steadfed.models import LOSSES, CrossEntropy, HalfNorm, HalfSquares, Huber, Logistic


def test_the_logistic_loss_is_its_formula_and_does_not_overflow() -> None:
    outputs, labels = torch.tensor([[2.0], [-1.0]]), torch.tensor([1, 1])
    expected = (math.log1p(math.exp(-2.0)) + math.log1p(math.exp(1.0))) / 2
    assert Logistic().mean(outputs, labels).item() == pytest.approx(expected)
    assert Logistic().num_correct(outputs, labels) == 1
    assert Logistic().mean(torch.tensor([[-1e4]]), torch.tensor([1])).item() == pytest.approx(1e4)


def test_cross_entropy_of_texts_is_the_mean_over_all_places() -> None:
    outputs, labels = torch.rand(3, 4, 5), torch.randint(0, 5, (3, 4))
    logs = outputs.log_softmax(-1)
    expected = -sum(logs[i, j, labels[i, j]].item() for i in range(3) for j in range(4)) / 12
    assert CrossEntropy().mean(outputs, labels).item() == pytest.approx(expected, rel=1e-5)
    assert CrossEntropy().num_guesses(labels) == 12


def test_half_squares_take_numbers_and_vectors() -> None:
    assert HalfSquares().mean(torch.tensor([[1.0], [3.0]]), torch.tensor([0.0, 1.0])).item() == 1.25
    assert HalfSquares().mean(torch.tensor([[1.0, 2.0]]), torch.tensor([[0.0, 0.0]])).item() == 2.5
    assert HalfNorm().mean(torch.tensor([[1.0, 2.0]]), torch.tensor([7])).item() == 2.5
    assert HalfSquares().num_correct(torch.zeros(1, 1), torch.zeros(1)) is None


def test_the_huber_loss_is_a_square_inside_and_a_line_outside() -> None:
    outputs, labels = torch.tensor([[0.5], [-3.0]]), torch.zeros(2)
    assert Huber(delta=1.0).mean(outputs, labels).item() == pytest.approx((0.5 * 0.25 + 2.5) / 2)
    assert Huber(delta=1e9).mean(outputs, labels).item() == pytest.approx(HalfSquares().mean(outputs, labels).item())
    assert Huber().num_correct(outputs, labels) is None


def test_what_a_model_is_for_follows_from_its_outputs_and_the_labels() -> None:
    assert CrossEntropy().task(points(4)) == CrossEntropy().task(texts()) == "classification"
    assert Logistic().task(points(4, num_classes=2)) == "classification"
    assert HalfSquares().task(numbers()) == Huber().task(numbers()) == "regression"
    assert HalfNorm().task(numbers(1)) is None


def test_output_shapes_are_those_of_the_labels() -> None:
    assert CrossEntropy().output_shape(points(4)) == (3,)
    assert CrossEntropy().output_shape(texts()) == (8, 5)
    assert Logistic().output_shape(points(4, num_classes=2)) == (1,)
    assert HalfSquares().output_shape(numbers()) == (1,)
    assert HalfNorm().output_shape(numbers(6)) == (6,)


def test_losses_refuse_labels_that_do_not_fit() -> None:
    with pytest.raises(
        DataError, match=r"the squared loss needs labels that are floats, those of points are torch.int64"
    ):
        HalfSquares().num_outputs(points(4))
    assert list(LOSSES) == sorted(LOSSES)
