"""A round on the server, from the matrix of updates on: what it is told, what it decides, what is written down."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, final

from jaxtyping import Bool, Float
from numpy.typing import NDArray
from torch import Tensor

from steadfed.aggregators import Aggregation, Aggregator, Need, ServerView
from steadfed.errors import ParameterError
from steadfed.server._buffers import median_buffers, median_counters
from steadfed.server._coordinates import Places, part_of, with_part
from steadfed.server._decision import Skipped, decide, decision_fields, unusable_clients
from steadfed.server._record import Client, RoundRecord
from steadfed.server._site_weights import Sites
from steadfed.server._state import ServerState
from steadfed.server._step import take_step


@final
@dataclass(frozen=True, eq=False)
class Received:
    """What came back: the matrix, and what is not trained."""

    updates: Float[Tensor, "n d"]
    """(x − x_r)/η, one row a client; of the round's coordinates, if it has any."""
    clients: tuple[Client, ...]
    """Whose rows these are."""
    buffers: Float[Tensor, "b m"]
    """The floating-point buffers of those that sent a model, in any order."""
    counters: tuple[Mapping[str, NDArray[Any]], ...] = ()
    """Their other buffers."""
    places: Places = None
    """Which coordinates the rows hold; None for all."""


@final
@dataclass(frozen=True, eq=False)
class Server:
    """How a server makes a new model of what it receives."""

    rule: Aggregator
    momentum: float
    """β: v ← β v + ĝ and x ← x − η v."""
    variances: Bool[Tensor, " m"]
    """Which columns of the buffers hold variances."""
    sites: Sites | None = None
    """How much each client counts, if not all alike."""

    def view(
        self,
        state: ServerState,
        *,
        asked: int,
        sampled: bool,
        trusted_row: Callable[[], Tensor],
        trusted_loss: Callable[[Tensor], float],
        secret: int | None = None,
        places: Places = None,
    ) -> ServerView:
        """Return what the rule is told besides the rows.

        Args:
            state: the model the clients started from, and what the rule remembers.
            asked: how many clients were asked for a row; a bound that is given as a fraction is of these.
            sampled: whether they were drawn from more clients.
            trusted_row: computes an update from data the server trusts, if the rule needs one.
            trusted_loss: computes the loss on such data, if the rule needs it.
            secret: what sketches are keyed by; the operating system's own if left out.
            places: which coordinates the round is about; the rule is told of these only, and a loss is that of the
                model with these changed.
        """
        needs = self.rule.all_needs()

        def loss(part: Tensor) -> float:
            return trusted_loss(with_part(state.model, part, places))

        return ServerView(
            round=state.round,
            cohort_size=max(asked, 1),
            sampled=sampled,
            model=part_of(state.model, places),
            trusted_row=part_of(trusted_row(), places) if Need.TRUSTED_ROW in needs else None,
            trusted_loss=loss if Need.TRUSTED_LOSS in needs else None,
            memory=state.rule_memory,
            secret=secret,
        )

    def conclude(
        self,
        state: ServerState,
        received: Received,
        view: ServerView,
        *,
        lr: float,
        asked: Sequence[Client] | None = None,
    ) -> tuple[Aggregation | Skipped, ServerState]:
        """Return what was decided, and the state after it: but for the count of rounds the same if that is nothing."""
        if self.sites is not None:
            view = self.sites.told(view, received.clients, received.clients if asked is None else asked)
        outcome = decide(received.updates, received.clients, self.rule, view)
        step = outcome if isinstance(outcome, Skipped) else self._step(state, received, outcome, lr)
        if isinstance(step, Skipped):
            skipped = replace(step, unusable=unusable_clients(received.updates, received.clients))
            return skipped, replace(state, round=state.round + 1)
        return outcome, replace(
            step,
            buffers=median_buffers(received.buffers, state.buffers, self.variances),
            counters=median_counters(received.counters, state.counters),
        )

    def _step(self, state: ServerState, received: Received, outcome: Aggregation, lr: float) -> ServerState | Skipped:
        if received.places is not None and outcome.memory:
            raise ParameterError(
                f"{self.rule!r} asks to remember {', '.join(sorted(outcome.memory)[:3])} and does not say so in "
                f"remembers(); a round about some coordinates has no place for it, as the next is about others"
            )
        return take_step(state, outcome, lr=lr, momentum=self.momentum, places=received.places)


class MessageBytes(NamedTuple):
    """How many bytes the numbers of a message take: the model to a client, and what it sends back."""

    down: int
    up: int


def round_record(
    outcome: Aggregation | Skipped,
    *,
    round: int,
    step: int,
    lr: float,
    cohort: Sequence[Client],
    received: Sequence[Client],
    message_bytes: MessageBytes,
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
        message_bytes: how long messages are, either way.
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
        bytes_down=len(cohort) * message_bytes.down,
        bytes_up=len(received) * message_bytes.up,
        **decision_fields(outcome, received),
        **facts,
    )
