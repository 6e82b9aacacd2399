"""The attack on a filter's guard: its statistic against slow code, and that nothing is noticed."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tests.attacks.views import drawn, view_of
from tests.oracles import attacks as oracle

from steadfed._core.rng import stream
from steadfed.aggregators import Mean, Median, Rage
from steadfed.aggregators._rage.displacement import filter_path, safest
from steadfed.aggregators._rage.guard import LIMIT
from steadfed.attacks import BelowGuard, Knowledge
from steadfed.attacks._guard import guard_statistic
from steadfed.attacks._view import AdversaryView

pytestmark = pytest.mark.portable
ONLY_HONEST = frozenset({Knowledge.OWN, Knowledge.HONEST})


def cloud(number: int, dim: int, bad: int, distance: float) -> NDArray[np.float64]:
    """Return normal rows, the first of them moved far out."""
    rows = stream(0, "guard", number, dim).standard_normal((number, dim))
    rows[:bad, 0] += distance
    return rows


@pytest.mark.parametrize(("number", "dim", "assumed"), [(13, 1, 2), (20, 3, 5), (25, 8, 11), (21, 30, 4)])
@pytest.mark.parametrize("distance", [0.0, 3.0, 50.0])
def test_the_statistic_is_that_of_explicit_rows(number: int, dim: int, assumed: int, distance: float) -> None:
    rows = cloud(number, dim, assumed + 2, distance)
    assert guard_statistic(rows @ rows.T, assumed) == pytest.approx(oracle.guard_statistic(rows, assumed), rel=1e-4)
    spread, mean = oracle.anchor_of(rows, assumed)
    state = safest(filter_path(rows @ rows.T, assumed, confirm=False))
    assert state.spread == pytest.approx(spread, rel=1e-6)
    np.testing.assert_allclose(state.weights @ rows / state.weights.sum(), mean, atol=1e-6)


def test_equal_rows_count_once() -> None:
    rows = cloud(30, 4, 0, 0.0)
    rows[:16] = 0.0
    assert guard_statistic(rows @ rows.T, 3) == pytest.approx(oracle.guard_statistic(rows, 3), rel=1e-4)
    assert guard_statistic(np.zeros((9, 9)), 2) == 0.0


def colluders(view: AdversaryView, assumed: int) -> tuple[NDArray[np.float64], float]:
    """Return all rows, and how far the colluders lie from the honest mean in units of σ₀."""
    forged = BelowGuard(assumed=assumed)(view).rows
    shift = forged.mean(0) - view.honest.mean(0)
    return torch.cat([forged, view.honest]).numpy(), float(shift.norm()) / oracle.spread_of(view.honest.numpy())[0]


@pytest.mark.parametrize("dim", [3, 40])
@pytest.mark.parametrize("bad", [22, 24])
def test_many_more_than_assumed_go_as_far_as_the_guard_is_silent(dim: int, bad: int) -> None:
    view = view_of(drawn("guarded", 50 - bad, dim), bad)
    rows, distance = colluders(view, 15)
    assert oracle.guard_statistic(rows, 15) <= 1.01 * LIMIT
    assert distance > 4.0
    farther = rows.copy()
    farther[:bad] += 0.05 * (farther[:bad] - rows[bad:].mean(axis=0))
    assert oracle.guard_statistic(farther, 15) > LIMIT
    _, mean = oracle.anchor_of(rows, 15)
    assert np.linalg.norm(mean - rows[bad:].mean(axis=0)) > oracle.spread_of(rows[bad:])[0]


@pytest.mark.parametrize("bad", [10, 15])
def test_no_more_than_assumed_stay_where_the_filter_keeps_them(bad: int) -> None:
    view = view_of(drawn("guarded", 50 - bad, 20), bad)
    rows, distance = colluders(view, 15)
    assert 0.3 < distance < 4.0
    state = safest(filter_path(rows @ rows.T, 15, confirm=False))
    assert float(state.weights[:bad].sum()) > 0.5 * bad


def test_no_two_colluders_are_one() -> None:
    rows = BelowGuard()(view_of(drawn("guarded", 20, 30), 8)).rows
    assert len(torch.unique(rows, dim=0)) == 8
    away = rows - drawn("guarded", 20, 30).mean(0)
    assert float(torch.pdist(away).max()) < 0.03 * float(away.norm(dim=1).min())


def test_the_number_assumed_is_ones_own_that_of_the_rule_or_as_many_as_there_are() -> None:
    honest = drawn("assumed", 28, 20)

    def rows(attack: BelowGuard, **others: object) -> torch.Tensor:
        return attack(view_of(honest, 22, **others)).rows  # type: ignore[arg-type]

    told = rows(BelowGuard(assumed=15))
    assert torch.equal(told, rows(BelowGuard(), server_rule=Rage(num_byzantine=15)))
    everyone = rows(BelowGuard(assumed=22))
    assert torch.equal(everyone, rows(BelowGuard()))
    assert torch.equal(everyone, rows(BelowGuard(), server_rule=Mean()))
    assert torch.equal(everyone, rows(BelowGuard(), server_rule=Rage(num_byzantine=15), granted=ONLY_HONEST))
    assert torch.equal(rows(BelowGuard(assumed=24)), rows(BelowGuard(), server_rule=Median()))
    assert not torch.equal(told, everyone)
