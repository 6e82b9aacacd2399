"""What an adversary may know: a type, not a habit.

Somebody who stages an attack (the simulator, the gauntlet) builds an `AdversaryView` with everything and says what is
granted. An attack reads the view's properties; reading what is not granted raises, so that an attack cannot use more
than it says it needs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from steadfed._core.rng import stream
from steadfed.aggregators import Aggregation, Aggregator, ServerView
from steadfed.errors import DtypeError, MissingKnowledgeError, ParameterError, ShapeError

Value = TypeVar("Value")


class Knowledge(Enum):
    """What an adversary can know; the value is a phrase for people."""

    OWN = "what its own clients would send if they were honest"
    HONEST = "what the honest clients send in this round"
    RULE = "the server's rule, and what the server tells it"

    def __str__(self) -> str:
        """Return the phrase."""
        return str(self.value)


EVERYTHING = frozenset(Knowledge)


@dataclass(frozen=True, kw_only=True, eq=False)
class AdversaryView:
    """One round as the colluding adversary sees it.

    The first two are always known: how many clients the adversary has in the cohort, and how large the cohort is.
    """

    num_byzantine: int
    """How many clients of the cohort are the adversary's."""
    cohort_size: int
    """K, how many clients take part in this round."""
    own_rows: Float[Tensor, "f d"]
    """What the Byzantine clients would send if they were honest, one row each."""
    honest_rows: Float[Tensor, "n d"] | None = None
    """What the honest clients send."""
    server_rule: Aggregator | None = None
    """The rule that will aggregate the rows."""
    server_view: ServerView | None = None
    """What the server will tell its rule."""
    granted: frozenset[Knowledge] = EVERYTHING
    """What this adversary may know."""
    round: int = 0
    """The number of the round, from 0."""
    seed: int = 0
    """The root seed; the adversary's randomness is a stream of it."""
    memory: Mapping[str, Tensor] = field(default_factory=dict)
    """What the attack's last `Forged` asked to remember."""

    def __post_init__(self) -> None:
        """Refuse views that contradict themselves."""
        if self.own_rows.ndim != 2 or len(self.own_rows) != self.num_byzantine or not self.own_rows.is_floating_point():
            raise ShapeError(
                f"own_rows must hold one row of floats for each of the {self.num_byzantine} Byzantine clients, got "
                f"shape {tuple(self.own_rows.shape)} of {self.own_rows.dtype}"
            )
        if not 0 <= self.num_byzantine <= self.cohort_size:
            raise ParameterError(
                f"num_byzantine must lie in 0 .. {self.cohort_size}, the size of the cohort; got {self.num_byzantine}"
            )
        rows = self.honest_rows
        if rows is not None and (rows.ndim != 2 or rows.shape[1] != self.own_rows.shape[1]):
            raise ShapeError(
                f"honest_rows must have {self.own_rows.shape[1]} columns, as own_rows has; got {tuple(rows.shape)}"
            )
        if rows is not None and rows.dtype != self.own_rows.dtype:
            raise DtypeError(f"honest_rows must be {self.own_rows.dtype}, as own_rows are; got {rows.dtype}")

    def may(self, knowledge: Knowledge) -> bool:
        """Tell whether the adversary knows this."""
        there = {
            Knowledge.OWN: True,
            Knowledge.HONEST: self.honest_rows is not None and len(self.honest_rows) > 0,
            Knowledge.RULE: self.server_rule is not None,
        }
        return knowledge in self.granted and there[knowledge]

    @property
    def own(self) -> Float[Tensor, "f d"]:
        """What the adversary's own clients would send if they were honest."""
        return self._granted(Knowledge.OWN, self.own_rows)

    @property
    def honest(self) -> Float[Tensor, "n d"]:
        """What the honest clients send."""
        return self._granted(Knowledge.HONEST, self.honest_rows)

    @property
    def seen(self) -> Float[Tensor, "m d"]:
        """The best sample of honest rows that the adversary has: the honest clients', or else its own."""
        return self.honest if self.may(Knowledge.HONEST) else self.own

    @property
    def rule(self) -> Aggregator:
        """The server's rule."""
        return self._granted(Knowledge.RULE, self.server_rule)

    def aggregate(self, forged: Float[Tensor, "f d"]) -> Aggregation:
        """Return what the server would make of the forged rows, in front of those the adversary has seen."""
        return self.rule(torch.cat([forged, self.seen]), self.server_view)

    def generator(self, *names: str | int) -> np.random.Generator:
        """Return the adversary's random stream of this round for a purpose."""
        return stream(self.seed, "attack", *names, self.round)

    def require(self, knowledge: Knowledge, who: object = "this adversary") -> None:
        """Raise `MissingKnowledgeError` unless the adversary may know this."""
        if not self.may(knowledge):
            raise self._missing(knowledge, who)

    def _granted(self, knowledge: Knowledge, value: Value | None) -> Value:
        """Return what the adversary may know; `MissingKnowledgeError` if it may not."""
        if value is None or not self.may(knowledge):
            raise self._missing(knowledge, "this adversary")
        return value

    def _missing(self, knowledge: Knowledge, who: object) -> MissingKnowledgeError:
        known = ", ".join(sorted(k.name for k in Knowledge if self.may(k))) or "nothing"
        return MissingKnowledgeError(
            f"{who} must know {knowledge.name} ({knowledge}), which the view does not grant; it grants: {known}"
        )
