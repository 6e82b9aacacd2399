"""Sites that count as the operator weighs them."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from tests.oracles.saddle import Array
from tests.oracles.weighing import gathered, honest_sets, mean_and_spread, repeated

from steadfed._core.rng import stream
from steadfed.aggregators import RULES, Bucketing, Certificate, Krum, Mean, Rage, ServerView, Stop
from steadfed.aggregators._base import RULES_THAT_WEIGH
from steadfed.aggregators._rage.constants import known_constant, learned_constant
from steadfed.aggregators._rage.displacement import most_of
from steadfed.errors import CohortTooSmallError, ParameterError, ShapeError
from steadfed.testing.contract import example_updates, example_view

MODES: dict[str, dict[str, Any]] = {"auto": {}, "spread": {}, "known": {"sigma0": 1.0}}
SIZES = [190, 700, 1_200, 2_900, 5_600, 6_100, 17_834]


def cohort(seed: int, number: int, dim: int, *, far: float, bad: int) -> Array:
    rows = stream(seed, "weighing", number, dim).standard_normal((number, dim))
    rows[:bad] += far
    return rows


@pytest.mark.parametrize("mode", MODES)
@given(data=st.data())
@settings(max_examples=30, deadline=None)
def test_a_weight_is_as_good_as_so_many_equal_rows(mode: str, data: st.DataObject) -> None:
    times = data.draw(st.lists(st.integers(1, 6), min_size=3, max_size=12))
    bad = data.draw(st.integers(0, (sum(times) - 1) // 2))
    rows = cohort(
        data.draw(st.integers(0, 99)),
        len(times),
        data.draw(st.sampled_from([1, 2, 5, 30])),
        far=data.draw(st.sampled_from([0.5, 3.0, 50.0])),
        bad=data.draw(st.integers(0, 2)),
    )
    weighed = Rage(mode=mode, byzantine_weight=bad / sum(times), **MODES[mode])(rows, ServerView(weights=times))
    copies = Rage(mode=mode, num_byzantine=bad, **MODES[mode])(repeated(rows, times), ServerView(sampled=False))
    np.testing.assert_allclose(weighed.weights, gathered(copies.weights.numpy(), times), rtol=0.0, atol=1e-10)
    assert weighed.stop is copies.stop
    told, same = weighed.certificate, copies.certificate
    assert told is not None
    assert same is not None
    scale = max(times)
    assert told.total * scale == pytest.approx(same.num_rows)
    assert told.removed * scale == pytest.approx(same.removed, abs=1e-8)
    if weighed.stop is not Stop.ROWS_AGREE:
        sigma = 1.5 * same.sigma0
        assert told.error_bound(sigma) == pytest.approx(same.error_bound(sigma), rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("seed", range(6))
def test_everything_certified_holds_for_every_set_that_may_be_honest(mode: str, seed: int) -> None:
    rng = stream(seed, "brute")
    number, dim = int(rng.integers(3, 9)), int(rng.choice([1, 2, 20]))
    weights = np.exp(1.5 * rng.standard_normal(number))
    share = float(rng.uniform(0.05, 0.49))
    rows = cohort(seed, number, dim, far=float(rng.choice([0.5, 4.0, 100.0])), bad=1 + seed % 2)
    found = Rage(mode=mode, byzantine_weight=share, **MODES[mode])(rows, ServerView(weights=weights.tolist()))
    told = found.certificate
    assert told is not None
    again = Certificate.from_evidence(json.loads(json.dumps(told.evidence())))
    for chosen in honest_sets(weights, share * weights.sum()):
        mean, sigma = mean_and_spread(rows[chosen], weights[chosen])
        error = float(np.linalg.norm(found.update.numpy() - mean))
        assert told.is_consistent(sigma)
        assert error <= told.error_bound(sigma) * (1.0 + 1e-9) + 1e-9
        assert told.error_bound(sigma) == again.error_bound(sigma)
        assert error <= told.unconditional_bound() * (1.0 + 1e-9) + 1e-9
        assert told.smallest_sigma0() <= sigma * (1.0 + 1e-6) + 1e-6
        learned = learned_constant(share, kappa=6.0 if mode == "auto" else 3.0)
        constant = known_constant(share) if mode == "known" else learned
        if mode != "known" or sigma <= 1.0:
            assert error <= constant * max(sigma, 1.0 if mode == "known" else 0.0) * math.sqrt(share) + 1e-9


def test_equal_weights_give_the_bits_of_none() -> None:
    for seed in range(5):
        rows = torch.from_numpy(cohort(seed, 20, 30, far=2.0, bad=3)).float()
        for mode, more in MODES.items():
            rule = Rage(num_byzantine=4, mode=mode, **more)
            plain, same = rule(rows), rule(rows, ServerView(weights=[0.3] * 20, cohort_weight=6.0))
            assert torch.equal(plain.update, same.update)
            assert plain.evidence() == same.evidence()
    assert torch.equal(Mean()(rows).update, Mean()(rows, ServerView(weights=[7.0] * 20)).update)


@pytest.mark.parametrize("rule", [Rage(byzantine_weight=0.3), Rage(num_byzantine=2), Mean()], ids=repr)
def test_order_and_unit_of_weights_do_not_matter(rule: Rage | Mean) -> None:
    rows = example_updates(Mean())
    weights = stream(0, "order").uniform(0.5, 2.0, len(rows))
    order = stream(1, "order").permutation(len(rows))
    straight = rule(rows, ServerView(weights=weights.tolist()))
    shuffled = rule(rows[order], ServerView(weights=(1e6 * weights[order]).tolist()))
    torch.testing.assert_close(straight.update, shuffled.update)
    torch.testing.assert_close(straight.weights[order], shuffled.weights)


def test_the_weighted_mean_is_that() -> None:
    rows = torch.tensor([[1.0], [2.0], [float("nan")], [6.0]])
    found = Mean()(rows, ServerView(weights=[1.0, 2.0, 50.0, 5.0]))
    assert found.update.item() == pytest.approx((1 + 4 + 30) / 8)
    assert found.weights.tolist() == [0.125, 0.25, 0.0, 0.625]


def test_a_small_site_may_lie_and_the_large_ones_are_averaged_as_they_weigh() -> None:
    rows = cohort(0, 7, 50, far=0.0, bad=0)
    weights = np.array(SIZES, dtype=float)
    for liar in range(6):  # each of them holds at most 17.7 %
        lied = rows.copy()
        lied[liar] *= -1000.0
        found = Rage(byzantine_weight=0.2)(lied, ServerView(weights=SIZES))
        others = np.arange(7) != liar
        mean, spread = mean_and_spread(rows[others], weights[others])
        assert liar in found.removed
        assert np.linalg.norm(found.update.numpy() - mean) <= learned_constant(0.2, kappa=6.0) * spread * math.sqrt(0.2)
    kept = Rage(byzantine_weight=0.2)(rows, ServerView(weights=SIZES))
    assert kept.num_byzantine == 4  # the four smallest hold 14.5 % together
    assert kept.weighing is not None
    assert kept.evidence()["site_shares"][-1] == pytest.approx(17_834 / sum(SIZES))
    assert kept.guard is None


def test_half_of_the_weight_cannot_lie() -> None:
    rows = cohort(0, 7, 5, far=0.0, bad=0)
    with pytest.raises(CohortTooSmallError, match=r"lets 51\.7.% of the weight of 7 updates be Byzantine"):
        Rage(num_byzantine=1)(rows, ServerView(weights=[517, 83, 80, 80, 80, 80, 80]))
    with pytest.raises(CohortTooSmallError, match="max_share"):  # half of those asked are silent
        Rage(byzantine_weight=0.4)(rows[:3], ServerView(weights=[3, 2, 2], cohort_size=7, cohort_weight=15.0))


def test_an_unusable_row_counts_with_its_weight() -> None:
    rows = cohort(1, 7, 5, far=0.0, bad=0)
    rows[3] = np.nan
    light = Rage(byzantine_weight=0.2)(rows, ServerView(weights=[1, 1, 1, 1, 2, 2, 2]))
    assert light.certificate is not None
    assert not light.assumption_violated
    assert light.certificate.bad == pytest.approx((0.2 * 10 - 1) / 2)
    assert light.certificate.total == pytest.approx(9 / 2)
    heavy = Rage(byzantine_weight=0.2)(rows, ServerView(weights=[1, 1, 1, 4, 1, 1, 1]))
    assert heavy.stop is Stop.TOO_MANY_UNUSABLE
    assert not heavy.certificate.is_consistent(1e9)  # type: ignore[union-attr]


def test_a_silent_site_may_have_been_the_only_honest_one_left_out() -> None:
    rows = cohort(2, 6, 5, far=0.0, bad=0)
    all_asked = Rage(byzantine_weight=0.2)(rows, ServerView(weights=[1, 1, 1, 1, 1, 2], cohort_weight=10.0))
    assert all_asked.certificate is not None
    assert all_asked.certificate.bad * 2 == pytest.approx(2.0)
    same = Rage(byzantine_weight=0.2)(rows, ServerView(weights=[1.0] * 6, cohort_weight=10.0))
    assert same.certificate is not None
    assert same.certificate.bad == pytest.approx(2.0)


def test_part_of_a_row_may_account_for_part_of_a_displacement() -> None:
    rng = stream(0, "parts")
    for _ in range(50):
        times = rng.integers(1, 6, 7)
        parts, weight = rng.standard_normal(7), int(rng.integers(0, times.sum()))
        slow = float(np.sort(np.repeat(parts / times, times))[::-1][:weight].sum())
        assert most_of(parts, float(weight), times.astype(float)) == pytest.approx(slow, abs=1e-12)
    assert most_of(np.array([3.0, 1.0]), 1.5) == pytest.approx(3.5)


def test_rules_that_cannot_weigh_refuse_and_name_those_that_can() -> None:
    rows = example_updates(Mean())
    view = replace(example_view(rows), weights=[*range(1, len(rows) + 1)])
    able = {name for name in RULES if RULES[name].weighs}
    assert able == {"mean", "rage"}
    assert all(name.title() in RULES_THAT_WEIGH for name in able)
    for rule in (Krum(num_byzantine=2), Bucketing(rule=Rage(num_byzantine=2))):
        with pytest.raises(ParameterError, match=r"cannot weigh them; rules that can: Mean, and Rage in modes 'auto'"):
            rule(rows, view)
    for mode in ("exact", "lazy"):
        with pytest.raises(ParameterError, match="cannot weigh them"):
            Rage(num_byzantine=2, mode=mode, sigma0=1.0)(rows, view)
        with pytest.raises(ParameterError, match="byzantine_weight belongs to modes 'auto', 'spread' and 'known'"):
            Rage(byzantine_weight=0.2, mode=mode, sigma0=1.0)


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ([1.0, 0.0], "finite numbers above 0, got 0.0"),
        ([1.0, float("nan")], "got nan"),
        ([1.0, True], "got True"),
        ([1.0, "2"], "got '2'"),
        ([1.0, 1e10], "by a factor of 1e\\+09 at most, got 1 and 1e\\+10"),
    ],
)
def test_weights_are_positive_numbers_not_too_far_apart(weights: list[Any], words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        ServerView(weights=weights)


def test_there_is_one_weight_for_each_row_and_one_bound() -> None:
    with pytest.raises(ShapeError, match="one number for each of the 7 updates, got 2"):
        Mean()(cohort(0, 7, 2, far=0.0, bad=0), ServerView(weights=[1.0, 2.0]))
    with pytest.raises(ParameterError, match="cohort_weight must be a finite number above 0, got -1"):
        ServerView(cohort_weight=-1)
    with pytest.raises(
        ParameterError, match="give exactly one of byzantine_fraction, num_byzantine and byzantine_weig"
    ):
        Rage()
    with pytest.raises(ParameterError, match="got both num_byzantine and byzantine_weight"):
        Rage(num_byzantine=1, byzantine_weight=0.1)


def test_without_weights_every_site_has_the_same_share() -> None:
    rule = Rage(byzantine_weight=0.3)
    assert (rule.assumed_byzantine(10), rule.assumed_byzantine(9)) == (3, 2)
    rows = cohort(3, 10, 20, far=30.0, bad=3)
    found = rule(rows)
    assert 0 in found.removed
    np.testing.assert_allclose(found.weights, Rage(num_byzantine=3)(rows, ServerView(sampled=False)).weights)
