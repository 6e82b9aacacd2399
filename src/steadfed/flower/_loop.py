"""The loop over the rounds of a deployment: training, evaluation there and here, one round after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from logging import INFO
from typing import cast, final

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy
from flwr.supercore import log

from steadfed.flower._layout import ModelLayout
from steadfed.flower._replies.stream import replies_to
from steadfed.server._timer import Timer

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


@final
@dataclass(frozen=True, eq=False)
class Loop:
    """Runs rounds over a grid."""

    strategy: Strategy
    """What happens in a round; replies that cannot be read are among those that it is given."""
    grid: Grid
    layout: ModelLayout
    """Of the model, by which replies are bounded."""
    timeout: float | None
    """Seconds that replies are waited for; None without end."""
    train_config: ConfigRecord
    evaluate_config: ConfigRecord
    evaluate_fn: EvaluateFn | None

    def run(self, arrays: ArrayRecord, rounds: range, close: Callable[[int, Evaluated], None]) -> Result:
        """Run rounds of these numbers, Flower's, from 1; call `close` after each, before the next one begins."""
        result = Result()
        result.arrays = arrays
        if rounds.start == 1:
            self._evaluate_here(0, arrays, result)
        for server_round in rounds:
            log(INFO, "[ROUND %s/%s]", server_round, rounds.stop - 1)
            arrays, timer = self._train(server_round, arrays, result), Timer()
            with timer.part("evaluation"):
                by_clients = self._evaluate_there(server_round, arrays, result)
                by_server = self._evaluate_here(server_round, arrays, result)
            close(server_round, Evaluated(by_clients, by_server, timer.rounded()))
            result.arrays = arrays
        return result

    def _train(self, server_round: int, arrays: ArrayRecord, result: Result) -> ArrayRecord:
        """Return the model after a round: the same if it stays."""
        messages = self.strategy.configure_train(server_round, arrays, self.train_config, self.grid)
        new, metrics = self.strategy.aggregate_train(server_round, self._replies(messages))
        if metrics is not None:
            result.train_metrics_clientapp[server_round] = metrics
        return arrays if new is None else new

    def _evaluate_there(self, server_round: int, arrays: ArrayRecord, result: Result) -> MetricRecord | None:
        """Ask clients how good the model is."""
        messages = self.strategy.configure_evaluate(server_round, arrays, self.evaluate_config, self.grid)
        metrics = self.strategy.aggregate_evaluate(server_round, self._replies(messages))
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
        return exchange(self.grid, messages, self.layout, timeout=self.timeout)


def exchange(
    grid: Grid, messages: Iterable[Message], layout: ModelLayout, *, timeout: float | None
) -> Iterable[Message]:
    """Send messages and yield the replies one at a time, as large as a model may be; `Unreadable` where it is none."""
    limit, objects = largest_reply(layout), most_objects(layout)
    replies = replies_to(grid, list(messages), timeout=timeout, limit=limit, objects=objects)
    return cast("Iterable[Message]", replies)  # Flower's strategies know of nothing else


def largest_reply(layout: ModelLayout) -> int:
    """Return how many bytes of arrays an honest reply may take: float64 for every number, and headers."""
    return 8 * layout.dim + layout.nbytes + HEADER * len(layout.specs) + MARGIN


def most_objects(layout: ModelLayout) -> int:
    """Return how many objects an honest reply may have: for each array it and a chunk, and records."""
    return 2 * len(layout.specs) + RECORDS
