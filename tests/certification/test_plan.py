"""What is guaranteed of a run before it runs."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from tests.certification.small import convex
from tests.simulation.small import classes

from steadfed.aggregators import Krum, Mean, Rage
from steadfed.attacks import FixedMembers, FractionMembers
from steadfed.certification import PlanRequest, _constants as constants, plan, plan_numbers
from steadfed.errors import ParameterError
from steadfed.models import ImportedModel, MultilayerPerceptron, SoftmaxRegression
from steadfed.models._convex import quadratic_constants
from steadfed.runs import read_config
from steadfed.simulation import ClientOptions, RunConfig, ServerOptions
from steadfed.simulation._cohorts import ListedCohorts, RoundRobinCohorts
from steadfed.simulation._schedules import CosineSchedule
from steadfed.theory import guarantees
from steadfed.theory.planner import Answer
from steadfed.theory.sampling import run_excess_probability, tolerated_for

CONVEX = Path(__file__).parents[2] / "examples" / "convex.toml"
NUMBERS: dict[str, Any] = {
    "problem": {"smoothness": 1.0, "gradient_variance": 1.0, "dissimilarity": 0.1, "gap": 3.0},
    "protocol": {
        "num_clients": 100,
        "cohort_size": 40,
        "assumed_byzantine": 8,
        "batch_size": 1,
        "lr": 0.01,
        "rounds": 50,
    },
}


def finite_json(table: Any) -> Any:
    """Return what JSON keeps of a table; NaN and Inf are errors."""
    return json.loads(json.dumps(table, allow_nan=False))


def test_constants_of_a_quadratic_are_the_exact_ones() -> None:
    config = convex()
    found = plan(config)
    data = config.data.load()
    known = quadratic_constants(config.model, data, config.partition.split(data, config.seed))  # type: ignore[arg-type]
    assert found.everywhere
    assert found.problem.smoothness == known.smoothness
    assert found.problem.gradient_variance == known.gradient_variance
    assert found.problem.dissimilarity == known.dissimilarity
    assert found.problem.distance == pytest.approx(float(known.minimiser @ known.minimiser))  # w starts at 0


def test_the_protocol_is_that_of_the_configuration() -> None:
    protocol = plan(convex(rule=Rage(num_byzantine=3, mode="known", sigma0=2.0))).protocol
    assert (protocol.num_clients, protocol.cohort_size, protocol.num_byzantine) == (14, 12, 1)
    assert (protocol.assumed_byzantine, protocol.local_steps, protocol.batch_size) == (3, 2, 5)
    assert (protocol.num_points, protocol.mode, protocol.sigma0, protocol.uniform) == (10, "known", 2.0, True)


def test_the_gaps_are_those_of_the_configuration() -> None:
    listed, drawn = plan(convex(local_steps=[1, 2])), plan(convex(local_steps={"name": "uniform", "highest": 2}))
    assert listed.protocol.local_steps == (1, 2)
    assert (listed.protocol.known_rounds, listed.protocol.total_steps) == (math.inf, 18)
    config = convex(local_steps={"name": "uniform", "highest": 2})
    assert drawn.protocol.local_steps == tuple(config.steps_of(number) for number in range(12))
    assert (drawn.protocol.known_rounds, drawn.protocol.total_steps) == (12, config.total_steps)
    for found in (listed, drawn):
        assert found.applies
        assert found.guarantees[0].lr_limit == plan(convex(local_steps=2)).guarantees[0].lr_limit
        assert finite_json(found.as_dict())["protocol"]["local_steps"] == list(found.protocol.gaps)


@pytest.mark.parametrize("size", ["full", 10, 11])
def test_batches_that_hold_all_points_of_every_client_are_full(size: Any) -> None:
    found = plan(convex(batch_size=size))
    assert found.protocol.batch_size == "full"
    assert found.protocol.set_aside == 0
    assert len(found.guarantees) == 2


def test_the_guarantees_are_those_of_the_theory() -> None:
    found = plan(convex())
    expected = guarantees(found.problem, found.protocol)
    assert [each.floor for each in found.guarantees] == [each.floor for each in expected]
    assert found.applies


def test_rows_are_set_aside_that_no_cohort_needs() -> None:
    config = convex(byzantine=FractionMembers(fraction=0.3), rule=Rage(num_byzantine=5))
    protocol = plan(config, PlanRequest(failure=0.2)).protocol
    law = {"num_clients": 14, "num_byzantine": 4, "cohort_size": 12, "rounds": 12}
    assert protocol.tolerated == tolerated_for(**law, failure=0.1) <= 4
    assert run_excess_probability(**law, tolerated=protocol.tolerated) <= 0.1
    assert protocol.failure == 0.1


def test_a_slack_that_is_given_is_taken() -> None:
    found = plan(convex(), PlanRequest(slack=1 / 12))
    assert found.protocol.set_aside == 1
    assert "was given" in found.slack


def test_numbers_that_are_given_replace_those_of_the_configuration() -> None:
    found = plan(convex(), PlanRequest(problem={"smoothness": 4.0}, protocol={"lr": 0.5, "num_byzantine": 2}))
    assert (found.problem.smoothness, found.protocol.lr, found.protocol.num_byzantine) == (4.0, 0.5, 2)
    assert next(each for each in found.constants if each.name == "smoothness").origin == "given"


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"rule": Mean()}, "rule"),
        ({"rule": Krum(num_byzantine=2)}, "rule"),
        ({"client": ClientOptions(momentum=0.5)}, "client momentum"),
        ({"client": ClientOptions(weight_decay=0.1)}, "weight decay"),
        ({"client": ClientOptions(clip=1.0)}, "clipping"),
        ({"client": ClientOptions(erasure_rate=0.1)}, "erasures"),
        ({"server": ServerOptions(momentum=0.5)}, "server momentum"),
        ({"schedule": CosineSchedule()}, "schedule"),
        ({"cohorts": ListedCohorts(rounds=(tuple(range(12)), tuple(range(7))))}, "cohorts"),
    ],
)
def test_what_no_theorem_covers_is_named(changes: dict[str, Any], name: str) -> None:
    found = plan(convex(**changes))
    assert [*found.outside] == [name]
    assert not found.applies


def test_cohorts_that_are_not_drawn_uniformly_have_the_worst_case() -> None:
    found = plan(convex(cohorts=RoundRobinCohorts(), byzantine=FixedMembers(clients=(0, 1, 2, 3))))
    assert not found.protocol.uniform
    assert found.guarantees[1].failure == 1.0
    assert any("may meet in one cohort" in sentence for sentence in found.reading)


def test_a_network_has_local_constants_which_are_labelled() -> None:
    config = convex(model=MultilayerPerceptron(hidden=(3,)), partition=convex().partition)
    found = plan(config, dataset=classes(140))
    local = {each.name for each in found.constants if not each.everywhere}
    assert local == {"smoothness", "gradient_variance", "dissimilarity"}
    assert all("at the start of the run" in each.origin for each in found.constants if each.name in local)
    assert found.problem.strong_convexity == 0.0
    assert found.problem.distance is None
    assert found.problem.gap is not None


def test_softmax_regression_without_l2_has_an_exact_smoothness_only() -> None:
    found = plan(convex(model=SoftmaxRegression()), dataset=classes(140))
    assert {each.name for each in found.constants if not each.everywhere} == {"gradient_variance", "dissimilarity"}


def test_the_default_configuration_has_a_plan_that_json_can_hold() -> None:
    table = finite_json(plan(RunConfig()).as_dict())
    assert table["protocol"]["num_clients"] == 100
    assert {each["source"] for each in table["guarantees"]} == {"the paper", "steadfed"}
    assert table["constants"]["smoothness"]["everywhere"] is False


def test_the_example_is_promised_progress() -> None:
    found = plan(read_config(CONVEX))
    assert found.applies
    assert found.everywhere
    assert all(each.holds for each in found.guarantees)
    assert found.guarantees[1].floor < 0.5 * found.problem.start
    assert found.protocol.lr == found.guarantees[0].lr_limit  # the largest that the paper allows
    assert any("it says nothing for K = 40" in sentence for sentence in found.reading)


def test_the_paper_needs_thousands_of_clients_where_it_says_nothing() -> None:
    found = plan_numbers(PlanRequest(**NUMBERS, slack=0.05))
    sentence = next(each for each in found.reading if each.startswith("The paper's failure probability"))
    needed = int(sentence.split("K ≥ ")[1].rstrip(".").replace(",", ""))
    share = found.protocol.tolerated / found.protocol.cohort_size
    assert needed == math.ceil(16 * math.log(50 / 0.01) / (0.05**2 * (1 - share)))


def test_the_hypergeometric_figures_are_in_the_reading() -> None:
    numbers = {**NUMBERS, "protocol": {**NUMBERS["protocol"], "num_byzantine": 20, "assumed_byzantine": 12}}
    found = plan_numbers(PlanRequest(**numbers))
    law = {"num_clients": 100, "num_byzantine": 20, "cohort_size": 40}
    ever = run_excess_probability(**law, tolerated=12, rounds=50)
    assert any(f"in some of 50 rounds with probability {ever:.3g} (hyper" in sentence for sentence in found.reading)


def test_a_floor_above_the_start_is_called_no_progress() -> None:
    found = plan_numbers(PlanRequest(**NUMBERS))
    assert any(sentence.startswith("That is no progress") for sentence in found.reading)
    unanswered = found.answers["rounds to come near the floor"]
    assert isinstance(unanswered, str)


def test_a_target_is_planned_for() -> None:
    numbers = {**NUMBERS, "problem": {**NUMBERS["problem"], "dissimilarity": 0.0, "gradient_variance": 0.0}}
    found = plan_numbers(PlanRequest(**numbers, target=0.5))
    answer = found.answers["rounds to 0.5"]
    assert isinstance(answer, Answer)
    assert answer.value == 2 * 3.0 / (0.01 * 0.5)  # 2 (F(x_0) − F*)/(ηHN) = target


@pytest.mark.parametrize(
    ("part", "changes", "message"),
    [
        ("problem", {"smoothness": 0.0}, "smoothness: input should be greater than 0, got 0.0"),
        ("problem", {"strong_convexity": 2.0}, "strong_convexity must be at most smoothness = 1"),
        ("protocol", {"cohort_size": 200}, "cohort_size must be at most num_clients = 100"),
        ("protocol", {"assumed_byzantine": 20}, "assumed_byzantine must be below half of the cohort, at most 19"),
        ("protocol", {"num_byzantine": 101}, "num_byzantine must be at most num_clients = 100"),
        ("protocol", {"mode": "best"}, "mode"),
    ],
)
def test_numbers_out_of_range_are_refused(part: str, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message.replace("(", r"\(")):
        plan_numbers(PlanRequest(**{**NUMBERS, part: {**NUMBERS[part], **changes}}))


@pytest.mark.parametrize("wish", [{"failure": 0.0}, {"failure": 1.0}, {"target": -1.0}, {"slack": 0.5}])
def test_requests_out_of_range_are_refused(wish: dict[str, Any]) -> None:
    with pytest.raises(ParameterError, match=next(iter(wish))):
        plan_numbers(PlanRequest(**NUMBERS, **wish))


def test_missing_numbers_are_named() -> None:
    with pytest.raises(ParameterError, match="needs gradient_variance, dissimilarity, num_clients"):
        plan_numbers(PlanRequest(problem={"smoothness": 1.0}, protocol={}))


def test_nothing_is_promised_if_too_many_clients_lie() -> None:
    found = plan(convex(byzantine=FractionMembers(fraction=1.0)))
    assert not found.applies
    assert not any(sentence.startswith("From") for sentence in found.reading)


def test_steps_with_dropout_are_outside() -> None:
    model = ImportedModel(factory="tests.simulation.modules:dropping")
    found = plan(convex(model=model), dataset=classes(140))
    assert [*found.outside] == ["dropout"]


def test_a_minimiser_that_is_known_to_few_digits_is_said_to_be() -> None:
    config = convex(model=SoftmaxRegression(l2=1e-9))
    distance = next(each for each in plan(config, dataset=classes(140)).constants if each.name == "distance")
    assert "exact but for" in distance.origin


def test_large_problems_are_looked_at_in_samples_and_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "_AFFORDABLE", 1e4)
    monkeypatch.setattr(constants, "_POOL", 200 * 650)
    monkeypatch.setattr(constants, "_CURVATURE_POOL", 100 * 650)
    monkeypatch.setattr(constants, "_FEWEST_POINTS", 50)
    found = plan(RunConfig(model=MultilayerPerceptron(hidden=(8,))))
    origins = {each.name: each.origin for each in found.constants}
    assert "16 products over 0.0" in origins["smoothness"]
    assert origins["gap"] == "bound: F(x_0), as F* ≥ 0, from a sample of points"
    assert "a lower bound" in origins["dissimilarity"]
    assert not found.everywhere


def test_the_reading_says_with_which_variance_of_a_batch_the_bounds_reckon() -> None:
    numbers = {"smoothness": 1.0, "gradient_variance": 6.0, "dissimilarity": 0.1, "gap": 1.0}
    run: dict[str, Any] = {
        "num_clients": 20, "cohort_size": 10, "assumed_byzantine": 1, "batch_size": 4, "lr": 0.1, "rounds": 5,
    }  # fmt: skip
    finer = plan_numbers(PlanRequest(problem=numbers, protocol=run | {"num_points": 10}))
    coarse = plan_numbers(PlanRequest(problem=numbers, protocol=run))
    assert any("b = 4 of at most n = 10 points" in each and "σ² = 1, 67 % of σ²/b" in each for each in finer.reading)
    assert any("is taken to be σ²/b = 1.5" in each for each in coarse.reading)
    for ours, theirs in zip(finer.guarantees, coarse.guarantees, strict=True):
        assert ours.floor < theirs.floor
    full = plan_numbers(PlanRequest(problem=numbers, protocol=run | {"batch_size": "full"}))
    assert not any("σ²/b" in each for each in full.reading)
