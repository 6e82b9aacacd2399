"""Deployments judged: by their records alone, or with the data of a twin."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.certification.small import convex
from tests.certification.test_certify import named, plan_of
from tests.deployments import configured, deployment, played_round, remote_config
from tests.rewriting import with_config

from steadfed.aggregators import Median, Rage
from steadfed.certification import Outcome, PlanRequest, Subject, certify
from steadfed.certification._assumptions import judge_arrivals, judge_unseen_cohorts
from steadfed.errors import ParameterError, RunError
from steadfed.partitions import IidPartition
from steadfed.runs._deployments import OWN_STEPS
from steadfed.server._folder import RunFolder
from steadfed.server._history import Rounds, Tally, summary_of
from steadfed.server._record import DroppedReply, RoundRecord
from steadfed.server._round import MessageBytes, Received, Server, round_record
from steadfed.server._snapshots import Snapshot
from steadfed.server._state import ServerState
from steadfed.simulation import RunConfig

CONSTANTS = {
    "smoothness": 1.0,
    "strong_convexity": 0.5,
    "gradient_variance": 0.0,
    "dissimilarity": 0.01,
    "distance": 4.0,
}


def quiet(path: Path, **changes: Any) -> Path:
    """Write a deployment in which everybody replies well, and every round is like the first without its troubles."""
    config = remote_config(lr=0.01, batch_size="full", cohort_size=7, **changes)
    folder = RunFolder.create(path, configured(config))
    for number in range(config.rounds):
        record = played_round(config, number)
        clean = {"cohort": record.received, "absent": (), "drops": (), "unusable": ()}
        folder.append(record.model_copy(update=clean))
    return folder.path


def as_deployment(path: Path, config: RunConfig, simulated: Path) -> Path:
    """Write what a simulated run wrote as a deployment with this configuration as its twin."""
    text = configured(config, config.data.load().checksum)
    folder, source = RunFolder.create(path, text), RunFolder.open(simulated)
    for number in source.snapshots():
        kept = source.snapshot(number)
        folder.save_snapshot(Snapshot(round=number, model=kept.model, buffers=kept.buffers))
    unknown = {
        "byzantine": (),
        "error": None,
        "honest_spread": None,
        "honest_scatter": None,
        "honest_error_bound": None,
    }
    for record in source.records():
        named_clients = {
            name: tuple(f"node-{client}" for client in getattr(record, name)) for name in ("cohort", "received", "kept")
        }
        folder.append(record.model_copy(update=unknown | named_clients))
    folder.write_summary(summary_of(Rounds.of(folder.records(), deployed=True)))
    return folder.path


def test_a_deployment_is_judged_by_its_records(tmp_path: Path) -> None:
    found = certify(deployment(tmp_path / "run").path)
    assert (found.played, found.rounds, found.skipped, found.plan) == (5, 5, 1, None)
    because = named(found, Subject.ASSUMPTION, "Algorithm 1").because
    assert "1 round changed nothing (round 2, nobody answered, so there is nothing to aggregate)" in because
    seen = named(found, Subject.ASSUMPTION, "Byzantine updates")
    assert seen.outcome is Outcome.UNKNOWN
    assert "at most 1 malformed reply in a round; the rule assumes 2, which no round disproves" in seen.because
    missing = named(found, Subject.ASSUMPTION, "all K updates")
    assert missing.outcome is Outcome.FAILED
    assert "12 of 40 clients absent, in 5 of 5 rounds (silent 12×)" in missing.because
    proved = named(found, Subject.FILTER, "error")
    assert proved.outcome is Outcome.UNKNOWN
    assert "4 of 4 rounds prove" in proved.because
    assert not found.contradicted


def test_what_cannot_be_judged_is_said_plainly(tmp_path: Path) -> None:
    found = certify(deployment(tmp_path / "run").path)
    for symbol in ("L", "μ", "σ²", "κ²"):
        verdict = next(each for each in found.verdicts if each.name == symbol)
        assert verdict.outcome is Outcome.UNKNOWN
        assert "the points are with the clients" in verdict.because
    assert "give these numbers" in named(found, Subject.GUARANTEE, "theorems").because
    assert "judged by the records alone" in found.notes[0]


def test_with_constants_the_theorems_state_their_bounds(tmp_path: Path) -> None:
    found = certify(quiet(tmp_path / "run"), request=PlanRequest(problem=CONSTANTS, protocol={"num_byzantine": 1}))
    assert found.plan is not None
    assert (found.plan.problem.dim, found.plan.protocol.num_clients, found.plan.protocol.num_byzantine) == (7, 8, 1)
    own = named(found, Subject.GUARANTEE, "steadfed")
    assert own.outcome is Outcome.UNKNOWN
    assert "is at most" in own.because
    assert "1 Byzantine clients of 8" in found.notes[1]
    assert not found.contradicted


def test_rounds_that_went_wrong_keep_the_theorems_away(tmp_path: Path) -> None:
    found = certify(deployment(tmp_path / "run").path, request=PlanRequest(problem=CONSTANTS))
    own = [each for each in found.verdicts if each.subject is Subject.GUARANTEE]
    assert {each.outcome for each in own} == {Outcome.INAPPLICABLE}
    assert "1 round changed nothing" in own[-1].because


def test_some_constants_are_not_enough(tmp_path: Path) -> None:
    path = deployment(tmp_path / "run").path
    with pytest.raises(ParameterError, match=r"σ², ‖x_0 − x\*‖² or F\(x_0\) − F\* missing"):
        certify(path, request=PlanRequest(problem={"smoothness": 1.0, "dissimilarity": 0.0}, protocol={}))
    with pytest.raises(ParameterError, match="sigma0"):
        certify(path, sigma0=-1.0)


def test_constants_need_the_number_of_clients(tmp_path: Path) -> None:
    path = deployment(tmp_path / "run", config=remote_config(partition=IidPartition(num_clients=8))).path
    with pytest.raises(RunError, match="remote partition"):
        certify(path, request=PlanRequest(problem=CONSTANTS))


def test_more_malformed_replies_than_assumed_disprove_the_assumption() -> None:
    drops = tuple(DroppedReply(client=client, fault="shape") for client in (1, 2))
    record = RoundRecord(
        round=3, step=1, lr=0.1, cohort=(1, 2, 3), received=(1, 2, 3), unusable=(1, 2), drops=drops, num_byzantine=1
    )
    verdict = judge_unseen_cohorts([record])
    assert verdict.outcome is Outcome.FAILED
    assert "disproved in 1 of 1 round, first in round 3: 2 malformed replies, 1 assumed" in verdict.because
    assert not verdict.contradiction


def test_malformed_replies_disprove_the_assumption_in_a_skipped_round_too() -> None:
    names = tuple("abcdefgh")
    updates = torch.ones(8, 3)
    updates[:3] = torch.nan
    server, state = Server(Rage(num_byzantine=1), 0.0, torch.zeros(0)), ServerState(0, torch.zeros(3), torch.zeros(0))
    view = server.view(state, asked=8, sampled=True, trusted_row=lambda: torch.zeros(3), trusted_loss=lambda _: 0.0)
    outcome, _ = server.conclude(state, Received(updates, names, torch.zeros(0, 0)), view, lr=0.1)
    drops = tuple(DroppedReply(client=client, fault="shape") for client in names[:3])
    record = round_record(
        outcome,
        round=0,
        step=1,
        lr=0.1,
        cohort=names,
        received=names,
        message_bytes=MessageBytes(12, 12),
        drops=drops,
    )
    assert (record.skipped, record.num_byzantine, Tally.of(record).assumption_violated) == (True, 1, 1)
    verdict = judge_unseen_cohorts([record])
    assert verdict.outcome is Outcome.FAILED
    assert "at most 3 malformed replies in a round; disproved in 1 of 1 round, first in round 0" in verdict.because
    assert "3 malformed replies, 1 assumed" in verdict.because


def test_a_broken_promise_disproves_it_too(tmp_path: Path) -> None:
    record = played_round(remote_config(), 0)
    broken = record.model_copy(update={"assumption_violated": True, "reason": "the spread stays large"})
    assert "first in round 0: the spread stays large" in judge_unseen_cohorts([broken]).because
    assert judge_unseen_cohorts([record]).outcome is Outcome.UNKNOWN
    assert judge_unseen_cohorts([record], sigma0=1e-6).outcome is Outcome.FAILED


def test_where_all_arrive_it_held() -> None:
    record = RoundRecord(round=0, step=1, lr=0.1, cohort=(1, 2), received=(1, 2))
    assert judge_arrivals(Rounds.of([record])).outcome is Outcome.HELD
    assert judge_arrivals(Rounds()).outcome is judge_unseen_cohorts([]).outcome is Outcome.UNKNOWN


def test_other_rules_have_no_certificate(tmp_path: Path) -> None:
    found = certify(deployment(tmp_path / "run", config=remote_config(rule=Median())).path)
    assert named(found, Subject.FILTER, "error").outcome is Outcome.INAPPLICABLE
    assert "nothing is proved for median" in named(found, Subject.ASSUMPTION, "Algorithm 1").because


def test_a_deployment_that_was_not_begun_can_be_judged(tmp_path: Path) -> None:
    found = certify(deployment(tmp_path / "run", rounds=0).path)
    assert found.played == 0
    json.dumps(found.as_dict(), allow_nan=False)


def test_json_holds_finite_numbers_only(tmp_path: Path) -> None:
    for request in (PlanRequest(), PlanRequest(problem=CONSTANTS)):
        table = certify(deployment(tmp_path / str(len(request.problem))).path, request=request).as_dict()
        json.dumps(table, allow_nan=False)
        assert table["contradicted"] is False


def test_nothing_is_measured_where_the_points_are_not(tmp_path: Path) -> None:
    found = certify(deployment(tmp_path / "run").path)
    assert found.models is None
    with pytest.raises(RunError, match="nothing was measured: the points of"):
        _ = found.curve


def test_with_a_twin_a_deployment_is_measured_like_a_simulated_run(convex_run: Path, tmp_path: Path) -> None:
    path = as_deployment(tmp_path / "deployed", convex(), convex_run)
    found, truth = certify(path), certify(convex_run)
    assert found.curve[1].tolist() == truth.curve[1].tolist()
    assert plan_of(found).constants == plan_of(truth).constants
    assert named(found, Subject.GUARANTEE, "expectation").outcome is Outcome.HELD
    assert "who was Byzantine is not known" in named(found, Subject.GUARANTEE, "expectation").because
    assert named(found, Subject.ASSUMPTION, "Byzantine updates").outcome is Outcome.UNKNOWN
    assert named(found, Subject.ASSUMPTION, "all K updates").outcome is Outcome.HELD
    assert "twin" in found.notes[-1]


def test_a_bound_exceeded_by_a_deployment_contradicts_nothing(convex_run: Path, tmp_path: Path) -> None:
    path = as_deployment(tmp_path / "deployed", convex(), convex_run)
    folder = RunFolder.open(path)
    kept = folder.snapshot(9)
    folder.save_snapshot(Snapshot(round=9, model=kept.model + 1e3, buffers=kept.buffers))
    found = certify(path)
    assert named(found, Subject.GUARANTEE, "expectation").outcome is Outcome.FAILED
    assert not found.contradicted


def test_a_step_size_that_nobody_knows_keeps_the_theorems_away(tmp_path: Path) -> None:
    folder = deployment(tmp_path / "run")
    with_config(folder.path, folder.config_text() + f'{OWN_STEPS} = "chosen by the clients"\n')
    judged = certify(folder.path, request=PlanRequest(problem=CONSTANTS))
    assert judged.plan is not None
    assert "step size" in judged.plan.outside
    assert all(
        verdict.outcome is Outcome.INAPPLICABLE for verdict in judged.verdicts if verdict.subject is Subject.GUARANTEE
    )
