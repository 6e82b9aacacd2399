r"""Line 3 of Algorithm 2 solved: mode "exact".

Lower bounds of the saddle value are D(Y) = min_W Φ(W, Y) for any Y ⪰ 0 with tr Y ≤ 1, upper bounds are
‖L (I−W) C^{1/2}‖² for any feasible W. The saddle point counts as solved once they are within `GAP` of each other. Where
an upper bound is at most the threshold, line 5 stops whatever the best Y is, and nothing more is solved.

A Y of rank one is often the best, and D of it has a closed form, so the search begins with directions: those of the
largest scatter, and those of the rows themselves. From a good direction ADMM brings W down in a few iterations. Where
the residuals of its W leave several directions that Y may share in, D is climbed over Y = R Rᵀ / tr(R Rᵀ): it is flat
there, so that the gap of the bounds alone would leave the shares, and with them the scores, in doubt.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from steadfed._core.arrays import Matrix, Vector
from steadfed._linalg.spectrum import negligible_scatter
from steadfed.aggregators._rage.responses import Response, best_response, rank_one_response, response_near_the_mean
from steadfed.aggregators._rage.saddle import CHECK_EVERY, MOST_ITERATIONS, SMALLEST_GAP, Iterate, Problem, Saddle
from steadfed.aggregators._rage.simplex import distances_to_means

GAP = 1e-3
"""Relative gap of the bounds at which line 3 counts as solved."""
LEADING = 8
"""Directions of the largest scatter that are tried."""
ASCENTS = 2
"""Directions from which D is climbed."""
CLIMBS = 40
"""Steps of a climb at the most; it needs about ten."""
PENALTY = 2.0
"""ρ of ADMM; of 0.05 to 5 the one with which the slowest saddle points are the fastest (140 iterations, not 1,000)."""
POLISH_AFTER = 20
"""Iterations before the first climb over Y of higher rank; the next follow after twice as many each time."""
SHARING = 0.95
"""Eigenvectors of G (I−W) C (I−W)ᵀ Gᵀ with at least this share of its largest eigenvalue may have a part in Y."""
MOST_SHARING = 3
"""Directions at the most that a climb over Y gives a part to."""
NEW_PART = 0.02
"""The part in Y from which such a direction starts."""
POLISH_STEPS = 20
"""Best responses of a climb over Y at the most, and"""
POLISH_CYCLES = 20
"""the vertices tried for each, which need not be accurate: only the last one is used."""
MOST_CLIMBED = 8
"""Rank of Y up to which D is climbed over it. Above, as with orthogonal rows of about one length, a best response costs
a hundred times as much, and the Y of ADMM is taken as it is."""


def solve(gram: Matrix, weights: Vector, cap: float, threshold: float, alpha: float) -> Saddle:
    """Return the saddle point, solved to a relative gap of `GAP`, or to where line 5 stops.

    If the threshold lies between the bounds then, they are narrowed down to `SMALLEST_GAP` until it does not.
    """
    centred = gram - gram.mean(axis=0) - gram.mean(axis=1)[:, None] + gram.mean()
    if np.trace(centred) <= negligible_scatter(gram, weights):
        size = len(gram)
        nothing = np.zeros((size, 1))
        mean = np.full((size, size), 1.0 / size)
        return Saddle(0.0, 0.0, None, coefficients=nothing, eigenvalues=np.zeros(1), w_matrix=mean)
    search = _Search(Problem.of(gram, weights, cap), threshold, alpha)
    search.run()
    return search.result()


def climb(problem: Problem, direction: Vector) -> tuple[float, Vector]:
    r"""Return the largest D(v vᵀ) found from a unit direction, and where.

    With W the best response to v, G (I−W) C (I−W)ᵀ Gᵀ v is a supergradient of D in Y = v vᵀ, up to a factor on the
    right: the next direction is its own, or, where D falls, between it and the last.
    """
    best, found, towards, part = -1.0, direction, direction, 1.0
    for _ in range(CLIMBS):
        away, _, low, high = rank_one_response(direction @ problem.root, problem.cap)
        pulls = problem.half**2 * away
        value = float(pulls @ away)
        if value > best * (1.0 + 1e-6):
            best, found = value, direction
            towards = problem.root @ (pulls - low * pulls[away < 0].sum() - high * pulls[away > 0].sum())
            length = float(np.linalg.norm(towards))
            if length == 0.0:
                break
            towards /= length
        else:
            part /= 2.0
            if part < 0.1:
                break
        direction = (1.0 - part) * found + part * towards
        direction /= np.linalg.norm(direction)
    return best, found


def polish(problem: Problem, root: Matrix, start: Matrix) -> tuple[Matrix, Response]:
    r"""Return a root R of Y and the best response to it, where D was climbed from a given root (r x q).

    Best responses determine G (I−W) C^{1/2} Xᵀ R for X = L (I−W) C^{1/2} but for ties, so D(R Rᵀ / tr) has the gradient
    2 (X Xᵀ R − D R) / tr(R Rᵀ), and L-BFGS climbs it. A root of high rank is only looked at.
    """
    weights, last, found = problem.half**2, start, root.ravel()

    def descend(flat: Vector) -> tuple[float, Vector]:
        nonlocal last
        here = flat.reshape(root.shape) / np.linalg.norm(flat)
        response = best_response(here.T @ problem.root, weights, problem.cap, last, 1e-6, POLISH_CYCLES)
        last = response.w_matrix
        residual = problem.residual(response.w_matrix)
        value = float(weights @ response.tau) - response.excess
        gradient = residual @ (residual.T @ here) - value * here
        return -value, -2.0 * gradient.ravel() / float(np.linalg.norm(flat))

    if root.shape[1] <= MOST_CLIMBED:
        from scipy.optimize import minimize  # takes a while, and few saddle points need it

        options = {"maxfun": POLISH_STEPS, "maxcor": POLISH_STEPS, "ftol": 1e-6, "gtol": 1e-7}
        found = minimize(descend, found, jac=True, method="L-BFGS-B", options=options).x
    here = found.reshape(root.shape) / np.linalg.norm(found)
    return here, best_response(here.T @ problem.root, weights, problem.cap, last)


@dataclass
class _Search:
    """The best bounds so far, scaled as the problem is, and what they come from."""

    problem: Problem
    threshold: float
    alpha: float
    lower: float = 0.0
    upper: float = np.inf
    w_matrix: Matrix = field(default_factory=lambda: np.zeros((0, 0)))
    """The W of the upper bound."""
    directions: Matrix = field(default_factory=lambda: np.zeros((0, 0)))
    eigenvalues: Vector = field(default_factory=lambda: np.zeros(0))
    """The Y of the lower bound."""
    response: Response | None = None
    """The best response to it, if Y has a higher rank."""
    num_iterations: int = 0

    def run(self) -> None:
        """Narrow the bounds until the saddle point is solved, or nothing more can be hoped for."""
        starts = self._starts()
        if self.stops:
            return
        first = self._climb_from(starts)
        coordinates = first @ self.problem.root
        near = response_near_the_mean(coordinates, self.problem.cap)
        self._try_w(near)
        if self.solved:
            self._share()
            return
        along = first @ self.problem.residual(near)
        iterate = Iterate(self.problem, near, np.outer(first, along / np.linalg.norm(along)), PENALTY)
        while not self.solved and self.num_iterations < MOST_ITERATIONS:
            for _ in range(CHECK_EVERY):
                iterate.advance()
            self.num_iterations += CHECK_EVERY
            self._look_at(iterate)
        self._share()

    @property
    def stops(self) -> bool:
        """Whether line 5 stops whatever Y is."""
        return self.problem.scale**2 * self.upper <= self.threshold

    @property
    def solved(self) -> bool:
        """Whether the bounds are as close as they have to be, and on one side of the threshold if they can be."""
        gap = (self.upper - self.lower) / self.upper
        above = self.problem.scale**2 * self.lower > self.threshold
        return self.stops or gap <= SMALLEST_GAP or (gap <= GAP and above)

    def result(self) -> Saddle:
        """Return the saddle point as Algorithm 2 needs it; its scores come from the best response to Y (line 4)."""
        scale, weights = self.problem.scale**2, self.problem.half**2
        found = Saddle(
            scale * self.lower,
            scale * self.upper,
            None,
            num_iterations=self.num_iterations,
            coefficients=self.problem.coefficients(self.directions),
            eigenvalues=self.eigenvalues,
            w_matrix=self.w_matrix,
        )
        if self.stops:
            return found
        response = self.response or self._respond(self.directions, self.eigenvalues)
        total, excess = scale * float(weights @ response.tau), scale * response.excess
        found = replace(found, w_matrix=response.w_matrix)
        if total > self.threshold and total >= self.threshold + 4.0 * excess / self.alpha:
            return replace(found, tau=scale * response.tau, excess=excess)
        return replace(found, decided=False)

    def _starts(self) -> Matrix:
        """Return the most promising of the leading directions and of the rows' own, as columns; begin with the mean."""
        problem = self.problem
        weighted = problem.residual(problem.mean)
        squares, leading = np.linalg.eigh(weighted @ weighted.T)
        lengths = np.linalg.norm(problem.root, axis=0)
        own = problem.root[:, lengths > 0.0] / lengths[lengths > 0.0]
        tried = np.concatenate([leading[:, : -LEADING - 1 : -1], own], axis=1)
        totals = problem.half**2 @ distances_to_means(problem.root.T @ tried, problem.cap) ** 2
        best = np.argsort(-totals, kind="stable")[:ASCENTS]
        self.upper, self.w_matrix = float(squares[-1]), problem.mean
        self.lower, self.directions, self.eigenvalues = float(totals[best[0]]), tried[:, best[:1]], np.ones(1)
        return tried[:, best]

    def _climb_from(self, starts: Matrix) -> Vector:
        """Climb from each start and return the best direction found."""
        climbed = [climb(self.problem, start) for start in starts.T]
        value, direction = max(climbed, key=lambda found: found[0])
        if value > self.lower:
            self.lower, self.directions = value, direction[:, None]
            self.eigenvalues, self.response = np.ones(1), None
        return direction

    def _look_at(self, iterate: Iterate) -> None:
        """Take what the iterate offers to either bound."""
        self._try_w(iterate.w_matrix)
        if iterate.directions.shape[1]:
            self._climb_from(iterate.directions[:, :1])
        turns, rest = divmod(self.num_iterations, POLISH_AFTER)
        if iterate.directions.shape[1] > 1 and not rest and not turns & (turns - 1):
            self._polish(iterate.root_y.T)

    def _try_w(self, w_matrix: Matrix) -> None:
        upper = self.problem.upper(w_matrix)
        if upper < self.upper:
            self.upper, self.w_matrix = upper, w_matrix

    def _share(self) -> None:
        """Give a part in Y to every direction that W leaves with about as much residual as the largest.

        With λ₁ ≥ λ₂ the largest eigenvalues of P = G (I−W) C (I−W)ᵀ Gᵀ, the best Y has ⟨P, Y⟩ ≥ V, so its part outside
        the first eigenvector is at most (λ₁ − V)/(λ₁ − λ₂): small if λ₂ is well below λ₁, and λ₁ close to V.
        """
        if self.stops:
            return
        residual = self.problem.residual(self.w_matrix)
        squares, vectors = np.linalg.eigh(residual @ residual.T)
        number = min(int((squares > SHARING * squares[-1]).sum()), MOST_SHARING)
        if number > 1:
            own = self.directions * np.sqrt(self.eigenvalues)
            self._polish(np.concatenate([own, np.sqrt(NEW_PART) * vectors[:, -number:]], axis=1))

    def _polish(self, root: Matrix) -> None:
        """Climb D from Y = root · rootᵀ, and take what was found if it is better."""
        if self.stops:
            return
        found, response = polish(self.problem, root, self.w_matrix)
        value = float(self.problem.half**2 @ response.tau) - response.excess
        if value > self.lower:
            directions, values, _ = np.linalg.svd(found, full_matrices=False)
            self.lower, self.response = value, response
            self.directions, self.eigenvalues = directions, values**2

    def _respond(self, directions: Matrix, eigenvalues: Vector) -> Response:
        points = (directions * np.sqrt(eigenvalues)).T @ self.problem.root
        return best_response(points, self.problem.half**2, self.problem.cap, self.w_matrix)
