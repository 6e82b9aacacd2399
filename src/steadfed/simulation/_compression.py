"""What of an update is sent: all of it, or coordinates that are the same for all clients of a round."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from fractions import Fraction
from typing import Annotated, Any, ClassVar, final

from pydantic import BeforeValidator, Field

from steadfed._core.naming import Registry
from steadfed._core.values import ValueObject
from steadfed._core.wording import plural
from steadfed.aggregators import Aggregator
from steadfed.attacks import Attack
from steadfed.errors import ParameterError

MEANT = 10**6
"""A share is read as the nearest fraction whose denominator is at most this."""


def _some(value: Any) -> Any:
    """Return a number of coordinates, a whole number, or a share of them, a float; refuse everything else."""
    if isinstance(value, bool) or not (hasattr(value, "__index__") or isinstance(value, float)):
        raise ValueError("must be a whole number of at least 1, or a share above 0 and at most 1.0")
    number = float(value) if isinstance(value, float) else value.__index__()
    if not (number >= 1 if isinstance(number, int) else 0.0 < number <= 1.0):
        raise ValueError("must be a whole number of at least 1, or a share above 0 and at most 1.0")
    return number


class Compression(ValueObject, ABC):
    """How much of an update a client sends."""

    citation: ClassVar[str]
    """Where it is defined."""

    @abstractmethod
    def number(self, dim: int) -> int:
        """Return how many of the d coordinates are sent in a round; `ParameterError` if there are not so many."""

    @property
    @abstractmethod
    def words(self) -> str | None:
        """What of an update is sent, in words; None if all of it is, whatever d."""


COMPRESSIONS = Registry("compression", Compression)
"""Every compression by name."""


@COMPRESSIONS.register("none")
@final
class NoCompression(Compression):
    """Every client sends all of its update.

    >>> NoCompression().number(650)
    650
    """

    citation: ClassVar[str] = "Data, Diggavi 2020, Algorithm 1"

    def number(self, dim: int) -> int:
        """Return d."""
        return dim

    @property
    def words(self) -> None:
        """None."""


@COMPRESSIONS.register("random-k")
@final
class RandomK(Compression):
    """Every client sends the same k coordinates of its update, drawn uniformly without replacement in every round.

    The rule is given the K × k matrix of these, and only these coordinates of the model move, unscaled: a step of
    random block-coordinate descent. With the step size of a run without compression, the bounds have the same floor and
    are reached in d/k times as many rounds (docs/theory/compression.md).

    >>> RandomK(coordinates=0.1).number(650), RandomK(coordinates=1000).number(5000)
    (65, 1000)
    >>> RandomK(coordinates=1000).number(650)
    Traceback (most recent call last):
    steadfed.errors.ParameterError: RandomK(coordinates=1000): the model has 650 parameters; coordinates must be at \
most that, or a share of them, got 1000
    """

    citation: ClassVar[str] = "Data, Diggavi 2020 (arXiv 2005.07866): k random coordinates; common to all clients"

    coordinates: Annotated[int | float, BeforeValidator(_some), Field(examples=[0.1])]
    """k itself, a whole number from 1 on; or a share of d, above 0.0 and at most 1.0, and k is rounded up."""

    def __eq__(self, other: object) -> bool:
        """Return whether both are the same number, or the same share: 1 is one coordinate, and 1.0 are all.

        >>> RandomK(coordinates=1) == RandomK(coordinates=1.0), RandomK(coordinates=0.5) == RandomK(coordinates=0.5)
        (False, True)
        """
        return isinstance(other, RandomK) and self._meant == other._meant

    def __hash__(self) -> int:
        """Return the same for equals."""
        return hash(self._meant)

    @property
    def _meant(self) -> tuple[type, int | float]:
        return type(self.coordinates), self.coordinates

    @property
    def words(self) -> str | None:
        """Which coordinates, in words.

        >>> RandomK(coordinates=0.1).words
        'the same 10 % of the coordinates from every client, drawn anew in every round'
        >>> RandomK(coordinates=1000).words
        'the same 1,000 coordinates from every client, drawn anew in every round'
        """
        if self == RandomK(coordinates=1.0):
            return None
        number = self.coordinates
        some = f"{100.0 * number:g} % of the coordinates" if isinstance(number, float) else plural(number, "coordinate")
        return f"the same {some} from every client, drawn anew in every round"

    def number(self, dim: int) -> int:
        """Return k; a share is read as the simple fraction that was meant, so that 0.1 of 650 is 65."""
        if isinstance(self.coordinates, float):
            return max(1, math.ceil(Fraction(self.coordinates).limit_denominator(MEANT) * dim))
        if self.coordinates > dim:
            raise ParameterError(
                f"{self!r}: the model has {dim} parameters; coordinates must be at most that, or a share of them, "
                f"got {self.coordinates}"
            )
        return self.coordinates


def check_memories(compression: Compression, dim: int, rule: Aggregator, attack: Attack | None = None) -> None:
    """Raise `ParameterError` if somebody compares coordinates of one round with those of another.

    A rule or an attack that remembers vectors would set numbers of this round's coordinates against numbers of others.
    """
    if compression.number(dim) == dim:
        return
    for what, values in (("rule", rule.chain()), ("attack", () if attack is None else attack.chain())):
        for value in values:
            if value.remembers():
                raise ParameterError(
                    f"the {what} {value!r} remembers vectors from round to round, and with {compression!r} every "
                    f"round has coordinates of its own; choose one without memory, or no compression"
                )
