"""Rows become one update or a reason to change nothing, the same for everybody who asks."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from steadfed._core.rng import stream
from steadfed.aggregators import (
    Aggregation,
    Aggregator,
    Krum,
    Mean,
    Median,
    MultiKrum,
    NearestNeighborMixing,
    Rage,
    ServerView,
    SmallestSpread,
)
from steadfed.server._decision import Skipped, decide, decision_fields
from steadfed.server._record import RoundRecord
from steadfed.server._state import ServerState
from steadfed.server._step import take_step

NAMES = tuple("abcdefghij")


def rows(number: int = 10, unusable: int = 0, value: float = float("nan")) -> Tensor:
    found = torch.from_numpy(stream(0, "rows").standard_normal((number, 4)))
    found[:unusable, 1] = value
    return found


def decided(rule: Aggregator, updates: Tensor, asked: int = 10) -> Aggregation | Skipped:
    return decide(updates, NAMES[: len(updates)], rule, ServerView(cohort_size=asked))


def reason(outcome: Aggregation | Skipped) -> str:
    assert isinstance(outcome, Skipped), outcome.stop
    return outcome.reason


def test_nobody_there_is_no_update() -> None:
    assert decided(Mean(), rows()[:0]) == Skipped("no client sent an update")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e300])
@pytest.mark.parametrize("rule", [Rage(num_byzantine=1), Median(num_byzantine=1), Krum(num_byzantine=1)], ids=repr)
def test_more_unusable_rows_than_assumed_liars_refute_the_assumption(rule: Aggregator, value: float) -> None:
    assert isinstance(decided(rule, rows(unusable=1, value=value)), Aggregation)
    found = reason(decided(rule, rows(unusable=2, value=value)))
    assert found == "2 of 10 updates are unusable, more than the 1 client assumed to be Byzantine"


def test_a_rule_inside_another_is_asked_for_its_assumption() -> None:
    rule = NearestNeighborMixing(rule=Krum(num_byzantine=1))
    assert isinstance(decided(rule, rows(unusable=1)), Aggregation)
    assert "3 of 10 updates are unusable" in reason(decided(rule, rows(unusable=3)))


def test_where_nobody_is_assumed_to_lie_the_sound_rows_are_used() -> None:
    outcome = decided(Mean(), rows(unusable=9))
    assert isinstance(outcome, Aggregation)
    assert torch.equal(outcome.update, rows()[9])


def test_what_is_left_must_be_enough_for_the_rule() -> None:
    rule = MultiKrum(num_byzantine=2, num_selected=9)
    assert isinstance(decided(rule, rows(unusable=1)), Aggregation)
    found = reason(decided(rule, rows(unusable=2)))
    assert found == f"8 of 10 updates are usable, and {rule!r} needs at least 9"


def test_no_usable_row_and_too_few_rows_are_reasons() -> None:
    assert "10 updates" in reason(decided(Mean(), rows(unusable=10)))
    assert "needs at least 5 updates" in reason(decided(Rage(num_byzantine=2), rows(4)))


def test_a_bound_told_as_a_fraction_is_of_those_who_were_asked() -> None:
    rule = Rage(byzantine_fraction=0.25)
    outcome = decide(rows(), NAMES, rule, ServerView(cohort_size=16))
    assert isinstance(outcome, Aggregation)
    assert outcome.num_byzantine == 4
    assert isinstance(decide(rows(unusable=4), NAMES, rule, ServerView(cohort_size=16)), Aggregation)
    assert "more than the 4" in reason(decide(rows(unusable=5), NAMES, rule, ServerView(cohort_size=16)))


def test_a_rule_that_gives_up_is_a_reason() -> None:
    many = torch.from_numpy(stream(0, "many").standard_normal((40, 4)))
    outcome = decide(many, tuple(range(40)), SmallestSpread(num_byzantine=10), ServerView())
    assert "more than the 200000 subsets of 40 usable updates" in reason(outcome)


@pytest.mark.parametrize(
    ("view", "said"),
    [
        (ServerView(model=torch.full((4,), torch.inf)), "the model is not finite: training has diverged"),
        (
            ServerView(trusted_row=torch.full((4,), torch.nan)),
            "the server's own update is not finite: training has diverged",
        ),
    ],
)
def test_what_the_server_itself_knows_must_be_finite(view: ServerView, said: str) -> None:
    assert reason(decide(rows(), NAMES, Mean(), view)) == said


def test_the_rows_are_not_changed() -> None:
    given = rows(unusable=2)
    before = given.clone()
    decided(Rage(num_byzantine=3), given)
    assert torch.equal(given.nan_to_num(7.0), before.nan_to_num(7.0))


def test_a_record_has_all_of_the_evidence_it_has_a_field_for() -> None:
    outcome = decided(Rage(num_byzantine=3), rows(unusable=2))
    assert isinstance(outcome, Aggregation)
    fields = decision_fields(outcome, NAMES)
    assert set(outcome.evidence()) - set(fields) == {"usable", "num_steps", "num_eigensolves"}
    assert set(fields) <= set(RoundRecord.model_fields)
    assert fields["unusable"] == ("a", "b")
    assert set(fields["kept"]) <= set(NAMES[2:])
    assert fields["update_norm"] == pytest.approx(float(outcome.update.norm()))


def test_a_skipped_round_remembers_what_was_assumed() -> None:
    assert decision_fields(Skipped("why", ("c",), assumed=1), NAMES) == {
        "skipped": True,
        "reason": "why",
        "unusable": ("c",),
        "num_byzantine": 1,
        "assumption_violated": False,
    }


@pytest.mark.parametrize(
    ("skipped", "violated"),
    [
        (Skipped("why"), False),
        (Skipped("why", ("a",)), False),
        (Skipped("why", ("a", "b"), assumed=0), False),
        (Skipped("why", ("a", "b"), assumed=2), False),
        (Skipped("why", ("a", "b"), assumed=1), True),
        (Skipped("why", assumed=1, contradicted=True), True),
    ],
)
def test_more_unusable_updates_than_assumed_or_the_rule_itself_contradict_the_assumption(
    skipped: Skipped, violated: bool
) -> None:
    assert skipped.assumption_violated is violated


@pytest.mark.parametrize(
    ("rule", "updates", "model"),
    [
        (Rage(num_byzantine=1), rows(unusable=2), None),
        (Rage(num_byzantine=1), rows(2), None),
        (Krum(num_byzantine=1), rows(unusable=10), None),
        (Krum(num_byzantine=1), rows(), torch.full((4,), torch.inf)),
    ],
)
def test_every_reason_to_skip_comes_with_the_assumption(
    rule: Aggregator, updates: Tensor, model: Tensor | None
) -> None:
    outcome = decide(updates, NAMES[: len(updates)], rule, ServerView(cohort_size=10, model=model))
    assert isinstance(outcome, Skipped)
    assert outcome.assumed == 1


def test_what_a_rule_found_violated_stays_so_if_its_update_is_not_taken() -> None:
    updates = rows(unusable=1)
    updates[1:] *= torch.tensor([10.0**power for power in range(9)]).unsqueeze(1)
    rule = Rage(mode="known", num_byzantine=1, sigma0=1e-9)
    outcome = decided(rule, updates)
    assert isinstance(outcome, Aggregation)
    assert outcome.assumption_violated
    state = ServerState(0, torch.full((4,), 3e38), torch.zeros(0))
    taken = take_step(state, outcome, lr=1e308, momentum=0.0)
    assert isinstance(taken, Skipped)
    assert (taken.assumed, taken.assumption_violated) == (1, True)
