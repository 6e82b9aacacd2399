"""States as checkpoints: everything that the next round depends on comes back."""

from __future__ import annotations

import pytest
import torch

from holdfast.runs.states import from_checkpoint, to_checkpoint
from holdfast.simulation import State


def state(*, velocity: bool = True) -> State:
    return State(
        round=7,
        model=torch.arange(3.0),
        buffers=torch.ones(2),
        velocity=torch.full((3,), 0.5) if velocity else None,
        rule_memory={"a/b": torch.tensor([1.0]), "": torch.tensor([2.0])},
        attack_memory={"a/b": torch.tensor([3])},
    )


@pytest.mark.parametrize("velocity", [True, False])
def test_a_state_goes_into_a_checkpoint_and_comes_back(velocity: bool) -> None:
    before = state(velocity=velocity)
    after = from_checkpoint(to_checkpoint(before, None), None, "cpu")
    assert after.round == 7
    assert torch.equal(after.model, before.model)
    assert torch.equal(after.buffers, before.buffers)
    assert (after.velocity is None) is not velocity
    assert {name: tensor.tolist() for name, tensor in after.rule_memory.items()} == {"a/b": [1.0], "": [2.0]}
    assert {name: tensor.tolist() for name, tensor in after.attack_memory.items()} == {"a/b": [3]}


def test_of_the_clients_momentum_only_what_is_there_is_written() -> None:
    momentum = torch.zeros(1000, 3)
    momentum[[5, 700]] = torch.tensor([[1.0, 0.0, 0.0], [0.0, -2.0, 0.0]])
    checkpoint = to_checkpoint(state(), momentum)
    assert checkpoint.tensors["clients/who"].tolist() == [5, 700]
    assert checkpoint.tensors["clients/momentum"].shape == (2, 3)
    found = torch.full((1000, 3), 9.0)
    from_checkpoint(checkpoint, found, "cpu")
    assert torch.equal(found, momentum)


def test_momentum_of_nobody_comes_back_as_none() -> None:
    found = torch.ones(4, 3)
    from_checkpoint(to_checkpoint(state(), torch.zeros(4, 3)), found, "cpu")
    assert not found.any()
