"""Exact constants of softmax regression: smoothness, curvature, variance, dissimilarity, the minimiser."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, cg
from scipy.special import logsumexp, softmax

from steadfed._core.arrays import Matrix, Vector
from steadfed._linalg.threads import one_blas_thread
from steadfed.data._base import Dataset
from steadfed.models._client_rows import ClientRows, point_rows
from steadfed.models._convex import ProblemConstants, RegularisedProblem
from steadfed.models._fitting import vector_length
from steadfed.models._linear import SoftmaxRegression
from steadfed.partitions._base import Shares


def softmax_constants(architecture: SoftmaxRegression, dataset: Dataset, shares: Shares) -> ProblemConstants:
    """Return the constants of softmax regression; see `SoftmaxProblem` for what is exact and what is a bound."""
    with one_blas_thread():  # on a busy machine threads of BLAS wait for each other
        return SoftmaxProblem.of(architecture, dataset, shares).constants()


@dataclass(frozen=True, eq=False)
class SoftmaxProblem(RegularisedProblem):
    r"""F(W) = (1/R) Σ_r (1/n_r) Σ_{i of r} [log Σ_c exp(⟨W_c, x_i⟩) − ⟨W_{y_i}, x_i⟩] + (ℓ/2)‖W‖², in double precision.

    W has one row per class, and x_i is followed by a 1 if there is a bias. With p = softmax(W x_i) and e_y the unit
    vector of the right class, ∇f_i(W) = (p − e_y) x_iᵀ + ℓ W and ∇²f_i(W) = (diag p − p pᵀ) ⊗ x_i x_iᵀ + ℓ I.
    Vectors w hold W as the model's row does: the weights of one class after the other, then all biases.

    μ = ℓ is exact, and attained everywhere: the loss does not change when the same vector is added to all rows of W, so
    its Hessian has the eigenvalue 0, and it has no negative one. When L is exact: see `smoothness`.
    """

    clients: ClientRows
    """The rows x_i, by client."""
    labels: NDArray[np.int64]
    """Their classes y_i."""
    num_classes: int
    l2: float
    bias: bool

    @classmethod
    def of(cls, architecture: SoftmaxRegression, dataset: Dataset, shares: Shares) -> SoftmaxProblem:
        """Return the problem that clients with these shares of the data have."""
        vector_length(dataset, "softmax-regression")
        num_classes = architecture.loss().num_outputs(dataset)
        rows = point_rows(dataset, bias=architecture.bias)[shares.order]
        labels = dataset.labels.cpu().numpy()[shares.order]
        return cls(ClientRows.of(rows, shares), labels, num_classes, architecture.l2, architecture.bias)

    def value(self, w: Vector) -> float:
        """Return F(w)."""
        scores = self._scores(w)
        right = scores[np.arange(len(scores)), self.labels]
        losses = logsumexp(scores, axis=1) - right
        return float(self.clients.weights @ losses + 0.5 * self.l2 * w @ w)

    def gradient(self, w: Vector) -> Vector:
        """Return ∇F(w)."""
        errors = self._errors(w) * self.clients.weights[:, None]
        return self._row(errors.T @ self.clients.rows) + self.l2 * w

    def hessian_product(self, w: Vector, v: Vector) -> Vector:
        """Return ∇²F(w) v."""
        return self._hessian_product(softmax(self._scores(w), axis=1), v)

    def gradient_variance_at(self, w: Vector) -> float:
        """Return max_r E‖∇f_i(w) − ∇F_r(w)‖² over a random point i of r, as E‖g‖² − ‖E g‖² of the data's part g."""
        return float(self._variances(self._errors(w)).max())

    def dissimilarity_at(self, w: Vector) -> float:
        """Return max_r ‖∇F_r(w) − ∇F(w)‖²."""
        return float(self._distances_from_mean(self._errors(w)).max()) ** 2

    def smoothness(self) -> tuple[float, float]:
        r"""Return L of F and the largest L of an F_r: half of λ_max of the mean of x xᵀ, plus ℓ (Böhning 1992).

        *Proof.* ⟨v, (diag p − p pᵀ) v⟩ is the variance of v under p, at most ¼ (max v − min v)² (Popoviciu), and
        (a − b)² ≤ 2(a² + b²), so diag p − p pᵀ ⪯ ½ I and ∇²F(W) ⪯ ½ I ⊗ Σ_i q_i x_i x_iᵀ + ℓ I with q_i = 1/(R n_r).
        It is an upper bound, and the least one with a bias or with two classes: for v = (1, −1, 0, …)/√2 and p with
        p_1 = p_2 = ½ equality holds; all p_i are that for two classes at W = 0, and in the limit when the biases of
        all other classes go to −∞. Without bias and with more classes it need not be attained. ∎
        """
        pooled = float(np.linalg.eigvalsh(self.clients.moment(np.ones(len(self.labels))))[-1])
        return 0.5 * pooled + self.l2, 0.5 * float(self.clients.top_moments().max()) + self.l2

    def gradient_variance_bound(self) -> float:
        r"""Return an upper bound of `gradient_variance_at(w)` over all w.

        *Proof.* With C classes, let g° = (1/C − e_y) xᵀ be the gradient at W = 0 and u = p − 1/C. A random point of r
        has the gradient g° + u xᵀ with ‖u‖² = ‖p‖² − 1/C ≤ 1 − 1/C, and centring is linear and shortens in L², so
        sd(g) ≤ sd(g°) + ((1 − 1/C) E‖x‖²)^½. Also ‖p − e_y‖² = (1 − p_y)² + Σ_{c≠y} p_c² ≤ 2(1 − p_y)² ≤ 2, so
        sd(g) ≤ (2 E‖x‖²)^½. The smaller of the two holds. ∎
        """
        second = self._second_moments()
        deviations = np.sqrt(self._variances(self._errors(np.zeros(self.dim))))
        bounds = np.minimum(deviations + np.sqrt((1 - 1 / self.num_classes) * second), np.sqrt(2 * second))
        return float(np.square(bounds).max())

    def dissimilarity_bound(self) -> float:
        r"""Return an upper bound of `dissimilarity_at(w)` over all w.

        *Proof.* For vectors with ‖u_i‖ ≤ a, M_r = E_r[u xᵀ] has ‖M_r‖ ≤ a A_r, A_r = min(E_r‖x‖, λ_max(E_r[x xᵀ])^½):
        the first is plain, the second as ⟨M_r, V⟩ = E_r⟨u, V x⟩ ≤ a (E_r‖V x‖²)^½ for every ‖V‖ = 1. With M̄ the mean
        over clients, M_r − M̄ = (1 − 1/R) M_r − (1/R) Σ_{q≠r} M_q has norm at most a B_r, B_r = (1 − 2/R) A_r + Ā,
        which is 0 for R = 1. With u = p − 1/C as in `gradient_variance_bound`,
        κ_r ≤ ‖∇F_r(0) − ∇F(0)‖ + (1 − 1/C)^½ B_r; with u = p − e_y, κ_r ≤ √2 B_r. The smaller of the two holds. ∎
        """
        reach = self.clients.reaches()
        at_zero = self._distances_from_mean(self._errors(np.zeros(self.dim)))
        bounds = np.minimum(at_zero + math.sqrt(1 - 1 / self.num_classes) * reach, math.sqrt(2) * reach)
        return float(np.square(bounds).max())

    def minimiser(self, *, tolerance: float = 1e-10, iterations: int = 200) -> Vector:
        """Return the w of ‖∇F(w)‖ < tolerance that Newton's method finds from 0; ‖w − w*‖ ≤ ‖∇F(w)‖ / ℓ.

        Directions come from conjugate gradients, so that no Hessian is formed (Dembo, Eisenstat, Steihaug 1982).

        Raises:
            ParameterError: l2 is 0, so there may be no minimiser.
            DataError: rounding keeps the gradient above the tolerance.
        """
        return self.minimise(np.zeros(self.dim), tolerance=tolerance, iterations=iterations)

    def newton_direction(self, w: Vector, gradient: Vector) -> Vector:
        """Return v with ‖∇²F(w) v − gradient‖ at most min(0.1, √‖gradient‖) ‖gradient‖."""
        chances = softmax(self._scores(w), axis=1)
        operator = LinearOperator(
            (self.dim, self.dim), matvec=lambda v: self._hessian_product(chances, v), dtype=np.float64
        )
        forcing = min(0.1, math.sqrt(float(np.linalg.norm(gradient))))
        direction, _ = cg(operator, gradient, rtol=forcing, maxiter=5 * self.dim + 100)
        return np.asarray(direction, dtype=np.float64)

    @property
    def dim(self) -> int:
        """How many parameters there are."""
        return self.num_classes * int(self.clients.rows.shape[1])

    def _matrix(self, w: Vector) -> Matrix:
        """Return W of the model's row, biases as its last column."""
        if not self.bias:
            return w.reshape(self.num_classes, -1)
        return np.column_stack([w[: -self.num_classes].reshape(self.num_classes, -1), w[-self.num_classes :]])

    def _row(self, matrix: Matrix) -> Vector:
        """Return the model's row of W."""
        if not self.bias:
            return matrix.ravel()
        return np.concatenate([matrix[:, :-1].ravel(), matrix[:, -1]])

    def _scores(self, w: Vector) -> Matrix:
        scores: Matrix = self.clients.rows @ self._matrix(w).T
        return scores

    def _errors(self, w: Vector) -> Matrix:
        """Return p_i − e_{y_i} for every point."""
        errors: Matrix = softmax(self._scores(w), axis=1)
        errors[np.arange(len(errors)), self.labels] -= 1.0
        return errors

    def _hessian_product(self, chances: Matrix, v: Vector) -> Vector:
        """Return ∇²F v at probabilities p_i: Σ_i q_i (p_i ∘ (V x_i) − p_i ⟨p_i, V x_i⟩) x_iᵀ + ℓ V."""
        moved = chances * self._scores(v)
        moved -= chances * moved.sum(axis=1, keepdims=True)
        moved *= self.clients.weights[:, None]
        return self._row(moved.T @ self.clients.rows) + self.l2 * v

    def _second_moments(self) -> Vector:
        """Return E_r‖x‖² of every client."""
        return self.clients.means(np.square(self.clients.rows).sum(axis=1))

    def _variances(self, errors: Matrix) -> Vector:
        """Return E‖g − E g‖² of g = (p − e_y) xᵀ for every client."""
        squares = np.square(errors).sum(axis=1) * np.square(self.clients.rows).sum(axis=1)
        means = [np.square(mean).sum() for mean in self.clients.mean_products(errors)]
        variances: Vector = np.maximum(self.clients.means(squares) - np.array(means), 0.0)
        return variances

    def _distances_from_mean(self, errors: Matrix) -> Vector:
        """Return ‖E_r[g] − mean over clients of E[g]‖ of g = (p − e_y) xᵀ for every client."""
        centre = (errors * self.clients.weights[:, None]).T @ self.clients.rows
        return np.array([np.linalg.norm(mean - centre) for mean in self.clients.mean_products(errors)])
