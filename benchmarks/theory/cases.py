"""One run of a problem whose constants are known, and what the theorems say about it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.theory.engine import quadratic_gradient, written_federation
from steadfed.aggregators import Aggregator, Rage
from steadfed.aggregators._rage.constants import KAPPA, Mode
from steadfed.attacks import (
    ATTACKS,
    ALittleIsEnough,
    Attack,
    ClassFlip,
    Cluster,
    FractionMembers,
    HillClimb,
    Mimic,
    Optimal,
    Sleeper,
)
from steadfed.data import Dataset, LogisticPoints, QuadraticPoints
from steadfed.models import LogisticRegression, Quadratic
from steadfed.models._convex import ProblemConstants, logistic_constants, quadratic_constants
from steadfed.partitions import NaturalPartition
from steadfed.simulation import Evaluation, Federation, NoCompression, RandomK, RunConfig
from steadfed.theory import Guarantee, Problem, Protocol, guarantees

Vector = NDArray[np.float64]

NAMED: Mapping[str, Attack] = MappingProxyType(
    {
        "alternating": ATTACKS.build("alternating+sign-flip"),
        "class-flip": ClassFlip(source=0, target=1),
        "cluster-spread": Cluster(direction="spread"),
        "hill-climb": HillClimb(num_trials=4, num_directions=2),
        "mimic-at-once": Mimic(warm_up=0),
        "optimal": Optimal(attack=ALittleIsEnough()),
        "optimal-cluster": Optimal(attack=Cluster(direction="spread")),
        "sleeper": Sleeper(attack=ATTACKS.build("sign-flip"), start=5),
    }
)
"""Attacks that need parameters, or are asked for with others; all else is built by its registered name."""
LOOK_AT_NOTHING = Evaluation(every=1_000_000, train_points=0, test_points=0, measured_rounds=0)


@dataclass(frozen=True, kw_only=True)
class Case:
    """A problem, Algorithm 1 on it, and an adversary, as plain numbers and names."""

    kind: Literal["quadratic", "logistic"] = "quadratic"
    dim: int = 10
    num_clients: int = 30
    num_points: int = 16
    """Points that each client holds."""
    heterogeneity: float = 1.0
    noise: float = 1.0
    strong_convexity: float = 0.5
    smoothness: float = 1.0
    """Of the quadratic; that of logistic regression follows from the points."""
    start: float = 5.0
    """How far from 0, where the model starts, the quadratic's points are moved."""
    data_seed: int = 0
    cohort_size: int = 20
    num_byzantine: int = 3
    assumed: int = 3
    """f."""
    slack: float = 0.0
    """ε′."""
    local_steps: int = 5
    gaps: tuple[int, ...] | None = None
    """Steps of the rounds if they differ, at most `local_steps`."""
    batch_size: int | Literal["full"] = "full"
    step: float = 0.2
    """η H L: 1/8 is the step size of Theorem 1, 1/5 that of Theorem 2."""
    rounds: int = 30
    mode: Mode = "spread"
    attack: str = "none"
    rule: Aggregator | None = None
    """Another rule than RAGE."""
    coordinates: int | None = None
    """k, how many coordinates a client sends; all if left out."""
    seed: int = 0

    @property
    def constants(self) -> ProblemConstants:
        """L, μ, σ², κ², x*."""
        return _constants(self._model, self._source, self.start)

    @property
    def dataset(self) -> Dataset:
        """The points."""
        return _dataset(self._source, self.start)

    @property
    def lr(self) -> float:
        """η."""
        return self.step / (self.local_steps * self.constants.smoothness)

    @property
    def problem(self) -> Problem:
        """The numbers of the problem."""
        found = self.constants
        return Problem(
            smoothness=found.smoothness,
            strong_convexity=found.strong_convexity,
            gradient_variance=found.gradient_variance,
            dissimilarity=found.dissimilarity,
            distance=float(found.minimiser @ found.minimiser),
            dim=len(found.minimiser),
        )

    @property
    def protocol(self) -> Protocol:
        """The numbers of the algorithm, with the σ₀ that the rule is given."""
        bare = self._protocol()
        if self.mode in KAPPA:
            return bare
        return bare.with_changes(sigma0=guarantees(self.problem, bare)[-1].sigma0 * (1.0 + 1e-9))

    @cached_property
    def guarantees(self) -> tuple[Guarantee, ...]:
        """The paper's, steadfed's in expectation, and with high probability if there is chance."""
        return guarantees(self.problem, self.protocol)

    def config(self, *, engine: Literal["auto", "loop"] = "auto") -> RunConfig:
        """Return the run."""
        return RunConfig(
            seed=self.seed,
            rounds=self.rounds,
            cohort_size=self.cohort_size,
            local_steps=self.gaps or self.local_steps,
            batch_size=self.batch_size,
            lr=self.lr,
            data=self._source,
            partition=NaturalPartition(),
            model=self._model,
            rule=self.rule or Rage(num_byzantine=self.assumed, mode=self.mode, sigma0=self.protocol.sigma0),
            byzantine=FractionMembers(fraction=self.num_byzantine / self.num_clients),
            attack=NAMED[self.attack] if self.attack in NAMED else ATTACKS.build(self.attack),
            compression=NoCompression() if self.coordinates is None else RandomK(coordinates=self.coordinates),
            evaluation=LOOK_AT_NOTHING,
            dtype="float64",
            engine=engine,
        )

    def federation(self, *, written: bool = True) -> Federation:
        """Return the federation; with autograd instead of a written gradient if asked for."""
        if written and isinstance(self._model, Quadratic):
            config = self.config(engine="loop")  # the quickest to set up, and replaced
            return written_federation(config, self.dataset, quadratic_gradient(self._model, self.dim))
        return Federation(self.config(), dataset=self.dataset)

    def distances(self, *, written: bool = True) -> Vector:
        """Return ‖x_k − x*‖² for k = 0, 1, …, rounds."""
        target, found = torch.from_numpy(self.constants.minimiser), []
        with self.federation(written=written) as federation:
            state = federation.start()
            found.append(float((state.model - target).square().sum()))
            for _ in range(self.rounds):
                state, _ = federation.play(state)
                found.append(float((state.model - target).square().sum()))
        return np.array(found)

    @property
    def _source(self) -> QuadraticPoints | LogisticPoints:
        shape: dict[str, Any] = {
            "num_points": self.num_clients * self.num_points,
            "num_test_points": 0,
            "dim": self.dim,
            "num_groups": self.num_clients,
            "heterogeneity": self.heterogeneity,
            "noise": self.noise,
            "seed": self.data_seed,
        }
        return QuadraticPoints(**shape) if self.kind == "quadratic" else LogisticPoints(**shape)

    @property
    def _model(self) -> Quadratic | LogisticRegression:
        if self.kind == "quadratic":
            return Quadratic(strong_convexity=self.strong_convexity, smoothness=self.smoothness)
        return LogisticRegression(l2=self.strong_convexity)

    def _protocol(self) -> Protocol:
        return Protocol(
            num_clients=self.num_clients,
            cohort_size=self.cohort_size,
            num_byzantine=self.num_byzantine,
            assumed_byzantine=self.assumed,
            local_steps=self.gaps or self.local_steps,
            batch_size=self.batch_size,
            num_points=self.num_points,
            lr=self.lr,
            rounds=self.rounds,
            mode=self.mode,
            slack=self.slack,
            coordinates=1.0 if self.coordinates is None else self.coordinates / self.dim,
        )


@lru_cache(maxsize=64)
def _dataset(source: QuadraticPoints | LogisticPoints, start: float) -> Dataset:
    """Return the points in double precision.

    Those of the quadratic are moved such that the mean of every client's points is its centre exactly: κ is then 0 for
    no heterogeneity. And all are moved away from 0, where the model starts.
    """
    drawn = source.load()
    features = drawn.features.double()
    if isinstance(source, LogisticPoints):
        return replace(drawn, features=features)
    centres = QuadraticPoints(**{**source.model_dump(), "noise": 0.0}).load().features.double()
    own = features.view(source.num_groups, -1, source.dim).mean(1)
    means = own.repeat_interleave(len(features) // source.num_groups, 0)
    return replace(drawn, features=features - means + centres + start / math.sqrt(source.dim))


@lru_cache(maxsize=64)
def _constants(
    model: Quadratic | LogisticRegression, source: QuadraticPoints | LogisticPoints, start: float
) -> ProblemConstants:
    dataset = _dataset(source, start)
    shares = NaturalPartition().split(dataset, 0)
    if isinstance(model, Quadratic):
        return quadratic_constants(model, dataset, shares)
    return logistic_constants(model, dataset, shares)
