"""A registered node attacks the SuperLink itself: the run completes, and the model is that of the honest nodes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from tests.flower.integration.app.drilled.numbers import LIAR
from tests.flower.integration.conftest import Played
from tests.flower.integration.honest import honest_only
from tests.flower.integration.siege import ROUNDS, SIEGES
from tests.flower.integration.test_drills import TOLERANCE, flat
from tests.flower.integration.test_faults import check_mean

pytestmark = pytest.mark.federation


def check_rounds(play: Played) -> None:
    """The run is complete, its rounds and its last model are those of honest nodes, and the audit says who it was."""
    assert play.facts["status"] == "finished:completed", play.facts
    records = play.records()
    assert len(records) == ROUNDS
    models = [play.model(number) for number in range(ROUNDS + 1)]
    for record, (before, after) in zip(records, pairwise(models), strict=True):
        assert set(record.received) == {0, 1, 2}
        assert record.absent == (LIAR,)
        check_mean(record, before, after)
    np.testing.assert_allclose(flat(models[-1]), flat(honest_only(ROUNDS)), rtol=0.0, atol=TOLERANCE)
    silent = f"node {LIAR}: silent in {ROUNDS} of {ROUNDS} rounds"
    assert [line for line in play.people() if line.startswith(silent)], play.people()


@pytest.mark.parametrize("name", SIEGES)
def test_the_run_completes_with_all_honest_nodes_in_every_round(name: str, played: Callable[[str], Played]) -> None:
    check_rounds(played(name))


def test_what_a_node_announces_first_keeps_nobody_from_sending_it(played: Callable[[str], Played]) -> None:
    play = played("foreseen")
    assert play.facts["statuses"] == [200] * ROUNDS
    assert "sending messages to clients failed" not in play.facts["printed"]


@pytest.mark.parametrize(
    ("name", "status"), [("many-objects", 413), ("large-object", 413), ("orders-to-neighbours", 422)]
)
def test_the_door_refuses_them_and_names_the_node(name: str, status: int, played: Callable[[str], Played]) -> None:
    play = played(name)
    assert play.facts["statuses"] == [status] * ROUNDS
    assert play.facts["superlink"].count("of node ") >= ROUNDS
    assert "of node unknown" not in play.facts["superlink"]
