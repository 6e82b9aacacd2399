"""Mode "auto": stopped by displacement, guarded against more Byzantine rows than assumed."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tests.linalg.test_spectrum import hidden_rows
from tests.oracles.clouds import CLOUDS
from tests.oracles.displacement import (
    accounted_for,
    filter_by_displacement,
    typical_square as slow_typical_square,
)
from tests.oracles.saddle import Array

from steadfed._core.rng import stream
from steadfed.aggregators import Certificate, Rage, ServerView, Stop
from steadfed.aggregators._rage.constants import learned_constant
from steadfed.aggregators._rage.displacement import Reach, displaced, stop_by_displacement, way_to
from steadfed.aggregators._rage.filtering import Step, measured, run_filter
from steadfed.aggregators._rage.guard import look_beyond, most_byzantine, typical_square

pytestmark = pytest.mark.portable

ALL = ServerView(sampled=False)
SEVERAL_MEDIANS = {"near duplicates", "mirror images", "on a line"}
"""Clouds with more than one geometric median, or with rows that are equal to one eye and not to the other."""

NEVER_CUT: set[str] = set()
"""Clouds in which f rows never account for a part of a displacement that is cut."""


def cohort(name: str, seed: int, *, most: int = 40) -> tuple[Array, int]:
    """Return rows, the first f of them bad, and f."""
    rng = stream(seed, "displacement", name)
    number = int(rng.integers(4, most + 1))
    bad = int(rng.integers(1, (number - 1) // 2 + 1))
    return CLOUDS[name](rng, number, bad, int(rng.choice([1, 2, 5, 20, 60]))), bad


def honest(number: int, dim: int, seed: int = 0) -> Array:
    return stream(seed, "honest", number, dim).standard_normal((number, dim))


def spread_of(rows: Array) -> float:
    """Return √λ_max of the covariance."""
    return float(np.linalg.norm(rows - rows.mean(axis=0), 2)) / math.sqrt(len(rows))


@pytest.mark.parametrize("name", CLOUDS)
@pytest.mark.parametrize("sampled", [False, True])
@pytest.mark.parametrize(("rho", "rejection"), [(1.0, 1.5), (0.4, 4.0), (1.5, 1.0)])
def test_weights_are_those_of_the_filter_with_explicit_means_and_covariances(
    name: str, sampled: bool, rho: float, rejection: float
) -> None:
    for seed in range(6):
        rows, bad = cohort(name, seed)
        told = max(1, bad - 3 * (seed % 2))  # every second cohort holds more than was told
        shares, used, alarmed = filter_by_displacement(
            rows, told, rho=rho, rejection=rejection, kappa=6.0, sampled=sampled
        )
        found = Rage(num_byzantine=told, rho=rho, rejection=rejection)(rows, ServerView(sampled=sampled))
        np.testing.assert_allclose(found.weights, shares, rtol=0.0, atol=1e-8)
        assert (found.guard is not None and found.guard.alarmed) is alarmed
        assert found.certificate is not None
        assert found.certificate.num_byzantine == used


@pytest.mark.parametrize("name", CLOUDS)
@pytest.mark.parametrize(
    ("rho", "rejection", "kappa"), [(0.0, 1.0, 1.0), (1.0, 1.5, 6.0), (0.5, 100.0, 6.0), (100.0, 1.0, 6.0)]
)
def test_the_error_is_below_the_proved_constant(name: str, rho: float, rejection: float, kappa: float) -> None:
    for seed in range(6):
        rows, bad = cohort(name, seed)
        sigma0, epsilon = spread_of(rows[bad:]), bad / len(rows)
        found = Rage(num_byzantine=bad, rho=rho, rejection=rejection, kappa=kappa)(rows, ALL)
        error = float(np.linalg.norm(found.update.numpy() - rows[bad:].mean(axis=0)))
        bound = learned_constant(epsilon, kappa=kappa) * sigma0 * math.sqrt(epsilon)
        assert error <= bound + 1e-9 * np.abs(rows).max()


@pytest.mark.parametrize("distance", [1e2, 1e3, 1e6, 1e9, 1e12, 1e15])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_symmetric_pairs_an_ulp_off_do_not_survive(distance: float, dtype: Any) -> None:
    for seed in range(4):
        rows: NDArray[Any] = honest(50, 200, seed).astype(dtype)
        rows[:7], rows[7:14] = distance, -distance
        rows[0, 0] = np.nextafter(rows[0, 0], dtype(np.inf))
        found = Rage(num_byzantine=14)(rows, ALL)
        error = float(np.linalg.norm(found.update.numpy().astype(float) - rows[14:].mean(axis=0, dtype=float)))
        assert error <= 0.1 * spread_of(rows[14:].astype(float)) * math.sqrt(14 / 50)


def test_rows_of_1e30_do_not_survive_in_float32() -> None:
    rows = honest(30, 40).astype(np.float32)
    rows[:6] = 1e30
    rows[5] *= -1
    found = Rage(num_byzantine=6)(rows)
    error = float(np.linalg.norm(found.update.numpy().astype(float) - rows[6:].mean(axis=0, dtype=float)))
    assert error <= 0.1 * spread_of(rows[6:].astype(float)) * math.sqrt(0.2)
    assert not found.assumption_violated


def test_clients_that_differ_but_pull_nowhere_are_kept() -> None:
    rows = honest(40, 100)
    far = 12.0 * np.eye(100)[0]
    rows[0], rows[1] = far, -far
    kept = Rage(num_byzantine=8)(rows, ALL)
    assert kept.stop is Stop.WITHIN_REACH
    assert not {0, 1} & set(kept.removed)
    pulled = rows.copy()
    pulled[:8] = far
    assert set(range(8)) <= set(Rage(num_byzantine=8)(pulled, ALL).removed)


def test_with_rho_zero_the_update_is_the_anchors_mean() -> None:
    found = Rage(num_byzantine=8, rho=0.0)(honest(40, 100), ALL)
    assert found.stop is Stop.SMALLEST_SPREAD
    assert found.anchor is not None
    assert (found.anchor.distance, found.anchor.reach) == (0.0, 0.0)
    assert found.spread == found.anchor.spread


@pytest.mark.parametrize(("rho", "share"), [(1.0, 1.0), (0.45, 0.9)])
def test_distance_displacement_and_reach_are_what_they_say(rho: float, share: float) -> None:
    rows = honest(30, 60)
    rows[:5] += 0.6
    found = stop_by_displacement(rows @ rows.T, 6, Reach(rho, 100.0, 6.0), sampled=False)
    safest = min(found.path.states, key=lambda state: state.spread)
    centre = safest.weights @ rows / safest.weights.sum()
    update = found.weights @ rows / found.weights.sum()
    unit = math.sqrt(safest.spread * 6 / 30)
    anchor = found.anchor
    assert anchor.share == pytest.approx(share, abs=0.1)
    assert (anchor.share < 1.0) is (share < 1.0)
    assert anchor.distance == pytest.approx(float(np.linalg.norm(update - centre)))
    assert anchor.displacement == pytest.approx(float(np.linalg.norm(rows.mean(axis=0) - centre)) / unit)
    assert anchor.attributable == pytest.approx(accounted_for(rows, np.ones(30), safest.weights, 6) / unit)
    assert anchor.reach == pytest.approx(rho * unit)
    assert anchor.weight_removed == pytest.approx(30 - safest.weights.sum())
    by_few = accounted_for(rows, found.weights, safest.weights, 6)
    assert by_few <= anchor.reach * (1.0 + 1e-9)
    if share < 1.0:
        assert by_few == pytest.approx(anchor.reach)


def test_a_displacement_beyond_reach_is_cut_and_one_far_beyond_is_not_believed() -> None:
    left: list[float] = []
    for pull, stop in ((0.7, Stop.WITHIN_REACH), (1.4, Stop.CUT_TO_REACH), (2.0, Stop.WITHIN_REACH)):
        rows = honest(40, 400)
        rows[:8] += pull / 2.0
        found = Rage(num_byzantine=8)(rows, ALL)
        assert found.stop is stop
        assert found.anchor is not None
        assert found.anchor.distance <= 1.25 * found.anchor.reach  # of which f rows account for the reach at most
        left.append(float(found.weights[:8].sum()))
    assert left[0] == pytest.approx(0.2)
    assert 0.1 < left[1] < 0.2
    assert left[2] < 0.05  # a state after all rows, that of fewer Byzantine ones


def test_of_a_displacement_that_many_cause_few_account_for_a_part() -> None:
    rows = np.concatenate([np.zeros((6, 4)), np.full((6, 4), 1.0)])
    weights, anchor = np.ones(12), np.concatenate([np.ones(6), np.zeros(6)])
    gram = rows @ rows.T
    length, by_three = displaced(gram, weights, anchor, 3)
    assert length == pytest.approx(1.0)
    assert by_three == pytest.approx(0.5)
    assert displaced(gram, weights, anchor, 6)[1] == pytest.approx(1.0)
    assert displaced(gram, anchor, anchor, 3) == (0.0, 0.0)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 1.0])
def test_weights_between_two_have_the_mean_between_theirs(share: float) -> None:
    rng = stream(0, "between")
    rows, above = rng.standard_normal((9, 5)), rng.uniform(0.5, 1.0, 9)
    below = above * rng.uniform(0.0, 1.0, 9)
    found = below + way_to(below, above, share) * (above - below)
    wanted = (1.0 - share) * (below @ rows / below.sum()) + share * (above @ rows / above.sum())
    np.testing.assert_allclose(found @ rows / found.sum(), wanted, rtol=0.0, atol=1e-12)
    assert ((found >= below - 1e-12) & (found <= above + 1e-12)).all()


@pytest.mark.parametrize("name", CLOUDS)
def test_the_certificate_of_a_cut_update_holds_for_every_set_of_honest_rows(name: str) -> None:
    cut = 0
    for seed in range(12):
        rows, bad = cohort(name, seed, most=9)
        found = Rage(num_byzantine=bad, rho=0.3, rejection=100.0, kappa=100.0)(rows, ALL)
        certificate, update = found.certificate, found.update.numpy()
        assert certificate is not None
        cut += found.stop is Stop.CUT_TO_REACH
        again = Certificate.from_evidence(json.loads(json.dumps(certificate.evidence())))
        for kept in combinations(range(len(rows)), len(rows) - bad):
            some = rows[list(kept)]
            sigma = spread_of(some)
            error = float(np.linalg.norm(update - some.mean(axis=0)))
            assert error <= certificate.error_bound(sigma * (1.0 + 1e-9)) + 1e-9 * np.abs(rows).max()
            assert again.error_bound(sigma) == pytest.approx(certificate.error_bound(sigma), rel=1e-6)
    if name not in NEVER_CUT:
        assert cut > 0


@pytest.mark.parametrize("liars", [19, 20, 22, 24])
@pytest.mark.parametrize("distance", [1e3, 1e5])
def test_more_far_rows_than_assumed_are_noticed_and_survived(liars: int, distance: float) -> None:
    rows = honest(50, 300)
    rows[:liars] = distance * np.ones(300) / math.sqrt(300)
    found = Rage(num_byzantine=15)(rows)
    assert found.stop is Stop.MORE_THAN_ASSUMED
    assert found.assumption_violated
    assert found.guard is not None
    assert found.guard.needed is not None
    assert 15 < found.guard.needed <= found.guard.most == 24
    error = float(np.linalg.norm(found.update.numpy() - rows[liars:].mean(axis=0)))
    assert error <= {19: 1.0, 20: 2.0, 22: 7.0, 24: 12.0}[liars] * spread_of(rows[liars:])
    unguarded = Rage(num_byzantine=15)(rows, ALL)
    assert unguarded.guard is None
    assert float(np.linalg.norm(unguarded.update.numpy() - rows[liars:].mean(axis=0))) > error


@pytest.mark.parametrize("told", [1, 5, 15])
def test_idle_clients_that_send_equal_rows_raise_no_alarm(told: int) -> None:
    rows = honest(50, 200)
    rows[:26] = rows[0]
    found = Rage(num_byzantine=told)(rows)
    assert found.guard is not None
    assert not found.guard.alarmed


@pytest.mark.parametrize("dim", [1, 10, 1000])
def test_honest_rows_alone_raise_no_alarm(dim: int) -> None:
    for seed in range(10):
        found = Rage(num_byzantine=8)(honest(40, dim, seed))
        assert found.guard is not None
        assert not found.guard.alarmed, found.guard


@pytest.mark.parametrize("name", CLOUDS)
def test_the_cheap_bound_of_the_typical_distance_is_below_it(name: str) -> None:
    for seed in range(6):
        rng = stream(seed, "typical", name)
        rows, bad = CLOUDS[name](rng, 24, 5, 12), 5
        most = most_byzantine(len(rows), bad)
        exact = typical_square(rows @ rows.T, most)
        if name not in SEVERAL_MEDIANS:
            slow = slow_typical_square(rows, most)
            assert exact == pytest.approx(slow, rel=1e-4, abs=1e-9 * float((rows**2).max()))
        assert typical_square(rows @ rows.T, most, enough=0.0) <= exact * (1.0 + 1e-9)


def test_no_more_than_a_minority_can_be_needed() -> None:
    assert [most_byzantine(50, f) for f in (0, 1, 15, 24)] == [0, 4, 24, 24]
    assert most_byzantine(5, 2) == 2
    assert most_byzantine(4, 2) == 2


def test_where_no_number_explains_the_rows_the_anchor_of_the_assumed_one_is_taken() -> None:
    rows = np.arange(20.0)[:, None] * 1e-3
    rows[11:, 0] = 1e6  # a cluster of 9, and 1 + 3 may be removed
    found = Rage(num_byzantine=1)(rows)
    assert found.guard is not None
    assert (found.guard.most, found.guard.needed, found.guard.alarmed) == (4, None, True)
    assert found.stop is Stop.MORE_THAN_ASSUMED
    assert found.certificate is not None
    assert found.certificate.num_byzantine == 1


def _large_below(enough: int, assumed: int) -> float:
    return 1e6 if assumed < enough else 0.0


def test_the_smallest_number_that_explains_the_rows_is_found() -> None:
    gram = np.eye(50)
    for enough in range(16, 25):
        guard = look_beyond(gram, 15, partial(_large_below, enough))
        assert guard is not None
        assert guard.needed == enough


@pytest.mark.parametrize("number", [150, 250])
def test_every_spread_on_the_path_is_confirmed_though_rows_hide(number: int) -> None:
    rows, _ = hidden_rows(number, 1.2)
    gram = rows @ rows.T
    path = run_filter(gram, number - 40.0, lambda _: -math.inf, confirm="each", reuse_down_to=0.5)
    for state in path.states:
        kept = rows - state.weights @ rows / state.weights.sum()
        top = float(np.linalg.norm(np.sqrt(state.weights)[:, None] * kept, 2)) ** 2
        assert state.confirmed
        assert top * (1.0 - 1e-9) <= state.scatter <= top * 1.011


def test_a_certificate_at_the_anchor_may_be_the_better_one() -> None:
    rows = honest(40, 200)
    rows[0, 0], rows[1, 0] = 30.0, -30.0
    certificate = Rage(num_byzantine=8)(rows, ALL).certificate
    assert certificate is not None
    assert certificate.anchor is not None
    direct = Certificate.from_evidence(certificate.evidence() | {"anchor": None})
    bounds = [(certificate.error_bound(sigma), direct.error_bound(sigma)) for sigma in (1.0, 1.6, 3.0, 10.0)]
    assert all(with_anchor <= without for with_anchor, without in bounds)
    assert any(with_anchor < without for with_anchor, without in bounds)


def test_evidence_of_anchor_and_guard_is_plain_json() -> None:
    rows = honest(50, 100)
    rows[:20] = 1e6
    found = Rage(num_byzantine=15)(rows)
    told = json.loads(json.dumps(found.evidence(), allow_nan=False))
    assert told["guard"]["alarmed"] is True
    assert told["guard"]["assumed"] == 15
    assert told["guard"]["needed"] == found.certificate.num_byzantine > 15  # type: ignore[union-attr]
    again = Certificate.from_evidence(told["certificate"])
    assert again.anchor == found.anchor
    assert again.error_bound() == found.certificate.error_bound()  # type: ignore[union-attr]


def test_nobody_earns_trust_by_good_rounds_or_loses_it_through_others() -> None:
    rows, bad = cohort("staircase", 3)
    names = [f"client {number}" for number in range(len(rows))]
    rule = Rage(num_byzantine=bad)
    fresh = rule(rows, ServerView(clients=names))
    assert fresh.memory == {}
    ruined = {name: torch.from_numpy(-1e6 * row) for name, row in zip(names, rows, strict=True)}
    later = rule(rows, ServerView(round=99, clients=names[::-1], memory=ruined))
    assert later.memory == {}
    assert torch.equal(torch.as_tensor(later.weights), torch.as_tensor(fresh.weights))
    assert np.array_equal(np.asarray(later.update), np.asarray(fresh.update))


def test_rows_that_agree_have_no_displacement() -> None:
    found = Rage(num_byzantine=2)(torch.full((10, 3), 4.0))
    assert found.stop is Stop.ROWS_AGREE
    assert found.anchor is not None
    assert found.anchor.displacement is None


@pytest.mark.parametrize("seed", range(20))
def test_to_start_with_weights_is_to_repeat_rows(seed: int) -> None:
    rng = stream(seed, "repeated")
    rows = rng.standard_normal((8, 5)) * rng.choice([1.0, 10.0], (8, 1))
    times = rng.integers(1, 5, 8)
    gathered = np.repeat(rows, times, axis=0)
    taken = 0.4 * len(gathered)
    slow = run_filter(gathered @ gathered.T, len(gathered) - taken, lambda _: -math.inf)
    share = times / times.max()
    fast = run_filter(rows @ rows.T, share.sum() - taken / times.max(), lambda _: -math.inf, start=share)
    assert len(slow.states) == len(fast.states)
    for one, other in zip(slow.states, fast.states, strict=True):
        summed = np.add.reduceat(one.weights, np.concatenate([[0], np.cumsum(times)[:-1]]))
        np.testing.assert_allclose(other.weights * times.max(), summed, rtol=0.0, atol=1e-9)
        assert other.spread == pytest.approx(one.spread, rel=1e-9)


def pulled(number: int, pull: float) -> Array:
    """Return rows of 400 numbers of which a fifth pulls."""
    rows = honest(number, 400, 3)
    rows[: number // 5] += pull / 2.0
    return rows


@pytest.mark.parametrize(("number", "pull"), [(40, 1.4), (150, 1.2), (150, 2.0)])
def test_the_bound_of_a_cut_update_is_that_of_its_weights_or_that_of_the_anchor_and_their_distance(
    number: int, pull: float
) -> None:
    rows, bad = pulled(number, pull), number // 5
    found = Rage(num_byzantine=bad, rho=0.7, rejection=3.0)(rows, ALL)
    certificate, weights = found.certificate, found.weights.numpy()
    assert found.stop is Stop.CUT_TO_REACH
    assert certificate is not None
    assert certificate.cut is not None
    assert certificate.anchor is not None
    kept = rows - weights @ rows
    top = float(np.linalg.norm(np.sqrt(weights)[:, None] * kept, 2)) ** 2
    assert top * (1.0 - 1e-9) <= found.spread <= top * (1.0 if number <= 128 else 1.011) + 1e-9  # type: ignore[operator]
    if not certificate.steps:
        assert certificate.anchor.share * (certificate.anchor.attributable or 0.0) == pytest.approx(0.7)
    cut, anchor = certificate.cut, certificate.anchor
    plain = replace(certificate, row_rounding=0.0, update_rounding=0.0)
    for sigma in (0.8, 1.5, 4.0):
        lost = [weight_lost(steps, number, bad, sigma) for steps in (cut.steps, plain.steps)]
        lost_by_update = lost[0] + cut.way * (lost[1] - lost[0])
        there = corollary(number, bad, anchor.weight_removed, anchor.spread, lost[0], sigma)
        here = corollary(number, bad, plain.removed, plain.spread, lost_by_update, sigma)
        assert plain.is_consistent(sigma) is math.isfinite(plain.error_bound(sigma))
        if plain.is_consistent(sigma):
            assert plain.error_bound(sigma) == pytest.approx(min(here, there + anchor.distance))
        estimate = plain.as_estimate()
        assert estimate.error_bound(sigma) == pytest.approx(here)
        assert Certificate.from_evidence(estimate.evidence()).error_bound(sigma) == estimate.error_bound(sigma)


def weight_lost(steps: Sequence[Step], number: int, bad: int, sigma: float) -> float:
    """Return U by (7.2) of docs/theory/filter.md."""
    taken = lost = 0.0
    for step in steps:
        share = (number - bad) * sigma**2 / step.scatter + max(0.0, bad - taken + lost) / step.mass
        taken, lost = taken + step.removed, lost + min(1.0, share) * step.removed
    return min(lost, taken)


def corollary(number: int, bad: int, removed: float, spread: float, lost: float, sigma: float) -> float:
    """Return (3.1) of docs/theory/filter.md for weights of which S has lost at most so much."""
    honest_left = number - bad - lost
    return math.sqrt(spread * max(0.0, bad - removed + lost) / honest_left) + sigma * math.sqrt(lost / honest_left)


def test_rounding_of_the_anchors_spread_and_of_the_distance_to_it_is_allowed_for() -> None:
    certificate = Rage(num_byzantine=8, rho=0.0)(pulled(40, 1.4), ALL).certificate
    assert certificate is not None
    assert certificate.anchor is not None
    moved = replace(certificate.anchor, distance=0.5)
    rough = replace(certificate, anchor=moved, spread=1e6, row_rounding=0.3, update_rounding=0.0)
    mass = 40 - rough.removed, 40 - moved.weight_removed
    noise = 0.09 * mass[0] / mass[1]
    lost = weight_lost(rough.probe[: moved.num_steps], 40, 8, math.sqrt(100.0 + 0.09))
    there = corollary(40, 8, moved.weight_removed, moved.spread + noise, lost, math.sqrt(100.0 + noise))
    distance = math.sqrt(0.25 + 0.09 * (1.0 + mass[0] / mass[1]) / 2.0)
    assert rough.error_bound(10.0) == pytest.approx(there + distance)


def test_weights_between_states_are_measured_anew_and_confirmed() -> None:
    rows, _ = hidden_rows(150, 1.2)
    for each in (np.ones(150), np.linspace(0.5, 1.0, 150)):
        state = measured(rows @ rows.T, each, 3, confirm=True)
        kept = rows - each @ rows / each.sum()
        top = float(np.linalg.norm(np.sqrt(each)[:, None] * kept, 2)) ** 2
        assert (state.confirmed, state.num_steps) == (True, 3)
        assert top * (1.0 - 1e-9) <= state.scatter <= top * 1.011


def test_after_an_alarm_the_unit_and_the_rows_that_count_are_those_of_the_raised_bound() -> None:
    rows = honest(50, 300)
    rows[:20] = 1e3 * np.ones(300) / math.sqrt(300)
    found = stop_by_displacement(rows @ rows.T, 15, Reach(1.0, 1.5, 6.0), sampled=True)
    assert found.num_byzantine > 15
    safest = min(found.path.states, key=lambda state: state.spread)
    unit = math.sqrt(safest.spread * found.num_byzantine / 50)
    assert found.anchor.reach == pytest.approx(unit)
    by_few = accounted_for(rows, np.ones(50), safest.weights, int(found.num_byzantine))
    assert found.anchor.attributable == pytest.approx(by_few / unit)
    shift = float(np.linalg.norm(rows.mean(axis=0) - safest.weights @ rows / safest.weights.sum()))
    assert found.anchor.displacement == pytest.approx(shift / unit)


def test_a_displacement_too_large_for_a_number_is_not_believed() -> None:
    rows = 1e160 * honest(6, 1)
    with np.errstate(over="ignore"):
        gram = rows @ rows.T
    weights = np.array([1.0, 1.0, 1.0, 1.0, 1.0, 0.0])
    assert displaced(gram, np.ones(6), weights, 1) == (math.inf, math.inf)


def test_where_the_rows_contradict_the_estimate_the_bound_assumes_nothing_of_the_spread() -> None:
    rows = honest(30, 40)
    rows[:10] *= np.arange(1.0, 11.0)[:, None]  # more honest rows in the tail than may be removed
    certificate = Rage(num_byzantine=6, rho=0.0)(rows, ALL).certificate
    assert certificate is not None
    assert not certificate.is_consistent(certificate.sigma0)
    spread = float(np.linalg.norm(rows - rows.mean(axis=0), 2)) / math.sqrt(30 - 6)
    assert certificate.largest_sigma0 == pytest.approx(spread)
    assert certificate.assumed_sigma0 == certificate.largest_sigma0
    assert certificate.is_consistent()
    assert certificate.error_bound() == certificate.unconditional_bound() < math.inf


def test_an_estimate_says_nothing_of_every_spread() -> None:
    certificate = Rage(num_byzantine=6)(honest(30, 40), ALL).certificate
    assert certificate is not None
    assert certificate.as_estimate().unconditional_bound() == math.inf
    assert certificate.as_estimate().anchor is None


def test_rows_at_the_limit_of_what_is_usable_have_evidence_and_no_bound_whatever_the_spread_is() -> None:
    rows = 1e140 / 8.0 * honest(20, 60) / np.linalg.norm(honest(20, 60), axis=1, keepdims=True)
    found = Rage(num_byzantine=4)(7.9 * np.where(np.arange(20)[:, None] % 2, rows[:1], -rows[:1]))
    assert found.usable.all()
    assert found.certificate is not None
    assert 1e140 <= found.certificate.largest_sigma0 < math.inf
    assert found.certificate.unconditional_bound() == math.inf
    assert json.loads(json.dumps(found.evidence(), allow_nan=False))["certificate"]["unconditional_bound"] is None
