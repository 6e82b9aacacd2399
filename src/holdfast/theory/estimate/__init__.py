"""Measuring the constants: exactly where they are known, locally with their sampling error elsewhere."""

from holdfast.theory.estimate.along import Peak, Trajectory, along
from holdfast.theory.estimate.curvature import Curvature, curvature, relative_gap, segment
from holdfast.theory.estimate.estimates import Measurement
from holdfast.theory.estimate.exact import exact_constants, exact_smoothness
from holdfast.theory.estimate.gradients import GradientStatistics, gradient_statistics
from holdfast.theory.estimate.objective import Objective, Point
from holdfast.theory.estimate.spread import HonestSpread, honest_spread

__all__ = [
    "Curvature",
    "GradientStatistics",
    "HonestSpread",
    "Measurement",
    "Objective",
    "Peak",
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
