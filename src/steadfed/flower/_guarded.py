"""Flower's own strategies behind the same validation, for comparison and for those who must keep theirs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from logging import WARNING
from typing import final

import numpy as np
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg, Result, Strategy
from flwr.supercore import log

from steadfed._core.signatures import SigningKey
from steadfed.errors import LinkError, ParameterError, ReplyError
from steadfed.flower._grid import ForwardingGrid
from steadfed.flower._link import LostRounds, bounded_patience, nodes_online
from steadfed.flower._loop import exchange
from steadfed.flower._messages import Letter, Mail, Writer
from steadfed.flower._metrics import common_metrics, scalars_of
from steadfed.flower._nodes import Member, NodeDirectory
from steadfed.flower._records import RecordNumbers, layout_of, record_of
from steadfed.flower._replies.matcher import ReplyMatcher
from steadfed.flower._replies.stream import Unreadable
from steadfed.flower._replies.validator import ReplyValidator
from steadfed.flower._settings import require_known
from steadfed.server._buffers import median_buffers, median_counters
from steadfed.server._record import DroppedReply
from steadfed.server._state import ServerState
from steadfed.states._arrays import ArraySpec, NDArray
from steadfed.states._layout import BUFFERS, ModelLayout


@final
class GuardedStrategy(Strategy):
    """One of Flower's strategies that sees only replies which are models, all with the same num-examples.

    What the strategy itself does with well-formed Byzantine updates is its own affair: behind this front FedAvg is not
    stopped by anything, and still led anywhere by one client. A model it returns that has another shape or dtype than
    the one before, or is not finite, is not taken, and neither is whatever it raises. What it remembers is its own
    affair too: one reply of 1e30 makes the second moment of FedAdam infinite, and the model never moves again.

    Args:
        strategy: FedAvg or one of its kind.
        convert_dtypes: whether floats of another precision are converted.
        buffers: patterns for names of arrays that are no parameters.
        signing_key: the PEM file of the federation's private key, with which messages are signed.
    """

    def __init__(
        self,
        strategy: FedAvg,
        *,
        convert_dtypes: bool = False,
        buffers: Sequence[str] = BUFFERS,
        signing_key: str | os.PathLike[str] | None = None,
    ) -> None:
        if not isinstance(strategy, FedAvg):
            raise ParameterError(
                f"the strategy must be flwr's FedAvg or one of its kind, got {type(strategy).__name__}"
            )
        self.strategy = strategy
        self.drops: list[tuple[int, DroppedReply]] = []
        """What was wrong with replies, each with the round of Flower it was found in."""
        self._convert_dtypes, self._buffers = convert_dtypes, buffers
        self._directory = NodeDirectory(None)
        signer = None if signing_key is None else SigningKey.read(signing_key)
        self._writer = Writer(signer, arrays_key=strategy.arrayrecord_key, config_key=strategy.configrecord_key)
        self._mail: Mail | None = None
        self._layout: ModelLayout | None = None
        self._before: ServerState | None = None
        self._matcher = ReplyMatcher([], [], self._directory)
        self._lost_rounds, self._lost = LostRounds(), False

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Let the strategy choose, and remember whom; it is shown the parameters, nodes are sent the whole model."""
        self._layout = self._layout or layout_of(arrays, self._buffers)
        self._before = self._layout.state_of(RecordNumbers(arrays))
        parameters = _parameters_record(self._layout.parameters, self._before.model.numpy())
        self._lost = False
        try:
            chosen = list(self.strategy.configure_train(server_round, parameters, config, grid))
        except LinkError as error:
            chosen = []
            self._lose(error)
        return self._write(chosen, arrays, server_round)

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message | Unreadable]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Let the strategy aggregate the parameters of replies that are models; None in place of a model that is none.

        Buffers go the way they go in steadfed's own strategies: the median over the replies.
        """
        layout, before = require_known(self._layout), require_known(self._before)
        validator = ReplyValidator(
            layout, arrays_key=self.strategy.arrayrecord_key, convert_dtypes=self._convert_dtypes
        )
        row, rows = np.empty(layout.dim, layout.row_dtype), []

        def parameters(content: RecordDict) -> RecordDict:
            rows.append(validator.admit(content, row))
            return RecordDict({validator.arrays_key: _parameters_record(layout.parameters, row)})

        try:
            sound = self._readable(server_round, replies, parameters)
        except LinkError as error:
            sound = []
            self._lose(error)
        if not self._lost:
            self._lost_rounds.played()
        arrays, metrics = self._try(lambda: self.strategy.aggregate_train(server_round, sound))
        if arrays is None:
            return None, metrics
        try:
            last = ReplyValidator(ModelLayout(layout.parameters), arrays_key=validator.arrays_key, convert_dtypes=True)
            last.admit(RecordDict({validator.arrays_key: arrays}), row)
        except ReplyError as error:
            log(WARNING, "%s returned no model: %s", type(self.strategy).__name__, error)
            return None, metrics
        buffers, counters = layout.stack_buffers(rows)
        after = replace(
            before,
            model=torch.from_numpy(row),
            buffers=median_buffers(buffers, before.buffers, layout.variances),
            counters=median_counters(counters, before.counters),
        )
        return record_of(layout.arrays_of(after)), metrics

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Let the strategy choose, and remember whom; nobody if the SuperLink fails, or has in this round."""
        try:
            chosen = [] if self._lost else list(self.strategy.configure_evaluate(server_round, arrays, config, grid))
        except LinkError as error:
            log(WARNING, "no evaluation by clients in Flower's round %s: %s", server_round, error)
            chosen = []
        return self._write(chosen, arrays, server_round)

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message | Unreadable]) -> MetricRecord | None:
        """Let the strategy aggregate metrics that all of them have."""
        try:
            sound = self._readable(server_round, replies, lambda _: RecordDict())
        except LinkError as error:
            log(WARNING, "no evaluation by clients in Flower's round %s: %s", server_round, error)
            return None
        return self._try(lambda: (None, self.strategy.aggregate_evaluate(server_round, sound)))[1]

    def summary(self) -> None:
        """Log what the strategy is."""
        self.strategy.summary()

    def start(  # noqa: PLR0917  Flower's signature
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int = 3,
        timeout: float = 3600,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: Callable[[int, ArrayRecord], MetricRecord | None] | None = None,
    ) -> Result:
        """Run the rounds as Flower does, with replies that are received one at a time."""
        self._layout, self.drops = layout_of(initial_arrays, self._buffers), []
        self._writer.ttl = timeout
        front = OneAtATime(grid, self._layout, self.write_again)
        rest = (num_rounds, timeout, train_config, evaluate_config, evaluate_fn)
        with bounded_patience(grid):
            result = super().start(front, initial_arrays, *rest)
        result.arrays = result.arrays or initial_arrays  # which stays if no round made another
        return result

    def write_again(self) -> list[Message]:
        """Return the messages that were written last, to train or to evaluate, again with new secrets.

        For when they cannot be sent. Replies to those before count no more.
        """
        return require_known(self._mail).write_again()

    def _lose(self, error: LinkError) -> None:
        """Take note that the round cannot be played."""
        self._lost = True
        self._lost_rounds.lost(error)

    def _write(self, chosen: Iterable[Message], arrays: ArrayRecord, server_round: int) -> list[Message]:
        """Write what the strategy wrote, with the whole model and secrets: its own messages differ in node and time."""
        letters = [self._letter(message) for message in chosen]
        self._mail = Mail(self._writer, letters, arrays, server_round - 1, self._directory)
        self._matcher = self._mail.matcher
        return self._mail.messages

    def _letter(self, message: Message) -> Letter:
        others = dict(message.content.items())
        others.pop(self.strategy.arrayrecord_key, None)
        config = others.pop(self.strategy.configrecord_key, None)
        node = message.metadata.dst_node_id
        told = config if isinstance(config, ConfigRecord) else ConfigRecord()
        return Letter(Member(self._directory.name(node), node), message.metadata.message_type, told, others)

    def _readable(
        self, server_round: int, replies: Iterable[Message | Unreadable], read: Callable[[RecordDict], RecordDict]
    ) -> list[Message]:
        """Return the replies that can be read, each with one record of metrics, and note the others."""
        found: list[tuple[int, RecordDict, dict[str, float]]] = []
        for reply in replies:
            place = self._matcher.place(reply)
            if place is None:
                continue
            try:
                content = self._matcher.content(place, reply)
                found.append((place, read(content), scalars_of(content)))
            except ReplyError as error:
                self._matcher.drop(place, error)
        self._matcher.close()
        self.drops += [(server_round, drop) for drop in self._matcher.drops]
        common = set(common_metrics([report for _, _, report in found]))
        for _, content, report in found:
            shown = {name: report.get(name, 0.0) for name in sorted(common)}
            content["metrics"] = MetricRecord({**shown, self.strategy.weighted_by_key: 1})
        return [self._matcher.reply_with(place, content) for place, content, _ in found]

    def _try(
        self, aggregate: Callable[[], tuple[ArrayRecord | None, MetricRecord | None]]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Return what the strategy makes of the replies; nothing if it fails, which is logged."""
        try:
            with np.errstate(all="ignore"):  # what is not finite is found by looking at the model
                return aggregate()
        except Exception as error:  # noqa: BLE001  somebody else's code on clients' numbers must not end the run
            log(WARNING, "%s failed: %s: %s", type(self.strategy).__name__, type(error).__name__, error)
            return None, None


@final
class OneAtATime(ForwardingGrid):
    """A grid that receives replies one at a time, bounded, those that cannot be read included."""

    def __init__(
        self, grid: Grid, layout: ModelLayout, write_again: Callable[[], Iterable[Message]] | None = None
    ) -> None:
        super().__init__(grid)
        self._layout, self._write_again = layout, write_again

    def get_node_ids(self) -> Iterable[int]:
        """Return the nodes online, asked for again if the SuperLink fails."""
        return nodes_online(self._grid)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Send messages."""
        return self._grid.push_messages(messages)

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        """Send messages and return what comes back; `Unreadable` where it is no message."""
        return exchange(self._grid, messages, self._layout, timeout=timeout, write_again=self._write_again)


def _parameters_record(specs: Sequence[ArraySpec], row: NDArray) -> ArrayRecord:
    """Return a record of the parameters alone."""
    return ArrayRecord({spec.name: Array(row[spec.columns].reshape(spec.shape).astype(spec.held)) for spec in specs})
