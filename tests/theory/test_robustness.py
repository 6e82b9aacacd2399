"""Robustness coefficients: as defined, no rule below what is possible, medians and RAGE below what is proved."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from steadfed._core.rng import stream
from steadfed.aggregators import RULES, GeometricMedian, Krum, Mean, Median, Rage
from steadfed.attacks import ALittleIsEnough, Cluster
from steadfed.errors import InputError, ParameterError
from steadfed.sweeps.matrices import attacked_population
from steadfed.sweeps.matrices._catalogue import rule_for, why_no_rule
from steadfed.theory.robustness import (
    least_coefficient,
    median_coefficient,
    rage_coefficient,
    robustness_coefficients,
)


def test_coefficients_are_those_of_a_dense_covariance() -> None:
    for num_rows, dim in ((30, 4), (5, 40), (2, 1)):
        rng = stream(0, "rows", num_rows, dim)
        rows, update = rng.standard_normal((num_rows, dim)), rng.standard_normal(dim)
        covariance = np.cov(rows.T, bias=True).reshape(dim, dim)
        squared = float(np.square(update - rows.mean(axis=0)).sum())
        found = robustness_coefficients(update, rows)
        assert found.trace == pytest.approx(squared / np.trace(covariance))
        assert found.spectral == pytest.approx(squared / np.linalg.eigvalsh(covariance)[-1])
        assert found.spectral >= found.trace
        as_lists = robustness_coefficients(torch.from_numpy(update), [torch.from_numpy(row) for row in rows])
        assert as_lists.trace == pytest.approx(found.trace)


def test_honest_updates_that_agree_leave_no_room_for_an_error() -> None:
    rows = np.ones((4, 3))
    exact, off = robustness_coefficients(rows[0], rows), robustness_coefficients(rows[0] + 1.0, rows)
    assert (exact.trace, exact.spectral, off.trace, off.spectral) == (0.0, 0.0, math.inf, math.inf)


@pytest.mark.parametrize(
    ("update", "message"),
    [
        (np.zeros(3), r"update must be a vector of 2 floats, .* got torch.float64 of shape \(3,\)"),
        (np.zeros((1, 2)), r"of shape \(1, 2\)"),
        (np.zeros(2, dtype=np.int64), "got torch.int64"),
        (np.array([0.0, math.nan]), "update must be finite"),
        (np.array([0.0, 1e300]), "a square that does not overflow"),
    ],
)
def test_updates_that_are_none_are_refused(update: np.ndarray, message: str) -> None:
    with pytest.raises(InputError, match=message):
        robustness_coefficients(update, np.eye(2))


def test_honest_updates_that_are_not_finite_are_refused() -> None:
    with pytest.raises(InputError, match="updates must be finite"):
        robustness_coefficients(np.zeros(2), np.array([[0.0, 1.0], [math.nan, 0.0]]))


def test_counts_out_of_range_are_refused() -> None:
    for function in (least_coefficient, median_coefficient, rage_coefficient):
        with pytest.raises(ParameterError, match="num_byzantine must be a whole number from 0 to 4, got 5"):
            function(num_rows=4, num_byzantine=5)
        assert function(num_rows=4, num_byzantine=2) == math.inf
    assert least_coefficient(num_rows=5, num_byzantine=2) == 2.0
    assert median_coefficient(num_rows=5, num_byzantine=2) == 36.0
    assert least_coefficient(num_rows=4, num_byzantine=0) == rage_coefficient(num_rows=4, num_byzantine=0) == 0.0


@pytest.mark.parametrize("name", [name for name in RULES if why_no_rule(name) is None and "+" not in name])
def test_no_rule_is_better_than_what_is_possible(name: str) -> None:
    # f ones among zeros: the honest rows may be the zeros, or the ones and some zeros, and nobody can tell which
    if "rule" in RULES[name].model_fields:
        pytest.skip(f"{name} is around another rule")
    num_rows, bad = 21, 4
    rows = torch.zeros(num_rows, 1, dtype=torch.float64)
    rows[:bad] = 1.0
    population = attacked_population("iso", Cluster(), cohort_size=num_rows, dim=1, num_byzantine=bad)
    result = rule_for(name, bad, 1.0)(rows, population.population.server_view())
    found = [robustness_coefficients(result.update, each) for each in (rows[bad:], rows[: num_rows - bad])]
    limit = least_coefficient(num_rows=num_rows, num_byzantine=bad)
    assert max(each.trace for each in found) >= limit * (1 - 1e-9)
    assert max(each.spectral for each in found) >= limit * (1 - 1e-9)


@pytest.mark.parametrize("bad", [1, 4, 9])
@pytest.mark.parametrize("attack", [Cluster(strength=1.0), Cluster(strength=1e4), ALittleIsEnough(z=1.0)])
def test_medians_and_rage_keep_to_what_is_proved_of_them(bad: int, attack: Cluster | ALittleIsEnough) -> None:
    counts: dict[str, Any] = {"num_rows": 20, "num_byzantine": bad}
    for model, dim in (("iso", 3), ("power", 200), ("heavy", 50)):
        population = attacked_population(model, attack, cohort_size=20, dim=dim, num_byzantine=bad, seed=bad)
        honest = population.population.honest
        for median in (Median(), GeometricMedian()):
            found = robustness_coefficients(population.aggregate(median).update, honest)
            assert found.trace <= median_coefficient(**counts)
        filtered = robustness_coefficients(population.aggregate(Rage(num_byzantine=bad)).update, honest)
        assert filtered.spectral <= rage_coefficient(**counts)
        assert population.trace_coefficient(population.aggregate(Krum(num_byzantine=1)).update) == pytest.approx(
            robustness_coefficients(population.aggregate(Krum(num_byzantine=1)).update, honest).trace, rel=1e-4
        )


def test_the_mean_has_no_coefficient() -> None:
    far = attacked_population("iso", Cluster(strength=1e6), cohort_size=20, dim=5, num_byzantine=1)
    found = robustness_coefficients(far.aggregate(Mean()).update, far.population.honest)
    assert found.trace > 1e6
