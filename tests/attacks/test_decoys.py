"""Attackers at two distances along one direction: where they stand, and that they move what a filter trusts most."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.attacks.views import drawn, view_of
from tests.oracles import attacks as oracle

from steadfed.aggregators import RULES, Rage
from steadfed.attacks import AnchorPoisoning, Cluster, Honest, Knowledge, Optimal
from steadfed.attacks._decoys import LEVELS, two_levels
from steadfed.attacks._search import Profile, best_on_grid
from steadfed.sweeps.matrices._populations import population, under_attack

pytestmark = pytest.mark.portable


@pytest.mark.parametrize(("number", "share", "ratio"), [(10, 0.7, 2.5), (3, 0.4, 4.0), (1, 0.7, 4.0), (5, 0.9, 2.0)])
def test_levels_are_two_and_their_mean_is_one(number: int, share: float, ratio: float) -> None:
    profile = two_levels(number, share, ratio).numpy()
    near = max(1, round(share * number))
    rows = np.zeros((2, 1))
    np.testing.assert_allclose(profile, oracle.two_points(rows, number, near, ratio, np.ones(1))[:, 0], rtol=1e-12)
    assert profile.mean() == pytest.approx(1.0)


@pytest.mark.parametrize("direction", ["random", "spread", "mean"])
@pytest.mark.parametrize("rule", ["rage", "geometric-median", "krum", "median"])
def test_forged_rows_stand_at_two_points_of_one_line_through_the_mean(rule: str, direction: str) -> None:
    rows = drawn("two points", 20, 6)
    view = view_of(rows, 5, server_rule=RULES.build(rule, num_byzantine=5))
    forged = AnchorPoisoning(direction=direction)(view).rows.numpy()
    shift = forged.mean(axis=0) - rows.numpy().mean(axis=0)
    points = [oracle.two_points(rows.numpy(), 5, round(share * 5), ratio, shift) for share, ratio in LEVELS]
    assert any(np.allclose(forged, each, rtol=1e-9, atol=1e-9) for each in points)


@pytest.mark.parametrize("rule", ["rage", "caf", "geometric-median"])
def test_no_pair_of_levels_on_a_coarse_grid_does_more_damage(rule: str) -> None:
    rows = drawn("levels", 24, 8)
    view = view_of(rows, 6, server_rule=RULES.build(rule, num_byzantine=6))
    sigma0, direction = oracle.spread_of(rows.numpy())

    def damage(forged: torch.Tensor) -> float:
        return float((view.aggregate(forged).update - rows.mean(0)).norm())

    tried = [
        damage(torch.from_numpy(oracle.two_points(rows.numpy(), 6, round(share * 6), ratio, at * sigma0 * direction)))
        for share, ratio in LEVELS
        for at in (-8.0, -5.0, -3.0, -2.0, -1.0, 1.0, 2.0, 3.0, 5.0, 8.0)
    ]
    assert damage(AnchorPoisoning()(view).rows) >= 0.95 * max(tried)


@pytest.mark.parametrize("dim", [1, 10, 300])
def test_the_state_with_the_smallest_spread_is_drawn_away_from_the_honest_mean(dim: int) -> None:
    people = population("iso", cohort_size=40, dim=dim, num_byzantine=10)
    anchor = Rage(num_byzantine=10, kappa=1.0)
    poisoned, peaceful = (under_attack(people, attack, anchor) for attack in (AnchorPoisoning(), Honest()))
    moved, there = (each.error(each.aggregate(anchor).update) for each in (poisoned, peaceful))
    assert moved > 0.9
    assert moved > 1.5 * there
    if dim <= 10:
        _, mean = oracle.anchor_of(poisoned.updates.double().numpy(), 10)
        assert poisoned.error(torch.from_numpy(mean)) == pytest.approx(moved, rel=1e-3)


def test_it_must_know_the_rule_and_may_do_without_the_honest_rows() -> None:
    assert AnchorPoisoning.needs == {Knowledge.OWN, Knowledge.RULE}
    view = view_of(drawn("own", 12, 5), 4, server_rule=Rage(num_byzantine=4), granted=AnchorPoisoning.needs)
    assert bool(AnchorPoisoning()(view).rows.isfinite().all())


def test_a_single_colluder_does_about_what_the_best_cluster_does() -> None:
    view = view_of(drawn("one", 12, 5), 1, server_rule=Rage(num_byzantine=1))

    def damage(attack: AnchorPoisoning | Optimal) -> float:
        return float((view.aggregate(attack(view).rows).update - view.honest.mean(0)).norm())

    assert damage(AnchorPoisoning()) >= 0.95 * damage(Optimal(attack=Cluster(direction="spread")))


def test_the_best_profile_is_followed_to_its_cliff() -> None:
    profiles = [torch.tensor([cliff]) for cliff in (3.0, 7.3, 5.0)]

    def damage(at: float, profile: Profile) -> float:
        return at if at <= float(profile) else 0.0

    strength, profile = best_on_grid(damage, profiles, (0.25, 400.0))
    assert strength == pytest.approx(7.3, rel=0.01)
    assert float(profile) == pytest.approx(7.3)
