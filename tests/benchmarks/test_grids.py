"""The grids beside the benchmarks, and the networks that they name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from benchmarks import networks
from steadfed.sweeps.runs import read_grid

GRIDS = sorted((Path(__file__).parents[2] / "benchmarks").glob("*.toml"))


@pytest.mark.parametrize("path", GRIDS, ids=lambda path: path.stem)
def test_every_grid_can_be_read_and_has_the_default_rule_or_one_question(path: Path) -> None:
    grid = read_grid(str(path))
    rules = {point["rule"].value["name"] for point in grid.points()}
    assert "rage" in rules or rules == {"median"}


def test_published_figures_of_byzfl_belong_to_points_of_its_grid() -> None:
    grid = read_grid(str(GRIDS[0].with_name("byzfl.toml")))
    settings = [{key: choice.label for key, choice in point.items()} for point in grid.points()]
    assert len(grid.settings) == 16
    assert len(grid.published) == 3
    assert all(sum(figure.belongs_to(each) for each in settings) == 3 for figure in grid.published)


def test_every_setting_of_byzfl_has_ten_honest_clients_who_hold_all_points() -> None:
    for setting in read_grid(str(GRIDS[0].with_name("byzfl.toml"))).settings.values():
        partition, liars = setting.base["partition"], setting.base["byzantine"]["clients"]
        assert partition["num_clients"] - partition["guests"] == 10
        assert liars == list(range(10, partition["num_clients"]))
        assert setting.base["cohort_size"] == partition["num_clients"]


@pytest.mark.parametrize(
    ("make", "numbers"),
    [
        (networks.bucketing, 1_199_882),
        (networks.bucketing_with_dropout, 1_199_882),
        (networks.bucketing_without_dropout, 1_199_882),
        (networks.byzfl, 431_080),
    ],
)
def test_networks_have_as_many_numbers_as_the_published_ones(make: Callable[[], nn.Module], numbers: int) -> None:
    model = make()
    assert sum(parameter.numel() for parameter in model.parameters()) == numbers
    assert model(torch.zeros(2, 1, 28, 28)).shape == (2, 10)


def test_frozen_dropout_drops_the_same_in_every_step_and_nothing_in_evaluation() -> None:
    layer, images = networks.FrozenDropout(8, share=0.25), torch.rand(5, 8, 3, 3)
    once = layer(images)
    assert torch.equal(once, layer(images))
    kept = once[:, :, 0, 0] != 0.0
    assert not torch.equal(kept[0], kept[1]) or not torch.equal(kept[0], kept[2])
    assert torch.allclose(once[kept], images[kept] / 0.75)
    assert torch.equal(layer.eval()(images), images)
