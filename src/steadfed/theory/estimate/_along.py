"""The constants along a run: measured at the models it went through, and where they were largest."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from steadfed._core.ranges import check_whole
from steadfed.errors import ParameterError
from steadfed.theory.estimate._curvature import STEPS, Curvature, curvature
from steadfed.theory.estimate._gradients import Clients, GradientStatistics, Samples, gradient_statistics
from steadfed.theory.estimate._objective import Objective, Point


@dataclass(frozen=True, kw_only=True, eq=False)
class Trajectory:
    """What was measured at every model looked at. Maxima are over these models, not over all."""

    statistics: tuple[GradientStatistics, ...]
    curvatures: tuple[Curvature, ...]
    """In the order of the statistics; empty if not asked for."""

    @property
    def noisiest(self) -> GradientStatistics:
        """The statistics where σ² is largest."""
        return max(self.statistics, key=lambda each: each.gradient_variance.value)

    @property
    def most_dissimilar(self) -> GradientStatistics:
        """The statistics where κ² is largest."""
        return max(self.statistics, key=lambda each: each.dissimilarity.value)

    @property
    def steepest(self) -> Curvature | None:
        """The curvature where its absolute value is largest: the local L; None if not asked for."""
        return max(self.curvatures, key=lambda each: each.smoothness, default=None)


def along(
    objective: Objective,
    points: Iterable[Point],
    *,
    clients: Clients = "all",
    samples: Samples = "all",
    steps: int = STEPS,
    seed: int = 0,
) -> Trajectory:
    """Return σ², κ² and the extreme curvatures at the models of a run.

    Clients and points that are drawn are the same at every model. `steps` are those of Lanczos; 0 means no curvatures.

    Raises:
        ParameterError: there is no point, or one that is not a finite row of d numbers.
    """
    steps = check_whole("steps", steps, least=0)
    statistics, curvatures = [], []
    for each in points:
        row = (objective, each.model, each.buffers)
        statistics.append(gradient_statistics(*row, where=each.where, clients=clients, samples=samples, seed=seed))
        if steps:
            curvatures.append(curvature(*row, where=each.where, steps=steps, seed=seed))
    if not statistics:
        raise ParameterError("points must be one or more, got none")
    return Trajectory(statistics=tuple(statistics), curvatures=tuple(curvatures))
