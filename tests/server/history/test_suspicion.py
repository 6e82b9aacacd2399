"""How sure one may be."""

from __future__ import annotations

import math

import pytest

from steadfed.server._history.suspicion import CONFIDENCE, wilson_lower_bound


@pytest.mark.parametrize(("hits", "trials"), [(1, 1), (1, 7), (5, 9), (50, 60), (400, 400)])
def test_it_is_the_smaller_root_of_wilsons_equation(hits: int, trials: int) -> None:
    found, share = wilson_lower_bound(hits, trials), hits / trials
    assert 0.0 < found < share
    assert share - found == pytest.approx(CONFIDENCE * math.sqrt(found * (1.0 - found) / trials))


def test_the_confidence_is_95_percent() -> None:
    assert 0.5 * (1.0 + math.erf(CONFIDENCE / math.sqrt(2.0))) == pytest.approx(0.95)


def test_nothing_found_is_no_suspicion() -> None:
    assert wilson_lower_bound(0, 3) == 0.0


def test_more_rounds_say_more() -> None:
    bounds = [wilson_lower_bound(number, number) for number in range(1, 40)]
    assert bounds == sorted(bounds)
    assert bounds[0] < 0.3
    assert bounds[-1] > 0.9
