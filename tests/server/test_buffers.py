"""Buffers are medians: within what was sent, finite, and a variance never negative."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray
from torch import Tensor

from steadfed.server._buffers import median_buffers, median_counters, variance_columns


def medians(rows: list[list[float]] | Tensor, before: list[float], variances: list[bool] | None = None) -> list[float]:
    given_rows = rows if isinstance(rows, Tensor) else torch.tensor(rows)
    columns = torch.tensor(variances if variances is not None else [False] * len(before))
    return median_buffers(given_rows, torch.tensor(before), columns).tolist()


def test_an_even_number_takes_the_midpoint_of_the_middle_two() -> None:
    assert medians([[1.0, -1.0], [2.0, -2.0], [3.0, -3.0], [1e30, -1e30]], [0.0, 0.0]) == [2.5, -2.5]


def test_counters_and_flags_take_the_lower_one() -> None:
    before = {"count": np.array(0), "flag": np.array([False])}
    rows = [{"count": np.array(n), "flag": np.array([n > 1])} for n in (1, 2, 3, 900)]
    found = median_counters(rows, before)
    assert (found["count"].tolist(), found["flag"].tolist()) == (2, [True])
    assert found["count"].dtype == before["count"].dtype
    assert median_counters(rows[:2], before)["flag"].tolist() == [False]


def test_without_a_reply_everything_stays() -> None:
    assert medians(torch.empty(0, 0), [1.0, 2.0]) == [1.0, 2.0]
    assert median_counters([], {"count": np.array(3)})["count"].tolist() == 3


def test_rows_that_are_not_finite_have_no_say() -> None:
    assert medians([[1.0], [float("nan")], [float("inf")], [5.0], [3.0]], [0.0]) == [3.0]
    assert medians([[float("nan")]], [7.0]) == [7.0]


def test_a_variance_does_not_become_negative() -> None:
    rows = [[-5.0, 3.0, -1.0, -1.0]] * 3
    assert medians(rows, [1.0, 2.0, 0.0, 1.0], [True, True, True, False]) == [1.0, 3.0, 0.0, -1.0]
    assert medians([[0.25, 0.0]] * 3, [1.0, 1.0], [True, True]) == [0.25, 0.0], "small is not negative"


def test_variances_are_told_by_name() -> None:
    sizes = [("norm.running_mean", 1), ("norm.running_var", 2), ("noise_var", 1), ("variances", 1), ("var", 1)]
    assert variance_columns(sizes).tolist() == [False, True, True, True, True, False]
    assert variance_columns([]).tolist() == []


def test_the_median_of_the_largest_numbers_is_finite() -> None:
    largest = float(np.finfo(np.float32).max)
    assert np.isfinite(medians([[largest], [largest / 2]], [0.0])).all()


@given(hnp.arrays(np.float32, st.tuples(st.integers(1, 7), st.integers(0, 4)), elements=st.floats(-1e3, 1e3, width=32)))
def test_buffers_agree_with_the_median_of_numpy(values: NDArray[Any]) -> None:
    found = median_buffers(
        torch.from_numpy(values), torch.zeros(values.shape[1]), variance_columns([("m", values.shape[1])])
    )
    np.testing.assert_allclose(found.numpy(), np.median(values, axis=0), rtol=1e-6, atol=1e-30)
