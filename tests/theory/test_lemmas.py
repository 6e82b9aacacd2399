"""The lemmas of docs/theory/convergence.md, measured on local runs that are computed literally."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from tests.theory.local_runs import Clients, Matrix, Walk, alike_curvatures, rough, walk
from tests.theory.problems import LOCAL_STEPS, mean_and_error

from steadfed.aggregators import Rage
from steadfed.aggregators._rage.constants import filter_constant
from steadfed.attacks import ATTACKS, AdversaryView, Attack
from steadfed.theory import paper, sharp

ALIKE = alike_curvatures(num_clients=20, dim=5, apart=0.5, noise=4.0)
ROUGH = rough(num_clients=20, dim=5, apart=0.5, noise=0.001, frequency=1e4)
"""Clients ten thousand times as curved as F: gradients of neighbouring points have nothing in common."""
PROBLEMS = {"alike": ALIKE, "rough": ROUGH}
SEEDS = 60


def walks(problem: Clients, steps: int, step: float) -> list[Walk]:
    start = problem.centre + 3.0
    return [
        walk(problem, start, steps=steps, lr=step / (steps * problem.smoothness), seed=seed) for seed in range(SEEDS)
    ]


def numbers(problem: Clients, steps: int, step: float, *, strong: bool = True) -> dict[str, Any]:
    return {
        "local_steps": steps,
        "lr": step / (steps * problem.smoothness),
        "smoothness": problem.smoothness,
        "strong_convexity": problem.strong_convexity if strong else 0.0,
    }


def squares(rows: Matrix) -> Matrix:
    found: Matrix = np.square(rows).sum(axis=-1)
    return found


def assert_mean_below(samples: list[Any], bound: float) -> None:
    mean, error = mean_and_error(samples)
    assert (mean - 3.0 * error <= bound * (1 + 1e-9)).all(), f"{np.max(mean):.6g} ± {np.max(error):.2g} > {bound:.6g}"


grid = pytest.mark.parametrize(
    ("name", "steps", "step"),
    [(name, steps, step) for name in PROBLEMS for steps in LOCAL_STEPS for step in (0.125, 0.2, float(steps))],
)


@grid
def test_lemma_2_splits_a_row_into_a_sure_part_and_noise(name: str, steps: int, step: float) -> None:
    problem = PROBLEMS[name]
    rate = sharp.lipschitz(
        **{key: value for key, value in numbers(problem, steps, step).items() if key != "local_steps"}
    )
    apart = sharp.growth(rate, steps) * np.sqrt(problem.dissimilarity)
    noise = []
    for each in walks(problem, steps, step):
        sure = (each.noisy[-1] - each.clients[-1]) / each.lr
        rest = (each.reference[-1] - each.noisy[-1]) / each.lr
        assert sure + rest == pytest.approx(each.accumulated - each.centre, abs=1e-9)
        assert np.sqrt(squares(sure)).max() <= apart * (1 + 1e-9)
        noise.append(squares(rest).mean())
    assert_mean_below(noise, sharp.growth(rate**2, steps) * problem.noise)


@grid
def test_lemmas_2_to_4_bound_rows_their_mean_and_their_spread(name: str, steps: int, step: float) -> None:
    problem, found = PROBLEMS[name], walks(PROBLEMS[name], steps, step)
    sizes: dict[str, Any] = {"dissimilarity": problem.dissimilarity, "noise": problem.noise}
    for strong in (True, False):
        shape = numbers(problem, steps, step, strong=strong)
        reach = sharp.client_deviation(**shape, **sizes)
        assert_mean_below([squares(each.accumulated - each.centre).mean() for each in found], reach**2)
        assert_mean_below([spread_and_bias(each) for each in found], reach**2)
        centre = sharp.mean_deviation(**shape, **sizes, num_honest=problem.num_clients)
        means = [squares(each.accumulated.mean(axis=0) - each.centre) for each in found]
        assert_mean_below(means, centre**2)


def spread_and_bias(each: Walk) -> float:
    rows = each.accumulated
    bias = float(squares(rows.mean(axis=0) - each.centre))
    return float(np.linalg.eigvalsh(np.cov(rows.T, bias=True))[-1]) + bias


@grid
def test_lemma_4_b_no_more_rows_are_far_than_the_binomial_law_allows(name: str, steps: int, step: float) -> None:
    problem, chance = PROBLEMS[name], 0.1
    reach = sharp.likely_deviation(
        **numbers(problem, steps, step),
        dissimilarity=problem.dissimilarity,
        noise=problem.noise,
        outlier_probability=chance,
    )
    far = [int((squares(each.accumulated - each.centre) > reach**2).sum()) for each in walks(problem, steps, step)]
    for spare in range(5):
        stated = sharp.concentration_failure(num_honest=20, spare=spare, outlier_probability=chance)
        assert_mean_below([float(number > spare) for number in far], stated)


def aggregated(rows: Matrix, attack: Attack, *, num_byzantine: int, assumed: int, seed: int) -> Matrix:
    """Return what RAGE makes of the rows when the first are forged."""
    honest = torch.from_numpy(rows)
    rule = Rage(num_byzantine=assumed)
    view = AdversaryView(
        num_byzantine=num_byzantine,
        cohort_size=len(rows),
        own_rows=honest[:num_byzantine],
        honest_rows=honest[num_byzantine:],
        server_rule=rule,
        seed=seed,
    )
    return np.asarray(rule(torch.cat([attack(view).sent, honest[num_byzantine:]])).update.numpy())


@pytest.mark.parametrize("attack", ["alie", "min-max", "sign-flip", "duplicates"])
@pytest.mark.parametrize("name", PROBLEMS)
def test_lemma_5_bounds_the_error_of_a_round(name: str, attack: str) -> None:
    problem = PROBLEMS[name]
    sizes = {**numbers(problem, 5, 0.2), "dissimilarity": problem.dissimilarity, "noise": problem.noise}
    bound = sharp.decoding_error(
        constant=filter_constant("auto", 0.2, num_rows=20),
        fraction=0.2,
        deviation=sharp.client_deviation(**sizes),
        mean=sharp.mean_deviation(**sizes, num_honest=16),
    )
    errors = [
        squares(
            aggregated(each.accumulated, ATTACKS.build(attack), num_byzantine=4, assumed=4, seed=seed) - each.centre
        )
        for seed, each in enumerate(walks(problem, 5, 0.2)[:30])
    ]
    assert_mean_below(errors, bound**2)


@pytest.mark.parametrize("steps", LOCAL_STEPS)
def test_theorem_1_holds_for_clients_that_are_much_more_curved_than_the_objective(steps: int) -> None:
    shape = numbers(ROUGH, steps, 0.5)
    sizes = {**shape, "dissimilarity": ROUGH.dissimilarity, "noise": ROUGH.noise}
    error = sharp.decoding_error(
        constant=filter_constant("auto", 0.2, num_rows=20), fraction=0.2, deviation=sharp.client_deviation(**sizes)
    )
    start, paths = ROUGH.centre + 3.0, []
    for seed in range(4):
        x, path = start, [squares(start - ROUGH.centre)]
        for number in range(20):
            rows = walk(ROUGH, x, steps=steps, lr=shape["lr"], seed=100 * seed + number).accumulated
            x = x - shape["lr"] * aggregated(rows, ATTACKS.build("min-max"), num_byzantine=4, assumed=4, seed=seed)
            path.append(squares(x - ROUGH.centre))
        paths.append(np.array(path))
    mean, spread = mean_and_error(paths)
    bound = sharp.distance_bound(np.arange(21), distance=float(paths[0][0]), error=error, **shape)
    assert (mean - 3 * spread <= bound * (1 + 1e-9)).all()
    assert bound[-1] < 0.7 * bound[0]


def total_variance(problem: Clients, steps: int) -> float:
    rows = np.array([each.accumulated for each in walks(problem, steps, 0.125)])
    return float(rows.var(axis=0, ddof=1).sum(axis=-1).mean())


def test_claim_1_of_the_paper_holds_for_clients_as_smooth_as_the_objective_and_fails_for_rough_ones() -> None:
    for steps in (2, 5, 20):
        for problem, holds in ((ALIKE, True), (ROUGH, False)):
            stated = paper.accumulated_variance(noise=problem.noise, local_steps=steps)
            assert (total_variance(problem, steps) <= stated) == holds


def pairs(measure: Callable[[Matrix, Matrix], Matrix], rows: Matrix) -> Matrix:
    """Return a measure of all pairs of clients; rows are … × R × d."""
    return measure(rows[..., :, None, :], rows[..., None, :, :])


@pytest.mark.parametrize("steps", LOCAL_STEPS)
def test_lemma_2_of_the_paper_bounds_the_drift_of_any_two_clients(steps: int) -> None:
    sizes: dict[str, Any] = {"smoothness": 1.0, "local_steps": steps}
    drifts = [pairs(lambda a, b: squares(a - b).sum(axis=0), each.clients[:-1]) for each in walks(ALIKE, steps, 0.125)]
    assert_mean_below(drifts, paper.drift(noise=4.0, dissimilarity=0.25, **sizes))
    (calm, *_) = walks(replace(ALIKE, noise=0.0), steps, 0.2)
    drift = pairs(lambda a, b: squares(a - b).sum(axis=0), calm.clients[:-1])
    assert drift.max() <= paper.full_batch_drift(dissimilarity=0.25, **sizes)
    gap = pairs(lambda a, b: squares(a - b), calm.accumulated)  # for linear gradients the mean of y is y without noise
    assert gap.max() <= paper.expectation_gap(dissimilarity=0.25, drift=float(drift.max()), **sizes)


@pytest.mark.parametrize("steps", LOCAL_STEPS)
def test_claim_4_of_the_paper_bounds_the_gap_of_gradients_at_every_step(steps: int) -> None:
    gaps = [
        squares((each.own - ALIKE.gradient(each.clients[:-1].mean(axis=1))[:, None]).mean(axis=1))
        for each in walks(ALIKE, steps, 0.125)
    ]
    assert_mean_below(gaps, paper.gradient_gap(noise=4.0, dissimilarity=0.25, local_steps=steps))


@pytest.mark.parametrize("attack", ["alie", "min-max", "sign-flip"])
def test_claim_5_of_the_paper_bounds_the_error_against_the_sum_of_true_gradients(attack: str) -> None:
    spread = paper.honest_spread(noise=4.0, dissimilarity=0.25, local_steps=5, slack=0.05, dim=5, cohort_size=20)
    error = paper.filter_error(sigma0=np.sqrt(spread), byzantine_fraction=0.15, slack=0.05, cohort_size=20)
    bound = paper.decoding_error(filter_error=error, noise=4.0, dissimilarity=0.25, local_steps=5)
    errors = [
        squares(
            aggregated(each.accumulated, ATTACKS.build(attack), num_byzantine=3, assumed=4, seed=seed)
            - each.own.sum(axis=0).mean(axis=0)
        )
        for seed, each in enumerate(walks(ALIKE, 5, 0.125)[:30])
    ]
    assert_mean_below(errors, bound)
