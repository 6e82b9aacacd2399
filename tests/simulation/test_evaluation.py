"""How good a model is: against the loss and the accuracy counted by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.simulation.small import classes, config, played
from torch.nn.functional import cross_entropy

from steadfed.models import MultilayerPerceptron
from steadfed.simulation import Evaluation, Federation, ServerOptions
from steadfed.simulation._evaluation import take_evenly


def test_losses_and_accuracies_are_those_of_the_model_after_the_round() -> None:
    what = config(model=MultilayerPerceptron(hidden=(4,), l2=0.3))
    states, records = played(what)
    data = classes()
    module = what.model.build(data, what.seed).double()
    with Federation(what, dataset=data) as federation:
        federation.setting.layout.load(module, states[-1].model, states[-1].buffers)
    penalty = 0.15 * float(states[-1].model.square().sum())
    for part, features, labels in (
        ("train", data.features, data.labels),
        ("test", data.test_features, data.test_labels),
    ):
        outputs = module(features.double()).detach()
        assert getattr(records[-1], f"{part}_loss") == pytest.approx(float(cross_entropy(outputs, labels)) + penalty)
        right = float((outputs.argmax(1) == labels).double().mean())
        assert getattr(records[-1], f"{part}_accuracy") == pytest.approx(right)


def test_more_points_than_a_batch_are_averaged_point_by_point() -> None:
    data = classes(num_points=2_350)
    states, records = played(config(rounds=1, evaluation=Evaluation(train_points="all")), data)
    weights, bias = states[1].model[:15].view(3, 5), states[1].model[15:]
    outputs = data.features.double() @ weights.T + bias
    assert records[0].train_loss == pytest.approx(float(cross_entropy(outputs, data.labels)), abs=1e-12)


def test_the_model_is_looked_at_every_so_often_and_after_the_last_round() -> None:
    _, records = played(config(rounds=5, evaluation=Evaluation(every=2)))
    assert [record.test_loss is not None for record in records] == [False, True, False, True, True]
    assert [record.train_accuracy is not None for record in records] == [False, True, False, True, True]


def test_no_points_give_no_score() -> None:
    _, records = played(config(rounds=1, evaluation=Evaluation(train_points=0, test_points=0)))
    assert (records[0].train_loss, records[0].test_loss, records[0].test_accuracy) == (None, None, None)


def test_training_loss_is_on_points_of_clients_only() -> None:
    what = config(rounds=1, server=ServerOptions(trusted_points=30), evaluation=Evaluation(train_points="all"))
    with Federation(what, dataset=classes()) as federation:
        assert len(federation.setting.train.features) == 90


@pytest.mark.parametrize(("number", "at_most"), [(10, 3), (10, 9), (11, 10), (5, 5), (4, 1), (7, "all"), (1000, 999)])
def test_points_are_spread_evenly_and_each_is_there_once(number: int, at_most: int | str) -> None:
    points = np.arange(number) * 3
    found = take_evenly(points, at_most)  # type: ignore[arg-type]
    assert len(found) == (number if at_most == "all" else min(number, int(at_most)))
    assert len(np.unique(found)) == len(found)
    assert set(found) <= set(points)
    if len(found) > 1:
        gaps = np.diff(found) // 3
        assert gaps.max() - gaps.min() <= 1


def test_evaluation_leaves_no_trace_in_the_training() -> None:
    seldom, _ = played(config(evaluation=Evaluation(every=100)))
    often, _ = played(config())
    assert all(torch.equal(one.model, other.model) for one, other in zip(seldom, often, strict=True))
