"""Which matrices are run: rules x attacks x populations x (K, d, ε) x seeds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from types import MappingProxyType
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, field_validator

from steadfed._core.values import ValueObject, real_number, whole_number
from steadfed.errors import ParameterError
from steadfed.sweeps.matrices._catalogue import ATTACK_LABELS, RULE_LABELS, check_labels
from steadfed.sweeps.matrices._populations import SPREAD_OUT, check_population

Positive = Annotated[int, Field(ge=1), BeforeValidator(whole_number)]
Share = Annotated[float, Field(gt=0.0, lt=0.5), BeforeValidator(real_number)]


@dataclass(frozen=True)
class GauntletMatrix:
    """One matrix of honest rows under one attack; every rule of the grid is tried on it."""

    model: str
    cohort_size: int
    dim: int
    num_byzantine: int
    seed: int
    attack: str


class GauntletGrid(ValueObject):
    """What is run; every field is a list, and the matrices are their product."""

    rules: tuple[str, ...] = RULE_LABELS
    attacks: tuple[str, ...] = ATTACK_LABELS
    populations: tuple[str, ...] = tuple(SPREAD_OUT)
    cohort_sizes: tuple[Positive, ...] = (40,)
    dims: tuple[Positive, ...] = (10, 1000)
    byzantine_fractions: tuple[Share, ...] = (0.1, 0.25)
    num_seeds: Positive = 1

    @field_validator("rules", "attacks", "populations", "cohort_sizes", "dims", "byzantine_fractions")
    @classmethod
    def _not_empty(cls, value: tuple[Any, ...]) -> tuple[Any, ...]:
        if not value or len(set(value)) != len(value):
            raise ValueError("must name at least one entry, each once")
        return value

    def check(self) -> None:
        """Raise an error of the tree for a name that does not exist, or a share that is nobody."""
        check_labels(self.rules, self.attacks)
        for name in self.populations:
            check_population(name)
        for cohort_size, fraction in product(self.cohort_sizes, self.byzantine_fractions):
            if num_byzantine(fraction, cohort_size) == 0:
                raise ParameterError(
                    f"a share of {fraction} of {cohort_size} clients is nobody; it must be at least 1/{cohort_size}"
                )

    def matrices(self) -> Iterator[GauntletMatrix]:
        """Yield the matrices, those on the same honest rows next to each other; shares of as many clients are one."""
        for cohort_size, dim in product(self.cohort_sizes, self.dims):
            numbers = dict.fromkeys(num_byzantine(fraction, cohort_size) for fraction in self.byzantine_fractions)
            for number, model, seed in product(numbers, self.populations, range(self.num_seeds)):
                for attack in self.attacks:
                    yield GauntletMatrix(model, cohort_size, dim, number, seed, attack)


def num_byzantine(fraction: float, cohort_size: int) -> int:
    """Return f = ⌊ε K⌋, so that no matrix has a larger share than was asked for; ⌊0.29 · 100⌋ is 29.

    >>> num_byzantine(0.25, 10), num_byzantine(0.29, 100)
    (2, 29)
    """
    return math.floor(Fraction(fraction).limit_denominator(10**6) * cohort_size)


GRIDS: Mapping[str, GauntletGrid] = MappingProxyType(
    {
        "quick": GauntletGrid(
            rules=("rage", "mean", "median", "trimmed-mean", "krum", "geometric-median", "caf", "nnm+trimmed-mean"),
            attacks=("none", "sign-flip", "nan", "alie", "ipm-0.1", "min-max", "optimal-cluster", "below-threshold"),
            populations=("iso", "clusters"),
            byzantine_fractions=(0.2,),
        ),
        "full": GauntletGrid(cohort_sizes=(40, 100), dims=(10, 1000, 20_000), byzantine_fractions=(0.1, 0.2, 0.25)),
    }
)
