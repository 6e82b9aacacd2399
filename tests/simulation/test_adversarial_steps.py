"""Clients that attack train in their own way: more steps, near the global model, with a loss for not being noticed."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.oracles.local_steps import adversarial_local_steps
from tests.simulation.engines.tasks import chunk_of, mlp, pooled, softmax, start_of, tanh, triggered_task
from torch import Tensor

from steadfed.attacks._replacement import AdversarialTraining
from steadfed.simulation._adversarial_steps import adversarial_steps
from steadfed.simulation._engines.base import Engine
from steadfed.simulation._engines.loop import LoopEngine
from steadfed.simulation._engines.stacked import StackedEngine
from steadfed.simulation._engines.vmapped import VmapEngine
from steadfed.simulation._local import TrainingTask

ATTACKERS = [1, 3, 5, 7]
TRAININGS = {
    "longer": AdversarialTraining(steps=9, lr=0.02),
    "constrained": AdversarialTraining(alpha=0.6),
    "constrained, longer": AdversarialTraining(alpha=0.3, steps=7, lr=0.03),
    "only near": AdversarialTraining(alpha=0.0),
    "projected": AdversarialTraining(radius=0.05),
    "projected, longer": AdversarialTraining(radius=0.05, steps=12),
}
ENGINES: list[tuple[type[Engine], Any]] = [(StackedEngine, mlp), (VmapEngine, tanh), (LoopEngine, pooled)]


def taken(engine: Engine, training: AdversarialTraining, clients: list[int], start: Tensor) -> Tensor:
    """Return the models of these clients after their steps from the first row of the start."""
    rows = start[: len(clients)].clone()
    momentum = torch.zeros_like(rows) if engine.task.local.momentum else None
    adversarial_steps(engine, training, chunk_of(engine.task, clients), start[0], rows, momentum=momentum)
    return rows


def expected(task: TrainingTask, training: AdversarialTraining) -> Tensor:
    start, _ = start_of(task, 1)
    each = [adversarial_local_steps(task, chunk_of(task, [client]), start[0], training) for client in ATTACKERS]
    return torch.stack(each)


@pytest.mark.parametrize("training", TRAININGS)
@pytest.mark.parametrize(("engine", "module"), ENGINES)
def test_every_engine_takes_the_steps_of_the_objective_as_written(
    engine: type[Engine], module: Any, training: str
) -> None:
    task = triggered_task(module(), l2=0.1, weight_decay=0.05)
    wanted, (start, _) = expected(task, TRAININGS[training]), start_of(task, 4)
    built = engine(task)
    chosen = TRAININGS[training]
    kinds = built.kinds(torch.tensor(ATTACKERS).numpy()).tolist()
    for client, kind, row in zip(ATTACKERS, kinds, wanted, strict=True):
        ours = taken(built, chosen, [client], start)
        torch.testing.assert_close(ours[0], row, rtol=1e-9, atol=1e-9)
        if chosen.radius is not None:
            assert float((ours[0] - start[0]).norm()) <= chosen.radius * (1 + 1e-9)
        together = [other for other, its in zip(ATTACKERS, kinds, strict=True) if its == kind]
        whole = taken(built, chosen, together, start)
        assert torch.equal(whole[together.index(client)], ours[0]) or built.company_matters


def test_without_steps_of_another_kind_clients_do_what_all_do() -> None:
    task = triggered_task(softmax())
    start, _ = start_of(task, 1)
    built, rows = StackedEngine(task), start.clone()
    built.train(rows, chunk_of(task, [1]))
    assert torch.equal(taken(built, AdversarialTraining(), [1], start), rows)


def test_steps_taken_one_by_one_draw_the_batches_of_steps_taken_together() -> None:
    task = triggered_task(mlp(), momentum=0.5)
    start, _ = start_of(task, 1)
    far = AdversarialTraining(radius=1e9)
    built = LoopEngine(task)
    torch.testing.assert_close(taken(built, far, [3], start), taken(built, AdversarialTraining(), [3], start))
