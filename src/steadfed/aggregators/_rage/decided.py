r"""Line 3 of Algorithm 2 decided rather than solved: mode "lazy".

The algorithm asks whether the saddle value exceeds 4 n σ₀² and, if so, filters with the saddle point's Y. Its proof
uses only tr Y ≤ 1 and that W is a best response to Y, never that Y is optimal. Hence three certificates, cheapest
first: a rank-one Y in closed form, the mean as W, and ADMM until one side decides. The guarantee is that of the
algorithm; the set of clients that is kept may be another.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from steadfed._core.arrays import Matrix, Vector
from steadfed._linalg.spectrum import eigen_directions, negligible_scatter
from steadfed.aggregators._rage.saddle import CHECK_EVERY, MOST_ITERATIONS, SMALLEST_GAP, Iterate, Problem, Saddle
from steadfed.aggregators._rage.simplex import distances_to_means

RANK_ONE_DIRECTIONS = 32
"""Leading directions tried as rank-one Y before the saddle point is approached in earnest."""


def decide_cheaply(gram: Matrix, weights: Vector, cap: float, threshold: float, alpha: float) -> Saddle:
    """Decide with the cheapest certificate that does: rank-one Y, mean as W, ADMM."""
    directions = eigen_directions(gram, weights, RANK_ONE_DIRECTIONS)
    first = directions.coefficients[:, :1]
    if directions.top <= negligible_scatter(gram, weights):
        return Saddle(0.0, directions.top, None, coefficients=first)
    lower, tau = rank_one_scores(directions.coordinates, weights, cap)
    upper = _mean_bound(gram, weights, cap, directions.top)
    if lower > threshold:
        return Saddle(lower, upper, tau, coefficients=first)
    if upper <= threshold:
        return Saddle(lower, upper, None, coefficients=first)
    return replace(decide(gram, weights, cap, threshold, alpha), coefficients=first)


def rank_one_scores(coordinates: Matrix, weights: Vector, cap: float) -> tuple[float, Vector]:
    r"""Return Σ c_i τ_i and τ for the best Y = v vᵀ among the directions, with W the exact best response.

    For p = the rows' coordinates along v, the columns of W reach exactly the interval [lo, hi] of ⟨w, p⟩, where lo puts
    the full cap on the smallest coordinates. So min over w_i of (p_i − ⟨w_i, p⟩)² is dist(p_i, [lo, hi])².
    """
    outside = distances_to_means(coordinates, cap)
    totals = weights @ outside**2
    best = int(np.argmax(totals))
    return float(totals[best]), outside[:, best] ** 2


def decide(gram: Matrix, weights: Vector, cap: float, threshold: float, alpha: float) -> Saddle:
    r"""Run ADMM from the mean until the threshold lies outside [lower, upper].

    N is dual feasible after every iteration, and

        lower = ⟨N, L C^{1/2}⟩ − Σ_i √c_i max_w ⟨(Lᵀ N)_i, w⟩ ≤ √value ,   upper = ‖L (I−W) C^{1/2}‖_op ≥ √value .

    To filter, Y = (N Nᵀ)^{1/2}: by Cauchy-Schwarz min_W Φ(W, Y) ≥ lower², so W is a best response to Y up to
    excess = Φ(W, Y) − lower². The honest share of the step stays below α/4, as in the paper, as soon as
    Φ(W, Y) ≥ threshold + 4 excess / α; that is the condition for filtering.
    """
    problem = Problem.of(gram, weights, cap)
    iterate = Iterate(problem, problem.mean)
    scale = problem.scale**2
    lower, upper = 0.0, np.inf
    for iteration in range(1, MOST_ITERATIONS + 1):
        iterate.advance()
        if iteration % CHECK_EVERY:
            continue
        here = max(0.0, problem.lower(iterate.nuclear))
        lower, upper = max(lower, here**2), min(upper, problem.upper(iterate.w_matrix))
        if scale * upper <= threshold:
            return Saddle(scale * lower, scale * upper, None, num_iterations=iteration)
        energy = scale * ((iterate.root_y @ problem.residual(iterate.w_matrix)) ** 2).sum(axis=0)  # c_i τ_i
        excess = max(0.0, float(energy.sum()) - scale * here**2)
        if energy.sum() >= threshold + 4.0 * excess / alpha:
            return Saddle(scale * lower, scale * upper, energy / weights, excess, iteration)
        if upper - lower <= SMALLEST_GAP * upper:
            break
    return Saddle(scale * lower, scale * upper, None, num_iterations=iteration, decided=False)


def _mean_bound(gram: Matrix, weights: Vector, cap: float, weighted: float) -> float:
    """Return max_Y Φ for the better of two feasible W: the plain mean and, if the cap allows, the weighted one."""
    centred = gram - gram.mean(axis=0) - gram.mean(axis=1)[:, None] + gram.mean()
    plain = float(np.linalg.eigvalsh(np.sqrt(weights)[:, None] * centred * np.sqrt(weights))[-1])
    return min(plain, weighted) if weights.max() / weights.sum() <= cap * (1.0 + 1e-12) else plain
