"""Attackers that know the rule: they do at least as much damage as those that do not, and search where they say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from steadfed.aggregators import RULES, Krum, Mean, Median, Rage, TrimmedMean
from steadfed.attacks import (
    AdversaryView,
    ALittleIsEnough,
    Attack,
    BelowThreshold,
    Cluster,
    Decoys,
    HillClimb,
    InnerProductManipulation,
    Knowledge,
    Optimal,
    SignFlip,
    Spread,
    Staircase,
    Zero,
)
from steadfed.attacks._search import most_damaging
from steadfed.attacks._victim import expected_victim
from steadfed.errors import ParameterError
from steadfed.sweeps.matrices._populations import population, under_attack

pytestmark = pytest.mark.portable


def view_of(rule: str, *, model: str = "iso", cohort_size: int = 20, dim: int = 300, number: int = 4) -> AdversaryView:
    people = population(model, cohort_size=cohort_size, dim=dim, num_byzantine=number)
    return AdversaryView(
        num_byzantine=number,
        cohort_size=cohort_size,
        own_rows=people.rows[:number],
        honest_rows=people.honest,
        server_rule=RULES.build(rule, num_byzantine=number),
        server_view=people.server_view(),
    )


@pytest.mark.parametrize(
    "rule", ["rage", "krum", "geometric-median", "caf", "fltrust", "nnm+krum", "arc+rage", "foolsgold"]
)
def test_a_rule_of_inner_products_is_damaged_alike_in_the_span_of_what_is_tried(rule: str) -> None:
    view = view_of(rule)
    aim = Cluster(strength=3.0).aim(view)
    victim, (centre, direction) = expected_victim(view, aim.centre, aim.direction)
    assert centre.shape[1] < 60
    for strength in (0.0, 1.0, 3.0, 50.0):
        whole = view.aggregate(aim.at(strength)).update.double() - view.honest.double().mean(0)
        small = victim.damage(centre + strength * direction)
        assert small == pytest.approx(float(whole.norm()), rel=1e-4, abs=1e-5)


def test_in_the_span_rows_stay_longer_than_they_are_many() -> None:
    victim, _ = expected_victim(view_of("rage"))  # 16 honest rows and two vectors of the server, in a cohort of 20
    assert victim.honest.shape == (16, 20)
    assert not bool(victim.honest[:, 18:].any())


@pytest.mark.parametrize("rule", ["median", "bulyan", "signguard", "zeno"])
def test_other_rules_are_tried_on_whole_rows(rule: str) -> None:
    view = view_of(rule)
    aim = Cluster(strength=3.0).aim(view)
    victim, (centre, _) = expected_victim(view, aim.centre, aim.direction)
    assert centre.shape == aim.centre.shape
    whole = view.aggregate(aim.at(2.0)).update.double() - view.honest.double().mean(0)
    assert victim.damage(aim.at(2.0)) == pytest.approx(float(whole.norm()), rel=1e-6)


def test_an_adversary_that_sees_its_own_rows_only_takes_them_for_the_honest_ones() -> None:
    people = population("iso", cohort_size=20, dim=30, num_byzantine=4)
    view = AdversaryView(
        num_byzantine=4,
        cohort_size=20,
        own_rows=people.rows[:4],
        server_rule=Median(),
        granted=frozenset({Knowledge.OWN, Knowledge.RULE}),
    )
    victim, _ = expected_victim(view)
    assert torch.equal(victim.honest, view.own.repeat(4, 1))


@pytest.mark.parametrize("attack", [ALittleIsEnough(), InnerProductManipulation(), Cluster(), Spread()])
@pytest.mark.parametrize("rule", [TrimmedMean(num_byzantine=4), Krum(num_byzantine=4), Rage(num_byzantine=4)])
def test_the_best_strength_does_at_least_as_much_damage_as_any_other_on_a_grid(
    attack: Cluster, rule: TrimmedMean
) -> None:
    people = population("clusters", cohort_size=20, dim=50, num_byzantine=4)

    def damage(staged: Cluster | Optimal) -> float:
        attacked = under_attack(people, staged, rule)
        return attacked.error(attacked.aggregate(rule).update)

    best = damage(Optimal(attack=attack))
    assert best >= 0.98 * damage(attack)


@pytest.mark.parametrize("rule", ["rage", "krum", "median"])
@pytest.mark.parametrize("dim", [24, 600])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e30])
def test_a_broken_honest_row_is_tried_out_as_the_broken_row_it_is(rule: str, dim: int, value: float) -> None:
    view = view_of(rule, dim=dim)
    rows = view.honest.clone()
    rows[3, 5] = value
    view = replace(view, honest_rows=rows)
    usable = torch.arange(len(rows)) != 3
    aim = Cluster(strength=3.0).aim(view)
    victim, (centre, direction) = expected_victim(view, aim.centre, aim.direction)
    whole = view.aggregate(aim.at(2.0)).update.double() - rows[usable].double().mean(0)
    assert victim.damage(centre + 2.0 * direction) == pytest.approx(float(whole.norm()), rel=1e-4)
    for attack in (Optimal(attack=Cluster()), BelowThreshold(), HillClimb(num_trials=3), Decoys()):
        assert bool(attack(view).rows.isfinite().all())


def test_the_attacks_own_strength_is_tried_where_it_lies_beyond_the_grid() -> None:
    people = population("iso", cohort_size=30, dim=50, num_byzantine=6)
    rule = RULES.build("foolsgold", num_byzantine=6)

    def error(attack: Attack) -> float:
        attacked = under_attack(people, attack, rule)
        return attacked.error(attacked.aggregate(rule).update)

    assert error(Optimal(attack=Staircase())) >= 0.999 * error(Staircase())


@pytest.mark.parametrize("value", [float("inf"), 1e30])
def test_a_direction_of_broken_own_rows_is_no_obstacle(value: float) -> None:
    view = view_of("median", dim=24)
    rows = Optimal(attack=SignFlip())(replace(view, own_rows=torch.full_like(view.own, value))).rows
    assert rows.shape == view.own.shape


def test_decoys_make_rage_learn_a_larger_threshold_than_a_cluster_does() -> None:
    people = population("iso", cohort_size=40, dim=4000, num_byzantine=10)
    rule = Rage(num_byzantine=10, mode="spread")
    errors = []
    for attack in (BelowThreshold(), Decoys()):
        attacked = under_attack(people, attack, rule)
        result = attacked.aggregate(rule)
        assert bool(result.kept[:10].all())
        errors.append(attacked.error(result.update))
    assert errors[1] > 1.03 * errors[0]
    assert len(torch.unique(attacked.updates[:10], dim=0)) == 10


def test_decoys_are_a_graded_cluster_with_parts_along_sums_of_honest_rows() -> None:
    view = view_of("rage", cohort_size=16, dim=300, number=4)
    mean = view.honest.double().mean(0)
    radius = float((view.honest - mean).norm(dim=1).max())
    whole, bare = (Decoys(length=length)(view).rows.double() - mean for length in (1.0, 0.0))
    assert np.linalg.matrix_rank(bare.numpy(), tol=1e-3) == 1
    steps = np.diff(bare.norm(dim=1).numpy())
    assert steps == pytest.approx(steps[0], rel=1e-4)
    assert steps[0] < 0
    away = torch.linalg.svd(bare).Vh[0]
    own = whole - torch.outer(whole @ away, away)
    coefficients = torch.linalg.lstsq((view.honest - mean).T, own.T).solution.T
    assert own.norm(dim=1).numpy() == pytest.approx(radius, rel=0.05)
    assert float((coefficients @ (view.honest - mean) - own).norm()) < 0.2 * radius
    shared = (coefficients - coefficients.median(dim=1, keepdim=True).values).abs() > 0.1
    assert shared.sum(dim=0).tolist() == [1] * 12


def test_a_peak_between_grid_points_is_found() -> None:
    assert most_damaging(lambda at: -abs(np.log(at / 7.3)), 0.25, 400.0) == pytest.approx(7.3, rel=0.07)
    assert most_damaging(lambda at: at, 1.0, 100.0) == pytest.approx(100.0)
    assert most_damaging(lambda at: -at, 1.0, 100.0) == pytest.approx(1.0)


@pytest.mark.parametrize("model", ["iso", "power", "clusters"])
def test_staying_below_the_threshold_of_rage_keeps_the_weight_and_is_its_worst_case(model: str) -> None:
    people = population(model, cohort_size=40, dim=1000, num_byzantine=10)
    rule = Rage(num_byzantine=10, mode="spread")
    attacked = under_attack(people, BelowThreshold(), rule)
    result = attacked.aggregate(rule)
    assert attacked.byzantine_weight(result.weights) >= 0.95 * 0.25
    assert 1.3 < attacked.error(result.update) <= 2.1
    farther = attacked.updates.clone()
    farther[:10] += 0.2 * (farther[:10] - people.shape.mean)
    assert float(rule(farther).weights[:10].sum()) < 0.95 * 0.25


def test_colluders_of_the_hill_climber_differ_and_hurt_more_than_its_start() -> None:
    people = population("clusters", cohort_size=30, dim=100, num_byzantine=7)
    rule = Rage(num_byzantine=7, mode="spread")
    hurt = []
    for trials in (1, 80):
        attacked = under_attack(people, HillClimb(num_trials=trials), rule)
        hurt.append(attacked.error(attacked.aggregate(rule).update))
    assert hurt[1] > 1.05 * hurt[0]
    away = attacked.updates[:7] - people.shape.mean
    assert float(torch.pdist(away).max()) > 0.1 * float(away.norm(dim=1).max())  # by far more than rounding


@pytest.mark.parametrize("attack", [Optimal(attack=Cluster()), BelowThreshold(), HillClimb(num_trials=3)])
def test_equal_honest_rows_are_attacked_without_trouble(attack: HillClimb) -> None:
    rows = torch.full((8, 5), 2.0)
    view = AdversaryView(num_byzantine=2, cohort_size=10, own_rows=rows[:2], honest_rows=rows, server_rule=Mean())
    assert bool(attack(view).rows.isfinite().all())


def test_only_attacks_with_a_direction_can_be_made_optimal() -> None:
    with pytest.raises(ParameterError, match="DirectedAttack"):
        Optimal(attack=Zero())
