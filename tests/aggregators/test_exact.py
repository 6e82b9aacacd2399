"""Algorithm 2, exact and lazy: against the literal one, and against what its proof promises."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import numpy as np
import pytest
from tests.oracles.algorithm2 import algorithm_2
from tests.oracles.clouds import CLOUDS
from tests.oracles.saddle import Array

from steadfed._core.rng import stream
from steadfed.aggregators import Rage, Stop
from steadfed.aggregators._rage.constants import exact_constant, resilience
from steadfed.aggregators._rage.decided import _mean_bound
from steadfed.aggregators._rage.exact import ExactFiltering, run_exact, run_lazy

pytestmark = pytest.mark.portable

SEEDS = 12
RUNS = pytest.mark.parametrize("run", [run_exact, run_lazy])
Run = Callable[[Array, int, float], ExactFiltering]


def spread_of(rows: Array) -> float:
    """Return √λ_max of the covariance."""
    return float(np.linalg.norm(rows - rows.mean(axis=0), 2)) / math.sqrt(len(rows))


def promised_cloud(name: str, seed: int, most: int) -> tuple[Array, int, float]:
    """Return rows of which the first f are bad, f, and the σ₀ that the others keep to."""
    rng = stream(seed, "exact", name)
    number = int(rng.integers(4, most + 1))
    bad = int(rng.integers(1, max(2, int(0.36 * number) + 1)))
    rows = CLOUDS[name](rng, number, bad, int(rng.integers(1, 12)))
    return rows, bad, max(spread_of(rows[bad:]), 1e-6)


def about_a_row(rows: Array) -> Array:
    """Return the Gram matrix about one of the rows."""
    centred = rows - rows[-1]
    return np.asarray(centred @ centred.T)


@RUNS
@pytest.mark.parametrize("name", CLOUDS)
def test_no_more_promised_rows_are_dropped_than_the_proof_allows(name: str, run: Run) -> None:
    for seed in range(SEEDS):
        rows, bad, sigma0 = promised_cloud(name, seed, 40)
        found = run(about_a_row(rows), bad, sigma0)
        assert found.refused is None
        assert found.active[bad:].sum() >= resilience(bad / len(rows)) * len(rows) - 1e-9


@pytest.mark.parametrize("mode", ["exact", "lazy"])
@pytest.mark.parametrize("name", CLOUDS)
def test_the_error_is_below_the_proved_constant(name: str, mode: Literal["exact", "lazy"]) -> None:
    for seed in range(SEEDS):
        rows, bad, sigma0 = promised_cloud(name, seed, 40)
        found = Rage(num_byzantine=bad, mode=mode, sigma0=sigma0)(rows)
        error = float(np.linalg.norm(found.update.numpy() - rows[bad:].mean(axis=0)))
        epsilon = bad / len(rows)
        assert error <= exact_constant(epsilon) * sigma0 * math.sqrt(epsilon) + 1e-9 * np.abs(rows).max()


@RUNS
@pytest.mark.parametrize("name", CLOUDS)
def test_honest_rows_lose_at_most_a_quarter_of_alpha_of_the_weight_taken(name: str, run: Run) -> None:
    for seed in range(SEEDS):
        rows, bad, sigma0 = promised_cloud(name, seed, 40)
        found = run(about_a_row(rows), bad, sigma0)
        alpha = 1.0 - bad / len(rows)
        for step in found.steps:
            assert step.scatter >= 4.0 * (len(rows) * sigma0**2 + step.excess / alpha) * (1.0 - 1e-9)
        taken = sum(step.removed for step in found.steps)
        assert taken * (1.0 - alpha / 4.0) <= bad + 1e-9
        assert sum(step.dropped for step in found.steps) == (~found.active).sum()


def test_the_proof_holds_where_only_an_approximate_saddle_point_decides() -> None:
    undecided_by_closed_forms = 0
    for seed in range(6):
        rng = stream(seed, "approximate")
        rows = rng.standard_normal((20, 6))
        sigma0 = spread_of(rows[5:])
        for scale in np.geomspace(2.0, 6.0, 8).tolist():
            attacked = rows.copy()
            attacked[:5] *= scale
            run = run_lazy(about_a_row(attacked), 5, sigma0)
            undecided_by_closed_forms += run.num_eigensolves > len(run.steps) + 1
            assert run.refused is None
            assert run.active[5:].sum() >= resilience(0.25) * 20 - 1e-9
    assert undecided_by_closed_forms >= 5


@RUNS
@pytest.mark.parametrize("name", ["isotropic", "far cluster", "spread attack", "staircase", "groups", "heavy tails"])
def test_both_versions_filter_when_the_literal_one_does(run: Run, name: str) -> None:
    for seed in range(4):
        rows, bad, sigma0 = promised_cloud(name, seed, 10)
        literal = algorithm_2(rows, bad, sigma0)
        threshold = 4.0 * len(rows) * sigma0**2
        if abs(literal.saddle_points[0].value / threshold - 1.0) < 1e-3:
            continue
        assert bool(run(about_a_row(rows), bad, sigma0).steps) == (len(literal.saddle_points) > 1)
        assert not literal.assumption_violated


@pytest.mark.parametrize("name", ["far cluster", "spread attack", "staircase"])
def test_both_versions_keep_what_the_proof_promises(name: str) -> None:
    for seed in range(4):
        rows, bad, sigma0 = promised_cloud(name, seed, 10)
        epsilon = bad / len(rows)
        literal = algorithm_2(rows, bad, sigma0)
        lazy, exact = (run(about_a_row(rows), bad, sigma0) for run in (run_lazy, run_exact))
        honest = [i for i in literal.active if i >= bad]
        assert len(honest) >= resilience(epsilon) * len(rows) - 1e-9
        mean = rows[bad:].mean(axis=0)
        for update in (literal.update, rows[lazy.active].mean(axis=0), rows[exact.active].mean(axis=0)):
            assert np.linalg.norm(update - mean) <= exact_constant(epsilon) * sigma0 * math.sqrt(epsilon)


@RUNS
@pytest.mark.parametrize("seed", range(3))
def test_both_versions_drop_rows_that_are_beyond_doubt_and_no_other(seed: int, run: Run) -> None:
    rng = stream(seed, "beyond doubt")
    rows = rng.standard_normal((9, 3))
    rows[:2] += 1e4 * rng.standard_normal((2, 3))
    sigma0 = spread_of(rows[2:])
    assert algorithm_2(rows, 2, sigma0).active == list(range(2, 9))
    assert np.flatnonzero(run(about_a_row(rows), 2, sigma0).active).tolist() == list(range(2, 9))


@RUNS
@pytest.mark.parametrize("factor", [0.97, 1.03])
@pytest.mark.parametrize("seed", range(6))
def test_the_threshold_is_met_from_either_side(seed: int, factor: float, run: Run) -> None:
    rng = stream(seed, "threshold")
    rows = rng.standard_normal((9, 4))
    rows[:2] *= 6.0
    value = algorithm_2(rows, 2, 1e6).saddle_points[0].value
    found = run(about_a_row(rows), 2, math.sqrt(factor * value / (4.0 * 9)))
    assert bool(found.steps or found.refused) == (factor < 1.0)


@pytest.mark.parametrize("mode", ["exact", "lazy"])
def test_a_promise_that_is_far_too_small_is_refused_and_nobody_is_left_out(mode: Literal["exact", "lazy"]) -> None:
    rows = stream(0, "refused").standard_normal((20, 5))
    run = (run_exact if mode == "exact" else run_lazy)(about_a_row(rows), 4, 1e-3)
    assert run.refused is not None
    assert run.active.sum() >= resilience(0.2) * 20
    found = Rage(num_byzantine=4, mode=mode, sigma0=1e-3)(rows)
    assert found.stop is Stop.SPREAD_STAYS_LARGE
    assert found.assumption_violated
    assert found.certificate is not None
    assert not found.certificate.is_consistent()
    assert found.certificate.error_bound() == math.inf


@RUNS
def test_mirror_images_do_not_empty_the_cohort(run: Run) -> None:
    rows = np.where(np.arange(16) % 2, 1.0, -1.0)[:, None] * np.ones((16, 3))
    found = run(about_a_row(rows), 3, 0.01)
    assert found.refused is not None
    assert found.active.all()


@RUNS
def test_just_as_many_rows_may_be_left_as_the_cap_needs(run: Run) -> None:
    """For f = 5 of n = 15, t·n is 8: means of eight rows reach 0 and 7/8, so seven rows at 1 have τ = 1/64, eight 0."""
    assert resilience(1.0 / 3.0) * 15 == pytest.approx(8.0)
    rows = np.repeat([[0.0], [1.0]], [8, 7], axis=0)
    found = run(about_a_row(rows), 5, 0.01)
    assert found.refused is None
    assert np.flatnonzero(found.active).tolist() == list(range(8))
    assert [step.dropped for step in found.steps] == [7]
    assert found.steps[0].scatter == pytest.approx(7.0 / 64.0)


@RUNS
def test_equal_rows_are_all_kept(run: Run) -> None:
    found = run(np.zeros((7, 7)), 2, 1.0)
    assert found.active.all()
    assert not found.steps


def test_no_byzantine_row_means_the_plain_mean() -> None:
    rows = stream(0, "none").standard_normal((6, 4))
    found = Rage(num_byzantine=0, mode="exact", sigma0=5.0)(rows)
    np.testing.assert_allclose(found.update.numpy(), rows.mean(axis=0), rtol=1e-12)
    assert found.stop is Stop.NOTHING_TO_FILTER


def test_the_quick_bound_is_the_largest_value_of_the_better_mean_that_the_cap_allows() -> None:
    """With W the mean g of the rows, plain or weighted, max_Y Φ is λ_max(Σ c_i (g_i − g)(g_i − g)ᵀ)."""
    rng = stream(0, "quick bound")
    rows, c = rng.standard_normal((9, 4)) + 2.0, rng.uniform(0.5, 1.0, 9)

    def largest(mean: Array) -> float:
        return float(np.linalg.norm(np.sqrt(c)[:, None] * (rows - mean), 2)) ** 2

    plain, weighted = largest(rows.mean(axis=0)), largest(np.average(rows, axis=0, weights=c))
    assert weighted < plain
    most = c.max() / c.sum()
    gram = rows @ rows.T
    assert _mean_bound(gram, c, 1.01 * most, weighted) == pytest.approx(weighted, rel=1e-12)
    assert _mean_bound(gram, c, 0.99 * most, weighted) == pytest.approx(plain, rel=1e-12)
    assert _mean_bound(gram, c, 1.01 * most, 2.0 * plain) == pytest.approx(plain, rel=1e-12)
