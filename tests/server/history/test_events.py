"""The log of what happened to whom."""

from __future__ import annotations

import json

import pytest
from tests.deployments import AWAY, BROKEN, LIAR, NAMES, NASTY, SKIPPED, deployment

from steadfed.server._history import Event, Fate, RoundOutcome, Shade, events_of
from steadfed.server._record import DroppedReply, RoundRecord


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> list[Event]:
    """Return what happened in a deployment."""
    folder = deployment(tmp_path_factory.mktemp("audit") / "run")
    return list(events_of(folder.records(), {"name": "rage"}))


def test_everything_that_happened_in_a_round_is_an_event_of_its_own(events: list[Event]) -> None:
    found = {event.client: event.what for event in events if event.round == 0}
    assert found.pop(None) is RoundOutcome.FEW_REPLIES
    assert found.pop(LIAR) is Fate.REMOVED
    assert found.pop(BROKEN) is Fate.MALFORMED
    assert found.pop(AWAY) is Fate.ABSENT
    assert found.pop(NASTY) is Fate.UNASKED
    assert set(found.values()) <= {Fate.REMOVED}
    assert len([event for event in events if event.round == 0 and event.client == BROKEN]) == 1


def test_a_skipped_round_says_why_and_who_was_absent(events: list[Event]) -> None:
    first, second, *others = [event for event in events if event.round == SKIPPED]
    assert (first.what, first.client) == (RoundOutcome.SKIPPED, None)
    assert first.why == "nobody answered, so there is nothing to aggregate"
    assert (second.what, second.client) == (RoundOutcome.TOO_MANY_SILENT, None)
    assert second.why == f"8 of 8 were silent: {', '.join(NAMES)}; nobody replied"
    assert {event.client for event in others} == set(NAMES)
    assert {event.what for event in others} == {Fate.ABSENT}


def test_a_removal_has_its_score_and_the_rules_words(events: list[Event]) -> None:
    removal = next(event for event in events if event.client == LIAR)
    assert removal.score is not None
    assert removal.median_score is not None
    assert removal.score > 100 * removal.median_score
    assert removal.weight == 0.0
    for words in ("standard deviations from the others", "the kept updates spread", "the error is at most"):
        assert words in removal.why


def test_a_drop_has_its_fault_and_the_detail(events: list[Event]) -> None:
    drop = next(event for event in events if event.client == BROKEN)
    assert (drop.fault, drop.why) == ("shape", "shape: 'weight' must be (3, 2), got (2, 3)")


def test_events_are_plain_json(events: list[Event]) -> None:
    table = json.loads(json.dumps([event.as_dict() for event in events], allow_nan=False))
    assert {"round", "what", "why"} <= set(table[0])


def test_rounds_of_the_simulator_have_no_faults_but_the_same_events() -> None:
    record = RoundRecord(
        round=4,
        step=5,
        lr=0.1,
        cohort=(1, 2, 3, 4),
        absent=(4,),
        received=(1, 2, 3),
        unusable=(2,),
        weights=(1.0, 0.0, 0.0),
        kept=(1,),
        assumption_violated=True,
        num_byzantine=1,
        reason="too much is wrong",
    )
    broken, absent, unusable, removed = events_of([record])
    assert (broken.what, broken.why) == (
        RoundOutcome.ASSUMPTION_VIOLATED,
        "too much is wrong (assumed: at most 1 Byzantine update)",
    )
    assert (absent.client, absent.what, absent.why) == (4, Fate.ABSENT, "it sent nothing")
    assert (unusable.client, unusable.what) == (2, Fate.UNUSABLE)
    assert (removed.client, removed.what, removed.why) == (3, Fate.REMOVED, "no score; too much is wrong")


def test_an_unasked_reply_does_not_hide_an_absence() -> None:
    drops = (DroppedReply(client="a", fault="repeated"),)
    record = RoundRecord(round=0, step=1, lr=0.1, cohort=("a",), absent=("a",), drops=drops)
    assert [event.what for event in events_of([record])] == [RoundOutcome.TOO_MANY_SILENT, Fate.UNASKED, Fate.ABSENT]


def test_nothing_happened_where_all_are_kept() -> None:
    quiet = RoundRecord(round=0, step=1, lr=0.1, cohort=(1,), received=(1,), weights=(1.0,), kept=(1,))
    assert list(events_of([quiet])) == []


def test_the_reason_of_a_skipped_round_is_told_once() -> None:
    facts = {"skipped": True, "assumption_violated": True, "num_byzantine": 8, "reason": "10 are unusable"}
    skipped, violated = events_of([RoundRecord(round=0, step=1, lr=0.1, cohort=(), **facts)])
    assert (skipped.what, skipped.why) == (RoundOutcome.SKIPPED, "10 are unusable")
    assert (violated.what, violated.why) == (
        RoundOutcome.ASSUMPTION_VIOLATED,
        "assumed: at most 8 Byzantine updates",
    )


def test_an_update_with_next_to_no_weight_is_an_event() -> None:
    rows = {"received": ("a", "b", "c"), "weights": (0.003, 0.4985, 0.4985), "kept": ("a", "b", "c")}
    record = RoundRecord(round=0, step=1, lr=0.1, cohort=("a", "b", "c"), scores=(100.0, 1.0, 1.0), **rows)
    (event,) = events_of([record], {"name": "rage"})
    assert (event.client, event.what, event.weight) == ("a", Shade.NEARLY_REMOVED, 0.003)
    assert event.why == (
        "0.009 of an equal share; its update lay 10 standard deviations from the others along one direction "
        "(the middle one: 1)"
    )
