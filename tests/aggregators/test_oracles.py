"""Fast rules against their slow, literal transcriptions, and the certificate against every set it speaks of."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

import numpy as np
import pytest
from tests.oracles.certificate import Promised, candidates, largest_error, smallest_spread
from tests.oracles.clouds import CLOUDS
from tests.oracles.filtering import filter_by_spread, filter_known, filter_until
from tests.oracles.rules import coordinate_median, geometric_median, krum_choice, mean
from tests.oracles.saddle import Array, solve_saddle_point

from steadfed._core.rng import stream
from steadfed.aggregators import Certificate, GeometricMedian, Krum, Mean, Median, Rage, Stop
from steadfed.aggregators._rage.constants import EXACT_LIMIT, KAPPA, known_constant, resilience, theta
from steadfed.aggregators._rage.filtering import run_filter

pytestmark = pytest.mark.portable

SEEDS = 6


def cohort(name: str, seed: int, most: int = 40) -> tuple[Array, int]:
    """Return rows, the first f of them bad, and f."""
    rng = stream(seed, "oracles", name)
    number = int(rng.integers(3, most + 1))
    bad = int(rng.integers(1, (number - 1) // 2 + 1))
    return CLOUDS[name](rng, number, bad, int(rng.integers(1, 20))), bad


def spread_of(rows: Array) -> float:
    """Return √λ_max of the covariance."""
    return float(np.linalg.norm(rows - rows.mean(axis=0), 2)) / math.sqrt(len(rows))


@pytest.mark.parametrize("name", CLOUDS)
@pytest.mark.parametrize("factor", [0.3, 1.0])
def test_mode_known_is_the_filter_with_explicit_covariances(name: str, factor: float) -> None:
    for seed in range(SEEDS):
        rows, bad = cohort(name, seed)
        sigma0 = factor * max(spread_of(rows[bad:]), 1e-3)
        found = Rage(num_byzantine=bad, mode="known", sigma0=sigma0)(rows)
        np.testing.assert_allclose(found.weights, filter_known(rows, bad, sigma0), rtol=0.0, atol=1e-8)


@pytest.mark.parametrize("name", CLOUDS)
@pytest.mark.parametrize("kappa", [1.5, 3.0])
def test_mode_spread_is_the_filter_with_explicit_covariances(name: str, kappa: float) -> None:
    for seed in range(SEEDS):
        rows, bad = cohort(name, seed)
        found = Rage(num_byzantine=bad, mode="spread", kappa=kappa)(rows)
        np.testing.assert_allclose(found.weights, filter_by_spread(rows, bad, kappa), rtol=0.0, atol=1e-8)


@pytest.mark.parametrize("name", ["far cluster", "staircase", "power law", "heavy tails"])
def test_every_state_of_a_run_is_that_of_the_filter_with_explicit_covariances(name: str) -> None:
    for seed in range(SEEDS):
        rows, bad = cohort(name, seed)
        floor = len(rows) - 2.0 * bad
        centred = rows - rows[-1]
        run = run_filter(centred @ centred.T, floor, lambda _: -math.inf)
        trail = filter_until(rows, floor, 0.0, 0.0)
        assert len(run.states) == len(trail.weights)
        for state, weights, spread in zip(run.states, trail.weights, trail.spreads, strict=True):
            np.testing.assert_allclose(state.weights, weights, rtol=0.0, atol=1e-8)
            assert state.spread == pytest.approx(spread, rel=1e-7, abs=1e-9 * float((rows**2).max()))


@pytest.mark.parametrize("name", CLOUDS)
def test_promised_rows_lose_no_more_weight_than_the_others(name: str) -> None:
    for seed in range(SEEDS):
        rows, bad = cohort(name, seed)
        sigma0 = max(spread_of(rows[bad:]), 1e-6)
        limit = theta(bad / len(rows)) * len(rows) * sigma0**2
        run = run_filter(rows @ rows.T, len(rows) - 2.0 * bad, partial(_always, limit))
        lost = 1.0 - run.last.weights
        assert lost[bad:].sum() <= lost[:bad].sum() + 1e-9


def _always(limit: float, _: float) -> float:
    return limit


@pytest.mark.parametrize("name", CLOUDS)
def test_the_error_of_mode_known_is_below_the_proved_constant(name: str) -> None:
    for seed in range(SEEDS):
        rows, bad = cohort(name, seed)
        sigma0 = max(spread_of(rows[bad:]), 1e-6)
        found = Rage(num_byzantine=bad, mode="known", sigma0=sigma0)(rows)
        error = float(np.linalg.norm(found.update.numpy() - rows[bad:].mean(axis=0)))
        epsilon = bad / len(rows)
        assert error <= known_constant(epsilon) * sigma0 * math.sqrt(epsilon) + 1e-9 * np.abs(rows).max()


@pytest.mark.parametrize("name", CLOUDS)
@pytest.mark.parametrize("kappa", [1.0, 3.0])
def test_the_error_of_mode_spread_is_below_the_proved_constant(name: str, kappa: float) -> None:
    for seed in range(SEEDS):
        rows, bad = cohort(name, seed)
        sigma0, epsilon = spread_of(rows[bad:]), bad / len(rows)
        before = math.sqrt((2.0 * kappa / (1.0 - 2.0 * epsilon) + 1.0) / (1.0 - 2.0 * epsilon))
        after = known_constant(epsilon) + 2.0 * math.sqrt(1.0 - epsilon) / (1.0 - 2.0 * epsilon)
        found = Rage(num_byzantine=bad, mode="spread", kappa=kappa)(rows)
        error = float(np.linalg.norm(found.update.numpy() - rows[bad:].mean(axis=0)))
        assert error <= max(before, after) * sigma0 * math.sqrt(epsilon) + 1e-9 * np.abs(rows).max()


@pytest.mark.parametrize("far", [1e6, 1e12, 1e15])
@pytest.mark.parametrize("gap", [1e-15, 1e-14, 1e-13, 1e-11])
@pytest.mark.parametrize("mode", ["auto", "spread", "known", "exact", "lazy"])
def test_two_rows_that_are_almost_equally_far_do_not_survive_each_other(mode: str, gap: float, far: float) -> None:
    rows = stream(0, "almost equal").standard_normal((12, 5))
    rows[:2] = 0.0
    rows[0, 0], rows[1, 0] = far, far * (1.0 - gap)
    sigma0 = spread_of(rows[2:])
    found = Rage(num_byzantine=2, mode=mode, sigma0=None if mode in KAPPA else sigma0)(rows)
    error = float(np.linalg.norm(found.update.numpy() - rows[2:].mean(axis=0)))
    assert error <= 2.0 * sigma0
    assert found.stop is not Stop.ROWS_AGREE


@pytest.mark.parametrize("name", CLOUDS)
def test_krum_is_krum_with_loops(name: str) -> None:
    for seed in range(SEEDS):
        rows, _ = cohort(name, seed, 15)
        bad = max(0, (len(rows) - 3) // 2)
        found = Krum(num_byzantine=bad)(rows)
        _, scores = krum_choice(rows, bad)
        np.testing.assert_allclose(found.scores, scores, rtol=1e-6, atol=1e-12 * float((rows**2).max()))
        chosen = int(found.weights.argmax())
        assert scores[chosen] == pytest.approx(min(scores), rel=1e-6, abs=1e-12 * float((rows**2).max()))
        np.testing.assert_array_equal(found.update, rows[chosen])


@pytest.mark.parametrize("name", ["isotropic", "far cluster", "power law", "heavy tails"])
def test_krum_chooses_the_row_that_krum_with_loops_chooses(name: str) -> None:
    for seed in range(SEEDS):
        rows, _ = cohort(name, seed, 15)
        bad = max(1, (len(rows) - 3) // 2)
        if len(rows) >= 2 * bad + 3:
            choice, _ = krum_choice(rows, bad)
            assert int(Krum(num_byzantine=bad)(rows).weights.argmax()) == choice


@pytest.mark.parametrize("name", CLOUDS)
def test_the_median_is_the_middle_of_sorted_lists(name: str) -> None:
    for seed in range(SEEDS):
        rows, _ = cohort(name, seed, 15)
        rounding = 1e-15 * float(np.abs(rows).max())
        np.testing.assert_allclose(Median()(rows).update, coordinate_median(rows), rtol=0.0, atol=rounding)


@pytest.mark.parametrize("name", CLOUDS)
def test_the_median_in_float32_is_the_middle_of_sorted_lists(name: str) -> None:
    for seed in range(SEEDS):
        rows = cohort(name, seed, 15)[0].astype(np.float32)
        rounding = 2e-7 * float(np.abs(rows).max())
        expected = coordinate_median(rows.astype(np.float64))
        np.testing.assert_allclose(Median()(rows).update.double(), expected, rtol=0.0, atol=rounding)


@pytest.mark.parametrize("name", CLOUDS)
def test_the_mean_is_the_exact_sum_over_the_number_of_rows(name: str) -> None:
    for seed in range(SEEDS):
        rows, _ = cohort(name, seed)
        np.testing.assert_allclose(Mean()(rows).update, mean(rows), rtol=1e-12, atol=1e-15 * np.abs(rows).max())


@pytest.mark.parametrize("name", ["isotropic", "far cluster", "spread attack", "staircase", "power law", "groups"])
def test_the_geometric_median_is_that_of_weiszfeld_in_all_dimensions(name: str) -> None:
    for seed in range(SEEDS):
        rows, _ = cohort(name, seed, 12)
        found = GeometricMedian(tolerance=1e-14, max_iterations=50_000)(rows)
        expected = geometric_median(rows)
        if rows.shape[1] > 1:  # on a line, every point between the two middle rows is a median
            scale = float(np.median(np.linalg.norm(rows - rows.mean(axis=0), axis=1)))
            np.testing.assert_allclose(found.update, expected, rtol=0.0, atol=1e-4 * scale)
        distances = np.linalg.norm(rows - expected, axis=1).sum()
        assert np.linalg.norm(rows - found.update.numpy(), axis=1).sum() <= distances * (1.0 + 1e-6)


@pytest.mark.parametrize("far", [1e3, 1e6, 1e9, 1e12, 1e15])
@pytest.mark.parametrize("bad", [1, 4])
def test_the_geometric_median_stays_among_the_honest_rows_however_far_the_others_are(bad: int, far: float) -> None:
    rows = stream(0, "far").standard_normal((11, 5))
    rows[:bad] = far
    honest = rows[bad:]
    radius = float(np.linalg.norm(honest - honest.mean(axis=0), axis=1).max())
    # Minsker 2015, Lemma 2.1: with a share of γ < 1/2 elsewhere, at most 2 (1 − γ) / (1 − 2 γ) radii away.
    share = bad / len(rows)
    away = float(np.linalg.norm(GeometricMedian()(rows).update.numpy() - honest.mean(axis=0)))
    assert away <= 2.0 * (1.0 - share) / (1.0 - 2.0 * share) * radius


@pytest.mark.parametrize("offset", [0.0, 7.0])
@pytest.mark.parametrize("equal", [3, 5, 40])
def test_the_geometric_median_of_mostly_equal_rows_is_what_they_equal(equal: int, offset: float) -> None:
    rows = np.full((equal + 2, 3), offset)
    rows[0] += 1.0
    rows[1] -= 1.0
    found = GeometricMedian()(rows)
    np.testing.assert_allclose(found.update, np.full(3, offset), atol=1e-9)
    assert float(found.weights.sum()) == pytest.approx(1.0)


def tiny_cohort(name: str, seed: int) -> tuple[Array, int, float]:
    """Return at most seven rows, f, and a σ₀ near the smallest for which the promise holds."""
    rng = stream(seed, "tiny", name)
    number = int(rng.integers(2, 8))
    assumed = int(rng.integers(0, (number - 1) // 2 + 1))
    actual = assumed if rng.random() < 0.7 else int(rng.integers(0, number))
    rows = CLOUDS[name](rng, number, actual, int(rng.integers(1, 5)))
    guess = 10.0 ** rng.uniform(-1.0, 1.0) * smallest_spread(candidates(rows, assumed))
    return rows, assumed, guess or 1.0


def rules(number: int, assumed: int, sigma0: float) -> list[Rage]:
    """Return the filter in every mode that takes as many rows."""
    found = [Rage(num_byzantine=assumed), Rage(num_byzantine=assumed, mode="spread")]
    found += [Rage(num_byzantine=assumed, mode="known", sigma0=sigma0)]
    if assumed < EXACT_LIMIT * number:
        found += [Rage(num_byzantine=assumed, mode="exact", sigma0=sigma0)]
        found += [Rage(num_byzantine=assumed, mode="lazy", sigma0=sigma0)]
    return found


def queries(certificate: Certificate, subsets: list[Promised]) -> list[float]:
    """Return the σ₀ to ask about: where the answer changes, and around."""
    smallest = smallest_spread(subsets)
    around = [smallest * factor for factor in (1.0, 1.1, 1.5, 3.0, 10.0)]
    return sorted({certificate.smallest_sigma0(), certificate.sigma0, *around, *(s.sigma for s in subsets)})


@pytest.mark.parametrize("name", CLOUDS)
def test_the_certificate_holds_for_every_set_that_the_promise_allows(name: str) -> None:
    for seed in range(25):
        rows, assumed, guess = tiny_cohort(name, seed)
        subsets = candidates(rows, assumed)
        rounding = 1e-9 * float(np.abs(rows).max())
        for rule in rules(len(rows), assumed, guess):
            found = rule(rows)
            certificate = found.certificate
            assert certificate is not None
            assert certificate.smallest_sigma0() * (1.0 - 1e-6) <= smallest_spread(subsets) + rounding
            for sigma0 in queries(certificate, subsets):
                error = largest_error(found.update.numpy(), subsets, sigma0)
                if error >= 0.0 and sigma0 > rounding:
                    assert certificate.is_consistent(sigma0), (rule, seed, sigma0)
                    assert error <= certificate.error_bound(sigma0) * (1.0 + 1e-6) + rounding, (rule, seed, sigma0)
            whatever = largest_error(found.update.numpy(), subsets, math.inf)
            assert whatever <= certificate.unconditional_bound() * (1.0 + 1e-6) + rounding, (rule, seed)


@pytest.mark.parametrize("factor", [0.8, 0.9, 0.97, 0.999])
@pytest.mark.parametrize("name", ["isotropic", "spread attack", "groups", "heavy tails"])
def test_the_certificate_holds_where_only_an_approximate_saddle_point_decides(name: str, factor: float) -> None:
    for seed in range(3):
        rng = stream(seed, "approximate", name)
        number, assumed = [(4, 1), (6, 2), (7, 2)][seed]
        rows = CLOUDS[name](rng, number, assumed, 4)
        cap = 1.0 / (resilience(assumed / number) * number)
        value = solve_saddle_point(rows.T, np.ones(number), cap).value
        found = Rage(num_byzantine=assumed, mode="exact", sigma0=math.sqrt(factor * value / (4.0 * number)))(rows)
        subsets = candidates(rows, assumed)
        assert found.certificate is not None
        assert found.certificate.smallest_sigma0() <= smallest_spread(subsets) * (1.0 + 1e-6)
        for sigma0 in queries(found.certificate, subsets):
            error = largest_error(found.update.numpy(), subsets, sigma0)
            assert error <= found.certificate.error_bound(sigma0) * (1.0 + 1e-6) + 1e-9


@pytest.mark.parametrize("name", ["isotropic", "far cluster", "spread attack", "near duplicates"])
def test_the_certificate_counts_unusable_rows_as_byzantine(name: str) -> None:
    for seed in range(10):
        rows, assumed, guess = tiny_cohort(name, seed)
        subsets = candidates(rows, assumed)
        with_bad = np.insert(rows, 1, np.nan, axis=0)
        for rule in rules(len(with_bad), assumed + 1, guess):
            if len(with_bad) < rule.smallest_cohort(assumed + 1):
                continue
            found = rule(with_bad)
            certificate = found.certificate
            assert certificate is not None
            for sigma0 in queries(certificate, subsets):
                error = largest_error(found.update.numpy(), subsets, sigma0)
                assert error <= certificate.error_bound(sigma0) * (1.0 + 1e-6) + 1e-9 * float(np.abs(rows).max())


def certificates(name: str) -> Iterator[Certificate]:
    """Yield the certificates of every mode on eight tiny cohorts."""
    for seed in range(8):
        rows, assumed, guess = tiny_cohort(name, seed)
        for rule in rules(len(rows), assumed, guess):
            certificate = rule(rows).certificate
            assert certificate is not None
            yield certificate


@pytest.mark.parametrize("name", CLOUDS)
def test_consistency_and_the_smallest_sigma0_agree(name: str) -> None:
    for certificate in certificates(name):
        smallest = certificate.smallest_sigma0()
        for factor in (1.0, 1.01, 2.0, 100.0):
            assert certificate.is_consistent(smallest * factor)
        if smallest > 0.0:
            assert not certificate.is_consistent(smallest * 0.99)
            assert certificate.error_bound(smallest * 0.99) == math.inf


@pytest.mark.parametrize("name", CLOUDS)
def test_the_error_bound_grows_with_sigma0(name: str) -> None:
    for certificate in certificates(name):
        smallest = max(certificate.smallest_sigma0(), 1e-3)
        bounds = [certificate.error_bound(smallest * factor) for factor in (1.0, 1.2, 2.0, 5.0, 50.0)]
        assert bounds == sorted(bounds)
