"""What the server of the deployed benchmark does: one round for each bad reply, handed to every strategy."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message
from flwr.app.message import make_message
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg, FedMedian, Krum, Strategy

from benchmarks.flower.bad_client import ATTACKS, ERROR, HONEST
from benchmarks.flower.loopback import copied
from benchmarks.flower.replaying import Memory, Sent
from benchmarks.flower.strategies import RAGE, outcome_of
from benchmarks.flower.tables import append, plain_row
from benchmarks.flower.verdicts import Model, Outcome, Reference, judged
from steadfed.flower import RageStrategy
from steadfed.flower._loop import largest_reply
from steadfed.flower._records import layout_of
from steadfed.flower._replies.stream import Unreadable, replies_to

NODES, MALICIOUS = 4, 1
FLOWERS: Mapping[str, Callable[[], FedAvg]] = {
    "FedAvg": FedAvg,
    "Krum": lambda: Krum(num_malicious_nodes=MALICIOUS),
    "FedMedian": FedMedian,
}
STRATEGIES = (*FLOWERS, RAGE)
AHEAD = 3
"""Rounds whose messages are out at a time: the nodes need not wait for the server."""
TIMEOUT = 180.0


@dataclass(frozen=True)
class Asked:
    """A round that was begun: every round starts from the same model."""

    reply: str
    strategy: RageStrategy
    messages: list[Message]


class Rounds:
    """Plays the rounds, and writes a line of JSON after each."""

    def __init__(self, grid: Grid, records: Path, byzantine: int) -> None:
        self._grid, self._records, self._byzantine, self._memory = grid, records, byzantine, Memory()
        self._sent = ArrayRecord(
            {"weight": Array(np.zeros((3, 8), np.float32)), "bias": Array(np.zeros(3, np.float32))}
        )
        self._honest: list[Model] = []
        """What the three honest ones make of the model."""
        self._usual: dict[str, float] = {}

    def play(self, replies: Sequence[str]) -> None:
        """Begin with a round in which everybody is honest, which the others are compared with."""
        names = [HONEST, *(name for name in replies if name != HONEST)]
        begun: list[Asked] = []
        with self._memory.installed():
            for place in range(len(names)):
                while len(begun) < min(len(names), place + AHEAD):
                    begun.append(self._begin(names[len(begun)]))
                self._finish(begun[place])
                begun[place].messages.clear()
                self._memory.forget()

    def _begin(self, name: str) -> Asked:
        """Send out the messages of a round."""
        behaviour, parameters = ATTACKS.get(name, ("crash" if name == ERROR else name, {}))
        told = ConfigRecord({"behaviour": behaviour, "parameters": json.dumps(parameters)})
        strategy = RageStrategy(num_malicious_nodes=MALICIOUS, min_available_nodes=NODES, min_train_nodes=NODES)
        messages = list(strategy.configure_train(1, self._sent, told, self._grid))
        self._grid.push_messages(messages)
        return Asked(name, strategy, messages)

    def _finish(self, asked: Asked) -> None:
        """Let all strategies aggregate the same replies, steadfed's first: it waits for them.

        Its verdict is written down before Flower reads them, which may be the end of this process.
        """
        limit = largest_reply(layout_of(self._sent))
        own = _tried(asked.strategy, replies_to(Sent(self._grid), asked.messages, timeout=TIMEOUT, limit=limit))
        if asked.reply != HONEST:
            self._write(asked, {RAGE: [own]})
        outcomes = {**self._flowers(asked), RAGE: [own]}
        if asked.reply == HONEST:
            self._usual = {name: self._furthest(name, found) for name, found in outcomes.items()}
        self._write(asked, outcomes)

    def _write(self, asked: Asked, outcomes: Mapping[str, Sequence[Outcome]]) -> None:
        found = {name: [judged(each, self._reference(name)) for each in tried] for name, tried in outcomes.items()}
        drops = [f"{drop.fault}: {drop.detail}" for drop in asked.strategy.records[-1].drops]
        append(self._records, {"reply": asked.reply, "verdicts": plain_row(found), "drops": drops})

    def _flowers(self, asked: Asked) -> dict[str, list[Outcome]]:
        """Return what Flower's strategies make of the replies, with the Byzantine one's at every position."""
        try:
            replies = list(self._grid.pull_messages([message.metadata.message_id for message in asked.messages]))
        except Exception as error:  # noqa: BLE001  it is the finding
            ends = Outcome(error=f"{type(error).__name__}, in the grid")
            return {name: [ends] * NODES for name in FLOWERS}
        order = {message.metadata.message_id: place for place, message in enumerate(asked.messages)}
        replies.sort(key=lambda reply: order[reply.metadata.reply_to_message_id])
        forged = {each.metadata.message_id for each in asked.messages if each.metadata.dst_node_id == self._byzantine}
        bad = [reply for reply in replies if reply.metadata.reply_to_message_id in forged]
        others = [reply for reply in replies if reply.metadata.reply_to_message_id not in forged]
        if asked.reply == HONEST:
            self._honest = [_values(reply) for reply in others]
        turns = [[*others[:place], *bad, *others[place:]] for place in range(NODES)]
        return {name: [_tried(make(), _copies(turn)) for turn in turns] for name, make in FLOWERS.items()}

    def _reference(self, strategy: str) -> Reference:
        sent = {name: array.numpy() for name, array in self._sent.items()}
        return Reference.of(sent, self._honest, self._usual.get(strategy, math.inf))

    def _furthest(self, strategy: str, outcomes: Sequence[Outcome]) -> float:
        """Return how far a strategy's model is at most from the mean of three when all are honest."""
        reference = self._reference(strategy)
        return max(reference.distance(each.model) for each in outcomes if each.model is not None)


def _copies(replies: Sequence[Message]) -> list[Message]:
    """Return messages of their own for a strategy that empties what it reads."""
    return [make_message(reply.metadata, error=reply.error) if reply.has_error() else _copy(reply) for reply in replies]


def _copy(reply: Message) -> Message:
    return make_message(reply.metadata, content=copied(reply.content))


def _tried(strategy: Strategy, replies: Iterable[Message | Unreadable]) -> Outcome:
    try:
        return outcome_of(*strategy.aggregate_train(1, replies))  # type: ignore[arg-type]
    except Exception as error:  # noqa: BLE001  it is the finding
        return Outcome(error=type(error).__name__)


def _values(reply: Message) -> Model:
    return {name: array.numpy() for name, array in reply.content["arrays"].items()}  # type: ignore[union-attr]
