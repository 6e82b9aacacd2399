"""Scenes: what only an onlooker knows is right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from steadfed.aggregators import Mean
from steadfed.attacks import Cluster, Honest, Silence
from steadfed.errors import ParameterError, UnknownNameError
from steadfed.sweeps.matrices import GRIDS, GauntletGrid
from steadfed.sweeps.matrices._populations import (
    AT_REST,
    POPULATIONS,
    attacked_population,
    check_population,
    population,
    under_attack,
)


@pytest.mark.parametrize("model", POPULATIONS)
def test_the_truth_about_a_population_is_that_of_its_honest_rows(model: str) -> None:
    people = population(model, cohort_size=12, dim=30, num_byzantine=3, seed=4)
    rows = people.rows[3:].double().numpy()
    assert np.allclose(people.shape.mean.numpy(), rows.mean(0), atol=1e-5)
    spread = np.linalg.eigvalsh(np.cov(rows.T, bias=True))[-1]
    assert people.shape.sigma0**2 == pytest.approx(spread, rel=1e-5)


@pytest.mark.parametrize(("cohort_size", "bad"), [(40, 4), (40, 10), (50, 1), (100, 25)])
@pytest.mark.parametrize(("model", "apart"), [("idle", 0.0), ("converged", 5e-3)])
def test_a_bit_more_than_half_of_the_honest_clients_are_at_rest(
    model: str, apart: float, cohort_size: int, bad: int
) -> None:
    honest = population(model, cohort_size=cohort_size, dim=20, num_byzantine=bad).honest.double()
    close = ((honest[:, None] - honest).norm(dim=2) <= apart * np.sqrt(20)).sum(dim=1)
    at_rest = int((close > 1).sum())
    assert 0.5 < at_rest / len(honest) <= 0.6
    assert set(close.tolist()) == {1, at_rest}


def test_models_of_clients_at_rest_run_only_if_they_are_named() -> None:
    assert not any(set(grid.populations) & set(AT_REST) for grid in GRIDS.values())
    GauntletGrid(populations=("idle", "converged")).check()


def test_honest_rows_do_not_depend_on_the_attack_and_forged_ones_come_first() -> None:
    people = population("iso", cohort_size=12, dim=30, num_byzantine=3)
    staged = under_attack(people, Cluster(strength=10.0))
    assert torch.equal(staged.updates[3:], people.honest)
    assert staged.num_forged == 3
    assert staged.error(people.shape.mean) == 0.0


def test_silent_clients_are_missing_and_still_count_as_byzantine() -> None:
    people = population("iso", cohort_size=12, dim=30, num_byzantine=3)
    staged = under_attack(people, Silence())
    assert staged.updates.shape == (9, 30)
    assert (staged.num_forged, staged.epsilon) == (0, 0.25)
    assert staged.error(staged.aggregate(Mean()).update) < 1e-5
    assert staged.byzantine_weight(torch.full((9,), 1 / 9)) == 0.0


def test_nobody_loses_weight_under_the_mean() -> None:
    staged = attacked_population("clusters", Honest(), cohort_size=10, dim=5, num_byzantine=2)
    assert staged.honest_weight_lost(staged.aggregate(Mean()).weights) == 0.0


def test_recorded_rows_are_drawn_without_replacement(tmp_path: Path) -> None:
    path = tmp_path / "recorded.npy"
    np.save(path, np.arange(20 * 6, dtype=np.float32).reshape(20, 6))
    people = population(f"file:{path}", cohort_size=15, dim=3, num_byzantine=2)
    assert people.rows.shape == (15, 3)
    assert len(torch.unique(people.rows[:, 0])) == 15
    assert set((people.rows[:, 0] % 6).tolist()) == {0.0}


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (np.zeros((20, 6), dtype=np.int64), "floats"),
        (np.zeros(6), "matrix"),
        (np.zeros((5, 6)), "needs 17 recorded updates"),
    ],
)
def test_recorded_rows_that_do_not_fit_are_refused(tmp_path: Path, rows: NDArray[Any], message: str) -> None:
    path = tmp_path / "recorded.npy"
    np.save(path, rows)
    with pytest.raises(ParameterError, match=message):
        population(f"file:{path}", cohort_size=12, dim=3, num_byzantine=2)


def test_unknown_models_and_impossible_numbers_are_refused() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'clusters'"):
        check_population("cluster")
    with pytest.raises(ParameterError, match=r"cannot read 'nowhere\.npy'"):
        check_population("file:nowhere.npy")
    with pytest.raises(ParameterError, match=r"num_byzantine must lie in 0 \.\. 4"):
        population("iso", cohort_size=5, dim=2, num_byzantine=5)
