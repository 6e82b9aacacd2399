"""In which layers removed updates deviate: shares that sum to 1, for whole rows and for rows of some coordinates."""

from __future__ import annotations

import pytest
import torch
from tests.states.models import replies

from steadfed import Mean, Rage, aggregate_state_dicts
from steadfed._core.rng import stream
from steadfed.server._round import Received
from steadfed.states import ModelLayout
from steadfed.states._layers import columns_of_layers, deviations, layer_shares, shares_of_removed

LAYOUT = ModelLayout.of({name: torch.zeros(size) for name, size in (("a", 70_000), ("b", 3), ("c", 1), ("d", 0))})
LAYERS = [*columns_of_layers(LAYOUT, None)]


def rows(number: int) -> torch.Tensor:
    return torch.from_numpy(stream(2, "layers").standard_normal((number, LAYOUT.dim))).float()


def test_shares_are_those_of_the_squared_distance() -> None:
    row, update = rows(2)
    found = layer_shares(row, update, LAYERS)
    squares = (row.double() - update.double()) ** 2
    for name, columns in LAYERS:
        assert found[name] == pytest.approx(float(squares[columns].sum() / squares.sum()), abs=1e-6)
    assert list(found.values()) == sorted(found.values(), reverse=True)


def test_large_numbers_have_shares_and_numbers_without_a_distance_have_none() -> None:
    row = torch.zeros(LAYOUT.dim)
    assert layer_shares(row, row, LAYERS) == {}
    assert layer_shares(row + 3e38, row - 3e38, LAYERS)["a"] > 0.99
    wide = row.double()
    assert layer_shares(wide + 1e200, wide, LAYERS) == {}
    assert layer_shares(wide + torch.nan, wide, LAYERS) == {}


def test_only_removed_updates_with_numbers_are_looked_at_and_a_record_keeps_the_largest_shares() -> None:
    layout = ModelLayout.of({str(layer): torch.zeros(2) for layer in range(9)})
    updates = torch.from_numpy(stream(3, "layers").standard_normal((9, layout.dim)))
    updates[4] += 100 * torch.arange(layout.dim)
    updates[6] = torch.nan
    received = Received(updates, tuple("abcdefghi"), torch.empty(9, 0))
    shares = shares_of_removed(layout, received, Rage(num_byzantine=2)(updates))
    assert list(shares) == ["e"]
    assert list(shares["e"])[:2] == ["8", "7"]
    assert list(deviations(shares)[0].layers) == ["8", "7", "6", "5", "4"]
    assert shares_of_removed(layout, received, Mean()(updates)) == {}


def test_columns_of_some_coordinates_belong_to_the_layers_they_are_of() -> None:
    places = torch.tensor([0, 69_999, 70_001, 70_003])
    assert list(columns_of_layers(LAYOUT, places)) == [
        ("a", slice(0, 2)), ("b", slice(2, 3)), ("c", slice(3, 4)), ("d", slice(4, 4)),
    ]  # fmt: skip


def test_nobody_who_is_kept_has_layers() -> None:
    model = replies()["site-0"]
    assert aggregate_state_dicts(model, replies(), Mean()).layers == {}
