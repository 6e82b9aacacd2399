"""Measuring the constants: exactly where they are known, locally with their sampling error elsewhere."""

from holdfast.theory.estimate._along import Trajectory, along
from holdfast.theory.estimate._curvature import Curvature, curvature, relative_gap, segment
from holdfast.theory.estimate._estimates import Measurement
from holdfast.theory.estimate._exact import exact_constants, exact_smoothness
from holdfast.theory.estimate._gradients import GradientStatistics, gradient_statistics
from holdfast.theory.estimate._objective import Objective, Point
from holdfast.theory.estimate._spread import HonestSpread, honest_spread

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
