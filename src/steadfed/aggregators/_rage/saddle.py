r"""Line 3 of Algorithm 2: the saddle point, decided rather than solved.

With L any square root of the Gram matrix of the active rows (LᵀL = Q) and C = diag(c), the paper's saddle value is

    max_Y min_W Φ(W, Y) = min_W λ_max( G (I−W) C (I−W)ᵀ Gᵀ ) = min_W ‖ L (I−W) C^{1/2} ‖²_op ,

over W whose columns lie in the capped simplex {0 ≤ w ≤ 1/(t n), Σ w = 1}: Φ is linear in Y and convex in W over compact
convex sets, so the order of max and min does not matter. Algorithm 2 only asks whether the value exceeds 4 n σ₀² and,
if so, for some Y with tr Y ≤ 1 and W a best response to it. Its proof never uses that Y is optimal. Hence three
certificates, cheapest first: a rank-one Y in closed form, the mean as W, and ADMM until one side decides.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from steadfed._core.arrays import Matrix, Vector

CHECK_EVERY = 5
"""ADMM iterations between two looks at the bounds."""
SMALLEST_GAP = 1e-6
"""Relative gap of the bounds at which a threshold between them is left undecided: an adversary may put it there."""
MOST_ITERATIONS = 1000
"""ADMM iterations at the most; a relative gap of 1e-6 needs a few hundred."""
OVER_RELAXATION = 1.6
NEWTON_STEPS = 100
"""Steps at the most for a projection on the capped simplex; the iteration is finite and needs about ten."""


@dataclass(frozen=True)
class Saddle:
    """A decided saddle point: bounds on its value and, if it is above the threshold, what to filter with."""

    lower: float
    upper: float
    tau: Vector | None
    """The scores τ_i of line 4, if the value exceeds the threshold; None if filtering may stop."""
    excess: float = 0.0
    """Σ c_i τ_i minus a lower bound of the best response to Y: zero for a rank-one Y."""
    num_iterations: int = 0
    decided: bool = True
    """Whether the threshold lies outside the bounds."""


def rank_one_scores(coordinates: Matrix, weights: Vector, cap: float) -> tuple[float, Vector]:
    r"""Return Σ c_i τ_i and τ for the best Y = v vᵀ among the directions, with W the exact best response.

    For p = the rows' coordinates along v, the columns of W reach exactly the interval [lo, hi] of ⟨w, p⟩, where lo puts
    the full cap on the smallest coordinates. So min over w_i of (p_i − ⟨w_i, p⟩)² is dist(p_i, [lo, hi])².
    """
    ordered = np.sort(coordinates, axis=0)
    low, high = _extreme_means(ordered, cap), -_extreme_means(-ordered[::-1], cap)
    outside = np.maximum(low - coordinates, 0.0) + np.maximum(coordinates - high, 0.0)
    totals = weights @ outside**2
    best = int(np.argmax(totals))
    return float(totals[best]), outside[:, best] ** 2


def decide(gram: Matrix, weights: Vector, cap: float, threshold: float, alpha: float) -> Saddle:
    r"""Run ADMM on min ‖M‖_op over M = L (I−V) C^{1/2}, V = W, until the threshold lies outside [lower, upper].

    V-update: (Q V C + V) = right-hand side, diagonal in the eigenbasis of Q. M-update: clipping of singular values
    (Moreau: what is clipped is the projection N on the nuclear unit ball). W-update: projection on the capped simplex.
    N is dual feasible after every iteration, and

        lower = ⟨N, L C^{1/2}⟩ − Σ_i √c_i max_w ⟨(Lᵀ N)_i, w⟩ ≤ √value ,   upper = ‖L (I−W) C^{1/2}‖_op ≥ √value .

    To filter, Y = (N Nᵀ)^{1/2}: by Cauchy-Schwarz min_W Φ(W, Y) ≥ lower², so W is a best response to Y up to
    excess = Φ(W, Y) − lower². The honest share of the step stays below α/4, as in the paper, as soon as
    Φ(W, Y) ≥ threshold + 4 excess / α; that is the condition for filtering.
    """
    problem = _Problem.of(gram, weights, cap)
    iterate = _Iterate(problem)
    scale = problem.scale**2
    lower, upper = 0.0, np.inf
    for iteration in range(1, MOST_ITERATIONS + 1):
        iterate.advance()
        if iteration % CHECK_EVERY:
            continue
        here = max(0.0, problem.lower(iterate.nuclear))
        residual = problem.residual(iterate.w_matrix)
        lower, upper = max(lower, here), min(upper, float(np.linalg.norm(residual, 2)))
        if scale * upper**2 <= threshold:
            return Saddle(scale * lower**2, scale * upper**2, None, num_iterations=iteration)
        energy = scale * ((iterate.root_y @ residual) ** 2).sum(axis=0)  # c_i τ_i
        excess = max(0.0, float(energy.sum()) - scale * here**2)
        if energy.sum() >= threshold + 4.0 * excess / alpha:
            return Saddle(scale * lower**2, scale * upper**2, energy / weights, excess, iteration)
        if upper - lower <= SMALLEST_GAP * upper:
            break
    return Saddle(scale * lower**2, scale * upper**2, None, num_iterations=iteration, decided=False)


def project_on_capped_simplex(matrix: Matrix, cap: float) -> Matrix:
    """Return the columns' Euclidean projections on {0 ≤ w ≤ cap, Σ w = 1}.

    The projection is clip(v − s, 0, cap) with s such that the sum is 1. The sum is piecewise linear and decreasing in
    s; Newton steps, kept inside a bracket, find s in finitely many steps.
    """
    low, high = matrix.min(axis=0) - cap, matrix.max(axis=0)
    shift = (low + high) / 2.0
    for _ in range(NEWTON_STEPS):
        moved = matrix - shift
        surplus = np.clip(moved, 0.0, cap).sum(axis=0) - 1.0
        if np.abs(surplus).max() <= 1e-14:
            break
        low, high = np.where(surplus > 0, shift, low), np.where(surplus > 0, high, shift)
        slope = ((moved > 0) & (moved < cap)).sum(axis=0)
        newton = shift + surplus / np.maximum(slope, 1)
        shift = np.where((slope > 0) & (newton > low) & (newton < high), newton, (low + high) / 2.0)
    return np.asarray(np.clip(matrix - shift, 0.0, cap))


@dataclass(frozen=True)
class _Problem:
    """min ‖L (I−W) C^{1/2}‖_op, scaled so that ‖L C^{1/2}‖_op = 1."""

    root: Matrix
    """L"""
    half: Vector
    """√c"""
    basis: Matrix
    eigenvalues: Vector
    cap: float
    scale: float

    @classmethod
    def of(cls, gram: Matrix, weights: Vector, cap: float) -> _Problem:
        """Centre the rows (1ᵀ(I−W) = 0, so a common shift does not matter), take a root of Q and scale it."""
        centred = gram - gram.mean(axis=0) - gram.mean(axis=1)[:, None] + gram.mean()
        eigenvalues, basis = np.linalg.eigh((centred + centred.T) / 2.0)
        eigenvalues = np.maximum(eigenvalues, 0.0)
        half = np.sqrt(weights)
        scale = float(np.linalg.norm((basis * np.sqrt(eigenvalues)).T * half, 2))
        eigenvalues = eigenvalues / scale**2
        return cls((basis * np.sqrt(eigenvalues)).T, half, basis, eigenvalues, cap, scale)

    def residual(self, w_matrix: Matrix) -> Matrix:
        """Return L (I−W) C^{1/2}."""
        return (self.root - self.root @ w_matrix) * self.half

    def solve(self, target: Matrix, image: Matrix) -> Matrix:
        """Return the V that minimises ‖image − L (I−V) C^{1/2}‖² + ‖target − V‖²."""
        right = target - self.root.T @ (image - self.root * self.half) * self.half
        return np.asarray(self.basis @ ((self.basis.T @ right) / (self.eigenvalues[:, None] * self.half**2 + 1.0)))

    def lower(self, nuclear: Matrix) -> float:
        """Return ⟨N, L C^{1/2}⟩ − Σ_i √c_i max_w ⟨(Lᵀ N)_i, w⟩."""
        prices = self.root.T @ nuclear
        highest = -_extreme_means(-np.sort(prices, axis=0)[::-1], self.cap)
        return float((prices.diagonal() - highest) @ self.half)


class _Iterate:
    """The ADMM iterate; `w_matrix` is feasible and `nuclear` dual feasible after every step."""

    def __init__(self, problem: _Problem) -> None:
        n = len(problem.half)
        self.problem = problem
        self.w_matrix = np.full((n, n), 1.0 / n)
        self.m_matrix = problem.residual(self.w_matrix)
        self.nuclear = np.zeros((n, n))
        """N, minus the multiplier of M = L (I−V) C^{1/2}."""
        self.root_y = np.zeros((n, n))
        """Y^{1/2} for Y = (N Nᵀ)^{1/2}."""
        self._dual_w = np.zeros((n, n))

    def advance(self) -> None:
        """Do one iteration: V, then M and W from the over-relaxed V, then the multipliers."""
        v_matrix = self.problem.solve(self.w_matrix + self._dual_w, self.m_matrix - self.nuclear)
        image = OVER_RELAXATION * self.problem.residual(v_matrix) + (1.0 - OVER_RELAXATION) * self.m_matrix
        relaxed = OVER_RELAXATION * v_matrix + (1.0 - OVER_RELAXATION) * self.w_matrix
        left, values, right = np.linalg.svd(image + self.nuclear)
        clipped = _project_on_l1_ball(values)
        self.m_matrix = (left * (values - clipped)) @ right
        self.nuclear = (left * clipped) @ right
        self.root_y = (left * np.sqrt(clipped)).T
        self.w_matrix = project_on_capped_simplex(relaxed - self._dual_w, self.problem.cap)
        self._dual_w += self.w_matrix - relaxed


def _extreme_means(ordered: Matrix, cap: float) -> Vector:
    """Return min_w ⟨w, p⟩ over the capped simplex for every column p, given in ascending order."""
    full = min(int(np.floor(1.0 / cap + 1e-9)), len(ordered))
    mean = cap * ordered[:full].sum(axis=0)
    return np.asarray(mean + (1.0 - full * cap) * ordered[full] if full < len(ordered) else mean / (full * cap))


def _project_on_l1_ball(values: Vector) -> Vector:
    """Return the projection of a descending non-negative vector on {x ≥ 0, Σ x ≤ 1}."""
    if values.sum() <= 1.0:
        return values.copy()
    surplus = (np.cumsum(values) - 1.0) / np.arange(1, len(values) + 1)
    last = int(np.flatnonzero(values > surplus)[-1])
    return np.asarray(np.maximum(values - surplus[last], 0.0))
