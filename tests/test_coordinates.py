"""Coordinates from a seed: different, equally likely, the same on both sides."""

from __future__ import annotations

from collections import Counter
from itertools import combinations, pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from tests.oracles.compression import first_different

from steadfed._core import coordinates
from steadfed._core.coordinates import SEED_BITS, coordinates_of, seed_of_round
from steadfed.errors import ParameterError

pytestmark = pytest.mark.portable


@given(st.integers(0, 2**SEED_BITS - 1), st.integers(1, 400), st.data())
def test_they_are_different_increasing_and_those_of_the_literal_loop(seed: int, dim: int, data: Any) -> None:
    number = data.draw(st.integers(1, dim))
    found = coordinates_of(seed, number, dim)
    assert found.dtype == np.int64
    assert len(found) == number
    assert (np.diff(found) > 0).all()
    assert found[0] >= 0
    assert found[-1] < dim
    assert found.tolist() == first_different(seed, number, dim)


@pytest.mark.parametrize(("number", "dim"), [(1, 6), (2, 6), (3, 6), (4, 6), (5, 6)])
def test_every_set_is_equally_likely(number: int, dim: int) -> None:
    """Pearson's statistic over 4,000 seeds: its mean is the number of sets less one, its variance twice that."""
    trials = 4_000
    counts = Counter(tuple(coordinates_of(seed, number, dim).tolist()) for seed in range(trials))
    sets = list(combinations(range(dim), number))
    expected = trials / len(sets)
    statistic = sum((counts[each] - expected) ** 2 for each in sets) / expected
    assert set(counts) == set(sets)
    assert statistic < len(sets) - 1 + 4.0 * np.sqrt(2.0 * (len(sets) - 1)) + 4.0


@pytest.mark.parametrize(
    ("dim", "words", "expected"), [(3, [2**64 - 1, 4], 1), (3, [2**64 - 2], 2), (4, [2**64 - 1], 3)]
)
def test_words_that_would_favour_small_numbers_are_left_out(
    dim: int, words: list[int], expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """2⁶⁴ is one more than a multiple of 3: of its words the last would be one more 0; 4 divides it."""
    left = iter(words)
    drawing = SimpleNamespace(random_raw=lambda size: np.array([next(left) for _ in range(size)], dtype=np.uint64))
    monkeypatch.setattr(coordinates, "stream", lambda *_: SimpleNamespace(bit_generator=drawing))
    assert coordinates_of(0, 1, dim).tolist() == [expected]
    assert next(left, None) is None


def test_rounds_are_drawn_independently() -> None:
    """The overlap of two rounds' sets of k of d has the mean k²/d."""
    number, dim, rounds = 30, 100, 2_000
    sets = [set(coordinates_of(seed_of_round(7, round), number, dim).tolist()) for round in range(rounds)]
    overlap = np.mean([len(one & other) for one, other in pairwise(sets)])
    assert overlap == pytest.approx(number**2 / dim, abs=0.25)


def test_all_are_all_and_one_is_any() -> None:
    assert coordinates_of(5, 7, 7).tolist() == list(range(7))
    assert {int(coordinates_of(seed, 1, 3)[0]) for seed in range(50)} == {0, 1, 2}
    assert coordinates_of(0, 1, 1).tolist() == [0]


def test_known_numbers_stay_what_they_are() -> None:
    """A server and its clients may have other versions of everything; what a seed draws must not change."""
    assert seed_of_round(0, 0) == KNOWN_SEED
    assert coordinates_of(12345, 5, 1_000_000).tolist() == KNOWN


KNOWN_SEED = 6238082148301443
KNOWN = [334659, 430077, 526541, 607396, 741235]


def test_seeds_of_rounds_fit_into_every_reader_of_json() -> None:
    seeds = [seed_of_round(3, round) for round in range(1000)]
    assert len(set(seeds)) == 1000
    assert all(0 <= seed < 2**53 for seed in seeds)


@pytest.mark.parametrize(("number", "dim"), [(0, 5), (6, 5), (-1, 5), (1.5, 5), (True, 5), (None, 5), (1, 0), (1, -2)])
def test_what_cannot_be_is_refused(number: Any, dim: Any) -> None:
    with pytest.raises(ParameterError, match="must be a whole number"):
        coordinates_of(0, number, dim)
