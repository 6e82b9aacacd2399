"""σ² and κ² of sampled data: below their bounds over many seeds, and not far below."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from steadfed._core.rng import stream
from steadfed.errors import ParameterError
from steadfed.theory import Problem
from steadfed.theory.remarks import GradientLaw, fewest_points, sampled_dissimilarity, sampled_variance

Array = NDArray[np.float64]
FAILURE = 0.1
SEEDS = 60
CLIENTS = 12
LAPLACE = {"proxy_variance": 4.0 * math.log(2.0), "tail_scale": math.sqrt(2.0)}
"""Laplace's law of scale 1: −log(1 − u) ≤ 2u log 2 for 0 ≤ u = λ² ≤ 1/2, and independent coordinates add up."""


def drawn(kind: str, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Return independent coordinates of mean 0."""
    if kind == "normal":
        return rng.standard_normal(shape)
    if kind == "uniform":
        return math.sqrt(3.0) * rng.uniform(-1.0, 1.0, shape)  # a proxy of 1: sinh(√3λ)/(√3λ) ≤ exp(λ²/2)
    return rng.laplace(size=shape) if kind == "laplace" else rng.choice([-1.0, 1.0], size=shape)


def measured(gradients: Array) -> tuple[float, float]:
    """Return σ² and κ² of gradients, clients × points × d, as Assumptions 1 and 2 define them."""
    local = gradients.mean(axis=1)
    variances = np.square(gradients - local[:, None]).sum(axis=2).mean(axis=1)
    return float(variances.max()), float(np.square(local - local.mean(axis=0)).sum(axis=1).max())


def assert_rarely_above(values: list[float], bound: float, tightest: float, what: object) -> None:
    """Fail if more values are above the bound than chance explains, or if all are far below it."""
    above = sum(value > bound for value in values)
    assert above <= binom.ppf(0.999, len(values), FAILURE), what
    assert bound <= tightest * max(values), f"{what}: {bound:.4g} is {bound / max(values):.3g} times the largest"


@pytest.mark.parametrize("kind", ["normal", "signs", "uniform"])
@pytest.mark.parametrize(("dim", "points"), [(1, 1), (1, 40), (30, 1), (30, 40), (200, 10)])
def test_sub_gaussian_gradients_keep_to_the_bounds_which_are_close(kind: str, dim: int, points: int) -> None:
    law = GradientLaw(dim=dim, proxy_variance=1.0)
    numbers: dict[str, Any] = {"num_points": points, "num_clients": CLIENTS, "failure": FAILURE}
    found = [measured(drawn(kind, stream(seed, "gradients", kind), (CLIENTS, points, dim))) for seed in range(SEEDS)]
    variance, apart = sampled_variance(law, **numbers), sampled_dissimilarity(law, mean_dissimilarity=0.0, **numbers)
    if points > 1:
        assert_rarely_above([each[0] for each in found], variance, 2.6, (kind, dim, points, "σ²"))
    assert_rarely_above([each[1] for each in found], apart, 14.0 if dim == 1 else 2.0, (kind, dim, points, "κ²"))


@pytest.mark.parametrize(("dim", "points"), [(1, 1), (20, 2), (20, 100), (20, 1000), (100, 400)])
def test_sub_exponential_gradients_keep_to_the_bound_with_many_points_and_with_few(dim: int, points: int) -> None:
    law = GradientLaw(dim=dim, **LAPLACE)
    bound = sampled_dissimilarity(law, mean_dissimilarity=0.0, num_points=points, num_clients=CLIENTS, failure=FAILURE)
    values = [measured(drawn("laplace", stream(seed, "gradients"), (CLIENTS, points, dim)))[1] for seed in range(SEEDS)]
    assert_rarely_above(values, bound, 12.0, (dim, points))


def test_expected_gradients_that_differ_add_their_distance() -> None:
    dim, points = 10, 50
    centres = stream(0, "centres").standard_normal((CLIENTS, dim))
    mean = float(np.square(centres - centres.mean(axis=0)).sum(axis=1).max())
    law = GradientLaw(dim=dim, proxy_variance=4.0)
    bound = sampled_dissimilarity(law, mean_dissimilarity=mean, num_points=points, num_clients=CLIENTS, failure=FAILURE)
    values = [
        measured(centres[:, None] + 2.0 * drawn("normal", stream(seed, "apart"), (CLIENTS, points, dim)))[1]
        for seed in range(SEEDS)
    ]
    assert_rarely_above(values, bound, 2.0, "κ²")
    assert max(values) > mean


def test_clients_with_different_numbers_of_points_keep_to_the_bounds_of_the_smallest() -> None:
    sizes, dim = np.array([20, *np.arange(30, 30 + 10 * (CLIENTS - 1), 10)]), 15
    law = GradientLaw(dim=dim, proxy_variance=1.0)
    numbers: dict[str, Any] = {"num_points": 20, "num_clients": CLIENTS, "failure": FAILURE}
    variances, distances = [], []
    for seed in range(SEEDS):
        rng = stream(seed, "sizes")
        clients = [rng.standard_normal((size, dim)) for size in sizes]
        local = np.array([rows.mean(axis=0) for rows in clients])
        variances.append(max(float(np.square(rows - rows.mean(0)).sum(1).mean()) for rows in clients))
        distances.append(float(np.square(local - local.mean(axis=0)).sum(axis=1).max()))
    assert_rarely_above(variances, sampled_variance(law, **numbers), 2.0, "σ²")
    assert_rarely_above(distances, sampled_dissimilarity(law, mean_dissimilarity=0.0, **numbers), 3.0, "κ²")


def test_bounds_over_a_ball_hold_at_its_worst_model_and_are_close() -> None:
    # f(x; ξ, ζ) = Σ_j (ξ_j sin x_j − ζ_j cos x_j) with random signs: the gradient ξ_j cos x_j + ζ_j sin x_j has a proxy
    # of cos² + sin² = 1 at every x, and ℓ = √2. The sample of models finds less than the worst one.
    dim, points, radius = 3, 60, 5.0
    law = GradientLaw(dim=dim, proxy_variance=1.0, point_smoothness=math.sqrt(2.0), radius=radius)
    numbers: dict[str, Any] = {"num_points": points, "num_clients": CLIENTS, "failure": FAILURE}
    variances, distances = [], []
    for seed in range(20):
        rng = stream(seed, "waves")
        first, second = rng.choice([-1.0, 1.0], size=(2, CLIENTS, points, dim))
        models = rng.standard_normal((300, dim))
        models *= radius * rng.uniform(size=(300, 1)) ** (1 / dim) / np.linalg.norm(models, axis=1, keepdims=True)
        found = np.array([measured(first * np.cos(x) + second * np.sin(x)) for x in models])
        variances.append(float(found[:, 0].max()))
        distances.append(float(found[:, 1].max()))
    assert_rarely_above(variances, sampled_variance(law, **numbers), 2.0, "σ²")
    assert_rarely_above(distances, sampled_dissimilarity(law, mean_dissimilarity=0.0, **numbers), 8.0, "κ²")
    here = GradientLaw(dim=dim, proxy_variance=1.0)
    assert sampled_variance(here, **numbers) < sampled_variance(law, **numbers)


def test_the_bounds_grow_as_the_paper_says() -> None:
    # κ² − κ_mean² like d log(nd)/n over a ball whose radius is a power of d, σ² like d log d at worst
    numbers: dict[str, Any] = {"num_clients": 50, "failure": 0.01}
    grid = [(dim, points) for dim in (10, 100, 1000, 10_000) for points in (10, 1000, 10**5)]
    ratios = []
    for dim, points in grid:
        law = GradientLaw(dim=dim, proxy_variance=1.0, point_smoothness=1.0, radius=math.sqrt(dim))
        apart = sampled_dissimilarity(law, mean_dissimilarity=0.0, num_points=points, **numbers)
        ratios.append(apart / (dim * math.log(points * dim) / points))
        assert sampled_variance(law, num_points=points, **numbers) <= 6.0 * dim * math.log(dim)
    assert max(ratios) <= 8.0
    assert max(ratios) <= 4.0 * min(ratios)


def test_with_enough_points_the_tail_does_not_matter_and_with_one_less_it_does() -> None:
    for dim, radius in ((1, 0.0), (30, 0.0), (30, 4.0), (400, 100.0)):
        law = GradientLaw(dim=dim, proxy_variance=2.0, tail_scale=3.0, point_smoothness=1.5, radius=radius)
        lighter = law.model_copy(update={"tail_scale": 1e-9})
        enough = fewest_points(law, num_clients=7, failure=0.05)
        numbers: dict[str, Any] = {"mean_dissimilarity": 0.0, "num_clients": 7, "failure": 0.05}
        for points in (enough, enough + 1, 2 * enough, 50 * enough):
            assert sampled_dissimilarity(law, num_points=points, **numbers) == pytest.approx(
                sampled_dissimilarity(lighter, num_points=points, **numbers), rel=1e-12
            )
        assert sampled_dissimilarity(law, num_points=enough - 1, **numbers) > sampled_dissimilarity(
            lighter, num_points=enough - 1, **numbers
        )


def test_the_fewest_points_are_those_of_a_search_from_above() -> None:
    numbers = np.arange(1, 4000)
    for seed in range(300):
        rng = stream(seed, "laws")
        law = GradientLaw(
            dim=int(rng.integers(1, 30)),
            proxy_variance=float(rng.uniform(0.5, 2.0)),
            tail_scale=float(rng.uniform(0.0, 2.0)),
            point_smoothness=1.0,
            radius=float(rng.uniform(0.0, 20.0)),
        )
        clients = int(rng.integers(1, 9))
        ratio = 4.0 * law.radius * np.sqrt(numbers / (law.dim * law.proxy_variance))
        exponent = math.log(clients / 0.05) + law.dim * (np.log1p(ratio) + math.log(2.5))
        needed = (1 - 1 / clients) * 50 / 13 * law.tail_scale**2 / law.proxy_variance * exponent
        few = np.flatnonzero(needed > numbers)
        enough = int(few[-1]) + 2 if len(few) else 1
        assert enough < 3900
        assert fewest_points(law, num_clients=clients, failure=0.05) == enough


def test_the_number_of_points_that_is_enough_grows_like_d_log_nd() -> None:
    ratios = []
    for dim in (10, 100, 1000, 10_000):
        law = GradientLaw(dim=dim, proxy_variance=1.0, tail_scale=1.0, point_smoothness=1.0, radius=math.sqrt(dim))
        enough = fewest_points(law, num_clients=10, failure=0.01)
        ratios.append(enough / (dim * math.log(enough * dim)))
    assert max(ratios) <= 2.0 * min(ratios)
    assert fewest_points(GradientLaw(dim=3, proxy_variance=1.0), num_clients=10, failure=0.01) == 1
    assert fewest_points(law, num_clients=1, failure=0.01) == 1


def test_more_points_fewer_clients_and_less_certainty_make_bounds_smaller() -> None:
    law = GradientLaw(dim=20, proxy_variance=1.0, point_smoothness=1.0, radius=2.0)
    base: dict[str, Any] = {"num_points": 30, "num_clients": 20, "failure": 0.01}
    for change in ({"num_points": 31}, {"num_clients": 19}, {"failure": 0.02}):
        assert sampled_variance(law, **(base | change)) < sampled_variance(law, **base)
        assert sampled_dissimilarity(law, mean_dissimilarity=1.0, **(base | change)) < sampled_dissimilarity(
            law, mean_dissimilarity=1.0, **base
        )


def test_one_client_is_no_different_from_itself_and_a_ball_of_no_size_is_one_model() -> None:
    law = GradientLaw(dim=20, proxy_variance=1.0)
    base: dict[str, Any] = {"num_points": 30, "failure": 0.01}
    assert sampled_dissimilarity(law, mean_dissimilarity=0.0, num_clients=1, **base) == 0.0
    for change in ({"radius": 3.0}, {"point_smoothness": 3.0}):
        same = GradientLaw(dim=20, proxy_variance=1.0, **change)
        assert sampled_variance(same, num_clients=5, **base) == sampled_variance(law, num_clients=5, **base)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_points": 0}, "num_points must be a whole number of at least 1, got 0"),
        ({"num_clients": 1.5}, "num_clients must be a whole number of at least 1, got 1.5"),
        ({"failure": 0.0}, "failure must be a number strictly between 0 and 1, got 0.0"),
    ],
)
def test_numbers_out_of_range_are_refused(change: dict[str, Any], message: str) -> None:
    law = GradientLaw(dim=2, proxy_variance=1.0)
    numbers = {"num_points": 3, "num_clients": 4, "failure": 0.1} | change
    with pytest.raises(ParameterError, match=message):
        sampled_variance(law, **numbers)
    with pytest.raises(ParameterError, match=message):
        sampled_dissimilarity(law, mean_dissimilarity=0.0, **numbers)


def test_laws_that_say_nothing_are_refused() -> None:
    with pytest.raises(ParameterError, match="mean_dissimilarity must be a finite number of at least 0, got -1"):
        sampled_dissimilarity(
            GradientLaw(dim=2, proxy_variance=1.0), mean_dissimilarity=-1, num_points=1, num_clients=2, failure=0.1
        )
    with pytest.raises(ParameterError, match="proxy_variance"):
        GradientLaw(dim=2, proxy_variance=0.0)
    heavy = GradientLaw(dim=2, proxy_variance=1e-30, tail_scale=1.0)
    with pytest.raises(ParameterError, match=r"tail_scale must be 0 for a bound of σ².*got 1.0"):
        sampled_variance(heavy, num_points=3, num_clients=4, failure=0.1)
    with pytest.raises(ParameterError, match=r"tail_scale must be so small that 1e\+15 points are enough, got 1.0"):
        fewest_points(heavy, num_clients=4, failure=0.1)


def test_the_bounds_are_numbers_of_a_problem() -> None:
    law = GradientLaw(dim=10, proxy_variance=1.0)
    numbers: dict[str, Any] = {"num_points": 100, "num_clients": 30, "failure": 0.005}
    problem = Problem(
        smoothness=1.0,
        gradient_variance=sampled_variance(law, **numbers),
        dissimilarity=sampled_dissimilarity(law, mean_dissimilarity=0.0, **numbers),
        gap=1.0,
    )
    assert 10.0 < problem.gradient_variance < 13.0
    assert 0.1 < problem.dissimilarity < 0.5
