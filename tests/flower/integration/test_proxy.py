"""The guide's nginx, in front of Flower's own SuperLink: honest nodes come through, and large requests do not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.flower.integration.app.drilled.numbers import LIAR
from tests.flower.integration.conftest import Played
from tests.flower.integration.siege import PROXIED, ROUNDS
from tests.flower.integration.test_siege import check_rounds

pytestmark = pytest.mark.federation


@pytest.mark.parametrize("name", PROXIED)
def test_the_run_completes_with_all_honest_nodes_in_every_round(name: str, played: Callable[[str], Played]) -> None:
    check_rounds(played(name))


@pytest.mark.parametrize("name", ["proxied-many-objects", "proxied-large-object"])
def test_nginx_refuses_what_is_too_large(name: str, played: Callable[[str], Played]) -> None:
    assert played(name).facts["statuses"] == [413] * ROUNDS


def test_orders_that_a_node_leaves_for_others_in_the_servers_name_are_refused_by_them(
    played: Callable[[str], Played],
) -> None:
    play = played("proxied-orders-to-neighbours")
    assert play.facts["statuses"] == [200] * ROUNDS
    # The run may be over before the orders of its last round are looked at.
    assert {name: min(number, ROUNDS - 1) for name, number in play.facts["refused"].items()} == {
        f"node-{node}": ROUNDS - 1 for node in range(LIAR)
    }


def test_messages_that_were_foreseen_are_written_again(played: Callable[[str], Played]) -> None:
    play = played("proxied-foreseen")
    assert play.facts["statuses"] == [200] * ROUNDS
    assert play.facts["printed"].count("sending messages to clients failed") == ROUNDS - 1


def test_messages_with_secrets_cannot_be_foreseen(played: Callable[[str], Played]) -> None:
    play = played("proxied-unforeseen")
    assert play.facts["statuses"] == [200] * ROUNDS
    assert "sending messages to clients failed" not in play.facts["printed"]
