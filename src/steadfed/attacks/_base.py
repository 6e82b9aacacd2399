"""What every attack is: a pure map from an `AdversaryView` to one row per Byzantine client."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

import torch
from jaxtyping import Bool, Float
from pydantic import BeforeValidator, Field
from torch import Tensor

from steadfed._core.values import ValueObject, real_number
from steadfed.attacks._view import AdversaryView, Knowledge

Strength = Annotated[float, Field(ge=0.0), BeforeValidator(real_number)]
"""How far an attack goes; what it multiplies is the attack's own affair."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Forged:
    """What the Byzantine clients send."""

    rows: Float[Tensor, "f d"]
    """One row per Byzantine client, in the dtype and on the device of the view's rows."""
    silent: Bool[Tensor, " f"]
    """The clients that send nothing; their rows are not to be looked at."""
    memory: Mapping[str, Tensor] = field(default_factory=dict)
    """What the attack asks to be given back in the next round's view."""

    @property
    def sent(self) -> Float[Tensor, "s d"]:
        """The rows that reach the server."""
        return self.rows[~self.silent]


class Attack(ValueObject, ABC):
    """An adversary. Final subclasses are configured by their fields and called with a view.

    Pure and deterministic: the same view gives the same rows, the view's rows are neither changed nor aliased, and
    what is remembered travels in `Forged.memory` and the next view.
    """

    citation: ClassVar[str]
    """Where the attack is defined."""
    needs: ClassVar[frozenset[Knowledge]] = frozenset({Knowledge.OWN})
    """What the attack must know: its own clients' honest rows, if it does not say otherwise."""
    uses: ClassVar[frozenset[Knowledge]] = frozenset()
    """What makes the attack stronger if it is known, and which it can do without."""

    @torch.no_grad()
    def __call__(self, view: AdversaryView) -> Forged:
        """Forge one row per Byzantine client.

        Raises:
            MissingKnowledgeError: the attack must know something that the view does not grant.
        """
        for knowledge in sorted(self.all_needs(), key=lambda each: each.name):
            view.require(knowledge, self)
        if view.num_byzantine == 0:
            return sent_by_all(view.own_rows.clone(), view.memory)
        return self.forge(view)

    @abstractmethod
    def forge(self, view: AdversaryView) -> Forged:
        """Forge rows; called by `__call__` after the checks, with at least one Byzantine client."""

    def remembers(self) -> bool:
        """Return whether the attack itself asks for vectors to be given back in the next round; most do not."""
        return False

    def all_needs(self) -> frozenset[Knowledge]:
        """Return what the attack, or an attack inside it, must know."""
        return frozenset().union(*(attack.needs for attack in self.chain()))

    def chain(self) -> Iterator[Attack]:
        """Yield the attack and the attacks inside it, outermost first."""
        yield self
        for name in type(self).model_fields:
            inner = getattr(self, name)
            if isinstance(inner, Attack):
                yield from inner.chain()


class DirectedAttack(Attack, ABC):
    """An attack that moves from a centre along a direction, as far as its strength says.

    row_i = centre_i + strength · direction_i. An adversary that knows the rule can look for the best strength
    (`Optimal`), because the same direction can be gone for any distance.
    """

    @abstractmethod
    def aim(self, view: AdversaryView) -> Aim:
        """Return where to start from, where to go, and how far."""

    def forge(self, view: AdversaryView) -> Forged:
        """Go as far as the attack's own strength says."""
        aim = self.aim(view)
        return sent_by_all(aim.at(aim.strength))


@dataclass(frozen=True)
class Aim:
    """A centre and a direction for every Byzantine client."""

    centre: Float[Tensor, "f d"]
    direction: Float[Tensor, "f d"]
    strength: float
    """The attack's own choice."""

    def at(self, strength: float) -> Float[Tensor, "f d"]:
        """Return the rows at a strength."""
        return self.centre + strength * self.direction


def sent_by_all(rows: Float[Tensor, "f d"], memory: Mapping[str, Tensor] | None = None) -> Forged:
    """Return rows of which none is held back."""
    return Forged(rows=rows, silent=torch.zeros(len(rows), dtype=torch.bool), memory=memory or {})


def same_for_all(row: Float[Tensor, " d"], view: AdversaryView) -> Float[Tensor, "f d"]:
    """Return one row as often as there are Byzantine clients."""
    return row.repeat(view.num_byzantine, 1)
