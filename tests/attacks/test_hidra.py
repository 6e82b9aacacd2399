"""HIDRA: the shift against bisection, and what it does to a filter that works in chunks."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from tests.attacks.views import ONLY_OWN, drawn, view_of
from tests.oracles import attacks as oracle

from steadfed.aggregators import Rage
from steadfed.attacks._geometry import honest_shape
from steadfed.attacks._hidra import Hidra
from steadfed.errors import ParameterError

CHUNK = 5
HONEST, BAD = 160, 40


@pytest.mark.parametrize(("honest", "bad", "dim"), [(10, 3, 4), (6, 2, 12), (25, 12, 1), (8, 1, 8), (4, 9, 3)])
@pytest.mark.parametrize("threshold", [1.0, 3.0])
def test_the_shift_is_the_largest_that_leaves_the_spread_below_the_threshold(
    honest: int, bad: int, dim: int, threshold: float
) -> None:
    rows = drawn("shift", honest, dim) * torch.linspace(1.0, 3.0, dim, dtype=torch.float64)
    forged = Hidra(chunk_size=dim, threshold=threshold)(view_of(rows, bad)).rows
    shift = float((forged[0] - rows.mean(0)).norm())
    assert shift == pytest.approx(oracle.hidra_shift(rows.numpy(), bad, threshold), rel=1e-7)
    assert float((forged[0] - rows.mean(0)) @ rows.mean(0)) < 0.0
    everyone = honest_shape(torch.cat([forged, rows]))
    assert everyone.sigma0 == pytest.approx(math.sqrt(threshold) * honest_shape(rows).sigma0, rel=1e-9)


@pytest.mark.parametrize("dim", [3, 7, 500, 1021])
def test_chunks_are_attacked_one_by_one_and_the_last_may_be_shorter(dim: int) -> None:
    rows = drawn("chunks", 9, dim)
    whole = Hidra(chunk_size=7)(view_of(rows, 3)).rows
    parts = [Hidra(chunk_size=7)(view_of(rows[:, i : i + 7], 3)).rows for i in range(0, dim, 7)]
    assert torch.allclose(whole, torch.cat(parts, dim=1), rtol=0.0, atol=1e-10)


def chunked(rows: torch.Tensor) -> torch.Tensor:
    """Return what the filter makes of every chunk on its own, side by side."""
    rule = Rage(num_byzantine=BAD)
    return torch.cat([rule(rows[:, i : i + CHUNK].contiguous()).update for i in range(0, rows.shape[1], CHUNK)])


def test_a_filter_in_chunks_is_off_by_the_root_of_their_number_and_a_whole_one_is_not() -> None:
    in_chunks, whole = {}, {}
    for number in (4, 16, 64):
        rows = drawn("root", HONEST, CHUNK * number)
        shape = honest_shape(rows)
        updates = torch.cat([Hidra(chunk_size=CHUNK)(view_of(rows, BAD)).rows, rows])
        in_chunks[number] = float((chunked(updates) - shape.mean).norm())
        whole[number] = float((Rage(num_byzantine=BAD)(updates).update - shape.mean).norm()) / shape.sigma0
    assert in_chunks[16] == pytest.approx(2.0 * in_chunks[4], rel=0.15)
    assert in_chunks[64] == pytest.approx(2.0 * in_chunks[16], rel=0.15)
    assert in_chunks[64] > 2.0 * math.sqrt(BAD / (BAD + HONEST)) * honest_shape(drawn("root", HONEST, CHUNK)).sigma0
    assert whole[64] < 0.5 * math.sqrt(BAD / (BAD + HONEST))
    assert whole[64] <= whole[4]


def test_with_its_own_rows_only_it_estimates_mean_and_spread_from_them() -> None:
    own = drawn("own", 6, 20)
    forged = Hidra(chunk_size=20)(view_of(drawn("honest", 24, 20), 6, own=own, granted=ONLY_OWN)).rows
    shift = float((forged[0] - own.mean(0)).norm())
    # ε is known: 6 of 30, as if every own row stood for four honest ones
    assert shift == pytest.approx(oracle.hidra_shift(np.repeat(own.numpy(), 4, axis=0), 6, 1.0), rel=1e-7)


def test_a_chunk_without_a_mean_or_a_spread_is_left_alone() -> None:
    rows = torch.tensor([[1.0, 2.0, 5.0, 5.0], [-1.0, -2.0, 5.0, 5.0]])
    forged = Hidra(chunk_size=2)(view_of(rows, 2)).rows
    assert torch.equal(forged, torch.tensor([[0.0, 0.0, 5.0, 5.0]]).repeat(2, 1))


@pytest.mark.parametrize("chunk", [1, 2, 1000])
@pytest.mark.parametrize("bad", [1, 5])
@pytest.mark.parametrize(
    "rows",
    [
        torch.ones(1, 1),
        torch.full((4, 6), 2.5),
        torch.zeros(5, 3),
        torch.tensor([[math.nan, 1.0], [math.inf, 0.0], [1.0, 2.0], [1e30, 0.0]]),
        torch.full((3, 2), math.nan),
        torch.full((3, 5), 1e-30),
        torch.tensor([[1e15, 0.0], [-1e15, 1.0], [3.0, 4.0]]),
    ],
    ids=["one", "equal", "zero", "broken", "nothing", "tiny", "huge"],
)
def test_degenerate_rows_give_finite_rows(chunk: int, bad: int, rows: torch.Tensor) -> None:
    forged = Hidra(chunk_size=chunk)(view_of(rows, bad)).rows
    assert (forged.shape, forged.dtype) == ((bad, rows.shape[1]), rows.dtype)
    assert bool(forged.isfinite().all())


def test_parameters_out_of_range_are_refused() -> None:
    with pytest.raises(ParameterError, match="chunk_size: input should be greater than or equal to 1, got 0"):
        Hidra(chunk_size=0)
    with pytest.raises(ParameterError, match=r"threshold: input should be greater than or equal to 1, got 0\.9"):
        Hidra(threshold=0.9)
