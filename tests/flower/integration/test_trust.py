"""Who is let in, who is asked how good the model is, and what the network looks like."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.flower.integration.app.drilled.numbers import distance
from tests.flower.integration.conftest import Played

pytestmark = pytest.mark.federation


def test_a_node_without_a_registered_key_is_refused(played: Callable[[str], Played]) -> None:
    facts = played("strangers").facts
    assert "Failed to activate SuperNode" in facts["stranger"]
    assert "SuperNode ID" not in facts["stranger"]
    assert facts["before"] == 4
    assert facts["same"]


def test_nobody_joins_with_the_key_of_a_node_that_is_there(played: Callable[[str], Played]) -> None:
    facts = played("strangers").facts
    assert "Failed to activate SuperNode" in facts["double"]
    assert "SuperNode ID" not in facts["double"]


def test_the_federation_needs_no_network_but_loopback(network: dict[str, Any]) -> None:
    if not network["alone"]:
        pytest.skip("no network namespace can be made here (unshare -n and unshare -rn fail)")
    assert network["interfaces"] == ["lo"]


def test_nodes_evaluate_and_one_that_fails_or_lies_does_not_matter(played: Callable[[str], Played]) -> None:
    play = played("evaluated")
    assert play.facts["status"] == "finished:completed", play.facts
    evaluated = play.report()["evaluated"]
    assert sorted(evaluated) == ["1", "2"]
    for number, record in enumerate(play.records(), start=1):
        metrics = evaluated[str(number)]
        assert metrics["distance"] == pytest.approx(distance(play.model(number)), abs=1e-6)
        assert metrics["node"] == 1.0  # the median of 0, 1 and 2: nothing is known from node 3
        assert record.metrics["evaluate/distance"] == metrics["distance"]
        assert record.drops == ()
