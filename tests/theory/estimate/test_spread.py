"""The spread of updates: against the d × d covariance, and the errors it claims."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from steadfed._core.rng import stream
from steadfed.errors import InputError, NoUsableRowError, ShapeError
from steadfed.theory.estimate import honest_spread


@pytest.mark.parametrize(("num_rows", "dim"), [(2, 1), (5, 3), (40, 200), (300, 7)])
@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_spread_is_that_of_the_covariance(num_rows: int, dim: int, offset: float) -> None:
    rows = stream(0, "rows").standard_normal((num_rows, dim)) + offset
    covariance = np.atleast_2d(np.cov(rows.T, bias=True))
    found = honest_spread(rows)
    assert found.largest == pytest.approx(np.linalg.eigvalsh(covariance)[-1])
    assert found.trace == pytest.approx(np.trace(covariance))
    assert found.num_rows == num_rows
    assert found.largest <= found.trace


def test_anything_that_can_be_aggregated_is_taken() -> None:
    rows = stream(0, "rows").standard_normal((6, 4))
    assert honest_spread([torch.from_numpy(row) for row in rows]) == honest_spread(rows)
    single = honest_spread(torch.from_numpy(rows).float())
    assert single.largest == pytest.approx(honest_spread(rows).largest, rel=1e-5)


def test_errors_are_the_standard_deviations_over_many_samples() -> None:
    generator = stream(0, "samples")
    found = [honest_spread(generator.standard_normal((150, 4)) * [3.0, 1.0, 1.0, 1.0]) for _ in range(150)]
    largest, trace = ([getattr(each, name) for each in found] for name in ("largest", "trace"))
    assert np.mean([each.largest_error for each in found]) == pytest.approx(np.std(largest), rel=0.2)
    assert np.mean([each.trace_error for each in found]) == pytest.approx(np.std(trace), rel=0.2)
    assert np.mean([abs(each.largest - 9.0) < 4 * each.largest_error for each in found]) >= 0.95


def test_a_single_row_and_equal_rows_have_no_spread() -> None:
    alone = honest_spread(np.ones((1, 3)))
    assert (alone.largest, alone.trace, alone.largest_error) == (0.0, 0.0, math.inf)
    assert honest_spread(np.full((5, 3), 7.0)).trace == pytest.approx(0.0, abs=1e-20)


def test_rows_that_no_honest_client_sends_are_refused() -> None:
    rows = np.ones((4, 3))
    rows[[1, 3], 0] = np.nan, np.inf
    with pytest.raises(InputError, match="2 of 4 are not, namely 1, 3; leave them out"):
        honest_spread(rows)
    with pytest.raises(NoUsableRowError):
        honest_spread(np.full((2, 2), np.nan))
    with pytest.raises(ShapeError):
        honest_spread(np.ones(3))
