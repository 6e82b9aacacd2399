"""Local SGD of every client of a problem, step by step and as literally as can be, with noise of heavy tails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steadfed._core.arrays import Vector
from steadfed._core.rng import stream

Matrix = NDArray[np.float64]
Gradients = Callable[[Matrix], Matrix]
"""From one model per client to every client's own gradient there."""


@dataclass(frozen=True)
class Clients:
    """F is a quadratic with curvatures from μ to L about `centre`; ∇F_r(x) is ∇F(x) plus row r of `apart`."""

    curvatures: Vector
    centre: Vector
    apart: Gradients
    """∇F_r − ∇F of every client at its own model; sums to zero over clients at a common model."""
    dissimilarity: float
    """κ²."""
    noise: float
    """σ_b², of a mini-batch gradient; the noise is Student's t with 3 degrees, which has no fourth moment."""
    num_clients: int
    rare: float = 0.0
    """If above 0, a step's noise is 0 but with this probability, and then as long as σ_b² allows."""

    @property
    def smoothness(self) -> float:
        return float(self.curvatures.max())

    @property
    def strong_convexity(self) -> float:
        return float(self.curvatures.min())

    def gradient(self, x: Matrix) -> Matrix:
        """Return ∇F, row by row."""
        found: Matrix = self.curvatures * (x - self.centre)
        return found

    def noises(self, steps: int, seed: int) -> NDArray[np.float64]:
        """Return the noise of every step and client: steps × clients × d, of total variance σ_b²."""
        dim = len(self.centre)
        if self.rare:
            signs = stream(seed, "signs").choice([-1.0, 1.0], size=(steps, self.num_clients, dim))
            struck = stream(seed, "struck").random((steps, self.num_clients, 1)) < self.rare
            return np.asarray(np.sqrt(self.noise / (dim * self.rare)) * signs * struck)
        drawn = stream(seed, "noise").standard_t(3, size=(steps, self.num_clients, dim))
        return np.asarray(np.sqrt(self.noise / (3.0 * dim)) * drawn)  # the variance of t with 3 degrees is 3


@dataclass(frozen=True)
class Walk:
    """What H local steps of all clients from one model came to."""

    clients: Matrix
    """x_r^t: (H + 1) × R × d."""
    noisy: Matrix
    """w_r^t: F's gradient with the client's noise."""
    reference: Matrix
    """z^t: gradient descent on F, (H + 1) × d."""
    own: Matrix
    """∇F_r(x_r^t): H × R × d."""
    lr: float

    @property
    def accumulated(self) -> Matrix:
        """y_r."""
        found: Matrix = (self.clients[0] - self.clients[-1]) / self.lr
        return found

    @property
    def centre(self) -> Vector:
        """a_k."""
        found: Vector = (self.reference[0] - self.reference[-1]) / self.lr
        return found


def walk(problem: Clients, start: Vector, *, steps: int, lr: float, seed: int) -> Walk:
    """Take the steps of all clients."""
    x = np.tile(start, (problem.num_clients, 1))
    w, z = x.copy(), start.copy()
    clients, noisy, reference, own = [x], [w], [z], []
    for noise in problem.noises(steps, seed):
        slope = problem.gradient(x) + problem.apart(x)
        x = x - lr * (slope + noise)
        w = w - lr * (problem.gradient(w) + noise)
        z = z - lr * problem.gradient(z)
        own.append(slope)
        clients.append(x)
        noisy.append(w)
        reference.append(z)
    return Walk(np.array(clients), np.array(noisy), np.array(reference), np.array(own), lr)


def alike_curvatures(*, num_clients: int, dim: int, apart: float, noise: float, seed: int = 0) -> Clients:
    """Return clients whose gradients differ by constants: every F_r is as smooth as F."""
    shifts = stream(seed, "shifts").standard_normal((num_clients, dim))
    shifts -= shifts.mean(axis=0)
    shifts *= apart / np.linalg.norm(shifts, axis=1).max()
    curvatures = np.linspace(0.3, 1.0, dim)
    return Clients(curvatures, np.ones(dim), lambda _: shifts, apart**2, noise, num_clients)


def rough(*, num_clients: int, dim: int, apart: float, noise: float, frequency: float) -> Clients:
    """Return clients in pairs with ∇F_r = ∇F ± κ cos(ω⟨u, x⟩) u: their own curvature is κω, F's remains that of F."""
    signs = np.where(np.arange(num_clients) % 2 == 0, 1.0, -1.0)[:, None]
    direction = np.ones(dim) / np.sqrt(dim)

    def difference(x: Matrix) -> Matrix:
        found: Matrix = apart * signs * np.cos(frequency * (x @ direction))[:, None] * direction
        return found

    return Clients(np.linspace(0.3, 1.0, dim), np.ones(dim), difference, apart**2, noise, num_clients)
