r"""The best response to a given Y: every column of W by itself, to rounding.

For Y = Σ_k y_k v_k v_kᵀ let P have the rows √y_k · (the rows' coordinates along v_k). Column i of W minimises
‖P e_i − P w‖² over the capped simplex: it is the point of the polytope P · simplex nearest to P e_i, in as many
dimensions as Y has eigenvectors, which are few. Wolfe's algorithm (1976, "Finding the nearest point in a polytope")
finds it in finitely many steps; here it runs for all columns at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steadfed._core.arrays import Matrix, Vector
from steadfed.aggregators._rage.simplex import smallest_vertices, vertex

ACCURACY = 1e-9
"""Σ c_i (τ_i − its minimum) over Σ c_i τ_i at which a best response is accurate enough."""
MOST_CYCLES = 60
"""Vertices tried per column at the most; about ten are needed."""
ROUNDING = 1e-12


@dataclass(frozen=True)
class Response:
    """A best response W to some Y, with a bound on how far it is from one."""

    w_matrix: Matrix
    tau: Vector
    """τ_i = ‖P e_i − P w_i‖²"""
    excess: float
    """A bound of Σ c_i τ_i − min_W Φ(W, Y)."""


def best_response(
    points: Matrix, weights: Vector, cap: float, start: Matrix, accuracy: float = ACCURACY, cycles: int = MOST_CYCLES
) -> Response:
    r"""Return the best response, from any feasible W.

    With x the difference of column i's point to P e_i and z that of the vertex with the least ⟨x, z⟩, convexity gives
    ‖x‖² − min ≤ 2 (‖x‖² − ⟨x, z⟩): this is the excess, whatever the search did before.
    """
    search = _Search(points, cap, start)
    for _ in range(cycles):
        differences = search.differences()
        vertices = smallest_vertices(differences @ points, cap)
        new = vertices @ points.T - points.T
        gaps = np.maximum(2.0 * ((differences**2).sum(axis=1) - (differences * new).sum(axis=1)), 0.0)
        tau = (differences**2).sum(axis=1)
        far = np.flatnonzero(gaps * weights.sum() > accuracy * float(weights @ tau))
        if not search.add(far, vertices, new):
            break
    return Response(search.w_matrix(), tau, float(weights @ gaps))


def rank_one_response(coordinates: Vector, cap: float) -> tuple[Vector, Vector, Vector, Vector]:
    """Return p_i − ⟨w_i, p⟩ of the best response along one direction, ⟨w_i, p⟩, and the vertices at either end."""
    order, profile = np.argsort(coordinates), vertex(len(coordinates), cap)
    low, high = np.empty_like(profile), np.empty_like(profile)
    low[order], high[order[::-1]] = profile, profile
    nearest = np.clip(coordinates, low @ coordinates, high @ coordinates)
    return coordinates - nearest, nearest, low, high


def response_near_the_mean(coordinates: Vector, cap: float) -> Matrix:
    """Return the best response along one direction whose columns lie between the plain mean and a vertex.

    Along other directions it differs from the mean as little as that allows.
    """
    _, nearest, low, high = rank_one_response(coordinates, cap)
    mean = float(coordinates.mean())
    reach = np.where(nearest > mean, high @ coordinates - mean, low @ coordinates - mean)
    with np.errstate(divide="ignore", invalid="ignore"):
        part = np.where(reach != 0.0, np.clip((nearest - mean) / reach, 0.0, 1.0), 0.0)
    ends = np.where(nearest > mean, high[:, None], low[:, None])
    return np.asarray((1.0 - part) / len(coordinates) + part * ends)


class _Search:
    """Each column's point as a convex combination of few points of its polytope, seen from P e_i."""

    def __init__(self, points: Matrix, cap: float, start: Matrix) -> None:
        rank, size = points.shape
        places = rank + 2
        self.corners = np.zeros((size, places, rank))
        self.columns = np.zeros((size, places, size))
        """The same corners as columns of W."""
        self.shares = np.zeros((size, places))
        self.used: NDArray[np.bool_] = np.zeros((size, places), dtype=bool)
        self.corners[:, 0], self.columns[:, 0] = start.T @ points.T - points.T, start.T
        self.shares[:, 0], self.used[:, 0] = 1.0, True

    def differences(self) -> Matrix:
        """Return P w_i − P e_i as rows."""
        return np.asarray(np.einsum("is,isk->ik", self.shares, self.corners))

    def w_matrix(self) -> Matrix:
        """Return W."""
        return np.asarray(np.einsum("is,isj->ji", self.shares, self.columns))

    def add(self, which: NDArray[np.intp], vertices: Matrix, corners: Matrix) -> bool:
        """Give those columns one corner more and move to the nearest point of what they span; False if none can."""
        places = np.argmin(self.used[which], axis=1)
        free = ~self.used[which, places]
        which, places = which[free], places[free]
        if not len(which):
            return False
        self.corners[which, places], self.columns[which, places] = corners[which], vertices[which]
        self.shares[which, places], self.used[which, places] = 0.0, True
        for _ in range(self.used.shape[1]):
            which = self._step(which)
            if not len(which):
                break
        return True

    def _step(self, which: NDArray[np.intp]) -> NDArray[np.intp]:
        """Move towards the nearest point of the affine hull; return the columns that lost a corner on the way."""
        target = _affine_minimum(self.corners[which], self.used[which])
        outside = (target <= ROUNDING) & self.used[which]
        arrived = ~outside.any(axis=1)
        self.shares[which[arrived]] = target[arrived]
        which, target, outside = which[~arrived], target[~arrived], outside[~arrived]
        shares = self.shares[which]
        ratios = np.where(outside, shares / np.maximum(shares - target, np.finfo(float).tiny), np.inf)
        nearest = np.minimum(ratios.min(axis=1, initial=1.0), 1.0)[:, None]
        lost = outside & (ratios <= nearest * (1.0 + ROUNDING))
        shares = np.where(lost, 0.0, np.maximum(shares + nearest * (target - shares), 0.0))
        self.shares[which] = shares / shares.sum(axis=1, keepdims=True)
        self.used[which] &= ~lost
        return which


def _affine_minimum(corners: Matrix, used: NDArray[np.bool_]) -> Matrix:
    """Return for every set of points the shares, of any sign and sum 1, of the point of least norm; 0 if not used."""
    number, places, _ = corners.shape
    products = np.where(used[:, :, None] & used[:, None, :], corners @ corners.transpose(0, 2, 1), 0.0)
    size = np.maximum(np.trace(products, axis1=1, axis2=2), np.finfo(float).tiny)
    system = np.zeros((number, places + 1, places + 1))
    system[:, :places, :places] = products / size[:, None, None]
    diagonal = np.arange(places)
    system[:, diagonal, diagonal] += np.where(used, 1e-14, 1.0)
    system[:, :places, places] = system[:, places, :places] = used
    right = np.zeros((number, places + 1, 1))
    right[:, places] = 1.0
    return np.where(used, np.linalg.solve(system, right)[:, :places, 0], 0.0)
