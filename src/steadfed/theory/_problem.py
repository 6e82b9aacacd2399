"""What a theorem asks for, as plain numbers: the problem that is solved, and how it is solved."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from steadfed._core.gaps import check_gaps, steps_taken
from steadfed._core.values import ValueObject, real_number, whole_number
from steadfed.aggregators._rage.constants import KAPPA, Mode, filter_constant
from steadfed.errors import ParameterError
from steadfed.theory.paper._setting import minibatch_variance, variance_without_replacement

NotNegative = Annotated[float, Field(ge=0.0), BeforeValidator(real_number)]
Positive = Annotated[float, Field(gt=0.0), BeforeValidator(real_number)]
Number = Annotated[int, Field(ge=1), BeforeValidator(whole_number)]
Count = Annotated[int, Field(ge=0), BeforeValidator(whole_number)]


def _number_or_gaps(value: object) -> object:
    """Return a list of gaps as a checked tuple, all else as it is."""
    listed = isinstance(value, Iterable) and not isinstance(value, (str, bytes))
    return check_gaps(value) if listed else value


class Problem(ValueObject):
    """The constants of F = (1/R) Σ_r F_r and where the run starts.

    >>> Problem(smoothness=1.0, strong_convexity=2.0, gradient_variance=1.0, dissimilarity=0.0, gap=1.0)
    Traceback (most recent call last):
    steadfed.errors.ParameterError: Problem: strong_convexity must be at most smoothness = 1, got 2.0
    """

    smoothness: Positive
    """L of F."""
    strong_convexity: NotNegative = 0.0
    """μ of F; 0 if F is not strongly convex."""
    gradient_variance: NotNegative
    """σ² of Assumption 1: of the gradient of one random point of a client."""
    dissimilarity: NotNegative
    """κ² of Assumption 2: the largest ‖∇F_r − ∇F‖²."""
    distance: NotNegative | None = None
    """‖x_0 − x*‖², for the strongly convex bounds."""
    gap: NotNegative | None = None
    """F(x_0) − F*, for the others."""
    dim: Number = 1
    """d, which only the paper's formulas ask for."""

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if self.strong_convexity > self.smoothness:
            raise ValueError(
                f"strong_convexity must be at most smoothness = {self.smoothness:g}, got {self.strong_convexity!r}"
            )
        if self.distance is None and self.gap is None:
            raise ValueError("distance = ‖x_0 − x*‖² or gap = F(x_0) − F* must be given, got neither")
        return self

    @property
    def start(self) -> float:
        """‖x_0 − x*‖², or what strong convexity gives for it: 2 (F(x_0) − F*)/μ."""
        if self.distance is not None:
            return self.distance
        return 2.0 * (self.gap or 0.0) / self.strong_convexity if self.strong_convexity else math.inf

    @property
    def height(self) -> float:
        """F(x_0) − F*, or what smoothness gives for it: (L/2) ‖x_0 − x*‖²."""
        return self.gap if self.gap is not None else 0.5 * self.smoothness * (self.distance or 0.0)


class Protocol(ValueObject):
    """Algorithm 1 as numbers: who takes part, what a client does, what the rule assumes.

    >>> Protocol(num_clients=100, cohort_size=40, assumed_byzantine=10, local_steps=5, lr=0.1, rounds=10).tolerated
    10
    """

    num_clients: Number
    """R."""
    cohort_size: Number
    """K."""
    num_byzantine: Count = 0
    """How many of the R clients are Byzantine."""
    assumed_byzantine: Count
    """f, how many updates of a cohort the rule assumes to be Byzantine; ε̃ = f/K."""
    local_steps: Annotated[Number | tuple[int, ...], BeforeValidator(_number_or_gaps)] = 1
    """H; or the gaps ≤ H, one per round and from the beginning after the last."""
    batch_size: Number | Literal["full"] = "full"
    """b, drawn without replacement."""
    num_points: Number | None = None
    """The most points that a client holds; None if unknown, and σ²/b is used as in the paper."""
    lr: Positive
    """η."""
    rounds: Number
    """T/H."""
    mode: Mode = "auto"
    """The mode of RAGE."""
    sigma0: Positive | None = None
    """σ₀ that RAGE is given; None for the theorem's own, or if it learns it."""
    kappa: Annotated[float, Field(ge=1.0), BeforeValidator(real_number)] | None = None
    """κ of the modes that learn σ₀; the mode's own if left out."""
    slack: Annotated[float, Field(ge=0.0, lt=1.0), BeforeValidator(real_number)] = 0.0
    """ε′, the share of a cohort that is set aside for honest updates far from the others: ⌈ε′K⌉ of the f updates."""
    failure: Annotated[float, Field(gt=0.0, lt=1.0), BeforeValidator(real_number)] = 0.01
    """How likely the honest updates of some round may be to spread more than a high-probability bound says."""
    repeats: bool = True
    """Whether gaps begin anew after the last. Those that were drawn do not: more rounds than gaps are refused."""
    coordinates: Annotated[float, Field(gt=0.0, le=1.0), BeforeValidator(real_number)] = 1.0
    """θ = k/d, the share of the coordinates that all clients of a round send; 1 for whole updates."""
    uniform: bool = True
    """Whether cohorts are drawn uniformly; otherwise all Byzantine clients may meet in one."""

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if self.cohort_size > self.num_clients:
            raise ValueError(f"cohort_size must be at most num_clients = {self.num_clients}, got {self.cohort_size}")
        if self.num_byzantine > self.num_clients:
            raise ValueError(
                f"num_byzantine must be at most num_clients = {self.num_clients}, got {self.num_byzantine}"
            )
        if 2 * self.assumed_byzantine >= self.cohort_size:
            limit = (self.cohort_size - 1) // 2
            raise ValueError(
                f"assumed_byzantine must be below half of the cohort, at most {limit}, got {self.assumed_byzantine}"
            )
        if self.set_aside > self.assumed_byzantine:
            most = self.assumed_byzantine / self.cohort_size
            raise ValueError(f"slack must be at most assumed_byzantine / cohort_size = {most:g}, got {self.slack}")
        if self.batch_size != "full" and self.num_points is not None and self.batch_size > self.num_points:
            raise ValueError(f"batch_size must be at most num_points = {self.num_points}, got {self.batch_size}")
        if self.rounds > self.known_rounds:
            raise ValueError(
                f"rounds must be at most {self.known_rounds}, for which local_steps are known, got {self.rounds}"
            )
        if self.learns and self.sigma0 is not None:
            raise ValueError(f"sigma0 must be left out in mode {self.mode!r}, which learns it, got {self.sigma0}")
        return self

    @property
    def learns(self) -> bool:
        """Whether the mode learns σ₀ from the updates."""
        return self.mode in KAPPA

    @property
    def gaps(self) -> tuple[int, ...]:
        """The numbers of local steps, one of them if all rounds are alike."""
        return (self.local_steps,) if isinstance(self.local_steps, int) else self.local_steps

    @property
    def most_steps(self) -> int:
        """H, the largest gap."""
        return max(self.gaps)

    @property
    def known_rounds(self) -> float:
        """For how many rounds the gaps are known: infinitely many, unless they were drawn."""
        return math.inf if self.repeats or isinstance(self.local_steps, int) else len(self.local_steps)

    @property
    def total_steps(self) -> int:
        """T, the sum of the gaps."""
        return steps_taken(self.gaps, self.rounds)

    @property
    def population(self) -> dict[str, int]:
        """R, B and K, as the functions of `steadfed.theory.sampling` ask for them."""
        return self.model_dump(include={"num_clients", "num_byzantine", "cohort_size"})

    @property
    def fraction(self) -> float:
        """ε̃ = f/K, the share of a cohort that the rule distrusts."""
        return self.assumed_byzantine / self.cohort_size

    @property
    def set_aside(self) -> int:
        """⌈ε′K⌉."""
        return math.ceil(self.slack * self.cohort_size - 1e-9)

    @property
    def tolerated(self) -> int:
        """How many Byzantine updates a cohort may have: f − ⌈ε′K⌉."""
        return self.assumed_byzantine - self.set_aside

    @property
    def constant(self) -> float:
        """C of the filter: its error is at most C σ₀ √ε̃."""
        return filter_constant(self.mode, self.fraction, kappa=self.kappa, num_rows=self.cohort_size)

    def noise(self, gradient_variance: float) -> float:
        """Return σ_b²: (n − b)/(b(n − 1)) σ², or σ²/b if n is not known, or 0 for full batches."""
        if self.batch_size == "full":
            return 0.0
        if self.num_points is None:
            return minibatch_variance(gradient_variance=gradient_variance, batch_size=self.batch_size)
        return variance_without_replacement(
            gradient_variance=gradient_variance, batch_size=self.batch_size, num_points=self.num_points
        )

    def with_changes(self, **parameters: object) -> Protocol:
        """Return the protocol with some of its numbers changed, checked like a new one."""
        unknown = parameters.keys() - type(self).model_fields.keys()
        if unknown:
            raise ParameterError(
                f"a protocol has no {', '.join(sorted(unknown))}; it has {', '.join(type(self).model_fields)}"
            )
        anew = {"repeats": True} if "local_steps" in parameters else {}
        return Protocol(**{**self.model_dump(), **anew, **parameters})
