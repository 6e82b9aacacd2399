"""The shape of a cloud, and attacks told by where in it they lie."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from tests.attacks.views import drawn, view_of
from tests.oracles import attacks as oracle

from steadfed._core.rng import stream
from steadfed.aggregators import Mean, Rage
from steadfed.attacks._base import Attack
from steadfed.attacks._geometry import (
    LARGEST_RATIO,
    Cluster,
    CovarianceShift,
    Spread,
    Staircase,
    SymmetricPairs,
    finite_rows,
    honest_shape,
    random_directions,
    unit,
)

ATTACKS: dict[str, Attack] = {
    "cluster": Cluster(),
    "cluster spread": Cluster(direction="spread"),
    "cluster mean": Cluster(direction="mean"),
    "spread": Spread(),
    "covariance-shift": CovarianceShift(),
    "staircase": Staircase(),
    "symmetric-pairs": SymmetricPairs(),
}


@pytest.mark.parametrize(("number", "dim"), [(2, 1), (3, 2), (8, 30), (40, 5), (200, 20)])
def test_shape_is_that_of_the_explicit_covariance(number: int, dim: int) -> None:
    rows = drawn("shape", number, dim) + 20.0
    shape = honest_shape(rows)
    sigma0, direction = oracle.spread_of(rows.numpy())
    centred = (rows - rows.mean(0)).numpy()
    assert shape.sigma0 == pytest.approx(sigma0, rel=1e-9)
    assert abs(float(direction @ shape.direction.numpy())) == pytest.approx(1.0, abs=1e-9)
    assert shape.radius == pytest.approx(np.linalg.norm(centred, axis=1).max(), rel=1e-9)
    np.testing.assert_allclose(shape.coordinates, centred @ shape.direction.numpy(), atol=1e-9)
    assert shape.coordinates.max() == pytest.approx(np.abs(shape.coordinates).max())
    np.testing.assert_allclose(shape.mean, rows.mean(0))


@pytest.mark.parametrize("rows", [torch.ones(1, 1), torch.full((5, 3), -2.5), torch.zeros(2, 7)])
def test_rows_that_agree_have_no_spread(rows: torch.Tensor) -> None:
    shape = honest_shape(rows)
    assert (shape.sigma0, shape.radius) == (0.0, 0.0)
    assert not bool(shape.direction.any())
    assert torch.equal(shape.mean, rows[0])


def test_shape_of_float32_rows_far_from_the_origin_keeps_its_digits() -> None:
    rows = drawn("shape", 30, 400) + 1000.0
    assert honest_shape(rows.float()).sigma0 == pytest.approx(honest_shape(rows).sigma0, rel=1e-3)


def test_broken_rows_do_not_count() -> None:
    rows = torch.tensor([[math.nan, 1.0], [1.0, 2.0], [math.inf, 0.0], [3.0, 2.0], [1e30, 0.0]])
    assert torch.equal(finite_rows(rows), rows[[1, 3]])
    assert honest_shape(rows).sigma0 == pytest.approx(1.0)
    assert torch.equal(finite_rows(rows[[0, 2]]), torch.zeros(1, 2))
    assert finite_rows(rows[[1, 3]]).shape == (2, 2)


def test_units_have_length_one_however_small_or_large_they_were() -> None:
    for size in (1e-44, 1e-30, 1.0, 1e18):
        vector = unit(torch.full((3,), size, dtype=torch.float32))
        assert float(vector.norm()) == pytest.approx(1.0, rel=1e-5)
    assert not bool(unit(torch.zeros(3)).any())
    assert torch.allclose(random_directions(stream(0), 4, 9).norm(dim=1), torch.ones(4, dtype=torch.float64))


@pytest.mark.parametrize("direction", ["random", "spread", "mean"])
def test_a_cluster_lies_at_its_distance(direction: str) -> None:
    rows = drawn("cluster", 20, 9)
    shape = honest_shape(rows)
    forged = Cluster(strength=4.0, direction=direction)(view_of(rows, 3)).rows
    away = forged - shape.mean
    assert torch.equal(forged[0], forged[2])
    assert float(away[0].norm()) == pytest.approx(4.0 * shape.sigma0)
    along = {"spread": shape.direction, "mean": -unit(shape.mean)}.get(direction, unit(away[0]))
    assert float(unit(away[0]) @ along) == pytest.approx(1.0)


def test_clusters_worked_by_hand() -> None:
    view = view_of([[0.0, 2.0], [6.0, 2.0], [0.0, 2.0], [6.0, 2.0]])  # mean (3, 2), σ₀ = 3 along the first axis
    rows = Cluster(strength=2.0, direction="spread")(view).rows[0]
    np.testing.assert_allclose((rows - torch.tensor([3.0, 2.0])).abs(), [6.0, 0.0], atol=1e-12)
    against = Cluster(strength=1.0, direction="mean")(view).rows[0]
    np.testing.assert_allclose(against, np.array([3.0, 2.0]) * (1.0 - 3.0 / math.sqrt(13.0)), atol=1e-12)


@pytest.mark.parametrize(("count", "dim", "bad"), [(3, 8, 7), (5, 2, 4), (5, 8, 2), (4, 1, 3)])
def test_spread_rows_lie_in_orthogonal_directions_in_turn(count: int, dim: int, bad: int) -> None:
    rows = drawn("spread", 12, dim)
    away = Spread(num_directions=count, strength=2.0)(view_of(rows, bad)).rows - rows.mean(0)
    size = 4.0 * honest_shape(rows).sigma0 ** 2
    used = min(count, dim, bad)
    gram = (away @ away.T).numpy()
    same = np.arange(bad)[:, None] % used == np.arange(bad) % used
    np.testing.assert_allclose(gram, np.where(same, size, 0.0), atol=1e-9 * size)


def test_a_covariance_shift_is_honest_rows_shifted_alike() -> None:
    rows = drawn("shift", 15, 6)
    forged = CovarianceShift(strength=2.0)(view_of(rows, 8)).rows
    originals = CovarianceShift(strength=0.0)(view_of(rows, 8)).rows
    assert all(bool((rows == row).all(1).any()) for row in originals)
    shift = forged - originals
    assert torch.allclose(shift, shift[:1].expand(8, -1))
    assert float(shift[0].norm()) == pytest.approx(2.0 * honest_shape(rows).sigma0)


def test_a_staircase_grows_geometrically_and_costs_a_filter_a_step_each() -> None:
    rows = drawn("stairs", 80, 1000)
    forged = Staircase()(view_of(rows, 20)).rows
    distances = (forged - rows.mean(0)).norm(dim=1)
    assert float(distances[0]) == pytest.approx(3.0 * honest_shape(rows).sigma0 * math.sqrt(80.0))
    assert torch.allclose(distances[1:] / distances[:-1], torch.full((19,), 1.5, dtype=torch.float64))
    result = Rage(num_byzantine=20)(torch.cat([forged, rows]))
    assert result.removed == list(range(20))
    assert result.num_steps >= 20


def test_a_long_staircase_does_not_overflow() -> None:
    rows = drawn("stairs", 10, 4).float()
    forged = Staircase()(view_of(rows, 600)).rows
    distances = (forged.double() - rows.mean(0)).norm(dim=1)
    assert bool(forged.isfinite().all())
    assert float(distances[-1] / distances[0]) == pytest.approx(LARGEST_RATIO, rel=1e-3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("bad", [1, 2, 5, 8])
def test_symmetric_pairs_are_those_of_loops(bad: int, dtype: torch.dtype) -> None:
    rows = drawn("pairs", 20, 7).to(dtype)
    shape = honest_shape(rows)
    forged = SymmetricPairs(strength=1e6, direction="spread")(view_of(rows, bad)).rows
    expected = oracle.symmetric_pairs(rows.numpy(), bad, 1e6 * shape.sigma0, shape.direction.numpy())
    np.testing.assert_allclose(forged.numpy(), expected, rtol=8 * torch.finfo(dtype).eps, atol=1e-6)


@pytest.mark.parametrize("strength", [1e3, 1e6, 1e9, 1e12])
def test_symmetric_pairs_spread_enormously_and_move_the_mean_by_rounding(strength: float) -> None:
    rows = drawn("pairs", 36, 30).float()
    shape = honest_shape(rows)
    everyone = torch.cat([SymmetricPairs(strength=strength)(view_of(rows, 14)).rows, rows])
    forged = everyone[:14].double() - shape.mean
    size = strength * shape.sigma0
    assert honest_shape(everyone).sigma0 == pytest.approx(math.sqrt(14 / 50) * size, rel=1e-3)
    assert forged.norm(dim=1).numpy() == pytest.approx(size, rel=1e-5)
    off = (forged[0::2] + forged[1::2]).abs()
    assert 0.0 < float(off.max()) <= 4e-7 * size
    filtered = Rage(num_byzantine=14)(everyone).update.double() - shape.mean
    assert float(filtered.norm()) <= 2e-3 * shape.sigma0
    moved = Mean()(everyone.double()).update - 36 / 50 * rows.double().mean(0) - 14 / 50 * shape.mean
    assert 0.0 < float(moved.norm()) <= 4e-7 * size


def test_pairs_so_far_out_that_squares_would_overflow_come_nearer() -> None:
    rows = 1e9 * drawn("pairs", 10, 5).float()
    forged = SymmetricPairs()(view_of(rows, 4)).rows
    assert bool((forged.norm(dim=1) > 1e14).all())
    assert len(finite_rows(forged)) == 4


@pytest.mark.parametrize("name", ATTACKS)
def test_draws_differ_from_round_to_round_and_seed_to_seed_only(name: str) -> None:
    rows = drawn("draws", 9, 5)
    first = ATTACKS[name](view_of(rows)).rows
    assert torch.equal(first, ATTACKS[name](view_of(rows)).rows)
    fixed = name in {"cluster spread", "cluster mean"}
    assert torch.equal(first, ATTACKS[name](view_of(rows, round=1)).rows) == fixed
    assert torch.equal(first, ATTACKS[name](view_of(rows, seed=1)).rows) == fixed


@pytest.mark.parametrize("name", ATTACKS)
@pytest.mark.parametrize("bad", [1, 3])
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
def test_degenerate_rows_give_finite_rows(name: str, bad: int, rows: torch.Tensor) -> None:
    forged = ATTACKS[name](view_of(rows, bad)).rows
    assert (forged.shape, forged.dtype) == ((bad, rows.shape[1]), rows.dtype)
    assert bool(forged.isfinite().all())
    if not bool((finite_rows(rows) - finite_rows(rows)[0]).any()):  # no spread, no distance
        assert torch.allclose(forged, finite_rows(rows)[:1].expand_as(forged))
