"""The guide's nginx, in front of Flower's own SuperLink: honest nodes come through, and large requests do not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.flower.integration.conftest import Played
from tests.flower.integration.siege import PROXIED, ROUNDS
from tests.flower.integration.test_siege import check_rounds

pytestmark = pytest.mark.federation


@pytest.mark.parametrize("name", PROXIED)
def test_the_run_completes_with_all_honest_nodes_in_every_round(name: str, played: Callable[[str], Played]) -> None:
    play = played(name)
    check_rounds(play)
    assert play.facts["statuses"] == [413] * ROUNDS
