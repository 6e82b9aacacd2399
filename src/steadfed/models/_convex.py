"""Exact constants of strongly convex problems: smoothness, curvature, variance, dissimilarity, the minimiser."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np

from steadfed._core.arrays import Matrix, Vector
from steadfed._linalg.threads import one_blas_thread
from steadfed.data._base import Dataset
from steadfed.models._client_rows import ClientRows, point_rows
from steadfed.models._fitting import vector_length
from steadfed.models._linear import LogisticRegression
from steadfed.models._newton import Minimisable
from steadfed.models._quadratic import Quadratic
from steadfed.partitions._base import Shares


@dataclass(frozen=True, eq=False, kw_only=True)
class ProblemConstants:
    """What theorems about F = (1/R) Σ_r F_r ask for, where F_r is the mean of f_i over the points of client r.

    Every client counts the same, however many points it holds, as in the paper.
    """

    smoothness: float
    """L of F: a bound of its largest curvature, the least one unless the problem says otherwise."""
    client_smoothness: float
    """The largest L of an F_r."""
    strong_convexity: float
    """μ: no curvature of an F_r is smaller."""
    gradient_variance: float
    """σ²: an upper bound over clients r and all w of E‖∇f_i(w) − ∇F_r(w)‖², for one random point i of r."""
    dissimilarity: float
    """κ²: an upper bound over clients r and all w of ‖∇F_r(w) − ∇F(w)‖²."""
    minimiser: Vector
    """The w that makes F least, in the order of the model's row: biases come last."""
    minimum: float
    """F there."""


class RegularisedProblem(Minimisable):
    """A mean of convex losses that flatten somewhere, plus (ℓ/2)‖w‖², so that no curvature but ℓ is sure: μ = ℓ."""

    @abstractmethod
    def smoothness(self) -> tuple[float, float]:
        """Return L of F and the largest L of an F_r."""

    @abstractmethod
    def gradient_variance_bound(self) -> float:
        """Return an upper bound of σ² over all w."""

    @abstractmethod
    def dissimilarity_bound(self) -> float:
        """Return an upper bound of κ² over all w."""

    @abstractmethod
    def minimiser(self) -> Vector:
        """Return the w that makes F least."""

    def constants(self) -> ProblemConstants:
        """Return all constants: μ = ℓ and the minimum exact, L as the problem says, the others bounds over all w."""
        smoothness, client_smoothness = self.smoothness()
        minimiser = self.minimiser()
        return ProblemConstants(
            smoothness=smoothness,
            client_smoothness=client_smoothness,
            strong_convexity=self.l2,
            gradient_variance=self.gradient_variance_bound(),
            dissimilarity=self.dissimilarity_bound(),
            minimiser=minimiser,
            minimum=self.value(minimiser),
        )


def quadratic_constants(architecture: Quadratic, dataset: Dataset, shares: Shares) -> ProblemConstants:
    r"""Return the constants of the quadratic problem; variance and dissimilarity are attained at every w.

    With ā_r the mean of client r's points, ā = (1/R) Σ_r ā_r, Λ = diag(λ) and ℓ = l2:
    ∇f_i(w) = Λ(w − a_i) + ℓ w, so F_r has the Hessian Λ + ℓ I, whose eigenvalues lie between λ_1 + ℓ and λ_p + ℓ;
    ∇f_i − ∇F_r = Λ(ā_r − a_i), so σ² = max_r E_r ‖Λ(a_i − ā_r)‖²; ∇F_r − ∇F = Λ(ā − ā_r), so κ² = max_r ‖Λ(ā − ā_r)‖²;
    and ∇F(w) = 0 at w_j = λ_j ā_j / (λ_j + ℓ).
    """
    vector_length(dataset, "quadratic")
    clients = ClientRows.of(point_rows(dataset)[shares.order], shares)
    curvatures, decay = architecture.curvatures(clients.rows.shape[1]).numpy(), architecture.l2
    means = clients.means(clients.rows)
    centre = means.mean(axis=0)
    residuals = clients.rows - np.repeat(means, clients.sizes, axis=0)
    minimiser = curvatures * centre / (curvatures + decay)
    losses = 0.5 * np.square(minimiser - clients.rows) @ curvatures
    return ProblemConstants(
        smoothness=float(curvatures[-1]) + decay,
        client_smoothness=float(curvatures[-1]) + decay,
        strong_convexity=float(curvatures[0]) + decay,
        gradient_variance=float(clients.means(np.square(residuals * curvatures).sum(axis=1)).max()),
        dissimilarity=float(np.square((means - centre) * curvatures).sum(axis=1).max()),
        minimiser=minimiser,
        minimum=float(clients.means(losses).mean() + 0.5 * decay * minimiser @ minimiser),
    )


def logistic_constants(architecture: LogisticRegression, dataset: Dataset, shares: Shares) -> ProblemConstants:
    """Return the constants of logistic regression; see `LogisticProblem` for what is exact and what is a bound."""
    with one_blas_thread():  # on a busy machine threads of BLAS wait for each other
        return LogisticProblem.of(architecture, dataset, shares).constants()


@dataclass(frozen=True, eq=False)
class LogisticProblem(RegularisedProblem):
    r"""F(w) = (1/R) Σ_r (1/n_r) Σ_{i of r} log(1 + exp(⟨z_i, w⟩)) + (ℓ/2)‖w‖², in double precision.

    z_i = −y_i x_i with y = ±1, and with x_i followed by a 1 if there is a bias. With s_i(w) = 1 / (1 + exp(−⟨z_i, w⟩)),
    which lies in (0, 1), ∇f_i(w) = s_i z_i + ℓ w and ∇²f_i(w) = s_i (1 − s_i) z_i z_iᵀ + ℓ I.

    L is exact, and so is μ = ℓ as the infimum of λ_min(∇²F_r(w)): for w = t v with v orthogonal to no z_i ≠ 0, every
    s(1 − s) goes to 0 with growing t, and no curvature but ℓ remains.
    """

    clients: ClientRows
    """The rows z_i, by client."""
    l2: float

    @classmethod
    def of(cls, architecture: LogisticRegression, dataset: Dataset, shares: Shares) -> LogisticProblem:
        """Return the problem that clients with these shares of the data have."""
        vector_length(dataset, "logistic-regression")
        architecture.loss().num_outputs(dataset)
        rows = point_rows(dataset, bias=architecture.bias)
        rows = rows * (1.0 - 2.0 * dataset.labels.cpu().numpy())[:, None]
        return cls(ClientRows.of(rows[shares.order], shares), architecture.l2)

    def value(self, w: Vector) -> float:
        """Return F(w)."""
        losses = np.logaddexp(0.0, self.clients.rows @ w)
        return float(self.clients.means(losses).mean() + 0.5 * self.l2 * w @ w)

    def gradient(self, w: Vector) -> Vector:
        """Return ∇F(w)."""
        return self._slopes(w) * self.clients.weights @ self.clients.rows + self.l2 * w

    def hessian(self, w: Vector) -> Matrix:
        """Return ∇²F(w)."""
        slopes = self._slopes(w)
        return self.clients.moment(slopes * (1.0 - slopes)) + self.l2 * np.eye(len(w))

    def gradient_variance_at(self, w: Vector) -> float:
        """Return max_r E‖∇f_i(w) − ∇F_r(w)‖² over a random point i of r."""
        gradients = self._slopes(w)[:, None] * self.clients.rows
        residuals = gradients - np.repeat(self.clients.means(gradients), self.clients.sizes, axis=0)
        return float(self.clients.means(np.square(residuals).sum(axis=1)).max())

    def dissimilarity_at(self, w: Vector) -> float:
        """Return max_r ‖∇F_r(w) − ∇F(w)‖²."""
        means = self.clients.means(self._slopes(w)[:, None] * self.clients.rows)
        return float(np.square(means - means.mean(axis=0)).sum(axis=1).max())

    def smoothness(self) -> tuple[float, float]:
        r"""Return L of F and the largest L of an F_r: a quarter of λ_max of the mean of z zᵀ, plus ℓ.

        *Proof.* s(1 − s) ≤ ¼ with equality at s = ½, so for every w and unit v, ⟨v, ∇²F(w) v⟩ ≤ ¼ Σ_i p_i ⟨z_i, v⟩² + ℓ
        with p_i = 1/(R n_r); at w = 0 every s_i is ½ and equality holds for all v. So L = sup_w λ_max(∇²F(w)) is
        ¼ λ_max(Σ_i p_i z_i z_iᵀ) + ℓ, attained at 0; the same with one client. ∎ (z zᵀ = x xᵀ, whatever the label.)
        """
        pooled = float(np.linalg.eigvalsh(self.clients.moment(np.ones(len(self.clients.rows))))[-1])
        return 0.25 * pooled + self.l2, 0.25 * float(self.clients.top_moments().max()) + self.l2

    def gradient_variance_bound(self) -> float:
        r"""Return an upper bound of `gradient_variance_at(w)` over all w.

        *Proof.* Write s_i = ½ + ½ u_i with |u_i| < 1. In the L² norm over a random point of r, centring is linear and
        shortens, so the standard deviation of s z is at most ½ sd(z) + ½ (E‖u z‖²)^½ ≤ ½ (sd(z) + (E‖z‖²)^½). ∎
        """
        second = self.clients.means(np.square(self.clients.rows).sum(axis=1))
        first = np.square(self.clients.means(self.clients.rows)).sum(axis=1)
        deviations = np.sqrt(np.maximum(second - first, 0.0))
        return float(np.square(0.5 * (deviations + np.sqrt(second))).max())

    def dissimilarity_bound(self) -> float:
        r"""Return an upper bound of `dissimilarity_at(w)` over all w.

        *Proof.* With u as above, ∇F_r − ∇F = ½(z̄_r − z̄) + ½(m_r − m̄), where m_r = E_r[u z] and bars without index are
        means over clients. ‖m_r‖ ≤ A_r := min(E_r‖z‖, λ_max(E_r[z zᵀ])^½): the first because |u| < 1, the second as
        ⟨m_r, v⟩ = E_r[u⟨z, v⟩] ≤ (E_r⟨z, v⟩²)^½ for every unit v. And m_r − m̄ = (1 − 1/R) m_r − (1/R) Σ_{q≠r} m_q has
        norm at most (1 − 2/R) A_r + Ā, which is 0 for R = 1. So κ_r ≤ ½(‖z̄_r − z̄‖ + (1 − 2/R) A_r + Ā). ∎
        """
        means = self.clients.means(self.clients.rows)
        apart = np.linalg.norm(means - means.mean(axis=0), axis=1)
        return float(np.square(0.5 * (apart + self.clients.reaches())).max())

    def newton_direction(self, w: Vector, gradient: Vector) -> Vector:
        """Return ∇²F(w)⁻¹ gradient."""
        return np.linalg.solve(self.hessian(w), gradient).astype(np.float64)

    def minimiser(self, *, tolerance: float = 1e-12, iterations: int = 100) -> Vector:
        """Return the w of ‖∇F(w)‖ < tolerance that Newton's method finds from 0; see `Minimisable.minimise`.

        Raises:
            ParameterError: l2 is 0, so there may be no minimiser.
            DataError: rounding keeps the gradient above the tolerance.
        """
        return self.minimise(np.zeros(self.clients.rows.shape[1]), tolerance=tolerance, iterations=iterations)

    def _slopes(self, w: Vector) -> Vector:
        """Return s_i(w), without overflow."""
        return np.exp(-np.logaddexp(0.0, -(self.clients.rows @ w)))
