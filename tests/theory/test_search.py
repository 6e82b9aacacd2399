"""Searching: what is found holds, and its neighbour does not."""

from __future__ import annotations

import numpy as np
from hypothesis import given, strategies as st

from steadfed.theory._search import first_holding, first_of_all, last_holding


@given(st.integers(0, 2**53), st.integers(0, 2**53))
def test_the_last_number_that_holds_is_found(edge: int, most: int) -> None:
    assert last_holding(lambda number: number <= edge, 0, most) == min(edge, most)


@given(st.integers(1, 2**53), st.integers(0, 2**53))
def test_the_first_number_that_holds_is_found(edge: int, more: int) -> None:
    most = min(edge + more, 2**53)
    assert first_holding(lambda numbers: numbers >= edge, 0, most) == edge


@given(st.sets(st.integers(1, 20_000)), st.integers(0, 20_000))
def test_the_first_of_all_is_found_however_irregular_they_are(chosen: set[int], last: int) -> None:
    wanted = np.array(sorted(chosen), dtype=np.int64)
    expected = min((number for number in chosen if number <= last), default=None)
    assert first_of_all(lambda numbers: np.isin(numbers, wanted), last) == expected
