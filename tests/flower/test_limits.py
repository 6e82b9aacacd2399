"""What a node gives a server: steps, batch, step size and time; its operator says how much."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message
from tests.flower.grids import carried, identify
from tests.flower.keys import KEY, knowing, trusting
from torch import Tensor, nn

from steadfed.errors import OrderError, ParameterError
from steadfed.flower._limits import ClientLimits, RoundConfig
from steadfed.flower._messages import Letter, Writer
from steadfed.flower._nodes import Member
from steadfed.flower.client import SeededBatches, local_steps, receive

CONFIG: dict[str, Any] = {"round": 3, "local-steps": 5, "lr": 0.05, "batch-size": 8, "seed": 1}
Tick = Callable[[float], None]


@pytest.fixture
def tick(monkeypatch: pytest.MonkeyPatch) -> Tick:
    """Return a function that lets time pass, which stands still otherwise."""
    now = [1_800_000_000.0]
    monkeypatch.setattr(time, "time", lambda: now[0])
    monkeypatch.setattr(time, "monotonic", lambda: now[0])

    def pass_time(seconds: float) -> None:
        now[0] += seconds

    return pass_time


def message_of(timeout: float = 60.0, **config: Any) -> Message:
    identify()
    writer = Writer(KEY, arrays_key="arrays", config_key="config")
    writer.ttl = timeout
    told = ConfigRecord(CONFIG | {name.replace("_", "-"): value for name, value in config.items()})
    arrays = ArrayRecord(nn.Linear(4, 4).state_dict())
    return carried(writer.write([Letter(Member("a", 7), "train", told)], arrays, 3)[0])


def received(context: Context | None = None, **config: Any) -> RoundConfig:
    return receive(message_of(**config), nn.Linear(4, 4), context or knowing())


def points() -> tuple[Tensor, Tensor]:
    return torch.eye(4), torch.arange(4)


def test_a_node_sets_its_limits_in_its_config() -> None:
    told = {"most-steps": 7, "most-batch-size": 3, "most-lr": 2, "most-seconds": 1.5, "name": "clinic"}
    assert ClientLimits.of_node(told) == ClientLimits(steps=7, batch_size=3, lr=2.0, seconds=1.5)
    assert ClientLimits.of_node({}) == ClientLimits()
    with pytest.raises(ParameterError, match="'most-step', which limits nothing, did you mean 'most-steps'"):
        ClientLimits.of_node({"most-step": 7})
    for key, value in (("most-steps", 0), ("most-steps", "many"), ("most-lr", -1.0), ("most-batch-size", True)):
        with pytest.raises(ParameterError, match=rf"the node config sets {key} = "):
            ClientLimits.of_node({key: value})


@pytest.mark.parametrize(
    ("asked", "match"),
    [
        ({"local_steps": 1001}, r"'local-steps' must be a whole number in 1 \.\. 1000, got 1001"),
        ({"local_steps": 100_000}, r"'local-steps' must be .* got 100000"),
        ({"lr": 100.5}, r"'lr' must be a number above 0 and at most 100\.0, got 100\.5"),
        ({"lr": float("inf")}, "'lr' must be"),
        ({"batch_size": -1}, r"'batch-size' must be a whole number in 0 \.\. "),
    ],
)
def test_what_asks_for_too_much_is_refused_before_the_model_is_loaded(asked: dict[str, Any], match: str) -> None:
    with pytest.raises(ParameterError, match=match):
        received(**asked)


def test_an_operator_who_wants_more_or_less_gets_it() -> None:
    assert received(knowing(most_steps=5000), local_steps=5000)["local-steps"] == 5000
    with pytest.raises(ParameterError, match=r"1 \.\. 4, got 5"):
        received(knowing(most_steps=4))
    with pytest.raises(ParameterError, match=r"0 \.\. 4, got 8"):
        received(knowing(most_batch_size=4))


def test_steps_and_batches_are_held_to_the_limits_of_the_node_that_received_them() -> None:
    config = received(knowing(most_steps=6, most_batch_size=8)) | {"local-steps": 7}
    with pytest.raises(ParameterError, match=r"1 \.\. 6, got 7"):
        local_steps(nn.Linear(4, 4), [points()], config)
    with pytest.raises(ParameterError, match=r"1 \.\. 6, got 7"):
        SeededBatches(*points(), client=0).batches_for(config)
    whole = config | {"local-steps": 1, "batch-size": 0}
    assert len(list(SeededBatches(*points(), client=0).batches_for(whole))) == 1
    many = torch.eye(4).repeat(3, 1), torch.arange(4).repeat(3)
    with pytest.raises(ParameterError, match=r"'batch-size' must be a whole number in 0 \.\. 8, got 12"):
        SeededBatches(*many, client=0).batches_for(whole)


def test_limits_of_the_code_come_before_those_of_the_node() -> None:
    config = received(knowing(most_steps=5))
    assert local_steps(nn.Linear(4, 4), [points()], config | {"local-steps": 9}, limits=ClientLimits(steps=9)) > 0.0


def slow(tick: Tick, seconds: float) -> Callable[[Tensor, Tensor], Tensor]:
    """Return a loss that takes its time."""

    def loss(outputs: Tensor, labels: Tensor) -> Tensor:
        tick(seconds)
        return nn.functional.cross_entropy(outputs, labels)

    return loss


def test_steps_end_when_the_node_has_given_its_time(tick: Tick) -> None:
    config = received(knowing(most_seconds=10.0), timeout=3600.0)
    with pytest.raises(OrderError, match=r"has taken 12 s on this node, which gives it 10 s \(most-seconds\)"):
        local_steps(nn.Linear(4, 4), [points()], config, slow(tick, 4.0))
    plain = dict(CONFIG)
    with pytest.raises(OrderError, match="which gives it 10 s"):
        local_steps(nn.Linear(4, 4), [points()], plain, slow(tick, 4.0), limits=ClientLimits(seconds=10.0))


def test_steps_end_when_the_server_waits_no_longer(tick: Tick) -> None:
    config = received(timeout=10.0)
    assert local_steps(nn.Linear(4, 4), [points()], config, slow(tick, 1.0)) > 0.0
    with pytest.raises(OrderError, match=r"has taken 11 s on this node, and the server waited for 10 s"):
        local_steps(nn.Linear(4, 4), [points()], config | {"local-steps": 20}, slow(tick, 1.0))


def test_a_clock_that_is_behind_or_ahead_by_minutes_shortens_no_round(tick: Tick) -> None:
    message = message_of(timeout=10.0)
    tick(290.0)
    config = receive(message, nn.Linear(4, 4), knowing())
    assert local_steps(nn.Linear(4, 4), [points()], config, slow(tick, 1.5)) > 0.0
    late = message_of(timeout=10.0)
    tick(309.0)
    nearly = receive(late, nn.Linear(4, 4), knowing())
    with pytest.raises(OrderError, match="the server waited for 1 s"):
        local_steps(nn.Linear(4, 4), [points()], nearly, slow(tick, 1.0))


def test_without_an_order_only_the_nodes_own_time_counts(tick: Tick) -> None:
    config = receive(message_of(timeout=1.0), nn.Linear(4, 4), trusting(most_seconds=100.0))
    assert local_steps(nn.Linear(4, 4), [points()], config, slow(tick, 10.0)) > 0.0
