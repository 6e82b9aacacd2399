"""The rounds of a deployment, written down one by one, from the first or from where they were interrupted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from logging import INFO
from typing import TYPE_CHECKING, final

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result
from flwr.supercore import log

from holdfast.flower.client_config import seconds, whole
from holdfast.flower.layout import ModelLayout
from holdfast.flower.replies.stream import Unreadable, replies_to
from holdfast.flower.reports import figures, scores_of
from holdfast.flower.run_folder import Journal

if TYPE_CHECKING:
    from holdfast.flower.strategy import HoldfastStrategy

MARGIN = 64 * 1024
"""Bytes that a reply may take besides the numbers of its arrays and their headers."""
HEADER = 1024
"""Bytes that the header of an array may take."""
RECORDS = 64
"""Objects that a reply may have besides its arrays: the message, its records."""
EvaluateFn = Callable[[int, ArrayRecord], MetricRecord | None]


@final
@dataclass(frozen=True, eq=False)
class Settings:
    """What a run is started with besides the model and the number of rounds."""

    timeout: float | None
    """Seconds that replies are waited for; None without end."""
    train: ConfigRecord
    evaluate: ConfigRecord
    evaluate_fn: EvaluateFn | None


def play(strategy: HoldfastStrategy, grid: Grid, initial: ArrayRecord, num_rounds: int, settings: Settings) -> Result:
    """Play the rounds that are left, and return what came of all that were played here."""
    if settings.timeout is not None:
        seconds("timeout", settings.timeout)
    strategy.prepare(whole("num_rounds", num_rounds, least=1), settings.timeout)
    log(INFO, "Starting %s: %s rounds", type(strategy).__name__, num_rounds)
    strategy.summary()
    first = strategy.adopt(initial)
    online = 1 if Journal.exists(strategy.run_folder) else len(strategy.members(grid))
    config = strategy.client_config.described(
        strategy.layout,
        num_clients=max(1, strategy.num_clients(online)),
        cohort_size=max(1, min(strategy.cohort_size(online), strategy.num_clients(online))),
        twin=strategy.twin,
    )
    own_steps = not strategy.client_config.sends_lr
    journal = Journal.begin(config, strategy.layout, strategy.run_folder, own_steps=own_steps)
    with journal.locked():
        state, strategy.records[:] = journal.state(first)
        arrays = strategy.layout.to_arrays(state.model, state.buffers)
        strategy.adopt(arrays, state)
        if state.round:
            log(INFO, "continuing after round %s of %s", state.round, num_rounds)
        return _Loop(strategy, grid, journal, settings).play(arrays, state.round, num_rounds)


@final
@dataclass(frozen=True, eq=False)
class _Loop:
    strategy: HoldfastStrategy
    grid: Grid
    journal: Journal
    settings: Settings

    def play(self, arrays: ArrayRecord, done: int, num_rounds: int) -> Result:
        """Play the rounds after the first `done`, each written down before the next one begins."""
        result, strategy = Result(), self.strategy
        result.arrays = arrays
        if done == 0:
            self._evaluate_here(0, arrays, result)
        for server_round in range(done + 1, num_rounds + 1):
            log(INFO, "[ROUND %s/%s]", server_round, num_rounds)
            before, written = strategy.state, len(strategy.records)
            arrays = self._train(server_round, arrays, result)
            with strategy.timer.part("evaluation"):
                reported = self._evaluate_there(server_round, arrays, result)
                found = self._evaluate_here(server_round, arrays, result)
            if len(strategy.records) > written:
                seen = {} if found is None else figures(found, "server/")
                record = strategy.amend(scores_of(found), {**reported, **seen})
                self.journal.write(before, record, strategy.state)
            result.arrays = arrays
        self.journal.finish(strategy.state, arrays)
        return result

    def _train(self, server_round: int, arrays: ArrayRecord, result: Result) -> ArrayRecord:
        """Return the model after a round: the same if it stays."""
        strategy = self.strategy
        messages = strategy.configure_train(server_round, arrays, self.settings.train, self.grid)
        new, metrics = strategy.aggregate_train(server_round, self._replies(messages))
        if metrics is not None:
            result.train_metrics_clientapp[server_round] = metrics
        return arrays if new is None else new

    def _evaluate_there(self, server_round: int, arrays: ArrayRecord, result: Result) -> dict[str, float]:
        """Ask clients how good the model is; return the figures for the record."""
        strategy = self.strategy
        messages = strategy.configure_evaluate(server_round, arrays, self.settings.evaluate, self.grid)
        metrics = strategy.aggregate_evaluate(server_round, self._replies(messages))
        if metrics is None:
            return {}
        result.evaluate_metrics_clientapp[server_round] = metrics
        return figures(metrics, "evaluate/")

    def _evaluate_here(self, server_round: int, arrays: ArrayRecord, result: Result) -> MetricRecord | None:
        """Ask the server's own function how good the model is."""
        if self.settings.evaluate_fn is None:
            return None
        metrics = self.settings.evaluate_fn(server_round, arrays)
        if metrics is not None:
            log(INFO, "\t└──> %s", metrics)
            result.evaluate_metrics_serverapp[server_round] = metrics
        return metrics

    def _replies(self, messages: Iterable[Message]) -> Iterator[Message | Unreadable]:
        sent = list(messages)
        limit, objects = largest_reply(self.strategy.layout), most_objects(self.strategy.layout)
        return replies_to(self.grid, sent, timeout=self.settings.timeout, limit=limit, objects=objects)


def largest_reply(layout: ModelLayout) -> int:
    """Return how many bytes of arrays an honest reply may take: float64 for every number, and headers."""
    return 8 * layout.dim + layout.nbytes + HEADER * len(layout.specs) + MARGIN


def most_objects(layout: ModelLayout) -> int:
    """Return how many objects an honest reply may have: for each array it and a chunk, and records."""
    return 2 * len(layout.specs) + RECORDS
