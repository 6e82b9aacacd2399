"""Who is Byzantine in a round: value objects that the simulator asks."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from fractions import Fraction
from typing import Annotated, final

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field, field_validator

from steadfed._core.naming import Registry
from steadfed._core.rng import shuffled_places
from steadfed._core.values import ValueObject, real_number, whole_number
from steadfed.errors import ParameterError

Client = Annotated[int, Field(ge=0), BeforeValidator(whole_number)]
Clients = NDArray[np.int64]
Share = Annotated[float, Field(ge=0.0, le=1.0, examples=[0.2]), BeforeValidator(real_number)]


class Membership(ValueObject, ABC):
    """Which of all clients are the adversary's, round by round."""

    @abstractmethod
    def among(self, clients: Clients, round: int, num_clients: int, seed: int) -> NDArray[np.bool_]:
        """Return for each of `clients` whether it is Byzantine in a round, at the cost of these clients only.

        Args:
            clients: the numbers of the clients asked about, such as the cohort.
            round: the number of the round, from 0.
            num_clients: R, how many clients there are in all.
            seed: the root seed; who is drawn is a stream of it.
        """

    def members(self, round: int, num_clients: int, seed: int) -> NDArray[np.bool_]:
        """Return for each of all `num_clients` clients whether it is Byzantine in a round."""
        return self.among(np.arange(num_clients), round, num_clients, seed)

    def ever(self, num_clients: int, seed: int) -> NDArray[np.bool_]:
        """Return for each of all `num_clients` clients whether it may be Byzantine in some round; all, if not known."""
        return np.ones(num_clients, dtype=np.bool_)


MEMBERSHIPS = Registry("membership", Membership)
"""Every way to say who is Byzantine, by name."""


@MEMBERSHIPS.register("fixed")
@final
class FixedMembers(Membership):
    """These clients, in every round.

    >>> FixedMembers(clients=(0, 2)).members(0, 4, seed=0)
    array([ True, False,  True, False])
    """

    clients: tuple[Client, ...] = ()
    """The numbers of the Byzantine clients, from 0."""

    @field_validator("clients")
    @classmethod
    def _each_once(cls, clients: tuple[int, ...]) -> tuple[int, ...]:
        if len(set(clients)) != len(clients):
            raise ValueError("each client may be named once")
        return clients

    def among(self, clients: Clients, round: int, num_clients: int, seed: int) -> NDArray[np.bool_]:
        """Return the named clients."""
        outside = [client for client in self.clients if client >= num_clients]
        if outside:
            raise ParameterError(
                f"clients must lie in 0 .. {num_clients - 1} for {num_clients} clients, got {outside[0]}"
            )
        return np.isin(clients, self.clients)

    def ever(self, num_clients: int, seed: int) -> NDArray[np.bool_]:
        """Return the named clients."""
        return self.members(0, num_clients, seed)


@MEMBERSHIPS.register("fraction")
@final
class FractionMembers(Membership):
    """A share of the clients, drawn once by the seed: ⌊fraction · R⌋ of them, the same in every round.

    >>> byzantine = FractionMembers(fraction=0.3)
    >>> int(byzantine.members(0, 10, seed=1).sum())
    3
    >>> bool((byzantine.members(0, 10, seed=1) == byzantine.members(7, 10, seed=1)).all())
    True
    """

    fraction: Share
    """ε, the share of Byzantine clients."""

    def among(self, clients: Clients, round: int, num_clients: int, seed: int) -> NDArray[np.bool_]:
        """Return the clients drawn once."""
        return shuffled_places(clients, num_clients, seed, "membership") < _share(self.fraction, num_clients)

    def ever(self, num_clients: int, seed: int) -> NDArray[np.bool_]:
        """Return the clients drawn once."""
        return self.members(0, num_clients, seed)


@MEMBERSHIPS.register("changing")
@final
class ChangingMembers(Membership):
    """A share of the clients, drawn anew in every round: ⌊fraction · R⌋ of them.

    Guarantees that hold round by round, as those of a filter do, allow the adversary to move from client to client.

    >>> byzantine = ChangingMembers(fraction=0.3)
    >>> [int(byzantine.members(round, 10, seed=1).sum()) for round in range(3)]
    [3, 3, 3]
    """

    fraction: Share
    """ε, the share of Byzantine clients."""

    def among(self, clients: Clients, round: int, num_clients: int, seed: int) -> NDArray[np.bool_]:
        """Return the clients drawn for this round."""
        places = shuffled_places(clients, num_clients, seed, "changing-membership", round)
        return places < _share(self.fraction, num_clients)


def _share(fraction: float, num_clients: int) -> int:
    """Return ⌊fraction · R⌋, with the fraction read as the simple one that was meant: ⌊0.29 · 100⌋ is 29."""
    return math.floor(Fraction(fraction).limit_denominator(10**6) * num_clients)
