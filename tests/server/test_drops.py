"""What faults mean."""

from __future__ import annotations

import pytest

from holdfast.server.drops import ABSENT, STRAY, is_malformed, malformed
from holdfast.server.record import DroppedReply, RoundRecord


def test_the_words_are_those_of_the_server_app() -> None:
    pytest.importorskip("flwr")
    from holdfast.flower.faults import Fault

    assert {str(fault) for fault in Fault if fault.erases} == ABSENT
    assert {str(fault) for fault in (Fault.NOT_ASKED, Fault.REPEATED)} == STRAY


@pytest.mark.parametrize("fault", ["shape", "not finite", "a fault of the future"])
def test_whatever_else_is_wrong_is_malformed(fault: str) -> None:
    assert is_malformed(DroppedReply(client=1, fault=fault))


def test_only_clients_that_were_asked_can_be_malformed_and_each_once() -> None:
    drops = [DroppedReply(client=client, fault="shape") for client in ("a", "a", "b", "outsider")]
    drops.append(DroppedReply(client="c", fault="silent"))
    record = RoundRecord(round=0, step=1, lr=0.1, cohort=("a", "b", "c"), drops=tuple(drops))
    assert list(malformed(record)) == ["a", "b"]
