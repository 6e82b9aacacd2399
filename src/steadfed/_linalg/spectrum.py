r"""The directions in which weighted rows spread most, from their Gram matrix alone.

With weights c_i, mass m = Σ c_i, π = c / m, the weighted mean ḡ = Σ π_i g_i and H = I − π 1ᵀ, the scatter matrix
Σ c_i (g_i − ḡ)(g_i − ḡ)ᵀ (d x d) has the same non-zero eigenvalues as the K x K matrix

    M = C^{1/2} Hᵀ Q H C^{1/2} ,     Q_ij = ⟨g_i, g_j⟩ about any common origin,

because both are A Aᵀ and Aᵀ A for A = G H C^{1/2}. If M u = ℓ u with ‖u‖ = 1, then v = A u / √ℓ is the unit direction
in R^d, and the rows' coordinates along it are p = Q a / √ℓ with the coefficients a = H C^{1/2} u: no vector of length d
is ever formed. The *scatter* along v is ℓ = Σ c_i (p_i − p̄)²; the *spread* is the variance λ = ℓ / m.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from steadfed._core.arrays import Matrix, Vector

DENSE_UP_TO = 128
"""Rows up to which a full eigendecomposition is cheaper than a Krylov space."""
KRYLOV_STEPS = 32
"""Dimension of the Krylov space; λ_max was found to 1e-4 with 32 on every spectrum tried (with 8: 2.5 % low)."""
BOUND_SLACK = 1e-2
"""A Ritz value is confirmed as λ_max up to this relative error by a Cholesky factorisation."""
NEGLIGIBLE = 1e-12
"""Scatter below this share of the kept rows' total squared norm is rounding."""


@dataclass(frozen=True)
class Directions:
    """Unit directions of large scatter, largest first, seen from the rows."""

    coordinates: Matrix
    """n x r: the rows' coordinates along each direction."""
    coefficients: Matrix
    """n x r: direction k is Σ_i coefficients_ik (g_i − pivot)."""
    top: float
    """The largest scatter found, ℓ: a lower bound of λ_max(M), and equal to it if `exact`."""
    exact: bool
    """Whether `top` is the largest eigenvalue itself rather than a Ritz value."""


def leading_directions(gram: Matrix, weights: Vector, *, dense: bool = False) -> Directions:
    """Return the direction of the largest scatter (few rows, or `dense`), or a Krylov space of them (many rows)."""
    if dense or len(gram) <= DENSE_UP_TO:
        return eigen_directions(gram, weights, 1)
    if not gram.diagonal()[weights > 0].any():  # every kept row equals the pivot
        return _as_directions(gram, weights, np.zeros(1), np.zeros((len(gram), 1)), exact=True)
    values, vectors = _lanczos(gram, weights)
    return _as_directions(gram, weights, values, vectors, exact=False)


def eigen_directions(gram: Matrix, weights: Vector, number: int) -> Directions:
    """Return the `number` leading eigendirections of the scatter, from a dense eigensolver."""
    values, vectors = largest_eigenpairs(scatter_matrix(gram, weights), number)
    return _as_directions(gram, weights, values, vectors, exact=True)


def largest_eigenpairs(symmetric: Matrix, number: int) -> tuple[Vector, Matrix]:
    """Return the `number` largest eigenvalues, largest first, and their unit vectors as columns.

    For a few of them LAPACK bisects the tridiagonal form, at half the cost of a full decomposition. Where many
    eigenvalues are equal, as those of orthogonal rows of one length, its bisection may find none and call that a
    success, or its inverse iteration may not converge. Rows are chosen by clients, so that must not matter: the full
    decomposition then takes its place.

    >>> largest_eigenpairs(np.eye(30) - 1 / 30, 1)[0].round(12)
    array([1.])
    """
    size = len(symmetric)
    number = min(number, size)
    wanted = [size - number, size - 1]
    try:
        values, vectors = scipy.linalg.eigh(symmetric, subset_by_index=wanted, driver="evr", check_finite=False)
    except np.linalg.LinAlgError:
        values = np.empty(0)
    if len(values) < number:
        values, vectors = np.linalg.eigh(symmetric)
        values, vectors = values[-number:], vectors[:, -number:]
    return values[::-1], vectors[:, ::-1]


def scatter_matrix(gram: Matrix, weights: Vector) -> Matrix:
    """Return M = C^{1/2} Hᵀ Q H C^{1/2}; rows without weight are zero whatever the Gram matrix holds there."""
    share = weights / weights.sum()
    with np.errstate(invalid="ignore"):
        to_mean: Vector = gram @ share
    if not np.isfinite(to_mean).all():  # 0 · Inf is not 0: leave the rows without weight out
        kept = weights > 0
        scatter = np.zeros_like(gram)
        scatter[np.ix_(kept, kept)] = scatter_matrix(gram[np.ix_(kept, kept)], weights[kept])
        return scatter
    scatter = gram - to_mean
    scatter -= to_mean[:, None] - share @ to_mean
    scatter *= np.sqrt(weights)
    scatter *= np.sqrt(weights)[:, None]
    return scatter


def scatter_is_below(gram: Matrix, weights: Vector, bound: float) -> bool:
    """Tell whether λ_max(M) < bound, with certainty: bound · I − M has a Cholesky factor iff it is positive definite.

    A Ritz value bounds λ_max from below only, and an adversary who knows the start vector can hide from it. This
    test cannot be deceived, and costs K³/3 operations.
    """
    shifted = -scatter_matrix(gram, weights)
    shifted[np.diag_indices_from(shifted)] += bound
    try:
        np.linalg.cholesky(shifted)
    except np.linalg.LinAlgError:
        return False
    return True


def scatter_bound(gram: Matrix, weights: Vector) -> float:
    """Return λ_max(M), or for many rows a bound at most 1 % above it, with certainty."""
    directions = leading_directions(gram, weights)
    if directions.exact:
        return directions.top
    bound = directions.top * (1.0 + BOUND_SLACK)
    return bound if scatter_is_below(gram, weights, bound) else leading_directions(gram, weights, dense=True).top


def negligible_scatter(gram: Matrix, weights: Vector) -> float:
    """Return the scatter below which the rows with weight agree to rounding."""
    kept = weights > 0
    return NEGLIGIBLE * float(weights[kept] @ gram.diagonal()[kept])


def _as_directions(gram: Matrix, weights: Vector, values: Vector, vectors: Matrix, *, exact: bool) -> Directions:
    """Turn eigenpairs of M into directions: a = H C^{1/2} u / √ℓ and p = Q a; a zero eigenvalue gives no direction."""
    top = max(0.0, float(values[0]))
    if top <= negligible_scatter(gram, weights):
        return Directions(np.zeros((len(gram), 1)), np.zeros((len(gram), 1)), top, exact)
    real = values > NEGLIGIBLE * top
    coefficients = _spread_out(weights, vectors[:, real]) / np.sqrt(values[real])
    return Directions(gram @ coefficients, coefficients, top, exact)


def _spread_out(weights: Vector, vectors: Matrix) -> Matrix:
    """Return H C^{1/2} u for every column u: C^{1/2} u minus its sum spread over π."""
    scaled = np.sqrt(weights)[:, None] * vectors
    return np.asarray(scaled - (weights / weights.sum())[:, None] * scaled.sum(axis=0))


def _lanczos(gram: Matrix, weights: Vector) -> tuple[Vector, Matrix]:
    """Return the Ritz values (largest first) and vectors of M in a Krylov space, with full re-orthogonalisation.

    M is never formed: M u = C^{1/2} Hᵀ (Q (H C^{1/2} u)). The start are the rows' own sizes, so that large rows are
    represented from the first step, with fixed pseudo-random factors that break symmetry.
    """
    root, share = np.sqrt(weights), weights / weights.sum()
    size = np.sqrt(np.maximum(gram.diagonal() * weights, 0.0))
    vector = size * np.random.Generator(np.random.Philox(key=len(gram))).standard_normal(len(gram))
    steps = min(KRYLOV_STEPS, int((weights > 0).sum()))
    basis = np.zeros((steps, len(gram)))
    images = np.zeros((steps, len(gram)))
    for k in range(steps):
        for _ in range(2):  # twice is enough (Kahan, Parlett)
            vector = vector - (basis[:k] @ vector) @ basis[:k]
        norm = math.sqrt(float(vector @ vector))
        if norm <= sys.float_info.min:
            basis, images = basis[:k], images[:k]
            break
        np.divide(vector, norm, out=basis[k])
        scaled = root * basis[k]
        image = gram @ (scaled - share * scaled.sum())
        vector = np.multiply(root, image - share @ image, out=images[k])
    projected = basis @ images.T
    values, small = np.linalg.eigh((projected + projected.T) / 2)
    return values[::-1].copy(), (basis.T @ small)[:, ::-1].copy()
