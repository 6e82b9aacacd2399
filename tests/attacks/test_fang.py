"""The attacks of Fang et al. against literal transcriptions, and against the rules they are made for."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from tests.attacks.views import ONLY_OWN, drawn, view_of
from tests.oracles import attacks as oracle
from tests.oracles.coordinatewise import trimmed_mean

from steadfed.aggregators import Krum
from steadfed.attacks._base import DirectedAttack
from steadfed.attacks._fang import HALVINGS, FangKrum, FangTrimmedMean
from steadfed.attacks._view import AdversaryView
from steadfed.errors import ParameterError

ATTACKS: dict[str, DirectedAttack] = {"fang-krum": FangKrum(), "fang-trimmed-mean": FangTrimmedMean()}


@pytest.mark.parametrize(("honest", "bad", "dim"), [(7, 2, 30), (15, 4, 100), (30, 8, 3), (9, 1, 50), (4, 3, 2)])
@pytest.mark.parametrize("mean", [0.05, 1.0])
def test_the_length_is_what_halving_with_equal_rows_finds(honest: int, bad: int, dim: int, mean: float) -> None:
    rows = drawn("krum", honest, dim, mean=mean)
    aim = FangKrum(closeness=0.0).aim(view_of(rows, bad))
    expected, _ = oracle.fang_krum(rows.numpy(), bad, HALVINGS)
    assert aim.strength == pytest.approx(expected, rel=1e-9)
    assert torch.equal(aim.direction[0], -rows.mean(0).sign())


@pytest.mark.parametrize(("honest", "bad", "dim"), [(12, 4, 100), (30, 10, 1000), (40, 12, 20)])
def test_krum_selects_a_forged_row_that_points_against_the_mean(honest: int, bad: int, dim: int) -> None:
    rows = drawn("selected", honest, dim, mean=0.1)
    forged = FangKrum()(view_of(rows, bad)).rows
    result = Krum(num_byzantine=bad)(torch.cat([rows, forged]))
    assert int(result.weights.argmax()) >= honest
    assert float(result.update @ rows.mean(0)) < 0.0


def test_supporters_lie_close_to_the_first_row_and_differ() -> None:
    rows = drawn("selected", 12, 40, mean=0.1)
    forged = FangKrum()(view_of(rows, 5)).rows
    distances = (forged - forged[0]).norm(dim=1)
    assert float(distances[0]) == 0.0
    assert bool((distances[1:] > 0.0).all())
    assert float(distances.max()) <= 0.01 * float((rows - rows.mean(0)).norm(dim=1).max()) * math.sqrt(2.0)


def test_nothing_longer_than_the_bound_is_selected() -> None:
    rows = drawn("bound", 11, 15, mean=0.3)
    sign = rows.mean(0).sign()
    bound = oracle.fang_krum(rows.numpy(), 3, 0)[0]
    for factor in (1.001, 2.0, 30.0):
        forged = (-factor * bound * sign).repeat(3, 1)
        assert int(Krum(num_byzantine=3)(torch.cat([forged, rows])).weights.argmax()) >= 3


def test_with_its_own_rows_only_it_imagines_as_few_forged_rows_as_it_needs() -> None:
    own = drawn("own", 6, 25, mean=0.2)
    view = view_of(drawn("honest", 14, 25), 6, own=own, granted=ONLY_OWN)
    tries = [oracle.fang_krum(own.numpy(), number, HALVINGS) for number in range(1, 7)]
    expected = next(length for length, selected in tries if selected)
    assert FangKrum(closeness=0.0).aim(view).strength == pytest.approx(expected, rel=1e-9)


def test_scaling_all_rows_scales_the_attack() -> None:
    rows = drawn("scale", 12, 40, mean=0.1)
    view = view_of(rows, 4)
    small = AdversaryView(num_byzantine=4, cohort_size=16, own_rows=view.own_rows, honest_rows=1e-6 * rows)
    assert torch.allclose(FangKrum()(small).rows, 1e-6 * FangKrum()(view).rows, rtol=1e-6, atol=0.0)


@pytest.mark.parametrize("factor", [1.5, 2.0])
@pytest.mark.parametrize("mean", [-5.0, -0.3, 0.3, 5.0])
def test_values_lie_in_the_intervals_of_the_paper(factor: float, mean: float) -> None:
    rows = drawn("trimmed", 9, 30, mean=mean)
    forged = FangTrimmedMean(factor=factor)(view_of(rows, 50)).rows
    for k in range(30):
        low, high = oracle.fang_interval(rows[:, k].tolist(), factor)
        values = forged[:, k]
        assert low - 1e-9 <= float(values.min())
        assert float(values.max()) <= high + 1e-9
        assert float(values.max() - values.min()) > 0.8 * (high - low)


def test_intervals_worked_by_hand() -> None:
    honest = [[1.0, -1.0, -2.0, 2.0, 0.0], [4.0, -4.0, 5.0, -5.0, 0.0]]
    forged = FangTrimmedMean()(view_of(honest, 200)).rows
    ends = [(0.5, 1.0), (-1.0, -0.5), (-4.0, -2.0), (2.0, 4.0), (0.0, 0.0)]
    np.testing.assert_allclose(forged.amin(0), [low for low, _ in ends], atol=0.05)
    np.testing.assert_allclose(forged.amax(0), [high for _, high in ends], atol=0.05)


def test_with_its_own_rows_only_it_draws_three_to_four_deviations_away() -> None:
    own = torch.tensor([[1.0, -3.0], [3.0, -5.0]])
    forged = FangTrimmedMean()(view_of(drawn("honest", 9, 2).float(), 2, own=own, granted=ONLY_OWN)).rows
    assert bool(((forged[:, 0] >= -2.0) & (forged[:, 0] <= -1.0)).all())  # 2 − 4 · 1 … 2 − 3 · 1
    assert bool(((forged[:, 1] >= -1.0) & (forged[:, 1] <= 0.0)).all())
    assert not torch.equal(forged[0], forged[1])


def test_a_trimmed_mean_moves_farther_than_by_leaving_the_attackers_out() -> None:
    rows = drawn("moved", 20, 60, mean=0.5)
    forged = FangTrimmedMean()(view_of(rows, 5)).rows
    moved = trimmed_mean(torch.cat([forged, rows]).numpy(), 5) - rows.mean(0).numpy()
    unmoved = trimmed_mean(rows.numpy(), 5) - rows.mean(0).numpy()
    assert np.linalg.norm(moved) > 3.0 * np.linalg.norm(unmoved)
    assert float(moved @ rows.mean(0).numpy()) < 0.0


@pytest.mark.parametrize("name", ATTACKS)
@pytest.mark.parametrize("granted", [None, ONLY_OWN])
@pytest.mark.parametrize("bad", [1, 2, 4])
@pytest.mark.parametrize(
    "rows",
    [
        torch.ones(1, 1),
        torch.full((4, 6), 2.5),
        torch.zeros(5, 3),
        torch.tensor([[1.0, -2.0], [-1.0, 2.0]]),
        torch.tensor([[math.nan, 1.0], [math.inf, 0.0], [1.0, 2.0], [1e30, 0.0]]),
        torch.full((3, 2), math.nan),
        torch.tensor([[1e15, 0.0], [-1e15, 1.0], [3.0, 4.0]]),
    ],
    ids=["one", "equal", "zero", "zero mean", "broken", "nothing", "huge"],
)
def test_degenerate_rows_give_finite_rows(
    name: str, granted: frozenset[object] | None, bad: int, rows: torch.Tensor
) -> None:
    own = rows[torch.arange(bad) % len(rows)]
    view = view_of(rows, bad) if granted is None else view_of(rows, bad, own=own, granted=ONLY_OWN)
    forged = ATTACKS[name](view).rows
    assert (forged.shape, forged.dtype) == ((bad, rows.shape[1]), rows.dtype)
    assert bool(forged.isfinite().all())


def test_parameters_out_of_range_are_refused() -> None:
    with pytest.raises(ParameterError, match=r"factor: input should be greater than 1, got 1\.0"):
        FangTrimmedMean(factor=1.0)
    with pytest.raises(ParameterError, match=r"closeness: input should be greater than or equal to 0, got -1\.0"):
        FangKrum(closeness=-1.0)
