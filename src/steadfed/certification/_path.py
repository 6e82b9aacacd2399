"""The models that a run went through: how far from the minimum, how steep, how unlike its clients are there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar, final

import numpy as np
import torch

from steadfed._core.arrays import Vector
from steadfed._core.gaps import steps_after
from steadfed.certification._constants import KnownConstants, MeasurementBudget
from steadfed.errors import CorruptRunError, DataError, ParameterError
from steadfed.server._folder import RunFolder
from steadfed.theory.estimate import GradientStatistics, Objective, Point, Trajectory

Item = TypeVar("Item")


@final
@dataclass(frozen=True, kw_only=True)
class MeasuredModel:
    """One model on the way."""

    round: int
    """After so many rounds."""
    value: float
    """F(x)."""
    gradient: float
    """‖∇F(x)‖²."""
    gradient_error: float
    """The standard error of ∇F(x), as a length; 0 if it is formed over all points."""
    distance: float | None
    """‖x − x*‖², if x* is known."""
    gradient_variance: float
    """σ² at x, the largest of the clients looked at."""
    variance_error: float
    """Its standard error; 0 if all points of these clients were looked at."""
    dissimilarity: float
    """κ² at x, likewise."""
    smoothness: float | None = None
    """The largest curvature at x in absolute value, if it was measured."""


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class ModelPath:
    """All models of a run that were kept and could be looked at."""

    places: tuple[MeasuredModel, ...]
    trajectory: Trajectory | None
    """The same as estimates with their errors; None if no model was kept."""
    diverged: int | None = None
    """After how many rounds the first kept model is at which F or its gradient is not finite."""
    rounding: float = 0.0
    """By how much rounding to the run's precision may move a model in a step: ε_machine times the largest ‖x‖."""

    def distances(self) -> tuple[Vector, Vector]:
        """Return rounds and ‖x_k − x*‖², for the models whose distance is known."""
        known = [(place.round, place.distance) for place in self.places if place.distance is not None]
        return _columns(known)

    def mean_gradients(self, gaps: Sequence[int] = (1,)) -> tuple[Vector, Vector]:
        """Return numbers N of rounds and (1/N) Σ_{k<N} ‖∇F(x_k)‖², each model standing for the rounds up to the next.

        It is the mean itself if every round was measured, an estimate of it otherwise. If rounds have different numbers
        of steps, each counts as often as it has steps, as in the theorems.
        """
        rounds, gradients = _columns([(place.round, place.gradient) for place in self.places])
        if len(rounds) < 2:
            return rounds[:0], gradients[:0]
        steps = steps_after(gaps, rounds) if len(gaps) > 1 else rounds
        sums = np.cumsum(gradients[:-1] * np.diff(steps))
        return rounds[1:], sums / steps[1:]


def measure_path(
    folder: RunFolder, objective: Objective, known: KnownConstants | None, budget: MeasurementBudget, curvatures: int
) -> ModelPath:
    """Return what is measured at every model that a run has kept, and curvatures at so many of them.

    Raises:
        CorruptRunError: a snapshot is damaged, or that of the start is missing.
    """
    numbers = folder.snapshots()
    if numbers and numbers[0] != 0:
        raise CorruptRunError(
            f"{str(folder.path)!r} holds snapshots, but not the one of the start, after 0 rounds; restore it"
        )
    steep = evenly_spread(numbers, 0 if known is not None else curvatures)
    places, statistics, found, diverged, rounding = [], [], [], None, 0.0
    for number, point in _points(folder, numbers):
        try:
            here = budget.measure(objective, point)
            if number in steep:
                found.append(budget.steepness(objective, point))
        except (DataError, ParameterError):  # the model holds NaN or Inf, or its loss does
            diverged = number
            break
        largest = found[-1].smoothness if number in steep else None
        rounding = max(rounding, float(torch.finfo(point.model.dtype).eps * point.model.norm()))
        statistics.append(here)
        places.append(_measured_model(number, point, here, known, largest))
    trajectory = Trajectory(statistics=tuple(statistics), curvatures=tuple(found)) if statistics else None
    return ModelPath(places=tuple(places), trajectory=trajectory, diverged=diverged, rounding=rounding)


def _points(folder: RunFolder, numbers: list[int]) -> Iterator[tuple[int, Point]]:
    for number in numbers:
        snapshot = folder.snapshot(number)
        where = f"round {number}" if number else "the start of the run"
        yield number, Point(where, snapshot.model, snapshot.buffers)


def _measured_model(
    number: int, point: Point, here: GradientStatistics, known: KnownConstants | None, smoothness: float | None
) -> MeasuredModel:
    distance = None
    if known is not None and known.minimiser is not None:
        away = point.model.double().cpu().numpy() - known.minimiser
        distance = float(away @ away)
    return MeasuredModel(
        round=number,
        value=here.value,
        gradient=here.gradient_norm**2,
        gradient_error=here.gradient_error,
        distance=distance,
        gradient_variance=here.gradient_variance.value,
        variance_error=here.gradient_variance.standard_error,
        dissimilarity=here.dissimilarity.value,
        smoothness=smoothness,
    )


def evenly_spread(items: Sequence[Item], most: int) -> list[Item]:
    """Return at most so many of the items, evenly spread, first and last among them.

    >>> evenly_spread([0, 5, 10, 15, 20], 3), evenly_spread("abc", 1), evenly_spread("", 3)
    ([0, 10, 20], ['a'], [])
    """
    places = np.linspace(0, len(items) - 1, min(most, len(items))).round().astype(int)
    return [items[place] for place in places]


def _columns(pairs: list[tuple[int, float]]) -> tuple[Vector, Vector]:
    table = np.array(pairs, dtype=np.float64).reshape(-1, 2)
    return table[:, 0], table[:, 1]
