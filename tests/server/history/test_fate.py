"""What faults mean."""

from __future__ import annotations

import pytest

from steadfed.server._history import Fate, fate_of_fault, fates_of
from steadfed.server._record import DroppedReply, RoundRecord


def test_the_words_are_those_of_the_server_app() -> None:
    pytest.importorskip("flwr")
    from steadfed.states._faults import Fault

    by_fate = {fate: {fault for fault in Fault if fate_of_fault(fault) is fate} for fate in Fate}
    assert by_fate[Fate.ABSENT] == {Fault.ERROR, Fault.SILENT, Fault.UNDELIVERED}
    assert by_fate[Fate.ABSENT] == {fault for fault in Fault if fault.means_absent}
    assert by_fate[Fate.UNASKED] == {Fault.NOT_ASKED, Fault.REPEATED}
    assert by_fate[Fate.MALFORMED] == {*Fault} - by_fate[Fate.ABSENT] - by_fate[Fate.UNASKED]


@pytest.mark.parametrize("fault", ["shape", "not finite", "a fault of the future"])
def test_whatever_else_is_wrong_is_malformed(fault: str) -> None:
    assert fate_of_fault(fault) is Fate.MALFORMED


def test_only_clients_that_were_asked_can_be_malformed_and_each_once() -> None:
    drops = [DroppedReply(client=client, fault="shape") for client in ("a", "a", "b", "outsider")]
    drops.append(DroppedReply(client="c", fault="silent"))
    record = RoundRecord(round=0, step=1, lr=0.1, cohort=("a", "b", "c"), drops=tuple(drops))
    assert fates_of(record) == {"a": Fate.MALFORMED, "b": Fate.MALFORMED, "c": Fate.ABSENT}


def test_every_fate_is_found() -> None:
    record = RoundRecord(
        round=0,
        step=1,
        lr=0.1,
        cohort=(1, 2, 3, 4, 5),
        absent=(4,),
        received=(1, 2, 3, 5),
        unusable=(3, 5),
        drops=(DroppedReply(client=5, fault="shape"), DroppedReply(client=2, fault="repeated")),
        weights=(1.0, 0.0, 0.0, 0.0),
        kept=(1,),
    )
    played = {1: Fate.KEPT, 2: Fate.REMOVED, 3: Fate.UNUSABLE, 4: Fate.ABSENT, 5: Fate.MALFORMED}
    assert fates_of(record) == played
    skipped = record.model_copy(update={"skipped": True, "weights": (), "kept": (), "unusable": ()})
    assert fates_of(skipped) == {**dict.fromkeys((1, 2, 3), Fate.SKIPPED), 4: Fate.ABSENT, 5: Fate.MALFORMED}


def test_a_fate_is_printed_as_its_word() -> None:
    assert (str(Fate.UNUSABLE), f"{Fate.ABSENT}", f"{Fate.KEPT:>5}") == ("unusable", "absent", " kept")
    assert max(Fate.ABSENT, Fate.MALFORMED) is Fate.MALFORMED
