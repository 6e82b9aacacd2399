"""Theorems that promise nothing are not said to have been kept."""

from __future__ import annotations

from dataclasses import replace

import pytest

from steadfed.certification import Outcome, Plan, PlanRequest, plan_numbers
from steadfed.certification._guarantees import judge_guarantee
from steadfed.certification._path import MeasuredModel, ModelPath
from steadfed.server._history import Tally
from steadfed.theory import Guarantee
from steadfed.theory._statements.shared import SPREAD


@pytest.fixture(scope="module")
def plan() -> Plan:
    """Return the plan of a run to which the theorems apply."""
    problem = {"smoothness": 1.0, "strong_convexity": 0.5, "gradient_variance": 0.1, "dissimilarity": 0.0}
    protocol = {"num_clients": 20, "cohort_size": 10, "assumed_byzantine": 2, "batch_size": 4, "lr": 0.05, "rounds": 8}
    return plan_numbers(PlanRequest(problem={**problem, "distance": 4.0}, protocol=protocol))


def own(plan: Plan, failure: float) -> Guarantee:
    """Return the project's own theorem with such a probability that honest updates spread more than reckoned with."""
    return replace(plan.guarantees[1], failures={SPREAD: failure})


def path(distance: float) -> ModelPath:
    """Return a run that ended at such a distance from the minimum."""
    still = {"value": 1.0, "gradient": 1.0, "gradient_error": 0.0, "gradient_variance": 0.1, "variance_error": 0.0}
    places = [
        MeasuredModel(round=number, distance=where, dissimilarity=0.0, **still)
        for number, where in ((0, 4.0), (8, distance))
    ]
    return ModelPath(places=tuple(places), trajectory=None)


@pytest.mark.parametrize("distance", [1e-3, 1e6])
def test_a_bound_that_may_always_fail_is_neither_kept_nor_broken(plan: Plan, distance: float) -> None:
    verdict = judge_guarantee(plan, path(distance), Tally(), (), own(plan, 1.0), seen=True)
    assert (verdict.outcome, verdict.contradiction) == (Outcome.VACUOUS, False)
    assert "its failure probability is 1, so nothing was guaranteed" in verdict.because


def test_a_promise_that_may_always_fail_is_none(plan: Plan) -> None:
    verdict = judge_guarantee(plan, None, Tally(), (), own(plan, 1.0), seen=False)
    assert verdict.outcome is Outcome.VACUOUS
    assert judge_guarantee(plan, None, Tally(), (), own(plan, 0.1), seen=False).outcome is Outcome.UNKNOWN


def test_a_bound_that_promises_something_is_kept_or_broken(plan: Plan) -> None:
    near, far = (
        judge_guarantee(plan, path(distance), Tally(), (), own(plan, 0.001), seen=True) for distance in (1e-3, 1e9)
    )
    assert (near.outcome, near.contradiction) == (Outcome.HELD, False)
    assert (far.outcome, far.contradiction) == (Outcome.FAILED, True)


def test_where_nobody_knows_who_lied_nothing_is_contradicted(plan: Plan) -> None:
    verdict = judge_guarantee(plan, path(1e9), Tally(), (), own(plan, 0.001), seen=False)
    assert (verdict.outcome, verdict.contradiction) == (Outcome.FAILED, False)
    assert "who was Byzantine is not known" in verdict.because
