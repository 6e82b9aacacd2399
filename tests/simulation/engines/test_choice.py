"""Which engine takes which model, what is refused and why."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from tests.simulation.engines.tasks import (
    CLASSES,
    Speaker,
    batch_norm,
    convolutions,
    mlp,
    softmax,
    start_of,
    tanh,
    task_of,
    trained,
)
from torch import Tensor, nn

from steadfed.errors import ParameterError, UnknownNameError
from steadfed.simulation._engines.base import EngineRefusalError
from steadfed.simulation._engines.choice import choose
from steadfed.simulation._engines.loop import LoopEngine, may_draw
from steadfed.simulation._engines.vmapped import VmapEngine
from steadfed.simulation._local import TrainingTask


class Branching(nn.Module):
    """Takes one way or the other by what it sees."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(12, CLASSES)

    def forward(self, points: Tensor) -> Tensor:
        outputs: Tensor = self.layer(points)
        return outputs if float(outputs.sum()) > 0.0 else -outputs


def dropping() -> nn.Module:
    return nn.Sequential(nn.Linear(12, 8), nn.Dropout(0.5), nn.Linear(8, CLASSES))


@pytest.mark.parametrize(
    ("make", "name", "why"),
    [
        (lambda: task_of(softmax()), "stacked", "stack of Linear"),
        (lambda: task_of(mlp(), momentum=0.5), "stacked", "stack of Linear"),
        (lambda: task_of(tanh()), "vmap", "Tanh"),
        (lambda: task_of(convolutions()), "loop", "Conv2d"),
        (lambda: task_of(Speaker(nn.LSTM), tokens=True), "loop", "LSTM"),
        (lambda: task_of(Speaker(nn.GRU), tokens=True), "loop", "GRU"),
        (lambda: task_of(batch_norm()), "loop", "vmap cannot take"),
        (lambda: task_of(dropping()), "loop", "vmap cannot take"),
        (lambda: task_of(Branching()), "loop", "vmap cannot take"),
    ],
)
def test_auto_takes_the_fastest_engine_that_can(make: Callable[[], TrainingTask], name: str, why: str) -> None:
    engine, reason = choose("auto", make())
    assert engine.name == name
    assert why in reason
    assert "\n" not in reason


def test_a_named_engine_that_cannot_is_an_error_that_says_why() -> None:
    with pytest.raises(ParameterError, match=r"'stacked' cannot train this model: .*BatchNorm1d"):
        choose("stacked", task_of(batch_norm()))
    engine, reason = choose("loop", task_of(mlp()))
    assert (engine.name, reason) == ("loop", "as configured")


def test_an_unknown_engine_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(UnknownNameError, match="stacked"):
        choose("stackd", task_of(mlp()))


def test_a_refusal_leaves_the_module_as_it_was() -> None:
    task = task_of(batch_norm())
    before = [each.clone() for each in task.module.buffers()]
    with pytest.raises(EngineRefusalError):
        VmapEngine(task)
    assert all(torch.equal(*pair) for pair in zip(task.module.buffers(), before, strict=True))


def test_dropout_draws_from_the_stream_of_its_client() -> None:
    task = task_of(dropping())
    start, engine = start_of(task, 8), LoopEngine(task)
    state = torch.default_generator.get_state()
    rows, _ = trained(engine, start=start)
    assert torch.equal(state, torch.default_generator.get_state())
    assert torch.equal(rows, trained(engine, 1, backwards=True, start=start)[0])


def test_counts_of_batches_do_not_go_from_one_client_to_the_next() -> None:
    task = task_of(batch_norm(), sizes=(20, 20, 12))
    engine = LoopEngine(task)
    trained(engine)
    counts = [int(each) for each in task.module.buffers() if not each.is_floating_point()]
    assert counts == [task.local.steps]


@pytest.mark.parametrize(
    ("module", "draws"),
    [
        (mlp(), False),
        (dropping(), True),
        (nn.LSTM(3, 2), False),
        (nn.LSTM(3, 2, num_layers=2, dropout=0.1), True),
        (Branching(), True),
    ],
)
def test_only_modules_that_may_draw_get_a_generator(module: nn.Module, draws: bool) -> None:
    assert may_draw(module) is draws
