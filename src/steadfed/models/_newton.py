"""Newton's method with halved steps, for strongly convex functions."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from steadfed._core.arrays import Vector
from steadfed.errors import DataError, ParameterError


class Minimisable(ABC):
    """A function F that is ℓ-strongly convex and can be made least by Newton's method."""

    l2: float
    """ℓ."""

    @abstractmethod
    def value(self, w: Vector) -> float:
        """Return F(w)."""

    @abstractmethod
    def gradient(self, w: Vector) -> Vector:
        """Return ∇F(w)."""

    @abstractmethod
    def newton_direction(self, w: Vector, gradient: Vector) -> Vector:
        """Return about ∇²F(w)⁻¹ gradient: a v with ⟨v, gradient⟩ > 0."""

    def minimise(self, start: Vector, *, tolerance: float, iterations: int) -> Vector:
        r"""Return the w of ‖∇F(w)‖ < tolerance that Newton's method with halved steps finds.

        F is ℓ-strongly convex, so ‖w − w*‖ ≤ ‖∇F(w)‖ / ℓ and F(w) − F* ≤ ‖∇F(w)‖² / (2 ℓ) (Nesterov 2004,
        theorem 2.1.10).

        Raises:
            ParameterError: l2 is 0, so there may be no minimiser.
            DataError: rounding keeps the gradient above the tolerance.
        """
        if self.l2 <= 0:
            raise ParameterError(f"a minimiser is sure to exist only with l2 > 0, got {self.l2}")
        w = start
        for _ in range(iterations):
            gradient = self.gradient(w)
            if np.linalg.norm(gradient) < tolerance:
                return w
            w = self._line_search(w, self.newton_direction(w, gradient), gradient)
        raise DataError(
            f"Newton's method stopped at a gradient of length {np.linalg.norm(self.gradient(w))}, not {tolerance}"
        )

    def _line_search(self, w: Vector, direction: Vector, gradient: Vector) -> Vector:
        """Return w − t · direction for the first t = 1, ½, ¼, … that lowers F enough, up to rounding (Armijo)."""
        value, slope = self.value(w), float(gradient @ direction)
        rounding = 1e-15 * abs(value)
        for halvings in range(60):
            t = 0.5**halvings
            if self.value(w - t * direction) <= value - 1e-4 * t * slope + rounding:
                return w - t * direction
        return w
