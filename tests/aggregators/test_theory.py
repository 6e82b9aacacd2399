"""Measured errors against the proved constants, over fixed families of attacks at many strengths."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

from steadfed.aggregators import Rage
from steadfed.aggregators._rage.constants import exact_constant, known_constant
from steadfed.attacks import (
    ALittleIsEnough,
    Attack,
    Cluster,
    CovarianceShift,
    Duplicates,
    InnerProductManipulation,
    Mimic,
    Spread,
)
from steadfed.sweeps.matrices._populations import POPULATIONS, AttackedPopulation, population, under_attack

ROUNDING = 1e-4
"""float32 rows and updates."""


@dataclass(frozen=True)
class Scenes:
    """Which scenes are looked at."""

    cohort_sizes: tuple[int, ...]
    dims: tuple[int, ...]
    epsilons: tuple[float, ...]
    models: tuple[str, ...] = tuple(POPULATIONS)
    strengths: tuple[float, ...] = (1.0, 1.7, 2.5, 3.5, 5.0, 7.0, 10.0, 30.0, 1000.0)
    seeds: tuple[int, ...] = (0,)

    def attacks(self) -> Iterator[Attack]:
        yield from (Mimic(warm_up=0), Duplicates())
        for strength in self.strengths:
            yield Cluster(direction="random", strength=strength)
            yield Cluster(direction="spread", strength=strength)
            yield CovarianceShift(strength=strength)
            yield ALittleIsEnough(z=strength)
            yield InnerProductManipulation(epsilon=strength)
            yield from (Spread(num_directions=number, strength=strength) for number in (2, 5, 10))

    def attacked(self) -> Iterator[tuple[str, AttackedPopulation]]:
        for cohort_size, dim, epsilon, model, seed in self._cells():
            people = population(
                model, cohort_size=cohort_size, dim=dim, num_byzantine=round(epsilon * cohort_size), seed=seed
            )
            for attack in self.attacks():
                name = f"K={cohort_size} d={dim} eps={epsilon} {model} {attack} seed={seed}"
                yield name, under_attack(people, attack, seed=seed)

    def peaceful(self) -> Iterator[tuple[str, float, AttackedPopulation]]:
        for cohort_size, dim, epsilon, model, seed in self._cells():
            people = population(model, cohort_size=cohort_size, dim=dim, num_byzantine=0, seed=seed)
            yield model, epsilon, under_attack(people, Duplicates(), seed=seed)

    def _cells(self) -> Iterator[tuple[int, int, float, str, int]]:
        for cohort_size in self.cohort_sizes:
            for dim in self.dims:
                for epsilon in self.epsilons:
                    for model in self.models:
                        for seed in self.seeds:
                            yield cohort_size, dim, epsilon, model, seed


FULL = Scenes(cohort_sizes=(40, 100), dims=(10, 1000, 20_000), epsilons=(0.05, 0.1, 0.2, 0.25), seeds=(0, 1))
SMALL = Scenes(
    cohort_sizes=(40,),
    dims=(10, 1000),
    epsilons=(0.1, 0.25),
    models=("iso", "power", "clusters", "heavy"),
    strengths=(1.7, 3.5, 7.0, 100.0),
)


def _check_attacked(scenes: Scenes) -> None:
    for name, staged in scenes.attacked():
        number, sigma0 = staged.num_forged, staged.population.shape.sigma0
        unit = sigma0 * math.sqrt(staged.epsilon)
        of_algorithm_2 = exact_constant(staged.epsilon)
        told = {"known": known_constant(staged.epsilon), "exact": of_algorithm_2, "lazy": of_algorithm_2}
        for mode, proved in told.items():
            result = Rage(num_byzantine=number, mode=mode, sigma0=sigma0 * (1 + 1e-6))(staged.updates)
            error = staged.error(result.update)
            assert result.certificate is not None
            assert not result.assumption_violated, name
            assert result.certificate.is_consistent(), name
            assert error <= result.certificate.error_bound() / unit + ROUNDING, (mode, name)
            assert result.certificate.error_bound() / unit <= proved * (1 + ROUNDING), (mode, name)
        result = Rage(num_byzantine=number)(staged.updates)
        assert result.certificate is not None
        assert result.certificate.is_consistent(sigma0 * (1 + 1e-6)), name
        bound = result.certificate.error_bound(sigma0 * (1 + 1e-6)) / unit
        assert staged.error(result.update) <= bound + ROUNDING, name
        # Not proved: the error of `auto`, which is not told σ₀, stays at 2 in these families.
        assert staged.error(result.update) <= 2.0, name


def _check_peaceful(scenes: Scenes) -> None:
    lost: dict[str, list[float]] = {}
    for model, epsilon, staged in scenes.peaceful():
        weights = Rage(byzantine_fraction=epsilon)(staged.updates).weights
        lost.setdefault(model, []).append(staged.honest_weight_lost(weights))
        sigma0 = staged.population.shape.sigma0
        told = Rage(byzantine_fraction=epsilon, mode="known", sigma0=sigma0)(staged.updates)
        assert staged.honest_weight_lost(told.weights) <= 1e-9, model
    # The loss on "power" comes from few dimensions and a large assumed share: d = 10, ε = 1/4, 2.4 % of 40 draws.
    for model in {"iso", "power", "clusters"} & set(lost):
        assert sum(lost[model]) / len(lost[model]) <= 0.01, (model, lost[model])


def test_no_attack_of_the_small_grid_exceeds_what_is_proved() -> None:
    _check_attacked(SMALL)


def test_without_attack_almost_no_honest_weight_is_lost() -> None:
    _check_peaceful(replace(SMALL, seeds=tuple(range(20))))


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", FULL.epsilons)
@pytest.mark.parametrize("dim", FULL.dims)
@pytest.mark.parametrize("cohort_size", FULL.cohort_sizes)
def test_no_attack_of_the_full_grid_exceeds_what_is_proved(cohort_size: int, dim: int, epsilon: float) -> None:
    _check_attacked(Scenes(cohort_sizes=(cohort_size,), dims=(dim,), epsilons=(epsilon,), seeds=FULL.seeds))


@pytest.mark.slow
def test_without_attack_almost_no_honest_weight_is_lost_on_the_full_grid() -> None:
    _check_peaceful(replace(FULL, seeds=tuple(range(5))))
