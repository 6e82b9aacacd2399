r"""Line 3 of Algorithm 2 in Gram space: the saddle point, bounds on its value, and iterations towards it.

With L any root of the Gram matrix of the active rows (LᵀL = Q) and C = diag(c), the paper's saddle value is

    max_Y min_W Φ(W, Y) = min_W λ_max( G (I−W) C (I−W)ᵀ Gᵀ ) = min_W ‖ L (I−W) C^{1/2} ‖²_op ,

over W whose columns lie in the capped simplex {0 ≤ w ≤ 1/(t n), Σ w = 1}: Φ is linear in Y and convex in W over compact
convex sets, so the order of max and min does not matter. Mode "exact" solves it (`solved.py`), mode "lazy" only decides
on which side of the threshold it lies (`decided.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from steadfed._core.arrays import Matrix, Vector
from steadfed.aggregators._rage.simplex import project_on_capped_simplex, smallest_means

CHECK_EVERY = 5
"""ADMM iterations between two looks at the bounds."""
SMALLEST_GAP = 1e-6
"""Relative gap of the bounds at which a threshold between them is left undecided: an adversary may put it there."""
MOST_ITERATIONS = 1000
"""ADMM iterations at the most; a relative gap of 1e-6 may need more."""
OVER_RELAXATION = 1.6
RANK = 1e-14
"""Eigenvalues of the Gram matrix below this share of the largest are rounding, and their directions are left out."""


@dataclass(frozen=True)
class Saddle:
    """What is known of one saddle point: bounds on its value and, if it is above the threshold, what to filter with."""

    lower: float
    upper: float
    tau: Vector | None
    """The scores τ_i of line 4, if the value exceeds the threshold; None if filtering may stop."""
    excess: float = 0.0
    """Σ c_i τ_i minus a lower bound of the best response to Y: zero for a rank-one Y."""
    num_iterations: int = 0
    decided: bool = True
    """Whether the threshold lies outside the bounds."""
    coefficients: Matrix | None = None
    """Unit directions Σ_i coefficients_ik g_i of the active rows: the eigenvectors of Y, or the first looked along."""
    eigenvalues: Vector | None = None
    """Those of Y, if the saddle point was solved."""
    w_matrix: Matrix | None = None
    """W, one column per active row, if the saddle point was solved."""

    def without_matrices(self) -> Saddle:
        """Return the numbers alone."""
        return replace(self, tau=None, coefficients=None, eigenvalues=None, w_matrix=None)


@dataclass(frozen=True)
class Problem:
    """min ‖L (I−W) C^{1/2}‖_op, scaled so that ‖L C^{1/2}‖_op = 1; L has as many rows as the rank of Q."""

    root: Matrix
    """L"""
    half: Vector
    """√c"""
    basis: Matrix
    eigenvalues: Vector
    cap: float
    scale: float

    @classmethod
    def of(cls, gram: Matrix, weights: Vector, cap: float) -> Problem:
        """Centre the rows (1ᵀ(I−W) = 0, so a common shift does not matter), take a root of Q and scale it."""
        centred = gram - gram.mean(axis=0) - gram.mean(axis=1)[:, None] + gram.mean()
        eigenvalues, basis = np.linalg.eigh((centred + centred.T) / 2.0)
        real = eigenvalues > RANK * eigenvalues[-1]
        eigenvalues, basis = eigenvalues[real], np.ascontiguousarray(basis[:, real])
        half = np.sqrt(weights)
        scale = float(np.linalg.norm((basis * np.sqrt(eigenvalues)).T * half, 2))
        eigenvalues = eigenvalues / scale**2
        return cls(np.ascontiguousarray((basis * np.sqrt(eigenvalues)).T), half, basis, eigenvalues, cap, scale)

    @property
    def mean(self) -> Matrix:
        """The W whose columns are all the plain mean."""
        size = len(self.half)
        return np.full((size, size), 1.0 / size)

    def residual(self, w_matrix: Matrix) -> Matrix:
        """Return L (I−W) C^{1/2}."""
        return (self.root - self.root @ w_matrix) * self.half

    def upper(self, w_matrix: Matrix) -> float:
        """Return ‖L (I−W) C^{1/2}‖²_op, which for every feasible W is at least the value."""
        residual = self.residual(w_matrix)
        return float(np.linalg.eigvalsh(residual @ residual.T)[-1])

    def solve(self, target: Matrix, image: Matrix) -> Matrix:
        """Return the V that minimises ‖image − L (I−V) C^{1/2}‖² + ‖target − V‖²."""
        right = target - self.root.T @ ((image - self.root * self.half) * self.half)
        inside = self.basis.T @ right
        return np.asarray(right + self.basis @ (inside / (self.eigenvalues[:, None] * self.half**2 + 1.0) - inside))

    def lower(self, nuclear: Matrix) -> float:
        """Return ⟨N, L C^{1/2}⟩ − Σ_i √c_i max_w ⟨(Lᵀ N)_i, w⟩."""
        prices = self.root.T @ nuclear
        highest = -smallest_means(-np.sort(prices, axis=0)[::-1], self.cap)
        return float((prices.diagonal() - highest) @ self.half)

    def coefficients(self, directions: Matrix) -> Matrix:
        """Return unit vectors of the space of L as coefficients of the rows: G L⁺ v for every column v."""
        return np.asarray(self.basis @ (directions / np.sqrt(self.eigenvalues)[:, None]) / self.scale)


class Iterate:
    r"""ADMM on min ‖M‖_op over M = L (I−V) C^{1/2}, V = W; W is feasible and N dual feasible after every step.

    V-update: (Q V C + V) = right-hand side, diagonal in the eigenbasis of Q. M-update: clipping of singular values
    (Moreau: what is clipped is the projection N on the nuclear unit ball). W-update: projection on the capped simplex.
    With ρ the penalty, 1/ρ times N is the scaled multiplier of M, and −Lᵀ N C^{1/2}/ρ that of W at a saddle point.
    """

    def __init__(self, problem: Problem, w_matrix: Matrix, nuclear: Matrix | None = None, penalty: float = 1.0) -> None:
        self.problem, self.penalty = problem, penalty
        self.w_matrix = w_matrix
        self.directions = np.zeros((len(problem.root), 0))
        """The left singular vectors of N."""
        self.values = np.zeros(0)
        """The singular values of N, which are the eigenvalues of Y = (N Nᵀ)^{1/2}."""
        self._m_matrix = problem.residual(w_matrix)
        self._dual = np.zeros_like(self._m_matrix) if nuclear is None else nuclear / penalty
        self._dual_w = -(problem.root.T @ self._dual) * problem.half
        self._shift: Vector | None = None

    @property
    def nuclear(self) -> Matrix:
        """N, of nuclear norm at most 1."""
        return self.penalty * self._dual

    @property
    def root_y(self) -> Matrix:
        """Y^{1/2} for Y = (N Nᵀ)^{1/2}, without its null space."""
        return np.asarray((self.directions * np.sqrt(self.values)).T)

    def advance(self) -> None:
        """Do one iteration: V, then M and W from the over-relaxed V, then the multipliers."""
        v_matrix = self.problem.solve(self.w_matrix + self._dual_w, self._m_matrix - self._dual)
        image = OVER_RELAXATION * self.problem.residual(v_matrix) + (1.0 - OVER_RELAXATION) * self._m_matrix
        relaxed = OVER_RELAXATION * v_matrix + (1.0 - OVER_RELAXATION) * self.w_matrix
        self._clip(image + self._dual)
        self.w_matrix, self._shift = project_on_capped_simplex(relaxed - self._dual_w, self.problem.cap, self._shift)
        self._dual_w += self.w_matrix - relaxed

    def _clip(self, matrix: Matrix) -> None:
        """Split a matrix into M and N/ρ by its singular values, of which only those above what stays in M are needed.

        They come from an eigendecomposition of the matrix times its transpose: a singular value σ is then known to
        1e-16 σ₁²/σ, which matters for small ones only, and those stay in M.
        """
        squares, vectors = np.linalg.eigh(matrix @ matrix.T)
        values = np.sqrt(np.maximum(squares[::-1], 0.0))
        clipped = _project_on_l1_ball(self.penalty * values)
        rank = int((clipped > 0.0).sum())
        self.directions, self.values = vectors[:, ::-1][:, :rank], clipped[:rank]
        share = clipped[:rank] / (self.penalty * values[:rank])
        self._dual = (self.directions * share) @ (self.directions.T @ matrix)
        self._m_matrix = matrix - self._dual


def _project_on_l1_ball(values: Vector) -> Vector:
    """Return the projection of a descending non-negative vector on {x ≥ 0, Σ x ≤ 1}."""
    if values.sum() <= 1.0:
        return values.copy()
    surplus = (np.cumsum(values) - 1.0) / np.arange(1, len(values) + 1)
    last = int(np.flatnonzero(values > surplus)[-1])
    return np.asarray(np.maximum(values - surplus[last], 0.0))
