"""The adversary's turn in a round: what its clients train on, and what they send instead."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.aggregators import Aggregator, ServerView
from holdfast.attacks import AdversaryView, Attack, Forged, Honest, Knowledge, acting
from holdfast.attacks.labels import DataAttack


@dataclass(frozen=True)
class Adversary:
    """An attack, and what the adversary may know."""

    attack: Attack
    granted: frozenset[Knowledge]
    seed: int

    def poison(self) -> DataAttack | None:
        """Return the attack on labels that may act in some round."""
        return next((attack for attack in self.attack.chain() if isinstance(attack, DataAttack)), None)

    def poisons(self, round: int) -> bool:  # noqa: A002  the one word for it
        """Tell whether the Byzantine clients train on wrong labels in a round."""
        return isinstance(acting(self.attack, round), DataAttack)

    def trains(self) -> bool:
        """Tell whether what its clients would honestly send is needed at all."""
        known = {knowledge for attack in self.attack.chain() for knowledge in attack.needs | attack.uses}
        return Knowledge.OWN in known or Knowledge.HONEST not in self.granted or self.poison() is not None

    def forge(self, own: Float[Tensor, "f d"], honest: Float[Tensor, "n d"], rule: Aggregator, turn: Turn) -> Forged:
        """Return what the Byzantine clients send.

        If every client of the cohort is the adversary's, an attack that must see honest rows has nothing to see, and
        its clients send what they computed.
        """
        finite = torch.isfinite(honest.sum(1))
        view = AdversaryView(
            num_byzantine=len(own),
            cohort_size=len(own) + len(honest),
            own_rows=own,
            honest_rows=honest if bool(finite.all()) else honest[finite],
            server_rule=rule,
            server_view=turn.server_view,
            granted=self.granted,
            round=turn.round,
            seed=self.seed,
            memory=turn.memory,
        )
        blind = Knowledge.HONEST in self.granted and not view.may(Knowledge.HONEST)
        if blind and Knowledge.HONEST in self.attack.all_needs():
            return Honest()(view)
        return self.attack(view)


@dataclass(frozen=True, eq=False)
class Turn:
    """What goes with one round."""

    round: int
    server_view: ServerView
    memory: Mapping[str, Tensor] = field(default_factory=dict)
    """What the attack asked to remember."""
