"""A round on the server, from the matrix of updates on: what it is told, what it decides, what is written down."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

from jaxtyping import Bool, Float
from numpy.typing import NDArray
from torch import Tensor

from steadfed.aggregators import Aggregation, Aggregator, Need, ServerView
from steadfed.server._buffers import median_buffers, median_counters
from steadfed.server._decision import Skipped, decide, decision_fields, unusable_clients
from steadfed.server._record import Client, RoundRecord
from steadfed.server._state import ServerState
from steadfed.server._step import take_step


@final
@dataclass(frozen=True, eq=False)
class Received:
    """What came back: the matrix, and what is not trained."""

    updates: Float[Tensor, "n d"]
    """(x − x_r)/η, one row a client."""
    clients: tuple[Client, ...]
    """Whose rows these are."""
    buffers: Float[Tensor, "b m"]
    """The floating-point buffers of those that sent a model, in any order."""
    counters: tuple[Mapping[str, NDArray[Any]], ...] = ()
    """Their other buffers."""


@final
@dataclass(frozen=True, eq=False)
class Server:
    """How a server makes a new model of what it receives."""

    rule: Aggregator
    momentum: float
    """β: v ← β v + ĝ and x ← x − η v."""
    variances: Bool[Tensor, " m"]
    """Which columns of the buffers hold variances."""

    def view(
        self,
        state: ServerState,
        *,
        asked: int,
        trusted_row: Callable[[], Tensor],
        trusted_loss: Callable[[Tensor], float],
        secret: int | None = None,
    ) -> ServerView:
        """Return what the rule is told besides the rows.

        Args:
            state: the model the clients started from, and what the rule remembers.
            asked: how many clients were asked for a row; a bound that is given as a fraction is of these.
            trusted_row: computes an update from data the server trusts, if the rule needs one.
            trusted_loss: computes the loss on such data, if the rule needs it.
            secret: what sketches are keyed by; the operating system's own if left out.
        """
        needs = self.rule.all_needs()
        return ServerView(
            round=state.round,
            cohort_size=max(asked, 1),
            model=state.model,
            trusted_row=trusted_row() if Need.TRUSTED_ROW in needs else None,
            trusted_loss=trusted_loss if Need.TRUSTED_LOSS in needs else None,
            memory=state.rule_memory,
            secret=secret,
        )

    def conclude(
        self, state: ServerState, received: Received, view: ServerView, *, lr: float
    ) -> tuple[Aggregation | Skipped, ServerState]:
        """Return what was decided, and the state after it: but for the count of rounds the same if that is nothing."""
        outcome = decide(received.updates, received.clients, self.rule, view)
        step = outcome if isinstance(outcome, Skipped) else take_step(state, outcome, lr=lr, momentum=self.momentum)
        if isinstance(step, Skipped):
            skipped = replace(step, unusable=unusable_clients(received.updates, received.clients))
            return skipped, replace(state, round=state.round + 1)
        return outcome, replace(
            step,
            buffers=median_buffers(received.buffers, state.buffers, self.variances),
            counters=median_counters(received.counters, state.counters),
        )


def round_record(
    outcome: Aggregation | Skipped,
    *,
    round: int,
    step: int,
    lr: float,
    cohort: Sequence[Client],
    received: Sequence[Client],
    model_bytes: int,
    **facts: Any,
) -> RoundRecord:
    """Return the line of a round: who was asked, whose rows came, what was decided, what was sent.

    Args:
        outcome: what was decided.
        round: the number of the round, from 0.
        step: t after the round, local steps taken since the start.
        lr: η.
        cohort: who was asked.
        received: whose rows came, in the order of the rows.
        model_bytes: how many bytes a model takes.
        facts: what else is known, by the names of a `RoundRecord`.
    """
    present = set(received)
    return RoundRecord(
        round=round,
        step=step,
        lr=lr,
        cohort=tuple(cohort),
        absent=tuple(client for client in cohort if client not in present),
        received=tuple(received),
        bytes_down=len(cohort) * model_bytes,
        bytes_up=len(received) * model_bytes,
        **decision_fields(outcome, received),
        **facts,
    )
