"""Runs judged after they were played."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.certification.small import convex, played
from tests.rewriting import change
from tests.simulation.small import classes

from steadfed.aggregators import Median, Rage
from steadfed.attacks import FixedMembers, NotANumber, Ones, Scaling, Silence
from steadfed.certification import Certification, Outcome, Plan, Subject, Verdict, certify
from steadfed.certification._path import MeasuredModel, ModelPath
from steadfed.data import Dataset
from steadfed.errors import CorruptRunError, RunError
from steadfed.models import MultilayerPerceptron
from steadfed.models._convex import ProblemConstants, quadratic_constants
from steadfed.runs import Run, read_config
from steadfed.server._folder import RunFolder
from steadfed.server._snapshots import Snapshot
from steadfed.simulation import ClientOptions, Evaluation

CONVEX = Path(__file__).parents[2] / "examples" / "convex.toml"


@pytest.fixture
def complete(convex_run: Path) -> Path:
    """Return the folder of a complete run on which the theorems apply; do not change it."""
    return convex_run


def named(found: Certification, subject: Subject, word: str) -> Verdict:
    """Return the first verdict on a subject whose name has a word."""
    return next(each for each in found.verdicts if each.subject is subject and word in each.name)


def plan_of(found: Certification) -> Plan:
    """Return what the theorems guarantee of a run."""
    assert found.plan is not None
    return found.plan


def models_of(found: Certification) -> ModelPath:
    """Return the models of a run that was measured."""
    assert found.models is not None
    return found.models


def test_everything_holds_on_a_run_to_which_the_theorems_apply(complete: Path) -> None:
    found = certify(complete)
    silent = {each.name for each in found.verdicts if each.outcome is Outcome.VACUOUS}
    assert silent == {"error against the certificate", "the paper, in every round at once, with high probability"}
    assert {each.outcome for each in found.verdicts if each.name not in silent} == {Outcome.HELD}
    assert len(found.applicable) == 3
    assert not found.contradicted
    assert (found.played, found.rounds, found.skipped) == (12, 12, 0)


def test_the_example_stays_under_every_curve(tmp_path: Path) -> None:
    found = certify(played(tmp_path / "run", read_config(CONVEX, ["rounds=20", "evaluation.measured_rounds=20"])))
    rounds, values = found.curve
    assert len(found.applicable) == 3
    assert len(rounds) == 21
    for guarantee in found.applicable:
        assert (values <= guarantee.bound(rounds) * (1 + 1e-9)).all()
    assert values[-1] < 0.1 * plan_of(found).guarantees[1].bound(20)
    assert not found.contradicted


@pytest.mark.parametrize("steps", [[1, 2, 1], {"name": "uniform", "lowest": 1, "highest": 2}], ids=repr)
def test_a_run_whose_rounds_differ_in_steps_stays_under_every_curve(tmp_path: Path, steps: Any) -> None:
    config = convex(local_steps=steps, evaluation=Evaluation(every=6, measured_rounds=12))
    found = certify(played(tmp_path / "run", config))
    rounds, values = found.curve
    assert len(found.applicable) == 3
    assert plan_of(found).protocol.total_steps == config.total_steps
    for guarantee in found.applicable:
        assert (values <= guarantee.bound(rounds) * (1 + 1e-9)).all()
    assert not found.contradicted


def test_gradients_count_by_the_steps_of_their_rounds() -> None:
    places = tuple(
        MeasuredModel(
            round=number,
            value=0.0,
            gradient=gradient,
            gradient_error=0.0,
            distance=None,
            gradient_variance=0.0,
            variance_error=0.0,
            dissimilarity=0.0,
        )
        for number, gradient in ((0, 1.0), (1, 4.0), (3, 2.0), (4, 0.0))
    )
    path = ModelPath(places=places, trajectory=None)
    rounds, means = path.mean_gradients((1, 3))  # steps 1, 3, 1, 3
    assert rounds.tolist() == [1, 3, 4]
    assert means == pytest.approx([1.0, (1.0 + 4 * 4.0) / 5, (1.0 + 4 * 4.0 + 3 * 2.0) / 8])
    assert path.mean_gradients((7,))[1] == pytest.approx([1.0, 9.0 / 3, 11.0 / 4])


def test_the_measured_curve_is_the_distance_to_the_minimum(complete: Path) -> None:
    config, folder = convex(), RunFolder.open(complete)
    data = config.data.load()
    known = quadratic_constants(config.model, data, config.partition.split(data, config.seed))  # type: ignore[arg-type]
    rounds, values = certify(complete).curve
    assert rounds.tolist() == folder.snapshots() == [0, 3, 6, 9, 12]
    for number, value in zip(folder.snapshots(), values, strict=True):
        away = folder.snapshot(number).model.double().numpy() - known.minimiser
        assert value == pytest.approx(float(away @ away))


def test_the_facts_of_a_round_are_those_of_its_record(complete: Path) -> None:
    found = certify(complete)
    for facts, record in zip(found.facts, RunFolder.open(complete).records(), strict=True):
        assert (facts.error, facts.spread, facts.sigma0) == (record.error, record.honest_spread, record.sigma0)
        assert facts.known_byzantine == len(record.byzantine)
        assert (facts.received, facts.assumed) == (12, 3)
        assert (facts.honest_bound is None) == (record.round % 3 != 0)


def test_certifying_changes_nothing_in_the_folder(complete: Path) -> None:
    before = {path: path.read_bytes() for path in complete.rglob("*") if path.is_file()}
    certify(complete)
    assert {path: path.read_bytes() for path in complete.rglob("*") if path.is_file()} == before


def test_json_holds_finite_numbers_only(complete: Path) -> None:
    table = certify(complete).as_dict()
    again = json.loads(json.dumps(table, allow_nan=False))
    assert again["curve"]["measured"] == table["curve"]["measured"]
    assert len(again["curve"]["bounds"]) == 3


def test_an_interrupted_run_is_judged_as_far_as_it_was_played(tmp_path: Path) -> None:
    found = certify(played(tmp_path / "run", convex(), rounds=7))
    assert found.played == 7
    assert found.curve[0].tolist() == [0, 3, 6]
    assert named(found, Subject.GUARANTEE, "expectation").outcome is Outcome.HELD


def test_a_run_that_was_not_begun_has_nothing_to_judge(tmp_path: Path) -> None:
    found = certify(Run.start(convex(), tmp_path / "run").folder.path)
    assert named(found, Subject.ASSUMPTION, "Byzantine").outcome is Outcome.UNKNOWN
    assert named(found, Subject.FILTER, "error").because == "no round was run"
    assert named(found, Subject.GUARANTEE, "expectation").outcome is Outcome.UNKNOWN
    json.dumps(found.as_dict(), allow_nan=False)


def test_without_kept_models_it_says_what_cannot_be_judged(tmp_path: Path) -> None:
    found = certify(played(tmp_path / "run", convex(evaluation=Evaluation(measured_rounds=0))))
    for subject, word in ((Subject.GUARANTEE, "steadfed"), (Subject.ASSUMPTION, "σ₀"), (Subject.FILTER, "true σ₀")):
        assert named(found, subject, word).outcome is Outcome.UNKNOWN
    assert "evaluation.measured_rounds" in named(found, Subject.GUARANTEE, "steadfed").because


def test_a_network_without_kept_models_has_the_constants_of_its_start(tmp_path: Path) -> None:
    config = convex(model=MultilayerPerceptron(hidden=(3,)), rounds=1, evaluation=Evaluation(measured_rounds=0))
    run = Run.start(config, tmp_path / "run", dataset=classes(140))
    list(run.play())
    found = certify(tmp_path / "run", dataset=classes(140))
    assert named(found, Subject.ASSUMPTION, "κ²").outcome is Outcome.UNKNOWN
    assert "at the start of the run" in plan_of(found).constants[0].origin


def test_no_theorem_speaks_of_another_rule(tmp_path: Path) -> None:
    found = certify(played(tmp_path / "run", convex(rule=Median())))
    assert named(found, Subject.FILTER, "error").outcome is Outcome.INAPPLICABLE
    assert all(each.outcome is Outcome.INAPPLICABLE for each in found.verdicts if each.subject is Subject.GUARANTEE)
    assert "nothing is proved for median" in named(found, Subject.ASSUMPTION, "Algorithm 1").because
    assert found.applicable == ()
    assert len(found.curve[0]) == 5


def test_a_step_size_that_is_too_large_is_named_with_its_factor(tmp_path: Path) -> None:
    found = certify(played(tmp_path / "run", convex(lr=1.5)))
    papers = named(found, Subject.GUARANTEE, "the paper")
    assert papers.outcome is Outcome.INAPPLICABLE
    assert "1.5 > 0.0625, too large by a factor of 24" in papers.because
    assert not found.contradicted


def test_more_byzantine_rows_than_told_break_the_assumption_not_the_theorem(tmp_path: Path) -> None:
    liars = {"byzantine": FixedMembers(clients=(0, 1, 2, 3, 4)), "rule": Rage(num_byzantine=1)}
    found = certify(played(tmp_path / "run", convex(**liars, attack=Ones(value=50.0))))
    cohorts = named(found, Subject.ASSUMPTION, "Byzantine updates")
    assert cohorts.outcome is Outcome.FAILED
    assert "in 12 of 12 rounds, first in round 0" in cohorts.because
    assert all(each.outcome is Outcome.INAPPLICABLE for each in found.verdicts if each.subject is Subject.GUARANTEE)
    assert named(found, Subject.FILTER, "true σ₀").outcome is Outcome.UNKNOWN
    assert found.curve[1].max() > plan_of(found).guarantees[1].bound(found.curve[0]).max()
    assert not found.contradicted


def test_an_error_above_what_is_proved_is_a_contradiction(own_convex_run: Path) -> None:
    path = own_convex_run
    change(path, 3, error=1e3)
    found = certify(path)
    verdict = named(found, Subject.FILTER, "true σ₀")
    assert (verdict.outcome, verdict.contradiction) == (Outcome.FAILED, True)
    assert "1 of 4 measured rounds above it" in verdict.because
    assert found.contradicted


def test_an_error_above_the_certificate_alone_is_none(own_convex_run: Path) -> None:
    path = own_convex_run
    change(path, 4, error=1e3)  # not measured: the honest updates may have spread more than the rule found
    found = certify(path)
    verdict = next(each for each in found.verdicts if each.name == "error against the certificate")
    assert (verdict.outcome, verdict.contradiction) == (Outcome.FAILED, False)
    assert not found.contradicted


def test_a_model_above_the_bound_is_a_contradiction(own_convex_run: Path) -> None:
    path = own_convex_run
    folder = RunFolder.open(path)
    folder.save_snapshot(replace(folder.snapshot(9), model=torch.full((4,), 1e3)))
    found = certify(path)
    verdict = named(found, Subject.GUARANTEE, "expectation")
    assert (verdict.outcome, verdict.contradiction) == (Outcome.FAILED, True)
    assert "above the bound at 1 of 5 models, first in round 9" in verdict.because


def test_a_vacuous_guarantee_is_never_contradicted(own_convex_run: Path) -> None:
    path = own_convex_run
    folder = RunFolder.open(path)
    folder.save_snapshot(replace(folder.snapshot(9), model=torch.full((4,), 1e6)))
    verdict = named(certify(path), Subject.GUARANTEE, "the paper")
    assert (verdict.outcome, verdict.contradiction) == (Outcome.VACUOUS, False)
    assert "above the bound at 1 of 5 models" in verdict.because
    assert "so nothing was guaranteed" in verdict.because


def test_a_model_that_is_not_finite_ends_the_looking(own_convex_run: Path) -> None:
    path = own_convex_run
    folder = RunFolder.open(path)
    folder.save_snapshot(Snapshot(round=6, model=torch.full((4,), float("nan")), buffers=torch.empty(0)))
    found = certify(path)
    assert models_of(found).diverged == 6
    assert found.curve[0].tolist() == [0, 3]


def test_a_network_is_measured_along_its_way(tmp_path: Path) -> None:
    config = convex(model=MultilayerPerceptron(hidden=(3,)), rounds=6, lr=0.01)
    run = Run.start(config, tmp_path / "run", dataset=classes(140))
    list(run.play())
    found = certify(tmp_path / "run", dataset=classes(140), curvatures=2)
    places = models_of(found).places
    assert [place.smoothness is not None for place in places] == [True, False, False, False, True]
    assert plan_of(found).problem.dissimilarity == max(place.dissimilarity for place in places)
    assert plan_of(found).problem.gradient_variance == max(place.gradient_variance for place in places)
    gradients = np.array([place.gradient for place in places])
    rounds, means = found.curve
    assert rounds.tolist() == [2, 3, 5, 6]
    assert means[-1] == pytest.approx((2 * gradients[0] + gradients[1] + 2 * gradients[2] + gradients[3]) / 6)
    assert named(found, Subject.ASSUMPTION, "κ² as at the start").outcome in {Outcome.HELD, Outcome.FAILED}


def test_a_sample_of_clients_is_stated(tmp_path: Path) -> None:
    config = convex(model=MultilayerPerceptron(hidden=(3,)), rounds=1)
    run = Run.start(config, tmp_path / "run", dataset=classes(140))
    list(run.play())
    found = certify(tmp_path / "run", dataset=classes(140), clients=5, points=3, curvatures=1)
    origin = next(each.origin for each in plan_of(found).constants if each.name == "gradient_variance")
    assert "of 5 clients drawn at random out of 14" in origin
    assert "3 of its points" in origin


def test_skipped_rounds_take_the_guarantees_away(tmp_path: Path) -> None:
    config = convex(client=ClientOptions(erasure_rate=0.9), rule=Rage(num_byzantine=3), attack=Scaling(factor=2.0))
    found = certify(played(tmp_path / "run", config))
    assert found.skipped > 0
    assert found.applicable == ()
    because = named(found, Subject.ASSUMPTION, "Algorithm 1").because
    assert "rounds changed nothing (round 0, Rage(num_byzantine=3) assumes 3 Byzantine of" in because
    assert found.history.skips_text in because


def test_more_byzantine_updates_than_assumed_break_the_assumption_in_a_skipped_round_too(tmp_path: Path) -> None:
    liars = FixedMembers(clients=(0, 1, 2, 3, 4, 5))
    found = certify(played(tmp_path / "run", convex(byzantine=liars, attack=NotANumber(), rounds=3)))
    assert (found.skipped, found.history.tally.assumption_violated) == (3, 3)
    cohorts = named(found, Subject.ASSUMPTION, "Byzantine updates")
    assert cohorts.outcome is Outcome.FAILED
    assert "more than the rule assumed in 3 of 3 rounds, first in round 0" in cohorts.because
    assert "instead of 3" in cohorts.because
    assert "3 of 3 cohorts had more than" in named(found, Subject.GUARANTEE, "expectation").because


def test_other_data_are_refused(tmp_path: Path) -> None:
    config = convex(model=MultilayerPerceptron(hidden=(3,)), rounds=1)
    run = Run.start(config, tmp_path / "run", dataset=classes(140))
    list(run.play())
    with pytest.raises(RunError, match="a run continues only on the data it was started with"):
        certify(tmp_path / "run", dataset=classes(150))


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CorruptRunError, match="holds no run that can be read"):
        certify(tmp_path)


def test_a_sample_of_points_contradicts_nothing_that_is_proved(complete: Path) -> None:
    found = certify(complete, points=2)
    verdict = named(found, Subject.ASSUMPTION, "σ²")
    assert max(place.gradient_variance for place in models_of(found).places) > plan_of(found).problem.gradient_variance
    assert (verdict.outcome, verdict.contradiction) == (Outcome.HELD, False)
    assert "samples of points" in verdict.because


def test_rounding_contradicts_no_bound_that_goes_to_zero(tmp_path: Path) -> None:
    point = torch.tensor([[0.1, -3.7, 12.3, 1e-3]])
    data = Dataset(
        name="same", features=point.repeat(28, 1), labels=point.repeat(28, 1), test_features=point, test_labels=point
    )
    config = convex(rounds=60, lr=0.5, batch_size="full", rule=Rage(num_byzantine=1))
    list(Run.start(config, tmp_path / "run", dataset=data).play())
    found = certify(tmp_path / "run", dataset=data)
    rounds, values = found.curve
    assert plan_of(found).guarantees[1].floor == 0.0
    assert values[-1] > plan_of(found).guarantees[1].bound(rounds)[-1]
    assert named(found, Subject.GUARANTEE, "steadfed").outcome is Outcome.HELD


def test_a_mean_over_batches_is_contradicted_only_by_far(own_convex_run: Path) -> None:
    path = own_convex_run
    folder, before = RunFolder.open(path), certify(path)
    minimum = torch.from_numpy(exact_constants_of(path).minimiser).float()
    bound = float(plan_of(before).guarantees[1].bound(9))
    apart = torch.eye(4)[0] * (2.0 * bound) ** 0.5
    folder.save_snapshot(replace(folder.snapshot(9), model=minimum + apart))
    verdict = named(certify(path), Subject.GUARANTEE, "expectation")
    assert (verdict.outcome, verdict.contradiction) == (Outcome.FAILED, False)
    assert "it leaves such a run a probability of 0.5" in verdict.because


def test_a_model_that_is_not_finite_is_above_every_bound(own_convex_run: Path) -> None:
    path = own_convex_run
    RunFolder.open(path).save_snapshot(Snapshot(round=6, model=torch.full((4,), torch.inf), buffers=torch.empty(0)))
    verdict = named(certify(path), Subject.GUARANTEE, "expectation")
    assert (verdict.outcome, verdict.contradiction) == (Outcome.FAILED, True)
    assert "first in round 6" in verdict.because


def test_missing_rows_take_the_guarantees_away(tmp_path: Path) -> None:
    found = certify(played(tmp_path / "run", convex(byzantine=FixedMembers(clients=(0, 1, 2)), attack=Silence())))
    assert found.applicable == ()
    assert "rounds clients were absent" in named(found, Subject.GUARANTEE, "expectation").because


def test_a_folder_that_lost_its_first_model_is_refused(own_convex_run: Path) -> None:
    path = own_convex_run
    (path / "snapshots" / "000000.safetensors").unlink()
    with pytest.raises(CorruptRunError, match="not the one of the start"):
        certify(path)


def exact_constants_of(path: Path) -> ProblemConstants:
    """Return the constants of a quadratic run."""
    run = Run.resume(path)
    setting = run.federation.setting
    return quadratic_constants(run.config.model, setting.dataset, setting.client_shares)  # type: ignore[arg-type]
