"""Who takes part in a round: K of the R clients."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Annotated, ClassVar, final

import numpy as np
from pydantic import BeforeValidator, Field, field_validator

from steadfed._core.arrays import Indices
from steadfed._core.naming import Registry
from steadfed._core.rng import stream
from steadfed._core.values import ValueObject, whole_number
from steadfed.errors import ParameterError

Listed = Annotated[int, Field(ge=0), BeforeValidator(whole_number)]


class Cohorts(ValueObject, ABC):
    """A way to choose the cohort of each round, at a cost that does not depend on the number of clients."""

    citation: ClassVar[str]
    """Where it is defined."""

    @abstractmethod
    def cohort(self, round: int, num_clients: int, cohort_size: int, seed: int) -> Indices:
        """Return the different clients of a round, counted from 0."""

    def check(self, num_clients: int, cohort_size: int) -> None:
        """Raise `ParameterError` if such cohorts cannot be chosen."""
        if cohort_size > num_clients:
            raise ParameterError(f"cohort_size must be at most the number of clients, {num_clients}; got {cohort_size}")


COHORTS = Registry("way to choose cohorts", Cohorts)
"""Every way to choose cohorts, by name."""


@COHORTS.register("uniform")
@final
class UniformCohorts(Cohorts):
    """K clients uniformly without replacement, independently in every round.

    >>> UniformCohorts().cohort(0, 1_000_000, 3, seed=0).shape
    (3,)
    """

    citation: ClassVar[str] = "Data, Diggavi 2020, Algorithm 1, line 3"

    def cohort(self, round: int, num_clients: int, cohort_size: int, seed: int) -> Indices:
        """Draw from the stream of the round."""
        return stream(seed, "cohort", round).choice(num_clients, cohort_size, replace=False)


@COHORTS.register("round-robin")
@final
class RoundRobinCohorts(Cohorts):
    """The clients in turn: K of them, then the next K, and from the beginning after the last.

    >>> RoundRobinCohorts().cohort(1, 5, 3, seed=0)
    array([3, 4, 0])
    """

    citation: ClassVar[str] = "every client equally often; defined here"

    def cohort(self, round: int, num_clients: int, cohort_size: int, seed: int) -> Indices:
        """Count on."""
        return (round * cohort_size + np.arange(cohort_size)) % num_clients


@COHORTS.register("always")
@final
class AlwaysCohorts(Cohorts):
    """Some clients in every round, the others of the K drawn uniformly without replacement, independently each time.

    So that an attack is complete in every round, as in published tables of backdoors, however few its clients are.

    >>> AlwaysCohorts(clients=(2, 5)).cohort(0, 10, 4, seed=0)
    array([2, 5, 6, 4])
    """

    citation: ClassVar[str] = "Xie, Huang, Chen, Li 2020 (DBA), section 3.2, attack A-M"

    clients: Annotated[tuple[Listed, ...], Field(min_length=1, examples=[(0,)])]
    """Who is asked in every round."""

    @field_validator("clients")
    @classmethod
    def _each_once(cls, clients: tuple[int, ...]) -> tuple[int, ...]:
        if len(set(clients)) != len(clients):
            raise ValueError("each client may be named once")
        return clients

    def cohort(self, round: int, num_clients: int, cohort_size: int, seed: int) -> Indices:
        """Draw the others from the stream of the round."""
        number = len(self.clients)
        drawn = stream(seed, "cohort", round).choice(num_clients - number, cohort_size - number, replace=False)
        for client in sorted(self.clients):  # places among the others become numbers among all
            drawn[drawn >= client] += 1
        return np.concatenate([np.array(self.clients, dtype=np.int64), drawn])

    def check(self, num_clients: int, cohort_size: int) -> None:
        """Refuse clients that do not exist, and more of them than are asked."""
        super().check(num_clients, cohort_size)
        if max(self.clients) >= num_clients:
            raise ParameterError(
                f"clients must lie in 0 .. {num_clients - 1} for {num_clients} clients, got {max(self.clients)}"
            )
        if len(self.clients) > cohort_size:
            raise ParameterError(
                f"cohort_size must be at least {len(self.clients)}, who are always asked; got {cohort_size}"
            )


@COHORTS.register("listed")
@final
class ListedCohorts(Cohorts):
    """Cohorts that somebody wrote down, one per round, and from the beginning after the last. They may differ in size.

    >>> ListedCohorts(rounds=((0, 1), (2, 3, 4))).cohort(3, 10, 2, seed=0)
    array([2, 3, 4])
    """

    citation: ClassVar[str] = "the user's list"

    rounds: Annotated[
        tuple[Annotated[tuple[Listed, ...], Field(min_length=1)], ...], Field(min_length=1, examples=[((0, 1), (2,))])
    ]
    """The clients of the first round, of the second, …"""

    @field_validator("rounds")
    @classmethod
    def _each_once(cls, rounds: tuple[tuple[int, ...], ...]) -> tuple[tuple[int, ...], ...]:
        for number, cohort in enumerate(rounds):
            if len(set(cohort)) != len(cohort):
                raise ValueError(f"each client may be named once in a cohort, see the list for round {number}")
        return rounds

    def cohort(self, round: int, num_clients: int, cohort_size: int, seed: int) -> Indices:
        """Look it up."""
        return np.array(self.rounds[round % len(self.rounds)], dtype=np.int64)

    def check(self, num_clients: int, cohort_size: int) -> None:
        """Refuse clients that do not exist, and lists longer than the cohort for which memory is set aside."""
        largest = max(max(cohort) for cohort in self.rounds)
        if largest >= num_clients:
            raise ParameterError(
                f"listed clients must lie in 0 .. {num_clients - 1} for {num_clients} clients, got {largest}"
            )
        longest = max(len(cohort) for cohort in self.rounds)
        if longest > cohort_size:
            raise ParameterError(
                f"cohort_size must be at least {longest}, the length of the longest listed cohort; got {cohort_size}"
            )
