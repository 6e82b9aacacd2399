"""Line 3 of Algorithm 2 by a general-purpose solver: a semidefinite program over explicit d-dimensional vectors."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import cvxpy
import numpy as np
from numpy.typing import NDArray

from steadfed.errors import SteadfedError

Array = NDArray[np.float64]

cp: Any = cvxpy
"""cvxpy, whose functions mypy does not find."""

WIDEST_GAP = 1e-6
"""Relative duality gap up to which a solution is accepted."""
TOLERANCES = (1e-10, 1e-9, 1e-8)
"""What the solver is asked for, one after the other, until what it returns is proved to be good enough."""


class OracleFailedError(SteadfedError):
    """The oracle could not prove its own answer, so nothing may be compared with it."""


@dataclass(frozen=True)
class SaddlePoint:
    """The solved saddle point, with bounds on its value that do not depend on the solver."""

    lower: float
    upper: float
    w_star: Array
    """W*, one column per active vector."""
    y_star: Array
    """Y*, d x d, positive semidefinite with trace at most 1."""
    tau: Array
    """τ of line 4, one per active vector."""

    @property
    def value(self) -> float:
        """The saddle value to within half of the gap."""
        return (self.lower + self.upper) / 2.0


def solve_saddle_point(vectors: Array, c: Array, cap: float) -> SaddlePoint:
    """Solve line 3 of Algorithm 2, equations (saddle-point-opt) and (cost-function_defn), with W bounded by `cap`.

    max over Y ⪰ 0, tr Y ≤ 1 of min over W of Φ(W, Y) = Σ_i c_i (g_i − G w_i)ᵀ Y (g_i − G w_i) is, by the minimax
    theorem, min over W of λ_max(G (I−W) C (I−W)ᵀ Gᵀ). Its root is the t of

        minimise t   such that   [[t I, M], [Mᵀ, t I]] ⪰ 0,   M = G (I−W) C^{1/2},   0 ≤ W ≤ cap,   1ᵀ W = 1ᵀ .

    The multiplier of the matrix inequality holds N = −2 Z₁₂ with nuclear norm at most 1, and Y* = (N Nᵀ)^{1/2}.
    `vectors` is G, d x |𝒜|.
    """
    scale = float(np.linalg.norm(vectors - vectors.mean(axis=1, keepdims=True), 2)) or 1.0
    centred = (vectors - vectors.mean(axis=1, keepdims=True)) / scale
    for w, nuclear in _solutions(centred, c, cap):
        point = _bounded(centred, c, cap, _feasible(w, cap), nuclear)
        if point.upper - point.lower <= WIDEST_GAP * point.upper + 1e-12:
            square = scale**2
            return SaddlePoint(
                point.lower * square, point.upper * square, point.w_star, point.y_star, point.tau * square
            )
    raise OracleFailedError(
        f"no solution of the solver at the tolerances {TOLERANCES} was proved to a relative gap of {WIDEST_GAP}"
    )


def tilted(point: SaddlePoint, vectors: Array, c: Array, cap: float, direction: int, gap: float) -> SaddlePoint:
    """Return a saddle point whose Y is tilted towards one of its directions, as far as it stays optimal up to `gap`.

    `direction` counts the eigenvectors of G (I−W) C (I−W)ᵀ Gᵀ from the largest eigenvalue on; all of Y lies in those of
    the largest.
    """
    deviations = (vectors - vectors @ point.w_star) * np.sqrt(c)
    left, _, _ = np.linalg.svd(deviations, full_matrices=False)
    if direction >= left.shape[1]:
        return point
    target = np.outer(left[:, direction], left[:, direction])
    found, low, high = point, 0.0, 1.0
    for _ in range(5):
        share = (low + high) / 2.0
        y = (1.0 - share) * point.y_star + share * target
        w = best_response(y, vectors, c, cap)
        rest = vectors - vectors @ w
        tau = np.array([rest[:, i] @ y @ rest[:, i] for i in range(len(c))])
        if float(c @ tau) >= (1.0 - gap) * point.value:
            low, found = share, SaddlePoint(float(c @ tau), point.upper, w, y, tau)
        else:
            high = share
    return found


def best_response(y: Array, vectors: Array, c: Array, cap: float) -> Array:
    """Return the W that minimises Φ(W, Y) = Σ_i c_i (g_i − G w_i)ᵀ Y (g_i − G w_i), by a quadratic program."""
    values, basis = np.linalg.eigh(y)
    scale = float(np.abs(vectors).max()) or 1.0
    points = (basis * np.sqrt(np.maximum(values, 0.0))).T @ (vectors / scale)
    w = cp.Variable((len(c), len(c)))
    objective = cp.sum_squares((points - points @ w) @ np.diag(np.sqrt(c)))
    minimise(cp.Problem(cp.Minimize(objective), [w >= 0.0, w <= cap, cp.sum(w, axis=0) == 1.0]), 1e-10)
    return _feasible(np.asarray(w.value), cap)


def _solutions(vectors: Array, c: Array, cap: float) -> Iterator[tuple[Array, Array]]:
    """Yield what the solver says W and N are, at one tolerance after the other."""
    dimension, number = vectors.shape
    w, t = cp.Variable((number, number)), cp.Variable()
    residual = vectors @ (np.eye(number) - w) @ np.diag(np.sqrt(c))
    inequality = cp.bmat([[t * np.eye(dimension), residual], [residual.T, t * np.eye(number)]]) >> 0
    problem = cp.Problem(cp.Minimize(t), [inequality, w >= 0.0, w <= cap, cp.sum(w, axis=0) == 1.0])
    for tolerance in TOLERANCES:
        with suppress(cp.SolverError):  # no answer: the next tolerance is tried
            minimise(problem, tolerance)
            yield np.asarray(w.value), -2.0 * np.asarray(inequality.dual_value)[:dimension, dimension:]


def minimise(problem: Any, tolerance: float) -> float:
    """Solve a problem of cvxpy and return the least value; how accurate it is, the caller has to find out.

    The solver's own opinion is not asked: with some BLAS it does not see that its last step was good enough.
    """
    accuracy = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), tolerance)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Solution may be inaccurate", UserWarning)
        return float(problem.solve(solver=cp.CLARABEL, max_iter=200, canon_backend="SCIPY", **accuracy))


def _bounded(vectors: Array, c: Array, cap: float, w_star: Array, nuclear: Array) -> SaddlePoint:
    """Return the point with bounds on the value from both sides, by W and N alone: any feasible pair bounds it."""
    left, singular, right = np.linalg.svd(nuclear, full_matrices=False)
    singular = singular / max(1.0, float(singular.sum()))
    nuclear, y_star = (left * singular) @ right, (left * singular) @ left.T
    deviations = vectors - vectors @ w_star
    upper = float(np.linalg.norm(deviations * np.sqrt(c), 2)) ** 2
    lower = 0.0
    for i in range(len(c)):
        prices = vectors.T @ nuclear[:, i]
        lower += np.sqrt(c[i]) * (prices[i] - largest_mean(prices, cap))
    tau = np.array([deviations[:, i] @ y_star @ deviations[:, i] for i in range(len(c))])
    return SaddlePoint(max(0.0, lower) ** 2, upper, w_star, y_star, tau)


def largest_mean(values: Array, cap: float) -> float:
    """Return the largest Σ w_j values_j over 0 ≤ w ≤ cap, Σ w = 1: fill up the largest values first."""
    left, total = 1.0, 0.0
    for value in sorted(values.tolist(), reverse=True):
        weight = min(cap, left)
        total += weight * value
        left -= weight
    return total


def _feasible(w: Array, cap: float) -> Array:
    """Return the solver's W with its last rounding errors removed: a column nearby that satisfies every constraint."""
    columns = []
    for column in np.clip(w, 0.0, cap).T:
        missing = 1.0 - column.sum()
        room = (cap - column) if missing > 0 else column
        columns.append(column + missing * room / room.sum() if room.sum() > 0 else column)
    return np.array(columns).T
