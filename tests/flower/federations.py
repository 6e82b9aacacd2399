"""A federation whose clients' updates are known numbers: what a round should come to can be computed by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, cast

import numpy as np
import pytest
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from numpy.typing import NDArray
from tests.flower.grids import Clock, Reply, ScriptedGrid
from torch import Tensor

from steadfed._core.rng import stream
from steadfed.flower import _nodes as node_module
from steadfed.flower._coordinates import arrays_asked_for
from steadfed.flower._records import RecordNumbers, layout_of, record_of
from steadfed.flower._replies.stream import Unreadable
from steadfed.flower._strategy import ResilientStrategy
from steadfed.flower.redteam import MALFORMED
from steadfed.server._record import RoundRecord

Arrays = Mapping[str, NDArray[Any]]
NODES = tuple(range(101, 111))
"""Ten node ids: three digits, so that sorting them as words or numbers is the same."""
LR = 0.5


def model(shape: tuple[int, ...] = (2, 3)) -> ArrayRecord:
    """Return a model with parameters, the buffers of a batch normalisation and a counter."""
    draw = stream(0, "trusted model")
    arrays: Arrays = {
        "weight": draw.standard_normal(shape).astype(np.float32),
        "bias": draw.standard_normal(shape[:1]).astype(np.float32),
        "norm.running_mean": np.zeros(2, np.float32),
        "norm.running_var": np.ones(2, np.float32),
        "norm.num_batches_tracked": np.array(0, np.int64),
    }
    return ArrayRecord({name: flower_array(values) for name, values in arrays.items()})


def flower_array(values: NDArray[Any]) -> Array:
    return Array(values)


def arrays_in(content: RecordDict, key: str = "arrays") -> ArrayRecord:
    record = content[key]
    assert isinstance(record, ArrayRecord)
    return record


def round_in(message: Message) -> int:
    """Return which round a message belongs to, from 0; Flower's own strategies say it from 1."""
    return int(cast("int", config_in(message)["server-round"])) - 1


def config_in(message: Message) -> ConfigRecord:
    record = message.content["config"]
    assert isinstance(record, ConfigRecord)
    return record


def update_of(node: int, round: int, dim: int) -> Tensor:
    """Return what an honest node's update is: a common direction and something of its own."""
    common = stream(0, "common update", round).standard_normal(dim)
    own = stream(0, "own update", round, node).standard_normal(dim)
    return torch.from_numpy(common + 0.1 * own).float()


def honest_content(node: int, message: Message) -> RecordDict:
    """Return the content an honest node replies with: x − η u, buffers near the others', true metrics."""
    config = config_in(message)
    sent = arrays_in(message.content)
    layout = layout_of(sent)
    round = int(cast("int", config.get("round", 0)))
    update = update_of(node, round, layout.dim).to(layout.dtype)
    lr = float(cast("float", config.get("lr", 1.0)))
    draw = stream(0, "buffers", round, node)
    buffers = {name: _moved(values, draw) for name, values in layout.buffers_of(RecordNumbers(sent)).items()}
    arrays = record_of(layout.to_arrays(layout.parameters_of(RecordNumbers(sent)) - lr * update, buffers))
    return RecordDict({"arrays": arrays, "metrics": MetricRecord({"num-examples": 10, "loss": node / 100})})


def _moved(values: NDArray[Any], draw: np.random.Generator) -> NDArray[Any]:
    if values.dtype == np.bool_:
        return values
    if values.dtype.kind in "iu":
        return np.asarray(values + 5, values.dtype)
    return np.asarray(values + 0.1 * draw.random(values.shape), values.dtype)


def obliging(message: Message) -> RecordDict:
    """Return what an honest node sends that does as it is told."""
    content = honest_content(message.metadata.dst_node_id, message)
    part = arrays_asked_for(message.content, arrays_in(content), None)
    return RecordDict({**content, "arrays": part})


def honest(node: int, message: Message) -> Message:
    return Message(honest_content(node, message), reply_to=message)


def evaluating(node: int, message: Message) -> Message:
    return Message(RecordDict({"metrics": MetricRecord({"loss": 1.0, "num-examples": 3})}), reply_to=message)


def either(train: Callable[[int, Message], Reply]) -> Callable[[int, Message], Reply]:
    """Return a node that trains so, and evaluates honestly."""

    def answer(node: int, message: Message) -> Reply:
        return train(node, message) if message.metadata.message_type == "train" else evaluating(node, message)

    return answer


def forged(name: str, node: int, message: Message) -> Message:
    """Return the malformed reply of a name, made of what the node would have sent."""
    with np.errstate(all="ignore"):  # the liar's own business
        return Message(MALFORMED[name].forge(honest_content(node, message), message.content), reply_to=message)


@cache
def forged_once(name: str) -> RecordDict:
    """Return a malformed content to the first message of a round 0; the same object every time."""
    config = ConfigRecord({"round": 0, "lr": LR})
    sent = RecordDict({"arrays": model(), "config": config})
    message = Message(sent, NODES[0], "train")
    return MALFORMED[name].forge(honest_content(NODES[0], message), sent)


def pushed(strategy: Any, grid: ScriptedGrid, arrays: ArrayRecord, server_round: int = 1) -> list[Message]:
    """Let the strategy write its messages and give them ids, as sending them does."""
    messages = list(strategy.configure_train(server_round, arrays, ConfigRecord(), grid))
    grid.push_messages(messages)
    return messages


def silent_grid(nodes: Sequence[int] = NODES) -> ScriptedGrid:
    return ScriptedGrid(lambda _node, _message: None, nodes, wired=False)


def one_round(
    strategy: ResilientStrategy,
    replies: Callable[[list[Message]], Sequence[Message | Unreadable]],
    *,
    arrays: ArrayRecord | None = None,
    nodes: Sequence[int] = NODES,
) -> tuple[ArrayRecord | None, RoundRecord]:
    """Play a first round through `configure_train` and `aggregate_train`; return the new model and the record."""
    arrays = model() if arrays is None else arrays
    messages = pushed(strategy, silent_grid(nodes), arrays)
    new, _ = strategy.aggregate_train(1, replies(messages))
    return new, strategy.records[-1]


@cache
def honest_once(node: int) -> RecordDict:
    """Return what a node replies to `model()` in round 0; the same object every time."""
    sent = RecordDict({"arrays": model(), "config": ConfigRecord({"round": 0, "lr": LR})})
    return honest_content(node, Message(sent, node, "train"))


def everyone(messages: Sequence[Message]) -> list[Message]:
    """Return honest replies to the messages of round 0 with `model()`."""
    return [Message(honest_once(message.metadata.dst_node_id), reply_to=message) for message in messages]


def values_of(arrays: ArrayRecord) -> dict[str, NDArray[Any]]:
    return {name: array.numpy() for name, array in arrays.items()}


def assert_a_model_like(arrays: ArrayRecord, trusted: ArrayRecord) -> None:
    """Fail unless names, order, shapes and dtypes are those of the trusted model, and all numbers finite."""
    assert list(arrays) == list(trusted)
    for name, array in arrays.items():
        got, wanted = array.numpy(), trusted[name].numpy()
        assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype)
        assert (array.shape, array.dtype) == (trusted[name].shape, trusted[name].dtype)
        assert np.isfinite(got).all()


def assert_the_same_model(arrays: ArrayRecord, others: ArrayRecord) -> None:
    assert list(arrays) == list(others)
    for name, array in arrays.items():
        np.testing.assert_array_equal(array.numpy(), others[name].numpy(), err_msg=name)


def clocked(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Return a clock that waiting for nodes and for replies uses for the rest of the test."""
    clock = Clock.instead_of_time(monkeypatch)
    monkeypatch.setattr(node_module, "time", clock)
    return clock
