"""Random coordinates: identities of the proof, the bounds against recursions and measured runs, and where they end."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from benchmarks.theory.cases import Case
from hypothesis import given, strategies as st
from tests.theory.problems import CASES, EVERY_ATTACK, LABELS, QUADRATIC, SEARCHING, Mode, assert_below, mean_and_error
from tests.theory.test_nonconvex import Hills, heights

from steadfed._core.coordinates import coordinates_of, seed_of_round
from steadfed._core.rng import stream
from steadfed.aggregators import Mean
from steadfed.attacks import ATTACKS, Mimic
from steadfed.errors import ParameterError
from steadfed.simulation import Federation, RandomK
from steadfed.theory import Problem, Protocol, compression, guarantees, planner, sharp
from steadfed.theory._statements import expected, shared

STANDARD_ERRORS = 3.0
STEPS: dict[str, Any] = {"lr": 0.2, "local_steps": 3, "smoothness": 2.0, "strong_convexity": 0.4}
REMEMBERING = tuple(name for name in ATTACKS if "warm_up" in ATTACKS[name].model_fields and ATTACKS[name] is not Mimic)
ATTACKED = tuple(name for name in EVERY_ATTACK if name not in {*LABELS, *SEARCHING, *REMEMBERING})


def test_the_projection_has_the_moments_that_the_proof_uses() -> None:
    """E P = θ I and E‖P z‖² = θ‖z‖², over rounds; the error is that of 4,000 draws."""
    number, dim, rounds = 3, 10, 4_000
    z = stream(0, "z").standard_normal(dim)
    kept = np.zeros((rounds, dim))
    for round in range(rounds):
        kept[round, coordinates_of(seed_of_round(1, round), number, dim)] = 1.0
    np.testing.assert_allclose(kept.mean(0), number / dim, atol=4.0 * math.sqrt(0.21 / rounds))
    lengths = ((kept * z) ** 2).sum(1)
    assert lengths.mean() == pytest.approx(0.3 * float(z @ z), abs=4.0 * lengths.std() / math.sqrt(rounds))


def test_projected_rows_spread_no_more_and_on_average_a_share_of_the_trace() -> None:
    rows = stream(0, "rows").standard_normal((9, 10)) * np.linspace(0.1, 3.0, 10)
    centred = rows - rows.mean(0)
    whole, traces = np.linalg.norm(centred, 2) ** 2, []
    for seed in range(2_000):
        part = centred[:, coordinates_of(seed, 4, 10)]
        assert np.linalg.norm(part, 2) ** 2 <= whole * (1.0 + 1e-12)
        traces.append(float((part**2).sum()))
    error = 4.0 * float(np.std(traces)) / math.sqrt(len(traces))
    assert np.mean(traces) == pytest.approx(0.4 * float((centred**2).sum()), abs=error)


positive = st.floats(1e-3, 1e3)


@given(
    share=st.floats(1e-3, 1.0), start=positive, error=st.sampled_from([0.0, 1e-3, 0.5, 30.0]), steps=st.integers(1, 8)
)
def test_the_closed_form_is_above_the_recursion_that_is_proved(
    share: float, start: float, error: float, steps: int
) -> None:
    numbers: dict[str, Any] = {**STEPS, "local_steps": steps}
    kept, eta = (1.0 - 0.2 * 0.4) ** steps, 0.2
    begun: dict[str, Any] = {"coordinates": share, "distance": start**2, "error": error}
    bounds = np.sqrt(compression.distance_bound(range(41), **begun, **numbers))
    distance = start
    for bound in bounds:
        assert distance <= bound * (1.0 + 1e-12)
        distance = math.sqrt((1.0 - share) * distance**2 + share * (kept * distance + eta * error) ** 2)
    after = math.sqrt((1.0 - share) * start**2 + share * (kept * start + eta * error) ** 2)
    assert bounds[1] == pytest.approx(after, rel=1e-9)  # after one round it is the recursion itself


@pytest.mark.parametrize("error", [0.0, 0.1, 50.0])
@pytest.mark.parametrize("start", [0.0, 1e-6, 4.0, 1e6])
def test_all_coordinates_give_the_bounds_without_compression(start: float, error: float) -> None:
    rounds = np.array([0, 1, 2, 10, 1000, 10**6])
    whole = sharp.distance_bound(rounds, distance=start, error=error, **STEPS)
    np.testing.assert_allclose(
        compression.distance_bound(rounds, coordinates=1.0, distance=start, error=error, **STEPS), whole, rtol=1e-10
    )
    steps: dict[str, Any] = {"lr": 0.02, "local_steps": 3, "smoothness": 2.0}
    np.testing.assert_array_equal(
        compression.gradient_bound(rounds, coordinates=1.0, gap=start, error=error, **steps),
        sharp.gradient_bound(rounds, gap=start, error=error, **steps),
    )


@pytest.mark.parametrize("share", [0.5, 0.01, 1e-6])
def test_the_floor_does_not_depend_on_the_share_and_the_rounds_are_in_inverse_proportion(share: float) -> None:
    rounds = np.array([10**9])
    floor = sharp.distance_floor(error=0.3, **STEPS)
    found = compression.distance_bound(rounds, coordinates=share, distance=9.0, error=0.3, **STEPS)
    assert found[0] == pytest.approx(floor, rel=1e-9)
    few, many = (
        compression.distance_bound([1.0 / each], coordinates=each, distance=1e6, error=0.3, **STEPS)[0]
        for each in (1e-3, share)
    )
    assert 0.4 < few / many < 2.5


def test_edges_of_the_distance_bound() -> None:
    """A start at the minimum, a round that forgets all, no error, and the start at the floor itself."""
    every: dict[str, Any] = {"lr": 1.0, "local_steps": 1, "smoothness": 1.0, "strong_convexity": 1.0}
    at_once = compression.distance_bound([0, 1, 2], coordinates=0.5, distance=4.0, error=0.0, **every)
    np.testing.assert_allclose(at_once, [4.0, 2.0, 1.0])
    assert compression.distance_bound([0, 5], coordinates=0.5, distance=0.0, error=0.0, **every).tolist() == [0.0, 0.0]
    floor = sharp.distance_floor(error=2.0, **STEPS)
    resting = compression.distance_bound([0, 3, 99], coordinates=0.3, distance=floor, error=2.0, **STEPS)
    np.testing.assert_allclose(resting, floor)
    assert compression.distance_bound([0, 1], coordinates=1.0, distance=4.0, error=0.0, **every).tolist() == [4.0, 0.0]


@pytest.mark.parametrize("share", [0.0, -0.1, 1.1, True, math.nan, "half", None])
def test_shares_that_are_none_are_refused(share: Any) -> None:
    with pytest.raises(ParameterError, match="coordinates must be a share above 0 and at most 1"):
        compression.distance_bound([1], coordinates=share, distance=1.0, error=1.0, **STEPS)
    with pytest.raises(ParameterError, match="coordinates"):
        Protocol(num_clients=9, cohort_size=9, assumed_byzantine=1, lr=0.1, rounds=3, coordinates=share)


def measured(case: Case, seeds: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    return mean_and_error([replace(case, seed=seed).distances() for seed in range(seeds)])


def check(case: Case, seeds: int) -> float:
    """Check the mean over seeds in every round; return the largest share of the bound that was reached after half."""
    rounds = np.arange(case.rounds + 1)
    papers, own = case.guarantees[:2]
    assert own.holds
    assert own.reading in shared.MEANS
    assert papers.is_vacuous
    mean, error = measured(case, seeds)
    assert_below(mean - STANDARD_ERRORS * error, own.bound(rounds), (case.attack, case.local_steps, case.mode))
    return float((mean / own.bound(rounds))[case.rounds // 2 :].max())


@pytest.mark.parametrize("steps", [1, 5])
@pytest.mark.parametrize("number", [1, 3])
@pytest.mark.parametrize("kind", CASES)
def test_runs_with_full_batches_stay_below_the_bound(kind: str, number: int, steps: int) -> None:
    for attack in ("none", "alie", "sign-flip", "min-max"):
        check(replace(CASES[kind], coordinates=number, attack=attack, local_steps=steps, rounds=12), 3)


@pytest.mark.parametrize("attack", ATTACKED)
def test_no_attack_takes_the_mean_above_the_bound(attack: str) -> None:
    named = "mimic-at-once" if attack == "mimic" else attack
    check(replace(QUADRATIC, coordinates=2, attack=named, rounds=6), 3)


@pytest.mark.parametrize("kind", CASES)
def test_runs_with_mini_batches_stay_below_the_bound(kind: str) -> None:
    for attack in ("none", "alie", "min-max"):
        case = replace(
            CASES[kind], batch_size=2, step=1 / 8, assumed=4, slack=1 / 16, coordinates=2, attack=attack, rounds=10
        )
        check(case, 5)
        likely = case.guarantees[2]
        assert likely.reading == shared.LIKELY_OVER_COORDINATES
        assert likely.failure == 0.01
        mean, error = measured(case, 5)
        assert_below(mean - STANDARD_ERRORS * error, likely.bound(np.arange(case.rounds + 1)), attack)


@pytest.mark.parametrize("mode", ["known", "exact"])
def test_modes_that_are_told_the_spread_stay_below_their_bounds(mode: Mode) -> None:
    case = replace(QUADRATIC, mode=mode, attack="alie", coordinates=2, rounds=12)
    check(case, 3)
    assert case.guarantees[1].floor > replace(case, coordinates=None).guarantees[1].floor


def test_the_bound_is_nearly_attained_without_error() -> None:
    """All curvatures alike and nobody different: the distance falls by 1 − θ + θρ²ᴴ a round in the mean, exactly."""
    case = Case(dim=6, num_clients=4, num_points=1, heterogeneity=0.0, noise=0.0, strong_convexity=1.0, start=4.0,
                cohort_size=4, num_byzantine=0, assumed=0, local_steps=2, rounds=12, coordinates=2)  # fmt: skip
    mean, error = measured(case, 40)
    bound = case.guarantees[1].bound(np.arange(case.rounds + 1))
    np.testing.assert_allclose(mean, bound, atol=4.0 * float(error.max()))


def test_the_mean_under_attack_is_above_the_bound_of_the_filter() -> None:
    case = replace(QUADRATIC, attack="reversed-gradient", heterogeneity=0.1, coordinates=3, rule=Mean(), rounds=30)
    with pytest.raises(AssertionError, match="rounds"):
        check(case, 3)


def hills(number: int, attack: str, seed: int, rounds: int) -> np.ndarray[Any, Any]:
    """Return (1/N) Σ_{k<N} ‖∇F(x_k)‖² of a run on cosines about so many coordinates."""
    case, found = Hills(attack=attack, seed=seed, rounds=rounds), []
    config = case.config(compression=RandomK(coordinates=number), engine="auto")
    with Federation(config, dataset=case.dataset) as played:
        state = played.start()
        for _ in range(rounds):
            found.append(float((heights(case.dim) * state.model.sin()).square().sum()))
            state, _ = played.play(state)
    return np.asarray(np.cumsum(found) / np.arange(1, rounds + 1))


@pytest.mark.parametrize("attack", ["none", "alie", "min-max", "sign-flip"])
def test_the_mean_gradient_of_a_non_convex_run_stays_below_the_bound(attack: str) -> None:
    number, rounds = 2, 12
    case = Hills(attack=attack, rounds=rounds)
    protocol = Protocol(
        num_clients=24, cohort_size=16, num_byzantine=3, assumed_byzantine=3, local_steps=5, lr=0.2 / 10, rounds=rounds,
        coordinates=number / case.dim,
    )  # fmt: skip
    own = expected(case.problem, protocol)
    assert own.holds
    mean, error = mean_and_error([hills(number, attack, seed, rounds) for seed in range(4)])
    assert_below(mean - STANDARD_ERRORS * error, own.bound(np.arange(1, rounds + 1)), attack)


PROBLEM = Problem(smoothness=1.0, strong_convexity=0.1, gradient_variance=1.0, dissimilarity=0.1, distance=9e4)
PROTOCOL = Protocol(num_clients=100, cohort_size=40, assumed_byzantine=8, num_byzantine=8, lr=0.1, rounds=400)


def test_statements_say_that_they_are_about_coordinates_and_the_paper_says_nothing() -> None:
    papers, own = guarantees(PROBLEM, PROTOCOL.with_changes(coordinates=0.1))
    assert [each.name for each in papers.conditions if not each.passed] == ["whole updates"]
    assert "k = d: 0.1 < 1" in str(papers)
    assert math.isinf(papers.floor)
    assert own.theorem == "Theorem 1 of compression.md, strongly convex"
    assert own.reading == shared.OVER_COORDINATES
    assert "nobody knows the coordinates of a round before it" in own.rests_on
    whole = guarantees(PROBLEM, PROTOCOL)[1]
    assert (own.floor, own.lr_limit, own.sigma0) == (whole.floor, whole.lr_limit, whole.sigma0)
    assert whole.theorem == "Theorem 1 of convergence.md, strongly convex"
    assert whole.reading == shared.SURELY


def test_the_planner_asks_for_about_as_many_rounds_more_as_there_are_coordinates_less() -> None:
    number = {
        share: planner.rounds_for(
            PROBLEM, PROTOCOL.with_changes(coordinates=share), target=100.0, theorem=expected
        ).value
        for share in (1.0, 0.1, 0.01)
    }
    assert 8.0 * number[1.0] < number[0.1] < 12.0 * number[1.0]
    assert 80.0 * number[1.0] < number[0.01] < 120.0 * number[1.0]


@pytest.mark.parametrize("start", [0.0, 0.5, 3.0, 50.0])
@pytest.mark.parametrize("share", [0.05, 0.5, 1.0])
@pytest.mark.parametrize("gaps", [(1, 8), (5, 2, 1), (3, 3)])
def test_the_bound_for_gaps_that_differ_is_above_the_recursion_and_ends_at_its_floor(
    gaps: tuple[int, ...], share: float, start: float
) -> None:
    lr, strength = 0.2, 0.7
    errors = [0.3 * steps + 0.1 for steps in gaps]
    numbers = {"lr": lr, "smoothness": 1.0, "strong_convexity": strength}
    number = np.arange(400)
    bound = compression.distance_bound(
        number, coordinates=share, distance=start**2, error=errors, local_steps=gaps, **numbers
    )
    reached = start
    for k in number.tolist():
        assert reached**2 <= bound[k] * (1.0 + 1e-12) + 1e-15
        moved = (1.0 - lr * strength) ** gaps[k % len(gaps)] * reached + lr * errors[k % len(gaps)]
        reached = math.sqrt((1.0 - share) * reached**2 + share * moved**2)
    floor = compression.distance_floor(error=errors, local_steps=gaps, **numbers)
    far = compression.distance_bound(
        [10**6], coordinates=share, distance=start**2, error=errors, local_steps=gaps, **numbers
    )
    assert far[0] == pytest.approx(floor, rel=1e-9)
