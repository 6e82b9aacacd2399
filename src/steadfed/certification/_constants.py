"""The constants of a run's objective, each with where it comes from: exact, a bound over all x, or measured."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal, final

import numpy as np
import torch

from steadfed._core.arrays import Vector
from steadfed._core.wording import percent
from steadfed.errors import DataError
from steadfed.models._convex import ProblemConstants
from steadfed.simulation._setting import Setting, dtype_of
from steadfed.theory import Problem
from steadfed.theory.estimate import (
    Curvature,
    GradientStatistics,
    Objective,
    Point,
    Trajectory,
    curvature,
    exact_constants,
    exact_smoothness,
    gradient_statistics,
)
from steadfed.theory.estimate._estimates import Measurement
from steadfed.theory.estimate._objective import POINTS_AT_ONCE

SYMBOLS = {
    "smoothness": "L",
    "strong_convexity": "μ",
    "gradient_variance": "σ²",
    "dissimilarity": "κ²",
    "distance": "‖x_0 − x*‖²",
    "gap": "F(x_0) − F*",
    "dim": "d",
}
"""The paper's letter for every number of a problem."""

_AFFORDABLE = 5e8
"""How many numbers all gradients of single points may have to be looked at one by one."""
_POOL, _CURVATURE_POOL = 2e9, 1e8
"""The same for F and ∇F at one model, and for one product with the Hessian: some seconds of a core for a network."""
_FEWEST_POINTS = 250
"""Points that F is formed over at least, however large the model."""
_FEW_AT_ONCE = 64
"""Points that go through a large model together: more take longer, as their activations leave the caches."""
_FEWEST_STEPS, _MOST_STEPS = 16, 64
"""Products with the Hessian, for large problems and for others."""
_NEWTON = "exact, by Newton's method"
_NEGLIGIBLE = 1e-6
"""An error of x* that is this part of the distance to it is not worth telling."""
_FEWEST_CLIENTS, _CLIENTS, _POINTS = 5, 100, 32
"""How many clients are looked at, and points of each, where all would be too many."""


@final
@dataclass(frozen=True)
class Constant:
    """One number of a problem, and where it comes from."""

    name: str
    """The field of `Problem`."""
    value: float
    origin: str
    everywhere: bool = True
    """Whether it is exact, or a bound for all x; not if it was measured at some models only."""

    @property
    def symbol(self) -> str:
        """The paper's letter."""
        return SYMBOLS[self.name]


@final
@dataclass(frozen=True, kw_only=True)
class MeasurementBudget:
    """How much is looked at to measure constants."""

    clients: int | Literal["all"] = "all"
    """So many clients, drawn at random, for σ² and κ²."""
    points: int | Literal["all"] = "all"
    """So many points of a client at most, for σ²."""
    pool: int | None = None
    """So many points of all, drawn at random, for F and ∇F; None for all."""
    steps: int = _MOST_STEPS
    """Products with the Hessian at a model, for L."""
    curvature_pool: int | None = None
    """So many points for these products."""

    @classmethod
    def usual(cls, setting: Setting) -> MeasurementBudget:
        """Return all where it is affordable, else samples, such that a model takes some seconds."""
        number, dim = len(setting.client_shares.order), setting.layout.dim
        if number * dim <= _AFFORDABLE:
            return cls()
        pool = max(_FEWEST_POINTS, int(_POOL / dim))
        clients = min(_CLIENTS, max(_FEWEST_CLIENTS, pool * setting.num_clients // number), setting.num_clients)
        steep = max(_FEWEST_POINTS, int(_CURVATURE_POOL / dim))
        return cls(clients=clients, points=_POINTS, pool=pool, steps=_FEWEST_STEPS, curvature_pool=steep)

    def measure(self, objective: Objective, point: Point) -> GradientStatistics:
        """Return F, ∇F, σ² and κ² at a model."""
        return gradient_statistics(
            _pool(objective, self.pool),
            point.model,
            point.buffers,
            where=point.where,
            clients=self.clients,
            samples=self.points,
        )

    def steepness(self, objective: Objective, point: Point) -> Curvature:
        """Return the curvature at a model."""
        few = _pool(objective, self.curvature_pool)
        return curvature(few, point.model, point.buffers, where=point.where, steps=self.steps)


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class KnownConstants:
    """What is known of the objective of a run."""

    constants: tuple[Constant, ...]
    minimiser: Vector | None = None
    """x*, if it is known."""

    def with_given(self, given: dict[str, float]) -> KnownConstants:
        """Return the constants with some of them given."""
        found = {constant.name: constant for constant in self.constants}
        found |= {name: Constant(name, float(value), "given") for name, value in given.items()}
        return replace(self, constants=tuple(found[name] for name in {**SYMBOLS, **found} if name in found))

    def problem(self) -> Problem:
        """Return the constants as the theorems ask for them.

        Raises:
            ParameterError: a constant is missing, or they contradict each other.
        """
        values = {constant.name: constant.value for constant in self.constants}
        if "dim" in values:
            values["dim"] = int(values["dim"])
        return Problem(**values)


def objective_of(setting: Setting) -> Objective:
    """Return F of a run: of all its clients, without the server's own points."""
    shares = setting.client_shares
    large = len(shares.order) * setting.layout.dim > _AFFORDABLE
    together = _FEW_AT_ONCE if large else POINTS_AT_ONCE
    return Objective.of(setting.config.model, setting.dataset, shares, points_at_once=together)


def start_of(setting: Setting) -> Point:
    """Return the model that a run starts from."""
    config, dtype = setting.config, dtype_of(setting.config)
    module = config.model.build(setting.dataset, config.seed).to(dtype)
    layout = setting.layout
    return Point("the start of the run", layout.parameters_of(module, dtype), layout.buffers_of(module, dtype))


def proved_constants(setting: Setting, objective: Objective) -> KnownConstants | None:
    """Return the constants of a problem of which everything is known; None for others, such as networks."""
    try:
        found = exact_constants(setting.config.model, setting.dataset, setting.client_shares)
    except DataError:  # the minimiser could not be computed to the last digits
        return None
    if found is None:
        return None
    start = start_of(setting)
    value, _ = objective.at(start.model, start.buffers).value_and_gradient()
    _, slope = objective.at(torch.from_numpy(found.minimiser)).value_and_gradient()
    off = float(slope.norm()) / found.strong_convexity  # ‖x̂ − x*‖ is no larger
    apart = float(np.linalg.norm(start.model.double().cpu().numpy() - found.minimiser)) + off
    newton = f"exact but for {off:.1g} in x*, by Newton's method" if off > _NEGLIGIBLE * apart else _NEWTON
    constants = (
        *_proved_bounds(found),
        Constant("distance", apart * apart, newton),
        Constant("gap", max(0.0, value - found.minimum), _NEWTON),
        _dim(objective),
    )
    return KnownConstants(constants=constants, minimiser=found.minimiser)


def local_constants(setting: Setting, objective: Objective, trajectory: Trajectory) -> KnownConstants:
    """Return the largest constants that were measured at some models, of which the first is the start of the run.

    Losses are not negative, so F* ≥ 0 and F(x_0) − F* ≤ F(x_0). μ = 0: nothing is claimed about convexity.
    """
    first, noisiest, apart = trajectory.statistics[0], trajectory.noisiest, trajectory.most_dissimilar
    constants = (
        _smoothness(setting, trajectory.steepest),
        Constant("strong_convexity", 0.0, "not known to be strongly convex"),
        _measured_constant("gradient_variance", noisiest.where, noisiest.gradient_variance),
        _measured_constant("dissimilarity", apart.where, apart.dissimilarity),
        Constant("gap", max(0.0, first.value), _height(first), everywhere=not first.gradient_error),
        _dim(objective),
    )
    return KnownConstants(constants=constants)


def constants_at_start(setting: Setting, objective: Objective) -> KnownConstants:
    """Return the constants that are measured at the start of a run."""
    budget, start = MeasurementBudget.usual(setting), start_of(setting)
    here, steep = budget.measure(objective, start), budget.steepness(objective, start)
    return local_constants(setting, objective, Trajectory(statistics=(here,), curvatures=(steep,)))


def _pool(objective: Objective, number: int | None) -> Objective:
    return objective if number is None else objective.pool(number)


def _proved_bounds(found: ProblemConstants) -> tuple[Constant, ...]:
    bound = "bound over all x"
    return (
        Constant("smoothness", found.smoothness, bound),
        Constant("strong_convexity", found.strong_convexity, "exact"),
        Constant("gradient_variance", found.gradient_variance, bound),
        Constant("dissimilarity", found.dissimilarity, bound),
    )


def _dim(objective: Objective) -> Constant:
    return Constant("dim", float(objective.dim), "exact")


def _smoothness(setting: Setting, found: Curvature | None) -> Constant:
    known = exact_smoothness(setting.config.model, setting.dataset, setting.client_shares)
    if known is not None:
        return Constant("smoothness", known[0], "bound over all x")
    if found is None:
        raise DataError("the curvature must be measured at one model at least")
    most = max(found.at_most, -found.at_least)
    sure = f"; at most {most:.4g} with {percent(found.confidence, 0)} confidence" if math.isfinite(most) else ""
    part = f" over {found.share:.2g} of the points" if found.share < 1.0 else ""
    origin = f"local, at {found.where}: Lanczos, {found.steps} products{part}{'' if found.exact else sure}"
    return Constant("smoothness", max(found.smoothness, torch.finfo().tiny), origin, everywhere=False)


def _height(first: GradientStatistics) -> str:
    return "bound: F(x_0), as F* ≥ 0" + (", from a sample of points" if first.gradient_error else "")


def _measured_constant(name: str, where: str, found: Measurement) -> Constant:
    error = f" ± {found.standard_error:.2g}" if found.standard_error else ""
    note = "" if found.exact else f" ({found.note})"
    return Constant(name, found.value, f"local, at {where}{error}{note}", everywhere=False)
