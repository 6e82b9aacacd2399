"""SignGuard and its mean shift, against slow code and by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from tests.oracles import similarity
from tests.oracles.clouds import CLOUDS
from tests.oracles.coordinatewise import Array, average_row, middle
from tests.oracles.selection import norm
from tests.oracles.wrappers import clipped

from steadfed._core.rng import stream
from steadfed._linalg.columns import DenseColumns
from steadfed.aggregators import ServerView
from steadfed.aggregators._similarity.mean_shift import mean_shift, typical_distance
from steadfed.aggregators._similarity.sign_guard import SignGuard, drawn_coordinates, sign_features
from steadfed.errors import ParameterError

SEEDS = 8
DTYPES = (torch.float64, torch.float32)


def cohort(name: str, seed: int, dtype: torch.dtype) -> tuple[torch.Tensor, Array]:
    """Return rows of the dtype, and the same numbers as float64 for slow code."""
    rng = stream(seed, "similarity", name)
    number = int(rng.integers(1, 25))
    rows = CLOUDS[name](rng, number, int(rng.integers(0, (number - 1) // 2 + 1)), int(rng.integers(1, 30)))
    updates = torch.from_numpy(rows).to(dtype)
    return updates, updates.double().numpy()


def precision(dtype: torch.dtype) -> float:
    return 1e-9 if dtype == torch.float64 else 1e-4


def agree(found: torch.Tensor, expected: Array | list[float], size: float = 1.0, *, within: float = 1e-9) -> None:
    np.testing.assert_allclose(found.double().numpy(), expected, rtol=0.0, atol=within * max(size, 1e-300))


def on_a_line(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)[:, None]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CLOUDS)
def test_sign_guard_is_algorithm_2(name: str, dtype: torch.dtype) -> None:
    for seed in range(SEEDS):
        updates, rows = cohort(name, seed, dtype)
        share = 1.0 if seed % 2 else 0.3
        coordinates = drawn_coordinates(rows.shape[1], share, 5, 2)
        features = similarity.sign_features(rows, coordinates.tolist())
        np.testing.assert_allclose(sign_features(DenseColumns(updates), coordinates), features, atol=1e-12)
        bandwidth = similarity.estimated_bandwidth(features, 0.5) * (1.0 + 1e-9)
        found = SignGuard(share=share, seed=5)(updates, ServerView(round=2))
        try:
            update, chosen = similarity.sign_guard(rows, 0.1, 3.0, features, bandwidth, 1e-3, 300)
        except ValueError:
            _, labels = similarity.mean_shift(features, bandwidth, 1e-3, 300)
            chosen = similarity.largest_cluster(labels)
            length = middle(norm(row) for row in rows)
            update = average_row(clipped(rows, length)[i] for i in chosen)
        assert found.kept.nonzero().flatten().tolist() == chosen
        agree(found.update, update, float(np.abs(rows).max()), within=precision(dtype))
        agree(found.weights[found.kept], [1.0 / len(chosen)] * len(chosen))


def test_sign_guard_by_hand() -> None:
    """Norms 2, 4, 3, 2, 200 with median 3; the fourth has other signs, the fifth is too long."""
    rows = torch.outer(torch.tensor([1.0, 2.0, 1.5, -1.0, 100.0]), torch.ones(4))
    found = SignGuard()(rows)
    assert found.kept.tolist() == [True, True, True, False, False]
    agree(found.update, [4.0 / 3.0] * 4, within=1e-6)
    agree(found.scores, [0.0, 0.0, 0.0, math.sqrt(2.0), 2.0])


def test_sign_guard_takes_the_cluster_if_nobody_has_an_ordinary_norm_in_it() -> None:
    """The median norm is 1; only long rows are positive, and no others are so many."""
    rows = on_a_line(10.0, 20.0, 30.0, -1.0, 0.0, 0.0, -1.0)
    found = SignGuard(share=1.0)(rows)
    assert found.kept.tolist() == [True, True, True, False, False, False, False]
    agree(found.update, [1.0])


@pytest.mark.parametrize(("honest", "flipped"), [(3, 2), (6, 4), (6, 5), (51, 49)])
def test_no_minority_of_flipped_signs_is_kept(honest: int, flipped: int) -> None:
    rows = torch.cat([-torch.ones(flipped, 20), torch.ones(honest, 20)])
    rows[:, :4] *= torch.from_numpy(stream(0, "flips").choice([-1.0, 1.0], (len(rows), 4))).float()
    assert SignGuard(share=1.0)(rows).removed == list(range(flipped))


def test_sign_guard_survives_a_majority_of_zero_rows() -> None:
    found = SignGuard()(torch.tensor([[0.0, 0.0], [0.0, 0.0], [3.0, 4.0]]))
    assert found.kept.tolist() == [True, True, False]
    assert found.update.tolist() == [0.0, 0.0]


def test_coordinates_are_drawn_anew_in_every_round() -> None:
    first, second = drawn_coordinates(1000, 0.1, 0, 0), drawn_coordinates(1000, 0.1, 0, 1)
    assert len(set(first.tolist())) == 100
    assert (np.diff(first) > 0).all()
    assert first.tolist() != second.tolist()
    assert first.tolist() != drawn_coordinates(1000, 0.1, 1, 0).tolist()
    assert drawn_coordinates(3, 0.1, 0, 0).shape == (1,)


@pytest.mark.parametrize("name", CLOUDS)
@pytest.mark.parametrize("share", [0.3, 1.0, 2.0])
def test_mean_shift_is_that_of_one_point_at_a_time(name: str, share: float) -> None:
    for seed in range(SEEDS):
        _, rows = cohort(name, seed, torch.float64)
        points = rows[:, :3]
        bandwidth = share * typical_distance(points)
        assert typical_distance(points) == pytest.approx(similarity.estimated_bandwidth(points, 0.5), rel=1e-12)
        centres, labels = mean_shift(points, bandwidth)
        expected, slow = similarity.mean_shift(points, bandwidth * (1.0 + 1e-9), 1e-3, 300)
        assert labels.tolist() == slow
        np.testing.assert_allclose(centres, expected, rtol=1e-9, atol=1e-9 * np.abs(points).max())


def test_parameters_of_sign_guard_are_checked() -> None:
    with pytest.raises(ParameterError, match="lower"):
        SignGuard(lower=1.5)
    with pytest.raises(ParameterError, match="share"):
        SignGuard(share=0.0)
