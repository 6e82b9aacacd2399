"""The spread of honest updates against what the theorems reckon with in a round of as many local steps."""

from __future__ import annotations

import pytest
from tests.certification.small import convex
from tests.certification.test_filter_error import a_round

from steadfed.aggregators import Rage
from steadfed.certification import Outcome, plan
from steadfed.certification._assumptions import judge_spreads
from steadfed.theory._statements.shared import EXPECTED, OVER_BOTH


@pytest.mark.parametrize("batch_size", [5, "full"])
def test_honest_updates_are_held_against_the_spread_of_a_round_of_their_own_steps(batch_size: int | str) -> None:
    found = plan(convex(local_steps=[1, 2], batch_size=batch_size))
    *_, likely = found.guarantees
    short, long = likely.sigma0_of(1), likely.sigma0_of(2)
    assert long == likely.sigma0 > 1.01 * short
    spread = (0.5 * (short + long)) ** 2
    verdicts = [[*judge_spreads(found, [a_round(number, spread=spread)])][-1] for number in (0, 1, 2, 3)]
    assert [each.outcome for each in verdicts] == [Outcome.FAILED, Outcome.HELD] * 2
    assert f"reckons with {short:.4g} in " in verdicts[0].because
    assert f"reckons with {long:.4g} in " in verdicts[1].because
    both = [*judge_spreads(found, [a_round(1, spread=spread), a_round(2, spread=spread)])][-1]
    assert both.outcome is Outcome.FAILED, "the round of one step, though that of two keeps to its own"


def test_a_theorem_about_means_is_held_against_the_mean_of_the_rounds_that_were_measured() -> None:
    found = plan(convex(local_steps=[1, 2]))
    mean = next(each for each in found.guarantees if each.reading in {EXPECTED, OVER_BOTH})
    limits = [mean.sigma0_of(steps) ** 2 for steps in (1, 2)]
    for factor, outcome in ((0.99, Outcome.HELD), (1.01, Outcome.FAILED)):
        spread = factor * sum(limits) / 2
        measured = [a_round(number, spread=spread) for number in (0, 1)]
        verdict = next(each for each in judge_spreads(found, measured) if mean.reading in each.name)
        assert verdict.outcome is outcome


def test_a_rule_that_is_told_one_spread_is_held_against_it_in_every_round() -> None:
    told = Rage(num_byzantine=3, mode="known", sigma0=5.0)
    for guarantee in plan(convex(local_steps=[1, 2], batch_size="full", rule=told)).guarantees:
        assert guarantee.sigma0_of(1) == guarantee.sigma0_of(2) == guarantee.sigma0
