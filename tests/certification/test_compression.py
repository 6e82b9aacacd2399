"""Runs about random coordinates before and after they are played."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.certification.small import convex, played
from tests.certification.test_deployments import CONSTANTS, quiet

from steadfed.aggregators import Rage
from steadfed.certification import Certification, Outcome, PlanRequest, Subject, certify, plan, plan_numbers
from steadfed.certification._guarantees import _chance
from steadfed.certification._protocol import protocol_from
from steadfed.data import QuadraticPoints
from steadfed.errors import ParameterError
from steadfed.simulation import ClientOptions, RandomK
from steadfed.theory._statements import shared

SOME = RandomK(coordinates=0.5)


def guarantees_of(found: Certification) -> dict[str, Any]:
    return {each.name: each for each in found.verdicts if each.subject is Subject.GUARANTEE}


def test_a_plan_reckons_with_the_share_of_coordinates() -> None:
    found = plan(convex(compression=SOME))
    assert found.applies
    assert found.outside == {}
    assert found.protocol.coordinates == 0.5
    papers, expected, likely = found.guarantees
    assert papers.is_vacuous
    assert (expected.reading, likely.reading) == (shared.OVER_BOTH, shared.LIKELY_OVER_COORDINATES)
    assert any("steadfed's alone speak of the run" in sentence for sentence in found.reading)
    assert not any("the paper allows" in sentence for sentence in found.reading)
    whole = plan(convex()).guarantees[1]
    assert expected.floor == whole.floor
    start = found.problem.start
    assert abs(expected.bound([5])[0] - start) < abs(whole.bound([5])[0] - start)


@pytest.mark.parametrize("coordinates", [4, 1.0])
def test_all_coordinates_are_a_plan_without_compression(coordinates: float) -> None:
    assert plan(convex(compression=RandomK(coordinates=coordinates))).as_dict() == plan(convex()).as_dict()


def test_a_plan_of_numbers_takes_the_share() -> None:
    numbers: dict[str, Any] = {"smoothness": 1.0, "gradient_variance": 0.0, "dissimilarity": 0.1, "gap": 3.0}
    protocol = {"num_clients": 9, "cohort_size": 9, "assumed_byzantine": 2, "lr": 0.01, "rounds": 50}
    some, whole = (
        plan_numbers(PlanRequest(problem=numbers, protocol={**protocol, **more})).guarantees[1]
        for more in ({"coordinates": 0.1}, {})
    )
    assert some.bound([50])[0] - some.floor == pytest.approx(10.0 * (whole.bound([50])[0] - whole.floor))


@pytest.mark.parametrize("batch_size", [5, "full"])
def test_a_run_about_coordinates_is_held_against_its_own_theorem(tmp_path: Path, batch_size: int | str) -> None:
    found = certify(played(tmp_path / "run", convex(compression=SOME, batch_size=batch_size)))
    judged = guarantees_of(found)
    readings = [shared.OVER_BOTH, shared.LIKELY_OVER_COORDINATES] if batch_size == 5 else [shared.OVER_COORDINATES]
    for reading in readings:
        assert judged[f"steadfed, {reading}"].outcome is Outcome.HELD
    (papers,) = [each for name, each in judged.items() if name.startswith("the paper")]
    assert papers.outcome is Outcome.INAPPLICABLE
    assert "whole updates: k = d: 0.5 < 1" in papers.because
    assert not found.contradicted
    assert all(each.outcome is not Outcome.FAILED for each in found.verdicts)


def test_a_mean_may_be_exceeded_by_luck_and_a_sure_bound_may_not() -> None:
    about = {each.reading: each for each in plan(convex(compression=SOME)).guarantees[1:]}
    assert _chance(about[shared.OVER_BOTH], 10.0) == pytest.approx(0.1)
    assert _chance(about[shared.LIKELY_OVER_COORDINATES], 10.0) == pytest.approx(0.1 + 0.005)
    sure = plan(convex(batch_size="full")).guarantees[1]
    assert _chance(sure, 10.0) == 0.0


def test_a_rule_that_is_told_the_spread_pays_for_the_coordinates_it_does_not_see() -> None:
    options: dict[str, Any] = {"batch_size": "full", "rule": Rage(num_byzantine=2, mode="known", sigma0=5.0)}
    some, whole = (plan(convex(**options, **more)).guarantees[1] for more in ({"compression": SOME}, {}))
    assert some.floor > whole.floor


def test_what_is_known_of_client_momentum_is_said_where_a_run_with_it_is_refused(tmp_path: Path) -> None:
    found = certify(played(tmp_path / "run", convex(client=ClientOptions(momentum=0.5), rounds=3)))
    (said,) = [each.because for each in found.verdicts if "client momentum" in each.because and "RESAM" in each.because]
    assert "β = 0.5; the theorems are about plain SGD" in said
    assert "arXiv 2205.12173" in said
    assert "neither H > 1, nor κ > 0, nor cohorts" in said


def test_more_dimensions_than_a_handful_are_certified_too(tmp_path: Path) -> None:
    data = QuadraticPoints(num_points=140, num_test_points=4, dim=30, num_groups=14, heterogeneity=0.2, noise=0.3)
    found = certify(played(tmp_path / "run", convex(data=data, compression=RandomK(coordinates=0.1))))
    assert not found.contradicted
    assert found.plan is not None
    assert found.plan.protocol.coordinates == pytest.approx(0.1)


@pytest.mark.parametrize("given", [{}, {"dim": 100}])
def test_the_share_of_a_deployments_coordinates_is_that_of_its_own_model(given: dict[str, int], tmp_path: Path) -> None:
    """Another d may be asked about, which the paper's formulas have: clients send 3 of 7 numbers all the same."""
    path = quiet(tmp_path / "run", compression=RandomK(coordinates=3))
    found = certify(path, request=PlanRequest(problem={**CONSTANTS, **given}))
    assert found.plan is not None
    assert found.plan.protocol.coordinates == 3 / 7
    assert found.plan.problem.dim == given.get("dim", 7)


def test_without_d_a_share_of_coordinates_is_not_taken_for_all() -> None:
    numbers: dict[str, Any] = {"num_clients": 14, "num_points": None, "dim": None}
    assert protocol_from(convex(), **numbers).coordinates == 1.0
    with pytest.raises(ParameterError, match=r"with RandomK\(coordinates=0.5\) the theorems need d"):
        protocol_from(convex(compression=SOME), **numbers)
