"""One tally, worked by hand."""

from __future__ import annotations

import json
from typing import Any

import pytest

from steadfed.server._history import Tally, tally_of
from steadfed.server._record import DroppedReply, RoundRecord


def record(**facts: Any) -> RoundRecord:
    return RoundRecord(**({"round": 0, "step": 1, "lr": 0.1} | facts))


SMALL = record(cohort=(1, 2), received=(1, 2), byzantine=(2,), weights=(0.75, 0.25), kept=(1, 2))
LARGE = record(
    cohort=(1, 2, 3, 4, 5, 6),
    absent=(6,),
    received=(1, 2, 3, 4, 5),
    byzantine=(2, 4, 6),
    unusable=(4, 5),
    weights=(0.9, 0.0, 0.1, 0.0, 0.0),
    kept=(1, 3),
    drops=(DroppedReply(client=4, fault="shape"), DroppedReply(client="stranger", fault="not asked")),
    assumption_violated=True,
)
SKIPPED = record(
    cohort=(1, 2, 3),
    absent=(3,),
    received=(1, 2),
    byzantine=(2, 3),
    drops=(DroppedReply(client=2, fault="shape"), DroppedReply(client=1, fault="repeated")),
    skipped=True,
)


def test_a_round_worked_by_hand() -> None:
    tally = Tally.of(LARGE)
    assert (tally.asked, tally.received, tally.absent, tally.judged) == (6, 5, 1, 5)
    assert (tally.removed, tally.kept, tally.malformed, tally.unusable, tally.unasked) == (3, 2, 1, 1, 1)
    assert (tally.byzantine, tally.byzantine_removed, tally.byzantine_kept) == (2, 2, 0)
    assert (tally.honest, tally.honest_removed, tally.honest_reduced) == (3, 1, 0)
    assert (tally.precision, tally.recall, tally.honest_removed_rate, tally.removed_rate) == (2 / 3, 1.0, 1 / 3, 0.6)
    assert (tally.assumption_violated, tally.skipped, tally.byzantine_weight) == (1, 0, 0.0)


def test_a_skipped_round_judges_nobody_and_counts_who_was_absent_or_malformed() -> None:
    tally = Tally.of(SKIPPED)
    assert (tally.asked, tally.received, tally.absent, tally.malformed, tally.unasked) == (3, 2, 1, 1, 1)
    assert (tally.judged, tally.removed, tally.byzantine, tally.honest) == (0, 0, 0, 0)
    assert tally.recall is tally.precision is tally.honest_removed_rate is tally.byzantine_weight is None
    both = Tally.of(LARGE) + tally
    assert (both.recall, both.precision) == (Tally.of(LARGE).recall, Tally.of(LARGE).precision)


def test_the_byzantine_weight_is_a_mean_of_rounds_that_gave_weights() -> None:
    tally = tally_of([SMALL, LARGE, SKIPPED, record(cohort=(1,), received=(1,), kept=(1,))])
    assert tally.byzantine_weight == pytest.approx((0.25 + 0.0) / 2)


def test_an_honest_update_with_less_than_half_of_an_equal_share_is_reduced() -> None:
    rows: dict[str, Any] = {"cohort": (1, 2, 3), "received": (1, 2, 3), "kept": (1, 2, 3)}
    assert Tally.of(record(weights=(0.8, 0.1, 0.1), byzantine=(3,), **rows)).honest_reduced == 1
    assert Tally.of(record(weights=(0.5, 0.25, 0.25), **rows)).honest_reduced == 0


def test_nobody_knows_who_is_byzantine_in_a_deployment() -> None:
    tally = tally_of([LARGE, SKIPPED], deployed=True)
    assert (tally.judged, tally.removed, tally.malformed) == (5, 3, 2)
    unknown = {name for name, value in tally.as_dict().items() if value is None}
    told = {name for name in tally.as_dict() if "byzantine" in name or "honest" in name} | {"precision", "recall"}
    assert told - unknown == {"known_byzantine"}, "malformed and unusable updates"
    assert tally.known_byzantine == tally.malformed + tally.unusable
    assert unknown.isdisjoint(tally.counts())
    assert unknown == {name for name, value in tally_of([], deployed=True).as_dict().items() if value is None} - {
        "removed_rate"
    }


def test_rounds_add_up_and_are_plain_json() -> None:
    records = [SMALL, LARGE, SKIPPED]
    total = tally_of(records)
    for name, count in total.counts().items():
        assert count == sum(Tally.of(each).counts()[name] for each in records)
    assert json.loads(json.dumps(total.as_dict(), allow_nan=False)) == total.as_dict()
