"""RAGE on the cases in which filters break."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from steadfed._core.rng import stream
from steadfed.aggregators import Rage, Stop
from steadfed.aggregators._rage.certificate import Certificate
from steadfed.aggregators._rage.constants import KAPPA, filter_constant
from steadfed.aggregators._rage.filtering import Step
from steadfed.attacks import Cluster, CovarianceShift, Spread, Staircase
from steadfed.errors import CohortTooSmallError, ParameterError
from steadfed.sweeps.matrices._populations import attacked_population

MODES = {
    "auto": Rage(byzantine_fraction=0.2),
    "spread": Rage(byzantine_fraction=0.2, mode="spread"),
    "known": Rage(byzantine_fraction=0.2, mode="known", sigma0=1.5),
    "exact": Rage(byzantine_fraction=0.2, mode="exact", sigma0=1.5),
    "lazy": Rage(byzantine_fraction=0.2, mode="lazy", sigma0=1.5),
}


def normal(num_rows: int, dim: int, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(stream(seed, "rows", num_rows, dim).standard_normal((num_rows, dim)))


@pytest.mark.parametrize("mode", MODES)
def test_two_symmetric_clusters_do_not_empty_the_cohort(mode: str) -> None:
    rows = torch.ones(30, 7)
    rows[:15] *= -1
    result = MODES[mode](100 * rows)
    assert float(result.weights.sum()) == pytest.approx(1.0)
    assert int(result.kept.sum()) >= 30 - 2 * 6
    assert result.assumption_violated == (mode not in KAPPA)
    if mode in KAPPA:  # nothing contradicts a large honest spread
        assert result.certificate is not None
        assert result.certificate.smallest_sigma0() > 50


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("num_rows", [5, 30, 200])
def test_equal_rows_agree_and_nobody_is_removed(mode: str, num_rows: int) -> None:
    result = MODES[mode](torch.full((num_rows, 6), 1.25))
    assert result.stop is Stop.ROWS_AGREE
    assert result.removed == []
    assert torch.allclose(result.update, torch.full((6,), 1.25), rtol=1e-6)
    assert result.spread == 0.0


@pytest.mark.parametrize("cohort_size", [100, 200])
def test_staircase_costs_at_most_a_step_per_attacker_and_few_eigensolves(cohort_size: int) -> None:
    number = cohort_size // 5
    staged = attacked_population(
        "iso", Staircase(strength=3.0), cohort_size=cohort_size, dim=1000, num_byzantine=number
    )
    result = Rage(num_byzantine=number)(staged.updates)
    assert result.removed == list(range(number))
    assert result.num_steps <= 2 * number
    assert staged.error(result.update) < 0.5
    told = Rage(num_byzantine=number, mode="known", sigma0=staged.population.shape.sigma0)(staged.updates)
    assert told.removed == list(range(number))
    if cohort_size > 128:  # directions are shared
        assert told.num_eigensolves <= number // 4


def test_attackers_in_more_directions_than_a_krylov_space_has_are_all_found() -> None:
    rows = normal(400, 130)
    distances = 30.0 * 10.0 ** (6.0 * np.arange(100) / 99)
    rows[:100] = 0.0
    rows[torch.arange(100), torch.arange(100)] = torch.from_numpy(distances)
    result = Rage(byzantine_fraction=0.25)(rows)
    error = float((result.update - rows[100:].mean(0)).norm())
    sigma0 = float(torch.linalg.matrix_norm(rows[100:] - rows[100:].mean(0), 2)) / math.sqrt(300)
    assert error <= 0.5 * sigma0
    assert not result.assumption_violated


@pytest.mark.parametrize("mode", MODES)
def test_every_kind_of_huge_and_broken_row_at_once(mode: str) -> None:
    rows = normal(60, 400).float() * 0.05
    for index, value in enumerate([1e30, -1e30, 3e38, 1e18, math.nan]):
        rows[index] = value
    rows[5, 17] = math.inf
    rows[6], rows[7], rows[8] = 1e10, 1e5, 30.0
    rows[9] = 0.0
    result = MODES[mode](rows)
    honest = rows[9:].double().mean(0)
    assert result.removed == list(range(9))
    assert result.usable.tolist() == [False] * 6 + [True] * 54
    assert float((result.update.double() - honest).norm()) < 0.05
    assert not result.assumption_violated


def test_offset_of_a_hundred_thousand_times_the_noise_in_float32() -> None:
    rows = normal(40, 2000)
    rows[:8] += 5.0
    centred = Rage(num_byzantine=8)(rows)
    result = Rage(num_byzantine=8)((rows + 1e5).float())
    assert result.distrusted == centred.distrusted == list(range(8))
    assert torch.allclose(result.weights, centred.weights, atol=1e-4)


def test_updates_so_small_that_their_squares_underflow_are_filtered_all_the_same() -> None:
    staged = attacked_population("iso", Cluster(strength=30.0), cohort_size=40, dim=300, num_byzantine=8)
    tiny = Rage(num_byzantine=8)(staged.updates * 2.0**-90)
    assert tiny.removed == list(range(8))
    assert torch.allclose(tiny.weights, Rage(num_byzantine=8)(staged.updates).weights)
    assert torch.allclose(tiny.update * 2.0**90, Rage(num_byzantine=8)(staged.updates).update, atol=1e-5)


@pytest.mark.parametrize("mode", MODES)
def test_one_row_and_two_rows_need_that_nobody_is_assumed_byzantine(mode: str) -> None:
    rule = Rage(**{**MODES[mode].model_dump(exclude_defaults=True, exclude={"byzantine_fraction"}), "num_byzantine": 0})
    one, two = normal(1, 3), normal(2, 3)
    assert torch.allclose(rule(one).update, one[0])
    assert torch.allclose(rule(two).update, two.mean(0))
    with pytest.raises(CohortTooSmallError, match="assumes 1 Byzantine of 2 updates, and needs at least"):
        MODES[mode](two)


def test_without_assumed_attackers_the_mean_is_returned() -> None:
    rows = normal(20, 50)
    result = Rage(num_byzantine=0)(rows)
    assert result.stop is Stop.NOTHING_TO_FILTER
    assert torch.allclose(result.update, rows.mean(0))


@pytest.mark.parametrize("mode", ["known", "exact", "lazy"])
def test_a_spread_above_the_promise_without_attackers_breaks_it(mode: str) -> None:
    result = Rage(num_byzantine=0, mode=mode, sigma0=0.1)(normal(20, 50))
    assert result.stop is Stop.SPREAD_STAYS_LARGE
    assert result.certificate is not None
    assert not result.certificate.is_consistent()
    assert result.certificate.error_bound() == math.inf
    assert result.certificate.smallest_sigma0() == pytest.approx(math.sqrt(result.spread or 0), rel=1e-3)


@pytest.mark.parametrize("mode", ["known", "exact", "lazy"])
def test_a_sigma0_far_too_small_ends_in_a_broken_promise_and_not_in_an_empty_cohort(mode: str) -> None:
    result = Rage(byzantine_fraction=0.25, mode=mode, sigma0=1e-3)(normal(40, 100))
    assert result.stop is Stop.SPREAD_STAYS_LARGE
    assert int(result.kept.sum()) >= 20
    assert result.certificate is not None
    assert not result.certificate.is_consistent()
    assert result.certificate.worst_case() == math.inf, "the threshold on which it rests was not reached"
    assert result.certificate.evidence()["worst_case"] is None


def test_unusable_rows_count_against_the_assumed_number() -> None:
    rows = normal(20, 30).float()
    rows[:4] = math.nan
    result = Rage(byzantine_fraction=0.2)(rows)
    assert result.num_byzantine == 4
    assert result.certificate is not None
    assert result.certificate.num_byzantine == 0
    assert result.stop is Stop.NOTHING_TO_FILTER
    rows[4] = math.inf
    assert Rage(byzantine_fraction=0.2)(rows).stop is Stop.TOO_MANY_UNUSABLE


def test_certificate_says_nothing_when_more_rows_are_unusable_than_assumed() -> None:
    rows = normal(20, 30).float()
    rows[:4] = math.nan
    rows[4:7] = 1e4
    result = Rage(num_byzantine=3)(rows)
    assert result.stop is Stop.TOO_MANY_UNUSABLE
    assert result.certificate is not None
    assert not result.certificate.is_consistent()
    assert result.certificate.error_bound() == math.inf
    assert result.certificate.smallest_sigma0() == math.inf


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("value", [1.3e154, 5e153, 1e140, 1e100])
def test_float64_rows_near_the_end_of_the_range_do_not_switch_the_filter_off(mode: str, value: float) -> None:
    rows = normal(20, 30)
    rows[0, 5], rows[1, 5], rows[2, 5] = value, -value, value
    result = MODES[mode](rows)
    assert result.removed == [0, 1, 2]
    assert float(result.update.abs().max()) < 2.0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_colluders_that_take_turns_as_pivot_cannot_reach_the_update(dtype: torch.dtype) -> None:
    rows = normal(40, 5000).to(dtype)
    top, ratio = (1e150, 1e-8) if dtype == torch.float64 else (1e14, 1e-1)
    for k in range(15):
        rows[k] = rows[15:].median(0).values
        rows[k, 1000 + k] = top * ratio**k
    result = Rage(num_byzantine=15)(rows)
    error = float((result.update - rows[15:].mean(0)).norm())
    sigma0 = float(torch.linalg.matrix_norm(rows[15:] - rows[15:].mean(0), 2)) / 5.0
    assert error < 3.0 * sigma0


def test_worst_case_belongs_to_the_sigma0_the_filter_was_given() -> None:
    staged = attacked_population("iso", Cluster(strength=12.0), cohort_size=40, dim=100, num_byzantine=10)
    result = Rage(num_byzantine=10, mode="known", sigma0=10 * staged.population.shape.sigma0)(staged.updates)
    error = staged.error(result.update) * staged.population.shape.sigma0 * math.sqrt(staged.epsilon)
    assert result.certificate is not None
    assert error <= result.certificate.error_bound(staged.population.shape.sigma0) <= result.certificate.worst_case()


def test_exact_contradicts_a_sigma0_below_the_spread_of_what_must_be_honest() -> None:
    rows = normal(20, 30)
    rows[:3] = 1e6
    for mode in ("known", "exact", "lazy"):
        result = Rage(num_byzantine=3, mode=mode, sigma0=3.0)(rows)
        assert result.certificate is not None
        assert not result.certificate.is_consistent(0.1)
        assert result.certificate.is_consistent(3.0)


@pytest.mark.parametrize("mode", ["known", "exact", "lazy"])
def test_the_true_sigma0_without_attackers_keeps_the_promise(mode: str) -> None:
    for seed in range(20):
        staged = attacked_population("iso", Cluster(), cohort_size=20, dim=50, num_byzantine=0, seed=seed)
        result = Rage(num_byzantine=0, mode=mode, sigma0=staged.population.shape.sigma0)(staged.updates)
        assert not result.assumption_violated
        assert result.certificate is not None
        assert result.certificate.is_consistent()


def test_every_fraction_f_over_k_means_f() -> None:
    for cohort in range(3, 200):
        for number in range((cohort + 1) // 2):
            assert Rage(byzantine_fraction=number / cohort).assumed_byzantine(cohort) == number
    assert Rage(byzantine_fraction=0.1 + 0.2).assumed_byzantine(20) == 6
    assert Rage(byzantine_fraction=float(np.float32(0.1))).assumed_byzantine(20) == 2
    assert Rage(num_byzantine=np.int64(2)).assumed_byzantine(20) == 2


@pytest.mark.parametrize(
    ("fraction", "cohort", "expected"),
    [(0.1, 30, 3), (0.2, 5, 1), (0.2, 6, 2), (0.25, 40, 10), (0.07, 100, 7), (0.29, 100, 29), (0.0, 9, 0)],
)
def test_fraction_is_read_as_the_decimal_it_was_written_as(fraction: float, cohort: int, expected: int) -> None:
    assert Rage(byzantine_fraction=fraction).assumed_byzantine(cohort) == expected


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({}, "exactly one of byzantine_fraction"),
        ({"byzantine_fraction": 0.1, "num_byzantine": 2}, "got both"),
        ({"byzantine_fraction": 0.5}, "less than 0.5, got 0.5"),
        ({"byzantine_fraction": -0.1}, "greater than or equal to 0, got -0.1"),
        ({"byzantine_fraction": math.nan}, "byzantine_fraction"),
        ({"num_byzantine": -1}, "got -1"),
        ({"num_byzantine": 1.5}, "got 1.5"),
        ({"num_byzantine": 1, "mode": "knwon"}, "got 'knwon'"),
        ({"num_byzantine": 1, "mode": "known"}, "sigma0 > 0 is needed"),
        ({"num_byzantine": 1, "sigma0": 1.0}, "must be left out"),
        ({"num_byzantine": 1, "mode": "exact", "sigma0": 0.0}, "greater than 0, got 0.0"),
        ({"num_byzantine": 1, "kappa": 0.5}, "got 0.5"),
        (
            {"num_byzantine": 1, "mode": "known", "sigma0": 1.0, "kappa": 2.0},
            "kappa belongs to modes 'auto' and 'spread'",
        ),
        ({"num_byzantine": 1, "gram": "quick"}, "got 'quick'"),
        ({"num_byzantine": 1, "sketch": 5}, "no parameter 'sketch'"),
        ({"num_byzantine": True}, "whole number, got True"),
        ({"byzantine_fraction": "0.2"}, "real number, got '0.2'"),
        ({"num_byzantine": 1, "mode": "known", "sigma0": 1e200}, "got 1e\\+200"),
        ({"num_byzantin": 1}, "did you mean 'num_byzantine'"),
    ],
)
def test_wrong_parameters_are_refused_with_the_value_and_what_is_allowed(
    parameters: dict[str, object], message: str
) -> None:
    with pytest.raises(ParameterError, match=message.replace("(", r"\(")):
        Rage(**parameters)


def test_certificate_names_the_direction_of_the_largest_remaining_spread() -> None:
    rows = normal(30, 20)
    rows[:, 3] *= 10
    result = Rage(num_byzantine=2)(rows)
    assert result.certificate is not None
    assert result.certificate.proved
    direction = result.certificate.direction(rows)
    assert abs(float(direction[3])) > 0.95
    assert float(direction.norm()) == pytest.approx(1.0)
    along = (rows @ direction).numpy()
    weights = result.weights.numpy()
    for other in (rows.numpy(), list(rows)):
        assert torch.allclose(result.certificate.direction(other), direction)
    variance = np.average((along - np.average(along, weights=weights)) ** 2, weights=weights)
    assert variance == pytest.approx(result.spread, rel=1e-6)


def test_the_direction_is_of_length_one_however_long_the_rows_are_and_zero_where_they_agree() -> None:
    rows = normal(30, 20)
    certificate = Rage(num_byzantine=2)(rows).certificate
    assert certificate is not None
    assert float(certificate.direction(3.0 * rows).norm()) == pytest.approx(1.0)
    assert torch.allclose(certificate.direction(3.0 * rows), certificate.direction(rows))
    agreeing = torch.full((30, 20), 1.25)
    nowhere = Rage(num_byzantine=2)(agreeing).certificate
    assert nowhere is not None
    assert torch.equal(nowhere.direction(agreeing), torch.zeros(20))


def test_a_step_without_scatter_may_have_taken_its_weight_from_honest_rows_alone() -> None:
    certificate = Rage(num_byzantine=2, mode="known", sigma0=1.5)(normal(12, 5)).certificate
    assert certificate is not None
    step = Step(scatter=0.0, mass=12.0, removed=1.0)
    lost = replace(certificate, steps=(step,), probe=(), spread=0.5, removed=1.0)
    # n = 12, f = 2: D = D_S = 1, so f − D + D_S = 2 of Byzantine weight may be left beside 9 of honest weight
    assert lost.error_bound(1.5) == pytest.approx(math.sqrt(0.5 * 2 / 9) + 1.5 * math.sqrt(1 / 9))


def test_the_bound_known_before_any_data_grows_by_what_rounding_adds_to_its_variance() -> None:
    """With ρ = σ₀/2 it is a quarter larger, and the rounding of the update comes on top."""
    certificate = Rage(num_byzantine=2, mode="exact", sigma0=1.5)(normal(10, 5)).certificate
    assert certificate is not None
    rounded = replace(certificate, spread=1e6, removed=0.0, row_rounding=0.75, update_rounding=0.25)
    assert rounded.error_bound() == pytest.approx(1.25 * rounded.worst_case() + 0.25, rel=1e-12)
    assert rounded.worst_case() == pytest.approx(filter_constant("exact", 0.2) * 1.5 * math.sqrt(0.2), rel=1e-12)


@pytest.mark.parametrize(
    ("mode", "passes"), [("auto", (0, 2, 1)), ("known", (0, 2, 1)), ("exact", (0, 0, 1)), ("lazy", (0, 0, 1))]
)
def test_a_certificate_takes_a_second_sketch_and_an_estimate_only_one(mode: str, passes: tuple[int, ...]) -> None:
    rule = MODES[mode]
    grams = ("exact", "certified", "fast")
    assert tuple(rule.model_copy(update={"gram": gram}).sketch_passes() for gram in grams) == passes


def test_distrusted_clients_have_less_than_half_of_the_largest_weight() -> None:
    staged = attacked_population("clusters", CovarianceShift(strength=6.0), cohort_size=50, dim=2000, num_byzantine=10)
    result = Rage(num_byzantine=10)(staged.updates)
    assert set(result.removed) < set(result.distrusted)
    assert result.distrusted == list(range(10))


def test_scores_rank_the_attackers_first() -> None:
    staged = attacked_population(
        "power", Spread(num_directions=5, strength=12.0), cohort_size=40, dim=500, num_byzantine=8
    )
    result = Rage(num_byzantine=8)(staged.updates)
    assert set(result.scores.argsort(descending=True)[:8].tolist()) == set(range(8))


def test_evidence_is_plain_json() -> None:
    rows = normal(12, 5)
    rows[0] = math.nan
    evidence = json.loads(json.dumps(Rage(num_byzantine=2)(rows).evidence(), allow_nan=False))
    assert evidence["scores"][0] is None
    assert evidence["certificate"]["mode"] == "auto"
    assert evidence["reason"].startswith("the mean of the kept updates is as near")


@pytest.mark.parametrize(
    "rule",
    [Rage(num_byzantine=8), *(Rage(num_byzantine=8, mode=mode, sigma0=1.5) for mode in ("known", "exact", "lazy"))],
)
def test_a_certificate_can_be_asked_again_from_its_evidence(rule: Rage) -> None:
    staged = attacked_population(
        "power", Spread(num_directions=5, strength=12.0), cohort_size=40, dim=500, num_byzantine=8
    )
    certificate = rule(staged.updates).certificate
    assert certificate is not None
    again = Certificate.from_evidence(json.loads(json.dumps(certificate.evidence(), allow_nan=False)))
    for sigma0 in (None, 0.1, 1.0, 3.0, 100.0):
        assert again.error_bound(sigma0) == certificate.error_bound(sigma0)
        assert again.is_consistent(sigma0) == certificate.is_consistent(sigma0)
    assert again.smallest_sigma0() == certificate.smallest_sigma0()
    assert again.evidence() == certificate.evidence()


@pytest.mark.parametrize("broken", [{}, {"steps": None}, {"steps": [[1.0]]}, {"num_rows": "many"}, {"spread": None}])
def test_what_is_no_evidence_is_refused(broken: dict[str, object]) -> None:
    certificate = Rage(num_byzantine=2)(normal(12, 5)).certificate
    assert certificate is not None
    evidence = {**certificate.evidence(), **broken} if broken else {}
    with pytest.raises(ParameterError, match=r"not the evidence of a certificate: .*; expected what"):
        Certificate.from_evidence(evidence)
