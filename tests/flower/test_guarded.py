"""Flower's own strategies behind the front: they see models only, and what they return must be one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
import torch
from flwr.app import ArrayRecord, Error, Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import (
    Bulyan,
    FedAdam,
    FedAvg,
    FedAvgM,
    FedMedian,
    FedTrimmedAvg,
    Krum as FlowerKrum,
    MultiKrum,
)
from tests.flower.federations import (
    LR,
    NODES,
    assert_a_model_like,
    either,
    everyone,
    flower_array,
    forged_once,
    honest,
    model,
    pushed,
    silent_grid,
    update_of,
)
from tests.flower.grids import Clock, Reply, ScriptedGrid

from steadfed.errors import ParameterError
from steadfed.flower._guarded import GuardedStrategy, OneAtATime
from steadfed.flower._records import RecordNumbers, layout_of

pytestmark = pytest.mark.usefixtures("clock")


class Returning(FedAvg):
    """A strategy that returns what it is told to, or raises it."""

    def __init__(self, outcome: Any) -> None:
        super().__init__()
        self.outcome = outcome
        self.seen: list[Message] = []

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        self.seen = list(replies)
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome, MetricRecord({"x": 1})


def ordered(guarded: GuardedStrategy) -> list[Message]:
    return sorted(pushed(guarded, silent_grid(), model()), key=lambda message: message.metadata.dst_node_id)


def row(arrays: ArrayRecord) -> torch.Tensor:
    return layout_of(model()).parameters_of(RecordNumbers(arrays))


def test_fedavg_is_the_mean_of_all_whatever_they_say_of_their_examples() -> None:
    guarded = GuardedStrategy(FedAvg())
    messages = ordered(guarded)
    replies = everyone(messages)
    replies[0].content = RecordDict(
        {
            "arrays": replies[0].content["arrays"],
            "metrics": MetricRecord({"num-examples": 10**18, "loss": 9.0}),
        }
    )
    new, _ = guarded.aggregate_train(1, replies)
    assert new is not None
    wanted = row(model()) - LR * torch.stack([update_of(node, 0, 8) for node in NODES]).mean(0)
    assert torch.allclose(row(new), wanted, atol=1e-5)
    assert new["norm.num_batches_tracked"].numpy().tolist() == 5
    assert guarded.drops == []


@pytest.mark.parametrize(
    "strategy",
    [
        FedAvg,
        FedAvgM,
        FedMedian,
        FedTrimmedAvg,
        FedAdam,
        lambda: FlowerKrum(num_malicious_nodes=1),
        lambda: MultiKrum(num_malicious_nodes=1, num_nodes_to_select=4),
        lambda: Bulyan(num_malicious_nodes=1),
    ],
)
def test_all_of_flowers_own_play_rounds_with_a_liar(strategy: Callable[[], FedAvg], clock: Clock) -> None:
    def train(node: int, message: Message) -> Reply:
        reply = honest(node, message)
        if node == NODES[4]:
            reply.content = forged_once("wrong-shape")
        return reply

    guarded = GuardedStrategy(strategy())
    result = guarded.start(ScriptedGrid(either(train), NODES, clock=clock), model(), num_rounds=3, timeout=20)
    assert result.arrays is not None
    assert_a_model_like(result.arrays, model())
    assert not torch.equal(row(result.arrays), row(model()))
    assert [(number, drop.client, drop.fault) for number, drop in guarded.drops] == [
        (number, str(NODES[4]), "shape") for number in (1, 2, 3)
    ]
    assert result.evaluate_metrics_clientapp[3]["loss"] == pytest.approx(1.0)


def changed(**arrays: np.ndarray[Any, Any]) -> ArrayRecord:
    values = {"weight": np.zeros((2, 3), np.float32), "bias": np.zeros(2, np.float32), **arrays}
    return ArrayRecord({name: flower_array(each) for name, each in values.items()})


@pytest.mark.parametrize(
    "outcome",
    [
        ValueError("all weights are 0"),
        changed(weight=np.zeros((3, 2), np.float32)),
        changed(weight=np.full((2, 3), np.nan, np.float32)),
        changed(bias=np.full(2, np.inf, np.float32)),
        changed(more=np.zeros(1, np.float32)),
        changed(weight=np.zeros((2, 3), np.complex64)),
        ArrayRecord(),
        None,
    ],
    ids=str,
)
def test_what_is_no_model_is_not_taken(outcome: Any) -> None:
    guarded = GuardedStrategy(Returning(outcome))
    assert guarded.aggregate_train(1, everyone(ordered(guarded)))[0] is None


def test_another_precision_of_a_model_becomes_the_models_own() -> None:
    guarded = GuardedStrategy(Returning(changed(weight=np.full((2, 3), 0.5))))
    new, metrics = guarded.aggregate_train(1, everyone(ordered(guarded)))
    assert new is not None
    assert_a_model_like(new, model())
    assert metrics is not None
    assert metrics["x"] == 1


def test_the_strategy_sees_parameters_only_and_everyone_weighs_the_same() -> None:
    inner = Returning(changed())
    guarded = GuardedStrategy(inner)
    guarded.aggregate_train(1, everyone(ordered(guarded)))
    assert len(inner.seen) == 10
    for reply in inner.seen:
        assert sorted(reply.content["arrays"]) == ["bias", "weight"]
        assert reply.content["metrics"]["num-examples"] == 1


def test_errors_strangers_second_replies_and_silence_are_noted() -> None:
    inner = Returning(changed())
    guarded = GuardedStrategy(inner)
    messages = ordered(guarded)
    replies = everyone(messages)
    replies[0] = Message(Error(1, "crash"), reply_to=messages[0])
    stranger = everyone(messages)[2]
    stranger.metadata.__dict__["_reply_to_message_id"] = "unknown"
    guarded.aggregate_train(1, [*replies[:9], everyone(messages)[3], stranger])
    assert sorted((drop.client, drop.fault) for _, drop in guarded.drops) == [
        ("101", "error"),
        ("103", "not asked"),
        ("104", "repeated"),
        ("110", "silent"),
    ]
    assert len(inner.seen) == 8


@pytest.mark.parametrize("name", ["all-nan", "empty-content", "garbage"])
def test_if_all_lie_the_model_stays(name: str, clock: Clock) -> None:
    def train(node: int, message: Message) -> Reply:
        return Message(forged_once(name), reply_to=message)

    guarded = GuardedStrategy(FedAvg())
    result = guarded.start(ScriptedGrid(either(train), NODES, clock=clock), model(), num_rounds=1, timeout=20)
    assert torch.equal(row(result.arrays), row(model()))
    assert len(guarded.drops) == 10


def test_before_the_first_round_nothing_is_known() -> None:
    with pytest.raises(ParameterError, match="configure_train first"):
        GuardedStrategy(FedAvg()).aggregate_train(1, [])


def test_the_front_of_a_grid_passes_everything_on() -> None:
    grid = ScriptedGrid(honest, NODES)
    front = OneAtATime(grid, layout_of(model()))
    front.set_run(grid.run)
    assert front.run.run_id == grid.run.run_id
    assert list(front.get_node_ids()) == list(NODES)
    message = front.create_message(RecordDict(), "train", NODES[0], "group")
    assert (message.metadata.dst_node_id, message.metadata.group_id) == (NODES[0], "group")


def test_nobody_can_compute_the_id_of_somebody_elses_message() -> None:
    words = [message.metadata.group_id for message in ordered(GuardedStrategy(FedAvg()))]
    assert len(set(words)) == len(NODES)
    assert min(map(len, words)) >= 32
