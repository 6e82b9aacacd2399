"""Every engine does what the literal loop does, and gives a client the same bits in any company."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.simulation.engines.tasks import (
    Speaker,
    batch_norm,
    chunk_of,
    convolutions,
    expected,
    mlp,
    one_output,
    poisoned_task,
    pooled,
    replaced_task,
    softmax,
    start_of,
    tanh,
    task_of,
    trained,
    triggered_task,
    two_outputs,
)
from torch import nn

from steadfed.models._losses import HalfSquares, Huber, Logistic
from steadfed.simulation._engines.base import Engine
from steadfed.simulation._engines.loop import LoopEngine
from steadfed.simulation._engines.stacked import StackedEngine
from steadfed.simulation._engines.vmapped import VmapEngine
from steadfed.simulation._local import Chunk, TrainingTask

Maker = Callable[..., TrainingTask]
STEPS: dict[str, dict[str, Any]] = {
    "plain": {},
    "one step": {"steps": 1},
    "full batch": {"batch_size": "full", "steps": 3},
    "whole share": {"batch_size": 100, "steps": 4},
    "momentum": {"momentum": 0.9},
    "decay": {"weight_decay": 0.3},
    "clip": {"clip": 0.5},
    "l2": {"l2": 0.2},
    "everything": {"momentum": 0.5, "weight_decay": 0.1, "clip": 0.7, "l2": 0.2},
    "many steps": {"steps": 20, "weight_decay": 0.1},
}
TASKS: dict[str, Maker] = {
    "softmax": lambda **o: task_of(softmax(), **o),
    "poisoned softmax": lambda **o: poisoned_task(softmax(), **o),
    "triggered mlp": lambda **o: triggered_task(mlp(), **o),
    "replaced softmax": lambda **o: replaced_task(softmax(), **o),
    "mlp": lambda **o: task_of(mlp(), **o),
    "logistic": lambda **o: task_of(one_output(), loss=Logistic(), **o),
    "squares": lambda **o: task_of(two_outputs(), loss=HalfSquares(), **o),
    "huber": lambda **o: task_of(two_outputs(), loss=Huber(delta=0.3), **o),
}
OTHER_TASKS: dict[str, Maker] = {
    "tanh": lambda **o: task_of(tanh(), **o),
    "convolutions": lambda **o: task_of(convolutions(), **o),
    "triggered convolutions": lambda **o: triggered_task(pooled(), **o),
    "pooled convolutions": lambda **o: task_of(pooled(), **o),
}
LOOPED_TASKS: dict[str, Maker] = {
    "batch norm": lambda **o: task_of(batch_norm(), sizes=(20, 20, 12), **o),
    "lstm": lambda **o: task_of(Speaker(nn.LSTM), tokens=True, **o),
    "gru": lambda **o: task_of(Speaker(nn.GRU), tokens=True, **o),
}
PAIRS: list[tuple[type[Engine], str]] = [
    *((engine, name) for engine in (StackedEngine, VmapEngine, LoopEngine) for name in TASKS),
    *((engine, name) for engine in (VmapEngine, LoopEngine) for name in OTHER_TASKS),
    *((LoopEngine, name) for name in LOOPED_TASKS),
]
EVERY_TASK = TASKS | OTHER_TASKS | LOOPED_TASKS


def steps_of(engine: type[Engine], name: str) -> list[str]:
    """Return the kinds of steps that a pair is tried with: all where they are written out, few where torch works."""
    if engine is StackedEngine:
        return list(STEPS)
    return (
        ["plain", "everything"] if name in LOOPED_TASKS else ["plain", "full batch", "whole share", "l2", "everything"]
    )


@pytest.mark.parametrize(("engine", "name", "steps"), [(*pair, steps) for pair in PAIRS for steps in steps_of(*pair)])
def test_every_engine_takes_the_steps_of_the_literal_loop(engine: type[Engine], name: str, steps: str) -> None:
    task = EVERY_TASK[name](**STEPS[steps])
    rows, buffers = expected(task)  # before the engine, which owns the module
    ours, our_buffers = trained(engine(task))
    torch.testing.assert_close(ours, rows, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(our_buffers, buffers, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(("engine", "name"), PAIRS)
def test_every_engine_works_in_single_precision(engine: type[Engine], name: str) -> None:
    task = EVERY_TASK[name](dtype=torch.float32)
    rows, _ = expected(task)
    ours, _ = trained(engine(task))
    assert ours.dtype == torch.float32
    torch.testing.assert_close(ours, rows, rtol=1e-4, atol=1e-5)


@pytest.mark.portable
@pytest.mark.parametrize("steps", ["plain", "full batch", "everything"])
@pytest.mark.parametrize(("engine", "name"), [pair for pair in PAIRS if not pair[0].company_matters])
def test_the_bits_of_a_client_do_not_depend_on_its_company(engine: type[Engine], name: str, steps: str) -> None:
    task = EVERY_TASK[name](dtype=torch.float32, **STEPS[steps])
    start = start_of(task, task.data.shares.num_clients)
    built = engine(task)
    rows, buffers = trained(built, start=start)
    for largest, backwards in ((1, False), (3, False), (3, True)):
        again, again_buffers = trained(built, largest, backwards=backwards, start=start)
        assert torch.equal(rows, again)
        assert torch.equal(buffers, again_buffers)


@pytest.mark.portable
@pytest.mark.parametrize("name", ["logistic", "softmax", "squares"])
@pytest.mark.parametrize("batch_size", [1, 7, 16, 17, 31, "full"])
def test_no_place_in_a_chunk_is_special(name: str, batch_size: int | str) -> None:
    task = EVERY_TASK[name](dtype=torch.float32, sizes=(32,) * 11, batch_size=batch_size, steps=3)
    start = start_of(task, 11)
    built = StackedEngine(task)
    rows, _ = trained(built, start=start)
    for largest in range(1, 11):
        for backwards in (False, True):
            again, _ = trained(built, largest, backwards=backwards, start=start)
            assert torch.equal(rows, again), (largest, backwards)


@pytest.mark.portable
@pytest.mark.parametrize(("engine", "name"), [pair for pair in PAIRS if pair[0].company_matters])
def test_the_same_chunk_has_the_same_bits(engine: type[Engine], name: str) -> None:
    task = EVERY_TASK[name](dtype=torch.float32)
    start = start_of(task, task.data.shares.num_clients)
    rows, _ = trained(engine(task), 3, start=start)
    again, _ = trained(engine(task), 3, start=start)
    assert torch.equal(rows, again)


@pytest.mark.parametrize(("engine", "name"), [(StackedEngine, "mlp"), (VmapEngine, "mlp"), (LoopEngine, "lstm")])
def test_another_round_is_another_result(engine: type[Engine], name: str) -> None:
    task = EVERY_TASK[name]()
    start, _ = start_of(task, 2)
    built, results = engine(task), []
    for number in (3, 4, 3):
        rows = start.clone()
        built.train(rows, chunk_of(task, [0, 1], number))
        results.append(rows)
    assert torch.equal(results[0], results[2])
    assert not torch.equal(results[0], results[1])


@pytest.mark.parametrize("engine", [StackedEngine, VmapEngine, LoopEngine])
def test_momentum_goes_on_from_where_a_client_left_it(engine: type[Engine]) -> None:
    whole, half = task_of(mlp(), steps=4, batch_size="full", momentum=0.9), None
    start, _ = start_of(whole, 2)
    rows, momentum = start.clone(), torch.zeros_like(start)
    engine(whole).train(rows, _pair(whole), momentum=momentum)
    half = task_of(mlp(), steps=2, batch_size="full", momentum=0.9)
    in_halves, own = start.clone(), torch.zeros_like(start)
    built = engine(half)
    for _ in range(2):
        built.train(in_halves, _pair(half), momentum=own)
    torch.testing.assert_close(in_halves, rows)
    torch.testing.assert_close(own, momentum)


def _pair(task: TrainingTask) -> Chunk:
    return chunk_of(task, [0, 1])
