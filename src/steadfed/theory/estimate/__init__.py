"""Measuring the constants: exactly where they are known, locally with their sampling error elsewhere."""

from steadfed.theory.estimate._along import Trajectory, along
from steadfed.theory.estimate._curvature import Curvature, curvature, relative_gap, segment
from steadfed.theory.estimate._estimates import Measurement
from steadfed.theory.estimate._exact import exact_constants, exact_smoothness
from steadfed.theory.estimate._gradients import GradientStatistics, gradient_statistics
from steadfed.theory.estimate._objective import Objective, Point
from steadfed.theory.estimate._spread import HonestSpread, honest_spread

__all__ = [
    "Curvature",
    "GradientStatistics",
    "HonestSpread",
    "Measurement",
    "Objective",
    "Point",
    "Trajectory",
    "along",
    "curvature",
    "exact_constants",
    "exact_smoothness",
    "gradient_statistics",
    "honest_spread",
    "relative_gap",
    "segment",
]
