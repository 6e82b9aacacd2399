"""Rows: every parameter has its place, and comes back from it."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from steadfed.errors import DataError
from steadfed.models._layout import Layout


def module() -> nn.Module:
    return nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(16, 3, bias=False))


def test_a_module_goes_into_a_row_and_comes_back() -> None:
    first, second = module(), module()
    layout = Layout.of(first)
    assert layout.dim == sum(each.numel() for each in first.parameters())
    assert layout.buffer_dim == 8
    layout.load(second, layout.parameters_of(first, torch.float32), layout.buffers_of(first, torch.float32))
    for name, tensor in first.state_dict().items():
        assert torch.equal(tensor, second.state_dict()[name])


def test_places_do_not_overlap_and_leave_no_gap() -> None:
    layout = Layout.of(module())
    ends = 0
    for place in layout.parameters:
        assert place.offset == ends
        ends += place.size
    assert ends == layout.dim


def test_views_are_views_and_convolutions_are_channels_last() -> None:
    layout = Layout.of(module())
    row = torch.zeros(layout.dim)
    views = layout.parameter_views(row)
    views["0.weight"].fill_(1.0)
    assert int(row.sum()) == 4 * 2 * 9
    assert views["0.weight"].is_contiguous(memory_format=torch.channels_last)
    assert views["0.weight"].shape == (4, 2, 3, 3)
    stacked = layout.parameter_views(torch.zeros(5, layout.dim))
    assert stacked["0.weight"].shape == (5, 4, 2, 3, 3)
    assert stacked["3.weight"].shape == (5, 3, 16)


def test_rows_are_copies_of_the_module() -> None:
    original = module()
    layout = Layout.of(original)
    layout.parameters_of(original, torch.float64).zero_()
    assert all(bool(each.any()) for each in original.parameters() if each.dim() > 1)


def test_shared_parameters_have_one_place() -> None:
    both = nn.ModuleDict({"one": nn.Linear(3, 3), "two": nn.Linear(3, 3)})
    both["two"].weight = both["one"].weight
    assert Layout.of(both).dim == 9 + 3 + 3


def test_modules_that_cannot_be_trained_are_refused() -> None:
    frozen = nn.Linear(2, 2)
    frozen.bias.requires_grad_(False)
    with pytest.raises(DataError, match="the parameters bias are frozen"):
        Layout.of(frozen)
    with pytest.raises(DataError, match="it has no parameters"):
        Layout.of(nn.ReLU())
