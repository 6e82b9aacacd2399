"""An adversary that sees every row before the rule does: at the server, for tests and drills only.

`RobustStrategy(..., tampering=Omniscient(...))` hands it the matrix of every round.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import final

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from steadfed.aggregators import Aggregator, ServerView
from steadfed.attacks import EVERYTHING, Attack
from steadfed.errors import ParameterError
from steadfed.flower.redteam._mods import refuse_data_attack
from steadfed.simulation._adversary import Adversary, AttackContext


@final
class Omniscient:
    """Byzantine clients that collude and know all that there is to know, as in the simulator.

    Real clients cannot know what the others send in the same round. A rule that guarantees something against every
    adversary is tested against this one: the server hands it the matrix, and the rows of its clients are replaced.
    A row of NaN stands for a client that sends nothing.

    Args:
        attack: any attack, except those on data.
        byzantine: the names of its clients.
        seed: of the adversary's randomness.

    >>> from steadfed.aggregators import Median
    >>> from steadfed.attacks import InnerProductManipulation
    >>> adversary = Omniscient(InnerProductManipulation(epsilon=1.0), byzantine={"b"})
    >>> updates = torch.tensor([[1.0, 0.0], [9.0, 9.0], [3.0, 2.0]])
    >>> adversary.tamper(updates, ["a", "b", "c"], Median(), ServerView())
    >>> updates
    tensor([[ 1.,  0.],
            [-2., -1.],
            [ 3.,  2.]])
    """

    def __init__(self, attack: Attack, *, byzantine: Collection[int | str], seed: int = 0) -> None:
        """Take over the clients; raises `ParameterError` for attacks on data, which no row shows."""
        refuse_data_attack(attack)
        if isinstance(byzantine, str):
            raise ParameterError(f"byzantine must be a set of names, got {byzantine!r}; use {{{byzantine!r}}}")
        self.attack, self.byzantine = attack, frozenset(map(str, byzantine))
        self._adversary = Adversary(attack, EVERYTHING, seed)
        self._memory: Mapping[str, Tensor] = {}

    def tamper(
        self,
        updates: Float[Tensor, "n d"],
        clients: Sequence[int | str],
        rule: Aggregator,
        view: ServerView,
    ) -> None:
        """Replace the rows of the Byzantine clients by what the attack forges from all rows.

        Args:
            updates: the rows as they came, changed in place; NaN for a client whose reply was malformed.
            clients: who sent each row.
            rule: what the rows will be aggregated with.
            view: what the rule will be told, the number of the round among it.
        """
        forged = torch.tensor([str(name) in self.byzantine for name in clients], dtype=torch.bool)
        if not bool(forged.any()):
            return
        order = np.array([*np.flatnonzero(forged), *np.flatnonzero(~forged)])
        senders = np.array(clients, dtype=object)[order]
        context = AttackContext(view, senders, self._memory)
        outcome = self._adversary.forge(updates[forged], updates[~forged], rule, context)
        updates[forged] = torch.where(outcome.silent[:, None].to(updates.device), torch.nan, outcome.rows)
        self._memory = outcome.memory
