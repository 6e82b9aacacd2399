"""The adversary's part in a round: what its clients train on, and what they send instead."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from jaxtyping import Bool, Float
from numpy.typing import NDArray
from torch import Tensor

from steadfed.aggregators import Aggregator, ServerView
from steadfed.attacks import AdversaryView, Attack, Forged, Knowledge, acting_attack
from steadfed.attacks._base import sent_by_all
from steadfed.attacks._poisoning import data_attack_of
from steadfed.errors import CohortTooSmallError, NoUsableRowError
from steadfed.server._decision import divergence
from steadfed.server._record import Client

GUESS = 0
"""What the adversary takes for the server's secret when it tries the rule; the secret itself it never sees."""


@dataclass(frozen=True)
class Adversary:
    """An attack, and what the adversary may know."""

    attack: Attack
    granted: frozenset[Knowledge]
    seed: int

    def poisons(self, round: int) -> bool:
        """Tell whether the Byzantine clients train on poisoned data in a round."""
        return data_attack_of(acting_attack(self.attack, round)) is not None

    def trains(self, num_honest: int) -> bool:
        """Tell whether what its clients would honestly send is needed at all, in a cohort of so many honest clients."""
        known = {knowledge for attack in self.attack.chain() for knowledge in attack.needs | attack.uses}
        sees = Knowledge.HONEST in self.granted and num_honest > 0
        return Knowledge.OWN in known or not sees or data_attack_of(self.attack) is not None

    def forge(
        self, own: Float[Tensor, "f d"], honest: Float[Tensor, "n d"], rule: Aggregator, context: AttackContext
    ) -> Forged:
        """Return what the Byzantine clients send.

        They send what they computed if the attack has nothing to work with: it must see honest rows and there are none,
        or it tries the rule, which cannot aggregate so few rows, or training has diverged.
        """
        finite = torch.isfinite(honest.sum(1))
        view = AdversaryView(
            num_byzantine=len(own),
            cohort_size=len(own) + len(honest),
            own_rows=own,
            honest_rows=honest if bool(finite.all()) else honest[finite],
            server_rule=rule,
            server_view=self._told(context, self._senders(context, finite)),
            granted=self.granted,
            round=context.server_view.round,
            seed=self.seed,
            memory=context.memory,
        )
        blind = Knowledge.HONEST in self.granted and not view.may(Knowledge.HONEST)
        if (blind and Knowledge.HONEST in self.attack.all_needs()) or divergence(context.server_view) is not None:
            return _send_honestly(view)
        try:
            return self.attack(view)
        except (CohortTooSmallError, NoUsableRowError):
            return _send_honestly(view)

    @staticmethod
    def _told(context: AttackContext, senders: list[int] | None) -> ServerView:
        """Return what the server will tell its rule, as far as the adversary knows: not the secret of a sketch."""
        view = replace(context.server_view, clients=senders, secret=GUESS)
        if senders is None or not context.weights:
            return view
        weights = [context.weights[client] for client in senders]
        return replace(view, weights=weights, cohort_weight=math.fsum(context.weights.values()))

    def _senders(self, context: AttackContext, finite: Bool[Tensor, " n"]) -> list[int] | None:
        """Return who sends the rows that the adversary tries the rule on; None if it has seen no honest row."""
        seen = finite.cpu().numpy() | (Knowledge.HONEST not in self.granted)
        if not seen.any():
            return None
        forged = np.ones(len(context.clients) - len(seen), dtype=np.bool_)
        senders: list[int] = context.clients[np.concatenate([forged, seen])].tolist()
        return senders


@dataclass(frozen=True, eq=False)
class AttackContext:
    """What goes with one round."""

    server_view: ServerView
    clients: NDArray[np.int64]
    """Who is at work: the adversary's clients first."""
    memory: Mapping[str, Tensor] = field(default_factory=dict)
    """What the attack asked to remember."""
    weights: Mapping[Client, float] = field(default_factory=dict)
    """How much each of those counts that were asked; empty if all count alike."""


def _send_honestly(view: AdversaryView) -> Forged:
    """Return the own rows; what the attack remembers is kept for it."""
    return sent_by_all(view.own_rows.clone(), view.memory)
