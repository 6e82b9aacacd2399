"""What sites weigh, what they may weigh at the most, and whom the promise covers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from tests.oracles.weighing import capped

from steadfed.aggregators import Mean, Rage
from steadfed.errors import CohortTooSmallError, ParameterError
from steadfed.server._promise import Promise, check_coverage
from steadfed.server._site_weights import Sites, largest_weight, sites_of

HOSPITALS = {"Aachen": 17_834.0, "Ulm": 6_100.0, "Bonn": 5_600.0, "Gera": 2_900.0, "Jena": 1_200.0, "Kiel": 700.0}


@given(
    weights=st.lists(st.floats(0.01, 100.0), min_size=1, max_size=9),
    share=st.floats(0.01, 1.0),
)
def test_what_is_cut_off_heavy_sites_is_dealt_out_to_the_others(weights: list[float], share: float) -> None:
    level = largest_weight(weights, share)
    cut = np.minimum(weights, level)
    np.testing.assert_allclose(cut / cut.sum(), capped(weights, share), rtol=1e-9, atol=1e-12)
    if share * len(weights) >= 1.0:
        assert cut.max() <= share * cut.sum() * (1.0 + 1e-9)
    if max(weights) <= share * sum(weights):
        assert cut.tolist() == weights


def test_a_cap_is_of_those_who_are_asked() -> None:
    sites = Sites.of(HOSPITALS, max_share=0.4)
    assert max(sites.among(list(HOSPITALS)).values()) / sum(sites.among(list(HOSPITALS)).values()) == pytest.approx(0.4)
    few = sites.among(["Aachen", "Jena"])
    assert few == {"Aachen": 1_200.0, "Jena": 1_200.0}  # two cannot both have 40 %


@pytest.mark.parametrize(
    ("weights", "share", "words"),
    [
        ({"a": 1.0, "b": -2}, None, "site_weights of 'b' must be a finite number above 0, got -2"),
        ({}, None, "at least one site"),
        ({"a": 1.0, "b": 1e10}, None, "by a factor of 1e"),
        ({"a": 1.0, "b": 2.0}, 0.4, "a share from 0.5 .of 2 sites one has that at least. to 1, got 0.4"),
        ({"a": 1.0, "b": 2.0}, 1.5, "got 1.5"),
        (None, 0.5, "which are not given"),
        ([1.0], None, r"got \["),
    ],
)
def test_weights_that_are_none_are_refused(weights: Any, share: Any, words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        sites_of(weights, share)


def test_the_promise_names_whom_it_covers() -> None:
    def words(rule: Any, **more: Any) -> str:
        found = Promise.of(rule, Sites.of(HOSPITALS, **more), list(HOSPITALS))
        assert found is not None
        return found.words

    assert words(Rage(byzantine_weight=0.2)) == "any one site but Aachen, which holds 51.9 %"
    assert words(Rage(byzantine_weight=0.1)) == "any one site but Aachen (51.9 %), Ulm (17.8 %) and Bonn (16.3 %)"
    assert words(Rage(byzantine_weight=0.01)) == "no site: each holds more than may lie"
    assert words(Rage(byzantine_weight=0.4), max_share=0.3) == "any one site"
    with pytest.raises(CohortTooSmallError):
        words(Rage(num_byzantine=1))
    with pytest.raises(ParameterError, match="assume less, as byzantine_weight, or cap shares by max_share"):
        check_coverage(Rage(num_byzantine=1), Sites.of(HOSPITALS), list(HOSPITALS))
    assert Promise.of(Mean(), Sites.of(HOSPITALS), list(HOSPITALS)) is None
    equal = Sites.of(dict.fromkeys(range(10), 2.0))
    told = Promise.of(Rage(num_byzantine=3), equal, list(range(10)))
    assert told is not None
    assert told.words == "any 3 sites together"
    assert told.sentence.startswith("sites that hold at most 30.0 % of the weight together may lie: any 3 sites")
