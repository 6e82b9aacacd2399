"""States as checkpoints: everything that the next round depends on comes back."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from steadfed.errors import CorruptRunError
from steadfed.server._checkpoint import Checkpoint
from steadfed.server._state import ServerState


def state(*, velocity: bool = True) -> ServerState:
    return ServerState(
        round=7,
        model=torch.arange(3.0),
        buffers=torch.ones(2),
        counters={"norm.count": np.array(5), "flag": np.array([True, False])},
        velocity=torch.full((3,), 0.5) if velocity else None,
        rule_memory={"a/b": torch.tensor([1.0]), "": torch.tensor([2.0])},
        extra={"attack/a/b": torch.tensor([3]), "clients/who": torch.tensor([1, 2])},
    )


@pytest.mark.parametrize("velocity", [True, False])
def test_a_state_goes_into_a_checkpoint_and_comes_back(velocity: bool) -> None:
    before = state(velocity=velocity)
    after = ServerState.from_checkpoint(before.to_checkpoint())
    assert after.round == 7
    assert torch.equal(after.model, before.model)
    assert torch.equal(after.buffers, before.buffers)
    assert (after.velocity is None) is not velocity
    assert {name: (each.tolist(), each.dtype) for name, each in after.counters.items()} == {
        name: (each.tolist(), each.dtype) for name, each in before.counters.items()
    }
    assert {name: tensor.tolist() for name, tensor in after.rule_memory.items()} == {"a/b": [1.0], "": [2.0]}
    assert {name: tensor.tolist() for name, tensor in after.extra.items()} == {
        "attack/a/b": [3],
        "clients/who": [1, 2],
    }


def test_a_checkpoint_without_a_model_is_no_state() -> None:
    with pytest.raises(CorruptRunError, match="after 3 rounds holds no buffers and no model"):
        ServerState.from_checkpoint(Checkpoint(round=3, tensors={"clients/who": torch.zeros(1)}))


def test_a_snapshot_is_the_model_alone() -> None:
    snapshot = state().to_snapshot()
    assert (snapshot.round, snapshot.model.tolist(), snapshot.buffers.tolist()) == (7, [0.0, 1.0, 2.0], [1.0, 1.0])
