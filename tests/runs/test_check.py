"""Looking before running: what is resolved, what is warned of, and nothing said without a cause."""

from __future__ import annotations

import os
from itertools import combinations
from typing import Any

import pytest
from tests.simulation.small import classes, config, numbers

from steadfed.aggregators import Aggregator, FlTrust, Mean, NearestNeighborMixing, Rage, TrimmedMean, Zeno
from steadfed.attacks import FixedMembers, FractionMembers, SignFlip
from steadfed.errors import ParameterError
from steadfed.models import Quadratic
from steadfed.partitions import ExtremePartition, IidPartition, UnequalPartition
from steadfed.runs._check import CheckReport, check
from steadfed.simulation import (
    ClientOptions,
    Evaluation,
    NoCompression,
    RandomK,
    RunConfig,
    ServerOptions,
    UniformSteps,
)
from steadfed.simulation._cohorts import ListedCohorts, RoundRobinCohorts


def looked_at(**changes: Any) -> CheckReport:
    return check(config(**changes), dataset=classes())


def warned(words: str, report: CheckReport) -> bool:
    return any(words in warning for warning in report.warnings)


def test_the_default_configuration_gives_no_warning_but_small_clients() -> None:
    report = check(RunConfig())
    assert [warning for warning in report.warnings if "fewer than batch_size" not in warning] == []


def test_what_a_configuration_resolves_to_is_said() -> None:
    facts = dict(looked_at(rounds=5, rule=Rage(num_byzantine=1)).facts)
    assert facts["data"] == "small: 120 training and 20 test points, 3 classes"
    assert facts["clients"] == "R = 12, with 10 to 10 points (median 10)"
    assert "d = 18 parameters, float64" in facts["model"]
    assert facts["rounds"] == "5 of H = 2 local steps: T = 10"
    assert facts["rule"] == "rage; assumes at most 1 Byzantine of K = 6 updates"
    assert facts["adversary"] == "none by 0 of 12 clients"
    assert "Byzantine in a cohort" not in facts
    assert "about" in facts["memory"]
    assert facts["disk"] == "144 B per checkpoint, of which two are kept; 6 snapshots of 144 B each"
    few, none = (dict(looked_at(rounds=5, evaluation=Evaluation(measured_rounds=each)).facts) for each in (2, 0))
    assert few["disk"].endswith("; 3 snapshots of 144 B each")
    assert none["disk"].endswith("two are kept")


def test_steps_that_differ_are_said_with_their_range_and_their_sum() -> None:
    drawn = RunConfig(rounds=30, local_steps=UniformSteps(lowest=2, highest=8))
    steps = [drawn.steps_of(number) for number in range(30)]
    assert dict(check(drawn).facts)["rounds"] == f"30 of H = 2 to 8 local steps: T = {sum(steps)}"


def test_how_many_coordinates_are_sent_is_said_if_not_all_are() -> None:
    half, one = (dict(looked_at(compression=RandomK(coordinates=each)).facts)["sent"] for each in (0.5, 1))
    said = "from every client, drawn anew in every round"
    assert half == f"only k = 9 of d = 18 coordinates: the same 50 % of the coordinates {said}"
    assert one == f"only k = 1 of d = 18 coordinates: the same 1 coordinate {said}"
    for everything in (NoCompression(), RandomK(coordinates=1.0), RandomK(coordinates=18)):
        assert "sent" not in dict(looked_at(compression=everything).facts)


def test_heterogeneity_is_that_of_the_clients_without_the_server() -> None:
    extreme = ExtremePartition(num_clients=12)
    facts = dict(looked_at(partition=extreme, rule=FlTrust(), server=ServerOptions(trusted_points=30)).facts)
    distance = float(facts["heterogeneity"].split()[3])
    assert distance > 0.6
    assert facts["clients"].startswith("R = 12,")
    even = dict(looked_at(partition=IidPartition(num_clients=2), cohort_size=2).facts)
    assert float(even["heterogeneity"].split()[3]) < 0.1


def test_labels_that_are_no_classes_have_no_heterogeneity() -> None:
    report = check(config(model=Quadratic(), partition=IidPartition(num_clients=8)), dataset=numbers())
    assert "heterogeneity" not in dict(report.facts)
    assert "classes" not in dict(report.facts)["data"]


def test_more_than_a_quarter_in_the_worst_cohort_is_warned_of() -> None:
    attacked: dict[str, Any] = {"attack": SignFlip(), "rule": Rage(num_byzantine=2)}
    report = looked_at(byzantine=FractionMembers(fraction=0.17), **attacked)
    assert warned("ε = 0.167 > K/4R = 0.125", report)
    assert not warned("K/4R", looked_at(byzantine=FractionMembers(fraction=0.1), **attacked))


def test_the_probability_of_too_many_byzantine_rows_is_exact() -> None:
    """Of 12 clients 3 are Byzantine; of the 924 cohorts of 6 those with 2 or 3 of them have too many."""
    attacked: dict[str, Any] = {"attack": SignFlip(), "rule": Rage(num_byzantine=1), "rounds": 1}
    report = looked_at(byzantine=FractionMembers(fraction=0.25), **attacked)
    cohorts = list(combinations(range(12), 6))
    bad = sum(sum(client < 3 for client in cohort) > 1 for cohort in cohorts) / len(cohorts)
    fact = dict(report.facts)["Byzantine in a cohort"]
    assert fact == f"1.5 on average, at most 3; more than the assumed 1 in a round with probability {bad:.3g}"
    assert warned(f"with probability {bad:.2g} some of the 1 rounds has more than the 1 Byzantine updates", report)
    often = looked_at(byzantine=FractionMembers(fraction=0.25), **(attacked | {"rounds": 3}))
    assert warned(f"with probability {1 - (1 - bad) ** 3:.2g} some of the 3 rounds", often)
    enough = looked_at(byzantine=FractionMembers(fraction=0.25), **(attacked | {"rule": Rage(num_byzantine=2)}))
    assert not warned("some of the 100 rounds", enough)


def test_a_rule_that_assumes_nobody_is_warned_of_with_certainty() -> None:
    report = looked_at(attack=SignFlip(), byzantine=FractionMembers(fraction=1.0), rule=Mean())
    assert warned("with probability 1 some of the 3 rounds", report)


def test_a_cohort_of_everybody_is_looked_at_without_a_hitch() -> None:
    liars = FractionMembers(fraction=0.25)
    report = looked_at(attack=SignFlip(), byzantine=liars, cohort_size=12, rule=Rage(num_byzantine=3))
    fact = dict(report.facts)["Byzantine in a cohort"]
    assert fact == "3.0 on average, at most 3; more than the assumed 3 in a round with probability 0"
    assert report.warnings == []


def test_cohorts_that_are_not_left_to_chance_are_counted() -> None:
    liars: dict[str, Any] = {"attack": SignFlip(), "byzantine": FixedMembers(clients=(0, 1))}
    listed = looked_at(
        cohorts=ListedCohorts(rounds=((0, 1, 2, 3, 4), (5, 6, 7, 8))), rule=Rage(num_byzantine=1), **liars
    )
    assert (
        dict(listed.facts)["Byzantine in a cohort"] == "1.3 on average, at most 2; more than assumed in 2 of 3 rounds"
    )
    assert warned("2 of 3 rounds have more Byzantine updates than the rule assumes", listed)
    turns = looked_at(cohorts=RoundRobinCohorts(), rule=Rage(num_byzantine=2), **liars)
    assert not warned("than the rule assumes", turns)


def test_attackers_without_an_attack_and_attacks_without_attackers_are_warned_of() -> None:
    assert warned("attack.name is 'none'", looked_at(byzantine=FractionMembers(fraction=0.1)))
    assert warned("attack.name is 'sign-flip' and no client is Byzantine", looked_at(attack=SignFlip()))
    assert not warned("attack.name", looked_at())


def test_small_clients_missing_tests_and_seldom_checkpoints_are_warned_of() -> None:
    unequal = UnequalPartition(num_clients=12, spread=1.0)
    few = int((unequal.split(classes(), 0).sizes < 8).sum())
    assert warned(f"{few} clients hold fewer than batch_size = 8 points", looked_at(partition=unequal, batch_size=8))
    assert not warned("batch_size", looked_at(partition=unequal, batch_size="full"))
    assert warned("a crash loses up to 5 rounds", looked_at(checkpoint_every=5))
    data = classes()
    untested = type(data)(
        name="untested",
        features=data.features,
        labels=data.labels,
        test_features=data.features[:0],
        test_labels=data.labels[:0],
        num_classes=3,
    )
    assert warned("there are no test points", check(config(), dataset=untested))


def test_memory_that_is_not_there_is_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not warned("memory", looked_at())
    real = os.sysconf
    monkeypatch.setattr(os, "sysconf", lambda name: 1 if name == "SC_PHYS_PAGES" else real(name))
    assert warned("of memory, and this machine has 4.1 kB", looked_at())


def test_memory_grows_with_what_is_remembered_of_clients() -> None:
    plain, more = (dict(looked_at(client=ClientOptions(momentum=each)).facts) for each in (0.0, 0.5))
    assert "client momentum" not in plain["memory"]
    assert "client momentum 1.73 kB" in more["memory"]  # 12 clients, 18 parameters, 8 bytes each


def test_what_cannot_run_is_an_error_and_no_warning() -> None:
    with pytest.raises(ParameterError, match="cohort_size"):
        looked_at(cohort_size=100)


def test_what_is_to_be_done_about_large_cohorts_of_attackers_depends_on_the_rule() -> None:
    attacked = {"byzantine": FractionMembers(fraction=0.25), "attack": SignFlip(), "cohort_size": 6}
    guarded = looked_at(rule=Rage(num_byzantine=1), **attacked)
    assert warned("RAGE's guard notices far ones up to 2 and raises f for that round", guarded)
    for rule in (Rage(num_byzantine=1, mode="spread"), Rage(num_byzantine=1, mode="known", sigma0=1.0)):
        assert warned("assume more or sample a larger cohort", looked_at(rule=rule, **attacked))


def test_too_few_sites_to_compare_are_warned_of_unless_the_server_has_points_to_judge_by() -> None:
    def few(rule: Aggregator, cohort: int, **more: Any) -> bool:
        return warned(f"K = {cohort} < 6: ", looked_at(rule=rule, cohort_size=cohort, **more))

    trusting = {"server": ServerOptions(trusted_points=30)}
    assert few(Rage(num_byzantine=1), 5)
    assert few(Rage(num_byzantine=1), 4)
    assert few(NearestNeighborMixing(rule=TrimmedMean(num_byzantine=1)), 5)
    assert not few(Rage(num_byzantine=1), 6)
    assert not few(Rage(num_byzantine=0), 4)
    assert not few(Mean(), 4)
    assert not few(FlTrust(), 4, **trusting)
    assert not few(Zeno(num_byzantine=1), 4, **trusting)
