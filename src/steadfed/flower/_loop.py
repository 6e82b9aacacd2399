"""The loop over the rounds of a deployment: training, evaluation there and here, one round after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from logging import INFO, WARNING
from typing import Protocol, cast, final

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result
from flwr.supercore import log

from steadfed.errors import LinkError
from steadfed.flower._link import LostRounds, bounded_patience
from steadfed.flower._replies.lookout import Lookout
from steadfed.flower._replies.stream import replies_to
from steadfed.server._timer import Timer
from steadfed.states._layout import ModelLayout

MARGIN = 64 * 1024
"""Bytes that a reply may take besides the numbers of its arrays and their headers."""
HEADER = 1024
"""Bytes that the header of an array may take."""
RECORDS = 64
"""Objects that a reply may have besides its arrays: the message, its records."""
EvaluateFn = Callable[[int, ArrayRecord], MetricRecord | None]


@final
@dataclass(frozen=True, eq=False)
class Evaluated:
    """What was found out about the model after a round."""

    by_clients: MetricRecord | None
    by_server: MetricRecord | None
    seconds: dict[str, float]
    """How long it took."""


class Player(Protocol):
    """What happens in a round; replies that cannot be read are among those that it is given."""

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Write to those who are to train."""

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Make a model of their replies."""

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Write to those who are to evaluate."""

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """Make one record of their replies."""

    def write_again(self) -> Iterable[Message]:
        """Write the last messages once more, with new secrets."""

    def skip_round(self, reason: str) -> None:
        """Record that the round could not be played."""


@final
@dataclass(frozen=True, eq=False)
class Loop:
    """Runs rounds over a grid."""

    strategy: Player
    grid: Grid
    layout: ModelLayout
    """Of the model, by which replies are bounded."""
    timeout: float | None
    """Seconds that replies are waited for; None without end."""
    train_config: ConfigRecord
    evaluate_config: ConfigRecord
    evaluate_fn: EvaluateFn | None
    lookout: Lookout
    """Tells who is waited for."""

    def run(self, arrays: ArrayRecord, rounds: range, close: Callable[[int, Evaluated], None]) -> Result:
        """Run rounds of these numbers, Flower's, from 1; call `close` after each, before the next one begins.

        A round that the SuperLink's failure makes impossible is skipped.

        Raises:
            RunError: many were skipped so, one after the other.
        """
        result, lost_rounds = Result(), LostRounds()
        result.arrays = arrays
        if rounds.start == 1:
            self._evaluate_here(0, arrays, result)
        with bounded_patience(self.grid):
            for server_round in rounds:
                log(INFO, "[round %s] %s of %s", server_round - 1, server_round, rounds.stop - 1)
                lost = self._play(server_round, result, close)
                if lost is None:
                    lost_rounds.played()
                else:
                    lost_rounds.lost(lost)
        return result

    def _play(self, server_round: int, result: Result, close: Callable[[int, Evaluated], None]) -> LinkError | None:
        """Play a round, from the model in the result to the next one; return why it could not be played."""
        arrays, lost, by_clients = result.arrays, None, None
        try:
            arrays = self._train(server_round, arrays, result)
        except LinkError as error:
            lost = error
            self.strategy.skip_round(str(error))
        timer = Timer()
        with timer.part("evaluation"):
            if lost is None:
                by_clients = self._evaluate_there(server_round, arrays, result)
            by_server = self._evaluate_here(server_round, arrays, result)
        result.arrays = arrays
        close(server_round, Evaluated(by_clients, by_server, timer.rounded()))
        return lost

    def _train(self, server_round: int, arrays: ArrayRecord, result: Result) -> ArrayRecord:
        """Return the model after a round: the same if it stays."""
        messages = self.strategy.configure_train(server_round, arrays, self.train_config, self.grid)
        self.lookout.turn_to(server_round - 1)
        new, metrics = self.strategy.aggregate_train(server_round, self._replies(messages))
        if metrics is not None:
            result.train_metrics_clientapp[server_round] = metrics
        return arrays if new is None else new

    def _evaluate_there(self, server_round: int, arrays: ArrayRecord, result: Result) -> MetricRecord | None:
        """Ask clients how good the model is; nothing depends on it, so it is left out if the SuperLink fails."""
        try:
            messages = self.strategy.configure_evaluate(server_round, arrays, self.evaluate_config, self.grid)
            self.lookout.turn_to(server_round - 1, "evaluation")
            metrics = self.strategy.aggregate_evaluate(server_round, self._replies(messages))
        except LinkError as error:
            log(WARNING, "no evaluation by clients in round %s: %s", server_round - 1, error)
            return None
        if metrics is not None:
            result.evaluate_metrics_clientapp[server_round] = metrics
        return metrics

    def _evaluate_here(self, server_round: int, arrays: ArrayRecord, result: Result) -> MetricRecord | None:
        """Ask the server's own function how good the model is."""
        if self.evaluate_fn is None:
            return None
        metrics = self.evaluate_fn(server_round, arrays)
        if metrics is not None:
            log(INFO, "\t└──> %s", metrics)
            result.evaluate_metrics_serverapp[server_round] = metrics
        return metrics

    def _replies(self, messages: Iterable[Message]) -> Iterable[Message]:
        return exchange(
            self.grid,
            messages,
            self.layout,
            timeout=self.timeout,
            write_again=self.strategy.write_again,
            lookout=self.lookout,
        )


def exchange(
    grid: Grid,
    messages: Iterable[Message],
    layout: ModelLayout,
    *,
    timeout: float | None,
    write_again: Callable[[], Iterable[Message]] | None = None,
    lookout: Lookout | None = None,
) -> Iterable[Message]:
    """Send messages and yield the replies one at a time, as large as a model may be; `Unreadable` where it is none."""
    limit, objects = largest_reply(layout), most_objects(layout)
    replies = replies_to(
        grid,
        list(messages),
        timeout=timeout,
        limit=limit,
        objects=objects,
        write_again=write_again,
        lookout=lookout,
    )
    return cast("Iterable[Message]", replies)  # Flower's strategies know of nothing else


def largest_reply(layout: ModelLayout) -> int:
    """Return how many bytes of arrays an honest reply may take: float64 for every number, and headers."""
    return 8 * layout.dim + layout.nbytes + HEADER * len(layout.specs) + MARGIN


def most_objects(layout: ModelLayout) -> int:
    """Return how many objects an honest reply may have: for each array it and a chunk, and records."""
    return 2 * len(layout.specs) + RECORDS
