"""Theorem 3, part 1: among honest rows with heavy noise a large subset has a small spread; the filter finds it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import binom
from tests.theory.local_runs import Clients, Matrix, alike_curvatures, walk

from steadfed.aggregators import Rage
from steadfed.theory import paper, sharp

K, LIARS, SLACK, DIM = 40, 4, 0.1, 5
SPARE = 4
"""⌈ε′K⌉ rows may be left out."""
HONEST = K - LIARS


def clients(rare: float) -> Clients:
    calm = alike_curvatures(num_clients=HONEST, dim=DIM, apart=0.1, noise=4.0)
    return Clients(calm.curvatures, calm.centre, calm.apart, calm.dissimilarity, calm.noise, HONEST, rare)


def spread(rows: Matrix) -> float:
    return float(np.linalg.eigvalsh(np.cov(rows.T, bias=True))[-1])


def found_by_the_filter(rows: Matrix) -> Matrix:
    """Return the ⌊(1 − ε̃)K⌋ honest rows that the filter trusts most."""
    weights = Rage(num_byzantine=SPARE)(torch.from_numpy(rows)).weights.numpy()
    return rows[np.argsort(-weights, kind="stable")[: K - LIARS - SPARE]]


def accumulated(problem: Clients, steps: int, seed: int) -> Matrix:
    return walk(problem, problem.centre + 1.0, steps=steps, lr=1.0 / (8 * steps), seed=seed).accumulated


def limits(problem: Clients, steps: int) -> tuple[float, float]:
    """Return the spread that the paper states, and the sharp one for the same probability of failure."""
    sizes: dict[str, Any] = {"dissimilarity": problem.dissimilarity, "noise": problem.noise, "local_steps": steps}
    stated = paper.honest_spread(**sizes, slack=SLACK, dim=DIM, cohort_size=K)
    reach = sharp.likely_deviation(
        **sizes,
        lr=1.0 / (8 * steps),
        smoothness=1.0,
        strong_convexity=problem.strong_convexity,
        outlier_probability=SLACK / 2,
    )
    return stated, reach**2


@pytest.mark.parametrize("rare", [0.0, 0.002], ids=["Student's t", "rare and long"])
@pytest.mark.parametrize("steps", [1, 5, 20])
def test_the_filter_finds_a_subset_whose_spread_is_below_both_formulas(steps: int, rare: float) -> None:
    problem, seeds = clients(rare), 40
    stated, proved = limits(problem, steps)
    assert proved < stated
    spreads = np.array([spread(found_by_the_filter(accumulated(problem, steps, seed))) for seed in range(seeds)])
    allowed = sharp.concentration_failure(num_honest=HONEST, spare=SPARE, outlier_probability=SLACK / 2)
    assert allowed <= paper.concentration_failure(slack=SLACK, byzantine_fraction=LIARS / K, cohort_size=K)
    for limit in (stated, proved):
        assert binom.sf(int((spreads > limit).sum()) - 1, seeds, allowed) > 1e-3


def test_without_leaving_rows_out_the_spread_is_sometimes_above_the_sharp_formula() -> None:
    problem = clients(0.0005)
    _, proved = limits(problem, 1)
    above = [rows for seed in range(300) if spread(rows := accumulated(problem, 1, seed)) > proved]
    assert above
    assert all(spread(found_by_the_filter(rows)) <= proved for rows in above)


def test_for_thousands_of_clients_the_papers_probability_says_something_and_is_kept() -> None:
    many, slack = 4000, 0.2
    problem = alike_curvatures(num_clients=many, dim=DIM, apart=0.1, noise=4.0)
    assert paper.concentration_failure(slack=slack, byzantine_fraction=0.0, cohort_size=many) < 1e-4
    stated = paper.honest_spread(dissimilarity=0.01, noise=4.0, local_steps=5, slack=slack, dim=DIM, cohort_size=many)
    for seed in range(10):
        rows = accumulated(problem, 5, seed)
        near = np.argsort(np.linalg.norm(rows - np.median(rows, axis=0), axis=1))[: round((1 - slack) * many)]
        assert spread(rows[near]) <= stated
