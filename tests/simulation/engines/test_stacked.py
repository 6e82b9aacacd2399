"""Hand-batched stacks: when sample space is used, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import numpy as np
import pytest
import torch
from tests.simulation.engines.tasks import (
    CLASSES,
    Speaker,
    batch_norm,
    expected,
    mlp,
    one_output,
    softmax,
    start_of,
    task_of,
    trained,
)
from torch import Tensor, nn

from steadfed.data._base import Dataset
from steadfed.models._losses import Logistic, Loss
from steadfed.simulation._engines import first_layer
from steadfed.simulation._engines.base import EngineRefusalError
from steadfed.simulation._engines.first_layer import Grams, pays
from steadfed.simulation._engines.stacked import StackedEngine
from steadfed.simulation._local import TrainingTask


def sample_space_everywhere(sizes: np.ndarray, *_: object) -> np.ndarray:
    return np.ones(len(sizes), dtype=np.bool_)


def sample_space_nowhere(sizes: np.ndarray, *_: object) -> np.ndarray:
    return np.zeros(len(sizes), dtype=np.bool_)


STEPS: list[dict[str, Any]] = [
    {},
    {"batch_size": "full"},
    {"weight_decay": 0.3},
    {"steps": 1},
    {"batch_size": 100, "steps": 20},
]


@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize("model", [softmax, mlp])
@pytest.mark.parametrize("rule", [sample_space_everywhere, sample_space_nowhere])
def test_steps_in_sample_space_are_the_steps(
    monkeypatch: pytest.MonkeyPatch, rule: object, model: Callable[[], nn.Module], steps: dict[str, Any]
) -> None:
    monkeypatch.setattr(first_layer, "pays", rule)
    task = task_of(model(), **steps)
    rows, _ = expected(task)
    torch.testing.assert_close(trained(StackedEngine(task))[0], rows, rtol=1e-10, atol=1e-10)


@pytest.mark.portable
@pytest.mark.parametrize(("model", "loss"), [(softmax, None), (mlp, None), (one_output, Logistic())])
@pytest.mark.parametrize("options", [{}, {"batch_size": 7}, {"batch_size": "full", "sizes": (16,) * 5}])
def test_bits_in_sample_space_do_not_depend_on_the_company(
    monkeypatch: pytest.MonkeyPatch, model: Callable[[], nn.Module], loss: Loss | None, options: dict[str, Any]
) -> None:
    monkeypatch.setattr(first_layer, "pays", sample_space_everywhere)
    task = task_of(model(), loss=loss, dtype=torch.float32, **options)
    start, engine = start_of(task, task.data.shares.num_clients), StackedEngine(task)
    rows, _ = trained(engine, start=start)
    for largest in (1, 2, 3):
        assert torch.equal(rows, trained(engine, largest, backwards=True, start=start)[0])


def test_sample_space_is_chosen_where_a_client_draws_its_points_again_and_again() -> None:
    sizes = np.array([50, 600])
    assert pays(sizes, np.array([32, 32]), 20, 784, 10).tolist() == [True, False]
    assert not pays(sizes, sizes, 1, 784, 10).any()  # one full step reads every point once


def test_gram_matrices_beyond_the_budget_are_not_formed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_layer, "pays", sample_space_everywhere)
    task = task_of(softmax())
    assert Grams.of(task, task.data.features, 4, biased=True).stacks
    monkeypatch.setattr(first_layer, "GRAM_BUDGET", 100)
    assert not Grams.of(task, task.data.features, 4, biased=True).stacks


@final
class Hinge(Loss):
    """A loss that the engine does not know."""

    def num_outputs(self, dataset: Dataset) -> int:
        return CLASSES

    def mean(self, outputs: Tensor, labels: Tensor) -> Tensor:
        return outputs.relu().mean()

    def num_correct(self, outputs: Tensor, labels: Tensor) -> int | None:
        return None


def _twice() -> nn.Module:
    layer = nn.Linear(12, 12)
    return nn.Sequential(layer, nn.ReLU(), layer, nn.Linear(12, CLASSES))


def _tied() -> nn.Module:
    first, second = nn.Linear(12, 12), nn.Linear(12, 12)
    second.weight = first.weight
    return nn.Sequential(first, nn.ReLU(), second, nn.Linear(12, CLASSES))


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: task_of(nn.Linear(12, CLASSES)), "a Linear, not a Sequential"),
        (lambda: task_of(batch_norm()), "BatchNorm1d"),
        (lambda: task_of(nn.Sequential(nn.Linear(12, CLASSES), nn.ReLU())), "the last layer is not linear"),
        (lambda: task_of(nn.Sequential(nn.ReLU(), nn.Linear(12, CLASSES))), "is a ReLU"),
        (lambda: task_of(_twice()), "two places"),
        (lambda: task_of(_tied()), "shares its weight"),
        (lambda: task_of(softmax(), loss=Hinge()), "Hinge"),
        (lambda: task_of(nn.Sequential(nn.Embedding(CLASSES, 3)), tokens=True), "tokens"),
        (lambda: task_of(Speaker(nn.GRU), tokens=True), "a Speaker"),
    ],
)
def test_what_is_no_stack_is_refused_with_the_reason(make: Callable[[], TrainingTask], why: str) -> None:
    with pytest.raises(EngineRefusalError, match=why) as refusal:
        StackedEngine(make())
    assert "\n" not in str(refusal.value)
