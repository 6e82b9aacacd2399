"""Line 3 of Algorithm 2, decided by certificates, against the solved saddle point."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.oracles import saddle as oracle
from tests.oracles.clouds import CLOUDS
from tests.oracles.saddle import Array, OracleFailedError, SaddlePoint, cp, largest_mean, minimise, solve_saddle_point

from steadfed._core.rng import stream
from steadfed._linalg.spectrum import eigen_directions
from steadfed.aggregators._rage import simplex
from steadfed.aggregators._rage.constants import resilience
from steadfed.aggregators._rage.decided import decide, rank_one_scores
from steadfed.aggregators._rage.saddle import CHECK_EVERY, Iterate, Problem
from steadfed.aggregators._rage.simplex import project_on_capped_simplex

pytestmark = pytest.mark.portable

INSTANCES = [
    (name, number, bad, dimension)
    for name in ("isotropic", "far cluster", "spread attack", "power law", "groups", "heavy tails", "on a line")
    for number, bad, dimension in ((5, 1, 2), (8, 2, 4), (10, 2, 12))
]


def instance(name: str, number: int, bad: int, dimension: int) -> tuple[Array, Array, float]:
    """Return rows, weights as Algorithm 2 leaves them (at least one half), and the cap."""
    rng = stream(0, "saddle", name, number)
    rows = CLOUDS[name](rng, number, bad, dimension)
    return rows, rng.uniform(0.5, 1.0, number), 1.0 / (resilience(bad / number) * number)


@pytest.fixture(scope="module", params=INSTANCES, ids=lambda instance: "-".join(map(str, instance)))
def solved(request: pytest.FixtureRequest) -> tuple[Array, Array, float, float, SaddlePoint]:
    """Return rows, weights, cap, α and the solved saddle point."""
    rows, weights, cap = instance(*request.param)
    _, number, bad, _ = request.param
    return rows, weights, cap, 1.0 - bad / number, solve_saddle_point(rows.T, weights, cap)


Solved = tuple[Array, Array, float, float, SaddlePoint]


def test_the_solved_saddle_point_is_one(solved: Solved) -> None:
    rows, weights, cap, _, point = solved
    assert np.linalg.eigvalsh(point.y_star)[0] >= -1e-12
    assert np.trace(point.y_star) <= 1.0 + 1e-12
    assert point.w_star.min() >= 0.0
    assert point.w_star.max() <= cap * (1.0 + 1e-9)
    np.testing.assert_allclose(point.w_star.sum(axis=0), 1.0, rtol=1e-9)
    assert float(weights @ point.tau) == pytest.approx(point.value, rel=1e-6)
    deviations = rows.T - rows.T @ point.w_star
    tau = np.einsum("ki,kl,li->i", deviations, point.y_star, deviations)
    np.testing.assert_allclose(point.tau, tau, rtol=1e-9, atol=1e-9 * point.value)


def test_the_oracle_refuses_what_it_cannot_prove(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, weights, cap = instance("far cluster", 8, 2, 4)
    number = len(rows)
    exact = next(oracle._solutions(rows.T - rows.mean(axis=0)[:, None], weights, cap))  # noqa: SLF001
    means = np.full((number, number), 1.0 / number), exact[1]
    monkeypatch.setattr(oracle, "_solutions", lambda *_: iter([means]))
    with pytest.raises(OracleFailedError, match="was proved to a relative gap"):
        solve_saddle_point(rows.T, weights, cap)
    monkeypatch.setattr(oracle, "_solutions", lambda *_: iter([means, exact]))  # the next tolerance is tried
    assert solve_saddle_point(rows.T, weights, cap).lower > 0.0


@pytest.mark.parametrize("factor", [0.9, 0.99, 0.999, 1.001, 1.01, 1.1])
def test_the_decision_is_right_on_either_side_of_the_value(factor: float, solved: Solved) -> None:
    rows, weights, cap, alpha, point = solved
    saddle = decide(rows @ rows.T, weights, cap, factor * point.value, alpha)
    assert saddle.decided
    assert (saddle.tau is not None) == (factor < 1.0)


@pytest.mark.parametrize("factor", [0.5, 0.9, 0.99, 1.01, 1.1, 2.0])
def test_the_bounds_enclose_the_value(factor: float, solved: Solved) -> None:
    rows, weights, cap, alpha, point = solved
    saddle = decide(rows @ rows.T, weights, cap, factor * point.value, alpha)
    assert saddle.lower <= point.value * (1.0 + 1e-6)
    assert saddle.upper >= point.value * (1.0 - 1e-6)


@pytest.mark.parametrize("factor", [0.5, 0.9, 0.99])
def test_scores_are_large_enough_to_filter_with(factor: float, solved: Solved) -> None:
    rows, weights, cap, alpha, point = solved
    threshold = factor * point.value
    saddle = decide(rows @ rows.T, weights, cap, threshold, alpha)
    assert saddle.tau is not None
    assert saddle.tau.min() >= 0.0
    assert saddle.excess >= 0.0
    assert float(weights @ saddle.tau) >= (threshold + 4.0 * saddle.excess / alpha) * (1.0 - 1e-12)


def test_filtering_is_decided_by_the_first_iterate_that_the_proof_allows(solved: Solved) -> None:
    """Which is the first with Φ(W, Y) ≥ threshold + 4 excess / α, where excess = Φ(W, Y) − lower²."""
    rows, weights, cap, alpha, point = solved
    threshold = 0.95 * point.value
    saddle = decide(rows @ rows.T, weights, cap, threshold, alpha)
    problem = Problem.of(rows @ rows.T, weights, cap)
    iterate = Iterate(problem, problem.mean)
    for number in range(1, saddle.num_iterations + 1):
        iterate.advance()
        if number % CHECK_EVERY == 0:
            value = float(((iterate.root_y @ problem.residual(iterate.w_matrix)) ** 2).sum()) * problem.scale**2
            lower = max(0.0, problem.lower(iterate.nuclear)) ** 2 * problem.scale**2
            allowed = value >= threshold + 4.0 * max(0.0, value - lower) / alpha
            assert allowed == (number == saddle.num_iterations)


@pytest.mark.parametrize("offset", [1.0, 1e3])
def test_a_common_shift_does_not_change_the_decision(offset: float) -> None:
    rows, weights, cap = instance("far cluster", 8, 2, 4)
    value = solve_saddle_point(rows.T, weights, cap).value
    shifted = rows + offset
    for factor in (0.97, 1.03):
        saddle = decide(shifted @ shifted.T, weights, cap, factor * value, 0.75)
        assert (saddle.tau is not None) == (factor < 1.0)


@pytest.mark.parametrize("seed", range(12))
def test_the_honest_rows_lose_at_most_a_quarter_of_alpha_of_a_step(seed: int) -> None:
    rng = stream(seed, "honest share")
    number, bad = 10, 2
    rows = CLOUDS["far cluster"](rng, number, bad, 4)
    weights = np.concatenate([rng.uniform(0.5, 1.0, bad), rng.uniform(0.9, 1.0, number - bad)])
    cap = 1.0 / (resilience(bad / number) * number)
    alpha = 1.0 - bad / number
    honest = rows[bad:] - rows[bad:].mean(axis=0)
    sigma0 = float(np.linalg.norm(honest, 2)) / math.sqrt(len(honest))
    saddle = decide(rows @ rows.T, weights, cap, 4.0 * number * sigma0**2, alpha)
    if saddle.tau is None:
        assert solve_saddle_point(rows.T, weights, cap).value <= 4.0 * number * sigma0**2 * (1.0 + 1e-6)
        return
    energy = weights * saddle.tau
    assert energy[bad:].sum() <= alpha / 4.0 * energy.sum() * (1.0 + 1e-9)


@pytest.mark.parametrize("seed", range(8))
def test_rank_one_scores_are_the_best_response_to_every_direction(seed: int) -> None:
    rng = stream(seed, "rank one")
    number = int(rng.integers(3, 9))
    coordinates, weights = rng.standard_t(2.0, (number, 3)), rng.uniform(0.5, 1.0, number)
    cap = float(rng.uniform(1.0 / number, 1.0))
    total, tau = rank_one_scores(coordinates, weights, cap)
    expected = [[_nearest_reachable(p, i, cap) for i in range(number)] for p in coordinates.T]
    totals = [float(weights @ scores) for scores in expected]
    assert total == pytest.approx(max(totals), rel=1e-6, abs=1e-7)
    np.testing.assert_allclose(tau, expected[int(np.argmax(totals))], rtol=1e-5, atol=1e-7)


def _nearest_reachable(p: Array, i: int, cap: float) -> float:
    """Return min over w in the capped simplex of (p_i − ⟨w, p⟩)², by a quadratic program."""
    w = cp.Variable(len(p))
    problem = cp.Problem(cp.Minimize(cp.square(p[i] - p @ w)), [w >= 0.0, w <= cap, cp.sum(w) == 1.0])
    return minimise(problem, 1e-10)


def test_the_rank_one_value_is_a_lower_bound_of_the_saddle_value(solved: Solved) -> None:
    rows, weights, cap, _, point = solved
    directions = eigen_directions(rows @ rows.T, weights, 4)
    lower, tau = rank_one_scores(directions.coordinates, weights, cap)
    assert lower <= point.value * (1.0 + 1e-6)
    assert float(weights @ tau) == pytest.approx(lower)


def test_a_full_cap_leaves_the_mean_as_the_only_response() -> None:
    p = np.array([0.0, 1.0, 2.0, 9.0])
    total, tau = rank_one_scores(p[:, None], np.ones(4), 0.25)
    np.testing.assert_allclose(tau, (p - 3.0) ** 2)
    assert total == pytest.approx(50.0)


def test_without_a_cap_every_row_responds_to_itself() -> None:
    total, tau = rank_one_scores(np.array([[0.0], [1.0], [9.0]]), np.ones(3), 1.0)
    assert total == 0.0
    assert not tau.any()


@pytest.mark.parametrize("seed", range(10))
def test_the_projection_is_the_nearest_point_of_the_capped_simplex(seed: int) -> None:
    rng = stream(seed, "projection")
    number = int(rng.integers(2, 12))
    matrix = 10.0 ** rng.uniform(-2.0, 2.0) * rng.standard_t(3.0, (number, 3))
    cap = float(rng.uniform(1.0 / number, 1.0))
    projected, _ = project_on_capped_simplex(matrix, cap)
    w = cp.Variable(matrix.shape)
    problem = cp.Problem(cp.Minimize(cp.sum_squares(w - matrix)), [w >= 0.0, w <= cap, cp.sum(w, axis=0) == 1.0])
    minimise(problem, 1e-12)
    np.testing.assert_allclose(projected, w.value, atol=1e-5)


@pytest.mark.parametrize("seed", range(20))
def test_a_projection_is_feasible_and_separated_from_the_rest_of_the_set(seed: int) -> None:
    rng = stream(seed, "variational inequality")
    number = int(rng.integers(1, 60))
    matrix = 10.0 ** rng.uniform(-3.0, 6.0) * rng.standard_normal((number, 7))
    cap = float(rng.choice([1.0 / number, rng.uniform(1.0 / number, 1.0), 1.0]))
    projected, shift = project_on_capped_simplex(matrix, cap)
    again, _ = project_on_capped_simplex(matrix, cap, shift + rng.standard_normal(7))
    scale = max(1.0, float(np.abs(matrix).max()))
    np.testing.assert_allclose(projected.sum(axis=0), 1.0, atol=1e-12 * scale)
    assert projected.min() >= 0.0
    assert projected.max() <= cap
    np.testing.assert_allclose(again, projected, atol=1e-12 * scale)
    for v, w in zip(matrix.T, projected.T, strict=True):
        assert largest_mean(v - w, cap) - float((v - w) @ w) <= 1e-10 * scale


def test_a_projection_takes_few_steps_and_fewer_from_a_good_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Halving the bracket alone would take fifty."""
    rng = stream(0, "newton")
    matrix = rng.standard_normal((40, 30))
    monkeypatch.setattr(simplex, "NEWTON_STEPS", 12)
    projected, shift = project_on_capped_simplex(matrix, 0.06)
    np.testing.assert_allclose(projected.sum(axis=0), 1.0, atol=1e-13)
    monkeypatch.setattr(simplex, "NEWTON_STEPS", 4)
    nearby, _ = project_on_capped_simplex(matrix + 1e-3 * rng.standard_normal((40, 30)), 0.06, shift)
    np.testing.assert_allclose(nearby.sum(axis=0), 1.0, atol=1e-13)


def test_a_point_of_the_capped_simplex_is_its_own_projection() -> None:
    matrix = np.array([[0.5, 0.25], [0.5, 0.25], [0.0, 0.5]])
    np.testing.assert_allclose(project_on_capped_simplex(matrix, 0.5)[0], matrix, atol=1e-14)
