"""A round about some coordinates: what clients are told, what they send, what is malformed."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, RecordDict
from tests.flower.federations import (
    LR,
    NODES,
    arrays_in,
    assert_a_model_like,
    config_in,
    honest_content,
    model,
    obliging,
    one_round,
    pushed,
    silent_grid,
    update_of,
    values_of,
)
from torch import nn

from steadfed._core.coordinates import coordinates_of
from steadfed.aggregators import CenteredClipping, FlTrust, Mean, Rage
from steadfed.attacks import Attack, Mimic, Sleeper
from steadfed.errors import ParameterError
from steadfed.flower._coordinates import AskedFor
from steadfed.flower._records import RecordNumbers, layout_of, record_of
from steadfed.flower._strategies import RobustStrategy
from steadfed.flower.client import train_reply
from steadfed.flower.redteam import Omniscient, attack_mod, byzantine
from steadfed.simulation import RandomK
from steadfed.states._layout import COORDINATES

pytestmark = pytest.mark.usefixtures("clock")
SOME = RandomK(coordinates=3)
DIM = 8
"""Parameters of `model()`."""


def strategy(**changes: Any) -> RobustStrategy:
    settings: dict[str, Any] = {"rule": Mean(), "lr": LR, "compression": SOME, "coordinates_seed": 4}
    return RobustStrategy(**(settings | changes))


def everyone_obliging(messages: list[Message]) -> list[Message]:
    return [Message(obliging(message), reply_to=message) for message in messages]


def with_first(change: Callable[[Message], RecordDict]) -> Callable[[list[Message]], list[Message]]:
    """Return replies of which the first is another."""

    def replies(messages: list[Message]) -> list[Message]:
        return [Message(change(messages[0]), reply_to=messages[0]), *everyone_obliging(messages[1:])]

    return replies


def test_clients_are_told_a_seed_and_how_many_and_not_which() -> None:
    (message, *_) = pushed(strategy(), silent_grid(), model())
    config = dict(config_in(message))
    assert (config["coordinates"], config["parameters"]) == (3, DIM)
    assert isinstance(config["coordinates-seed"], int)
    assert not any(isinstance(value, list) for value in config.values())
    (message, *_) = pushed(strategy(compression=RandomK(coordinates=1.0)), silent_grid(), model())
    assert not {"coordinates", "coordinates-seed", "parameters"} & set(config_in(message))


def test_the_users_entries_cannot_replace_them() -> None:
    own = ConfigRecord({"coordinates-seed": 7, "mine": 1})
    (message, *_) = strategy().configure_train(1, model(), own, silent_grid())
    assert config_in(message)["coordinates-seed"] != 7
    assert config_in(message)["mine"] == 1


def test_a_round_moves_these_coordinates_by_the_mean_and_leaves_the_others() -> None:
    new, record = one_round(strategy(), everyone_obliging)
    assert new is not None
    assert_a_model_like(new, model())
    layout = layout_of(model())
    before, after = layout.parameters_of(RecordNumbers(model())), layout.parameters_of(RecordNumbers(new))
    assert record.coordinates is not None
    places = torch.from_numpy(coordinates_of(record.coordinates.seed, 3, DIM))
    wanted = before.clone()
    wanted[places] -= LR * torch.stack([update_of(node, 0, DIM) for node in NODES]).mean(0)[places]
    torch.testing.assert_close(after, wanted)
    assert torch.equal(before == after, torch.ones(DIM).index_fill(0, places, 0.0).bool())
    assert new["norm.num_batches_tracked"].numpy() == 5  # buffers go their own way, as always
    assert (record.bytes_down, record.bytes_up) == (10 * (4 * (DIM + 4) + 8), 10 * (4 * (3 + 4) + 8))


def test_a_record_says_in_which_layers_the_coordinates_of_a_removed_update_deviate() -> None:
    def far(message: Message) -> RecordDict:
        content = obliging(message)
        arrays = values_of(arrays_in(content))
        arrays[COORDINATES] = arrays[COORDINATES] + np.float32(50)
        return RecordDict({"arrays": ArrayRecord({name: Array(value) for name, value in arrays.items()})})

    _, record = one_round(strategy(rule=Rage(num_byzantine=1)), with_first(far))
    (deviation,) = record.deviations
    assert deviation.client == "101"
    assert sum(deviation.layers.values()) == pytest.approx(1.0, abs=1e-5)
    assert record.coordinates is not None
    places = coordinates_of(record.coordinates.seed, 3, DIM)
    layers = {spec.name for spec in layout_of(model()).parameters for place in places
              if spec.columns.start <= place < spec.columns.stop}  # fmt: skip
    assert {name for name, share in deviation.layers.items() if share} <= layers


def test_nobody_knows_a_rounds_coordinates_before_it_unless_a_seed_is_given() -> None:
    def seeds(**settings: Any) -> list[Any]:
        found = []
        for _ in range(2):
            made = strategy(**settings)
            messages = [pushed(made, silent_grid(), model(), server_round)[0] for server_round in (1, 2)]
            found.append([config_in(message)["coordinates-seed"] for message in messages])
        return found

    secret, given = seeds(coordinates_seed=None), seeds()
    assert len({*secret[0], *secret[1]}) == 4
    assert given[0] == given[1]
    assert given[0][0] != given[0][1]


WHOLE = "'steadfed-coordinates', the 3 coordinates that were asked for"


def resized(number: int, dtype: type = np.float32) -> Callable[[Message], RecordDict]:
    def change(message: Message) -> RecordDict:
        content = obliging(message)
        arrays = dict(arrays_in(content).items())
        return RecordDict({**content, "arrays": ArrayRecord(arrays | {COORDINATES: Array(np.ones(number, dtype))})})

    return change


@pytest.mark.parametrize(
    ("change", "fault", "detail"),
    [
        (lambda message: honest_content(message.metadata.dst_node_id, message), "keys", WHOLE),
        (resized(2), "shape", r"the shape must be \(3,\), got \(2,\)"),
        (resized(4), "shape", r"the shape must be \(3,\), got \(4,\)"),
        (resized(DIM), "shape", r"the shape must be \(3,\), got \(8,\)"),
        (resized(3, np.float64), "dtype", "the dtype must be float32, got 'float64'"),
        (resized(3, np.int32), "dtype", "the dtype must be float32, got 'int32'"),
    ],
)
def test_a_reply_that_is_not_what_was_asked_for_is_malformed(change: Any, fault: str, detail: str) -> None:
    new, record = one_round(strategy(rule=Rage(num_byzantine=1)), with_first(change))
    assert new is not None
    ((client, found, said),) = [(drop.client, drop.fault, drop.detail) for drop in record.drops]
    assert (client, found) == ("101", fault)
    assert re.search(detail, said)
    assert record.unusable == ("101",)


@pytest.mark.parametrize("name", ["all-nan", "truncated", "garbage"])
def test_malformed_replies_are_malformed_here_too(name: str) -> None:
    def lie(message: Message) -> RecordDict:
        context = Context(1, 1, {}, RecordDict(), {})
        reply = byzantine(name)(message, context, lambda given, _: Message(obliging(given), reply_to=given))
        return reply.content

    new, record = one_round(strategy(rule=Rage(num_byzantine=1)), with_first(lie))
    assert new is not None
    assert record.unusable == ("101",)


class Net(nn.Module):
    """A model with the arrays of `model()`."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(2, 3))
        self.bias = nn.Parameter(torch.zeros(2))
        self.norm = nn.BatchNorm1d(2, affine=False)


def test_the_clients_own_function_sends_what_was_asked_for() -> None:
    (message, *_) = pushed(strategy(), silent_grid(), model())
    net = Net()
    net.load_state_dict(arrays_in(message.content).to_torch_state_dict())
    with torch.no_grad():
        net.weight.add_(1.0)
        net.bias[0] = torch.nan  # a client that diverged sends what it has, and the server sees it
    reply = train_reply(message, net, num_examples=3)
    arrays = arrays_in(reply.content)
    names = {"norm.running_mean", "norm.running_var", "norm.num_batches_tracked"}
    assert set(arrays) == {COORDINATES, *names}
    row = torch.cat([net.weight.flatten(), net.bias]).detach().numpy()
    chosen = coordinates_of(int(str(config_in(message)["coordinates-seed"])), 3, DIM)
    np.testing.assert_array_equal(arrays[COORDINATES].numpy(), row[chosen])


def test_a_client_that_counts_other_parameters_than_the_server_is_told_how_to_count() -> None:
    (message, *_) = pushed(strategy(buffers=["*running*", "*tracked", "bias"]), silent_grid(), model())
    assert config_in(message)["parameters"] == 6
    with pytest.raises(ParameterError, match=r"the server's model has 6 parameters, and 8 were found.*buffers="):
        train_reply(message, Net(), num_examples=3)
    reply = train_reply(message, Net(), num_examples=3, buffers=["*running*", "*tracked", "bias"])
    assert "bias" in arrays_in(reply.content)


@pytest.mark.parametrize(
    "told",
    [{"coordinates": 0}, {"coordinates": 9}, {"coordinates": 1.5}, {"coordinates-seed": -1}, {"coordinates-seed": 0.5}],
)
def test_a_client_refuses_what_cannot_be_asked_for(told: dict[str, Any]) -> None:
    config = ConfigRecord({"coordinates": 3, "coordinates-seed": 1, "parameters": DIM, **told})
    with pytest.raises(ParameterError, match="must be a whole number"):
        AskedFor.told(RecordDict({"config": config}), layout_of(model()))


def test_narrow_parameters_are_sent_as_narrow_as_they_are() -> None:
    layout = layout_of(ArrayRecord({"w": Array(np.ones(5, np.float16))}))
    assert layout.of_coordinates(2).nbytes == 4
    mixed = layout_of(ArrayRecord({"w": Array(np.ones(5, np.float16)), "v": Array(np.ones(2, np.float64))}))
    assert mixed.of_coordinates(2).nbytes == 16


def test_a_rule_that_remembers_is_refused_when_the_model_is_known() -> None:
    with pytest.raises(ParameterError, match="remembers vectors from round to round"):
        pushed(strategy(rule=CenteredClipping()), silent_grid(), model())
    with pytest.raises(ParameterError, match="the model has 8 parameters"):
        pushed(strategy(compression=RandomK(coordinates=9)), silent_grid(), model())


@pytest.mark.parametrize("attack", [Mimic(warm_up=2), Sleeper(attack=Mimic(warm_up=2), start=3)], ids=repr)
def test_an_attack_that_remembers_is_refused_by_the_server_that_would_hand_it_all_rows(attack: Attack) -> None:
    drill = Omniscient(attack, byzantine={"101"})
    with pytest.raises(ParameterError, match=r"the attack Mimic\(.*\) remembers vectors from round to round"):
        pushed(strategy(tampering=drill), silent_grid(), model())
    assert pushed(strategy(tampering=drill, compression=RandomK(coordinates=1.0)), silent_grid(), model())


def test_an_attack_that_remembers_is_refused_by_the_client_that_would_carry_it_out() -> None:
    (message, *_) = pushed(strategy(), silent_grid(), model())
    context = Context(1, 1, {}, RecordDict(), {})
    with pytest.raises(ParameterError, match="every round is about other coordinates"):
        attack_mod(Mimic(warm_up=2))(message, context, lambda given, _: Message(obliging(given), reply_to=given))


def test_an_update_of_the_servers_own_is_cut_to_the_same_coordinates() -> None:
    layout = layout_of(model())

    def trusted(_round: int, arrays: ArrayRecord) -> ArrayRecord:
        step = layout.parameters_of(RecordNumbers(arrays)) - LR * update_of(500, 0, DIM)
        return record_of(layout.to_arrays(step, layout.buffers_of(RecordNumbers(arrays))))

    new, record = one_round(strategy(rule=FlTrust(), trusted_update_fn=trusted), everyone_obliging)
    assert new is not None
    assert not record.skipped
    assert record.update_norm is not None
    assert record.coordinates is not None
    places = coordinates_of(record.coordinates.seed, 3, DIM)
    assert record.update_norm <= float(update_of(500, 0, DIM)[places].norm()) * (1.0 + 1e-5)
