from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, strategies as st
from safetensors.torch import save
from torch import Tensor

from steadfed.errors import CorruptRunError, ParameterError
from steadfed.server._checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from steadfed.server._stored import stored_arrays
from steadfed.server._tensors import from_bytes, to_bytes


def tensors() -> dict[str, Tensor]:
    """Return every kind of tensor that a rule may remember."""
    grid = torch.arange(12, dtype=torch.float64).reshape(3, 4)
    return {
        "float32": torch.tensor([0.1, -0.0, float("nan"), float("inf"), 1e-45]),
        "float64": grid / 3,
        "int64": torch.tensor([-(2**63), 2**63 - 1]),
        "bool": torch.tensor([True, False, True]),
        "bfloat16": torch.ones(3, dtype=torch.bfloat16),
        "one number": torch.tensor(7),
        "empty": torch.empty(0),
        "empty matrix": torch.empty(3, 0, dtype=torch.bool),
        "transposed": grid.T,
        "a view": grid[1:, ::2],
        "the same memory": grid,
        "spread out": torch.ones(1).expand(5),
        "with a gradient": torch.nn.Parameter(torch.ones(2)),
        "channels last": torch.arange(24.0).reshape(1, 2, 3, 4).contiguous(memory_format=torch.channels_last),
    }


def test_every_kind_of_tensor_comes_back(tmp_path: Path) -> None:
    before = tensors()
    write_checkpoint(tmp_path, Checkpoint(round=3, tensors=before))
    after = read_checkpoint(tmp_path, 3).tensors
    assert set(after) == set(before)
    for name, tensor in before.items():
        assert after[name].dtype == tensor.dtype, name
        assert after[name].shape == tensor.shape, name
        assert torch.equal(torch.nan_to_num(after[name].double()), torch.nan_to_num(tensor.double())), name
        assert to_bytes({"": after[name]}) == to_bytes({"": tensor}), "to the bit, the sign of zero included"


def test_what_comes_back_can_be_written_to_and_is_nobody_elses() -> None:
    before = torch.ones(3)
    after = from_bytes(to_bytes({"a": before, "b": before}))
    after["a"] += 1
    assert before.tolist() == after["b"].tolist() == [1, 1, 1]


def test_the_bytes_do_not_depend_on_the_order_or_the_memory_of_tensors() -> None:
    before = tensors()
    turned = {name: before[name].detach().clone() for name in reversed(before)}
    assert to_bytes(before) == to_bytes(turned)


@given(st.lists(st.text(st.characters(), max_size=8), unique=True, max_size=6))
def test_every_name_comes_back(names: list[str]) -> None:
    numbered = {name: torch.tensor(place) for place, name in enumerate(names)}
    assert {name: int(tensor) for name, tensor in from_bytes(to_bytes(numbered)).items()} == {
        name: place for place, name in enumerate(names)
    }


@pytest.mark.parametrize("name", ["__metadata__", "%5F_metadata__", "", "\x00", "\ud800", "a/b c%20", "ü", "'" * 300])
def test_odd_names_come_back(name: str) -> None:
    assert list(from_bytes(to_bytes({name: torch.ones(1), "__metadata__ ": torch.ones(1)}))) in (
        sorted([name, "__metadata__ "]),
        sorted([name, "__metadata__ "], reverse=True),
    )


def test_common_names_stay_readable() -> None:
    assert b'"rule/centered-clipping.v_1"' in to_bytes({"rule/centered-clipping.v_1": torch.ones(1)})


@pytest.mark.parametrize("tensor", [torch.ones(2).to_sparse(), torch.ones(2, device="meta"), [1.0], None])
def test_what_is_no_dense_tensor_is_refused(tensor: Any) -> None:
    with pytest.raises(ParameterError, match="'odd' must be a dense tensor"):
        to_bytes({"odd": tensor})


def test_a_type_that_the_format_does_not_know_is_refused() -> None:
    with pytest.raises(ParameterError, match="complex128"):
        to_bytes({"odd": torch.ones(2, dtype=torch.complex128)})


@pytest.mark.parametrize("length", [0, 4, 8, 40, -1])
def test_a_cut_file_is_no_file(length: int) -> None:
    with pytest.raises(CorruptRunError, match="no safetensors file"):
        from_bytes(to_bytes({"a": torch.ones(8)})[:length])


def test_facts_come_back_as_they_are(tmp_path: Path) -> None:
    facts = {"a": [1, 2.5, None, True, "ü\ud800"], "b": {"c": {}}, "d": 2**80, "e": 0.1, "f": float("inf"), "g": -0.0}
    write_checkpoint(tmp_path, Checkpoint(round=0, tensors={}, facts=facts))
    assert repr(read_checkpoint(tmp_path, 0).facts) == repr(facts)


@pytest.mark.parametrize("fact", [(1, 2), {1: 2}, torch.ones(1), {1}, b"", [(1,)], {"a": {2: 3}}])
def test_facts_that_would_not_come_back_are_refused(fact: Any) -> None:
    with pytest.raises(ParameterError, match="facts must be plain"):
        Checkpoint(round=0, tensors={}, facts={"fact": fact})


@pytest.mark.parametrize("rounds", [-1, 1.0, True, None])
def test_a_number_of_rounds_that_is_none_is_refused(rounds: Any) -> None:
    with pytest.raises(ParameterError, match="round must be"):
        Checkpoint(round=rounds, tensors={})


def test_one_name_is_written_in_one_way_so_that_all_readers_find_the_same_array() -> None:
    honest, forged = torch.ones(2), torch.zeros(2)
    for names in (("weigh%74", "weight"), ("weight", "weigh%74"), ("weigh%74",), ("%FF",), ("%5f_metadata__",)):
        content = save(dict(zip(names, (honest, forged), strict=False)))
        for read in (from_bytes, stored_arrays):
            with pytest.raises(CorruptRunError, match="an array of the name"):
                read(content)
    assert set(stored_arrays(to_bytes({"__metadata__": honest, "a b%": honest}))) == {"__metadata__", "a b%"}
