"""Messages that no client can foresee, and that only the server can write."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from flwr.app import ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.proto.message_pb2 import ObjectTree
from flwr.serverapp.strategy import FedAvg, FedProx
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree
from flwr.supercore.object_store.sql_object_store import SqlObjectStore
from tests.flower.federations import (
    NODES,
    arrays_in,
    assert_the_same_model,
    either,
    everyone,
    honest,
    model,
    pushed,
    silent_grid,
)
from tests.flower.grids import Clock, ScriptedGrid, carried
from tests.flower.keys import KEY, KEY_FILE, knowing

from steadfed.aggregators import Mean
from steadfed.errors import OrderError, ParameterError
from steadfed.flower import GuardedStrategy, RobustStrategy, _messages as written
from steadfed.flower._acceptance import accept
from steadfed.flower._messages import Letter, Writer
from steadfed.flower._nodes import Member
from steadfed.flower._npy import model_digest
from steadfed.flower._orders import ORDER, SECRET, Order
from steadfed.flower._replies.matcher import ReplyMatcher

pytestmark = pytest.mark.usefixtures("clock")
Strategy = GuardedStrategy | RobustStrategy
MADE: dict[str, Callable[..., Strategy]] = {
    "robust": lambda **more: RobustStrategy(Mean(), lr=0.5, **more),
    "guarded": lambda **more: GuardedStrategy(FedAvg(), **more),
    "proximal": lambda **more: GuardedStrategy(FedProx(proximal_mu=0.1), **more),
}


@pytest.fixture(params=sorted(MADE))
def make(request: pytest.FixtureRequest) -> Callable[..., Strategy]:
    return MADE[request.param]


def evaluation(strategy: Strategy, server_round: int = 1) -> list[Message]:
    return list(strategy.configure_evaluate(server_round, model(), ConfigRecord(), silent_grid()))


def configs(messages: Sequence[Message]) -> list[dict[str, Any]]:
    return [dict(message.content["config"].items()) for message in messages]


def objects_of(messages: Sequence[Message]) -> set[str]:
    return {key for message in messages for key in get_all_nested_objects(message)}


def test_every_message_has_a_secret_of_its_own_signed_or_not(make: Callable[..., Strategy]) -> None:
    for strategy in (make(), make(signing_key=KEY_FILE)):
        messages = [*pushed(strategy, silent_grid(), model()), *evaluation(strategy)]
        secrets = [config[SECRET] for config in configs(messages)]
        assert len(messages) == 2 * len(NODES)
        assert len(set(secrets)) == len(messages)
        assert all(len(str(each)) == 32 for each in secrets)


def test_nothing_that_is_sent_can_be_announced_by_somebody_else_first(make: Callable[..., Strategy]) -> None:
    """Same strategy, same model, same round: not one object is the same, nor one of the model as users write it."""
    strategies = [make(), make(), make(signing_key=KEY_FILE)]
    written = [objects_of(pushed(each, silent_grid(), model())) for each in strategies]
    written += [objects_of(evaluation(each)) for each in strategies] + [set(get_all_nested_objects(model()))]
    assert len(set.union(*written)) == sum(map(len, written))


def announce_otherwise(store: SqlObjectStore, objects: Iterable[str]) -> None:
    """Do what a hostile node does in the tree of its reply: announce objects with a child that they do not have."""
    child = ObjectTree(object_id="0" * 64)
    for object_id in objects:
        store.preregister(1, ObjectTree(object_id=object_id, children=[child]))


def test_a_node_cannot_make_the_superlink_refuse_the_next_messages(make: Callable[..., Strategy]) -> None:
    store = SqlObjectStore(":memory:")
    store.initialize()
    strategy = make()
    bare = RecordDict({"arrays": model(), "config": ConfigRecord({"server-round": 1})})
    announce_otherwise(store, set(get_all_nested_objects(bare)))
    with pytest.raises(ValueError, match="was preregistered with different children"):
        store.preregister(1, get_object_tree(bare))  # what was sent before could be foreseen
    for messages in (pushed(strategy, silent_grid(), model()), strategy.write_again(), evaluation(strategy)):
        for message in messages:
            store.preregister(1, get_object_tree(message))


def test_messages_of_a_round_share_one_model_which_is_uploaded_once(make: Callable[..., Strategy]) -> None:
    messages = pushed(make(), silent_grid(), model())
    ids = {arrays_in(message.content).object_id for message in messages}
    assert len(ids) == 1
    assert_the_same_model(arrays_in(messages[0].content), model())


def test_a_signed_message_is_an_order_for_its_client(make: Callable[..., Strategy]) -> None:
    strategy = make(signing_key=KEY_FILE)
    for kind, messages in (
        ("train", pushed(strategy, silent_grid(), model(), 3)),
        ("evaluate", evaluation(strategy, 3)),
    ):
        for message in messages:
            node = message.metadata.dst_node_id
            order = accept(carried(message), knowing(node))
            assert order is not None
            assert (order.kind, order.round, order.client) == (kind, 2, str(node))
            assert order.model == model_digest(model())
            assert order.config[SECRET] == message.content["config"][SECRET]
            with pytest.raises(OrderError, match="for another node"):
                accept(carried(message), knowing(node + 1))


def test_an_order_is_good_for_as_long_as_replies_are_waited_for(make: Callable[..., Strategy], clock: Clock) -> None:
    del clock
    strategy, seen = make(signing_key=KEY_FILE), []

    def answer(node: int, message: Message) -> Message:
        seen.append(accept(message, knowing(node)))
        return honest(node, message)

    grid = ScriptedGrid(either(answer), NODES)
    strategy.start(grid, model(), num_rounds=1, timeout=77.0)
    orders = [order for order in seen if order is not None]
    assert len(orders) == len(NODES)
    assert {round(order.expires - order.issued) for order in orders} == {77}
    assert all(message.metadata.ttl == 77.0 for message in grid.pushed)


def test_messages_written_again_have_other_secrets_and_only_their_replies_count(make: Callable[..., Strategy]) -> None:
    strategy = make(signing_key=KEY_FILE)
    first = pushed(strategy, silent_grid(), model())
    again = strategy.write_again()
    silent_grid().push_messages(again)
    assert [each.metadata.dst_node_id for each in again] == [each.metadata.dst_node_id for each in first]
    assert not objects_of(first) & objects_of(again)
    assert [_without_secrets(each) for each in configs(first)] == [_without_secrets(each) for each in configs(again)]
    new, _ = strategy.aggregate_train(1, everyone(first))
    assert new is None
    pushed(strategy, silent_grid(), model())
    again = strategy.write_again()
    silent_grid().push_messages(again)
    new, _ = strategy.aggregate_train(1, everyone(again))
    assert new is not None


def test_evaluations_are_written_again_too(make: Callable[..., Strategy]) -> None:
    strategy = make()
    first = evaluation(strategy)
    again = strategy.write_again()
    assert {each.metadata.message_type for each in again} == {"evaluate"}
    assert not objects_of(first) & objects_of(again)


def test_nothing_is_written_again_before_anything_was_written(make: Callable[..., Strategy]) -> None:
    with pytest.raises(ParameterError, match="configure_train first"):
        make().write_again()


def _without_secrets(config: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in config.items() if key not in {SECRET, ORDER}}


def test_a_matcher_that_expects_other_messages_forgets_the_first() -> None:
    messages = [
        Message(RecordDict({"config": ConfigRecord({"n": n})}), node, "train") for n in range(2) for node in NODES
    ]
    first, second = messages[: len(NODES)], messages[len(NODES) :]
    for message in messages:
        message.metadata.__dict__["_message_id"] = message.object_id
    strategy = RobustStrategy(Mean())
    matcher = ReplyMatcher([Member(str(node), node) for node in NODES], first, strategy._directory)  # noqa: SLF001
    assert matcher.place(Message(RecordDict(), reply_to=first[1])) == 1
    matcher.expect(second)
    assert matcher.place(Message(RecordDict(), reply_to=first[2])) is None
    assert matcher.place(Message(RecordDict(), reply_to=second[2])) == 2


def test_every_order_is_newer_than_the_one_before() -> None:
    writer = Writer(KEY, arrays_key="arrays", config_key="config")
    letters = [Letter(Member("a", node), "train", ConfigRecord()) for node in range(1, 50)]
    orders = [Order.opened(str(config[ORDER]), KEY.public) for config in configs(writer.write(letters, model(), 0))]
    issued = [order.issued for order in orders]
    assert issued == sorted(set(issued))


def test_a_key_that_cannot_be_read_fails_before_the_first_round(make: Callable[..., Strategy], tmp_path: Path) -> None:
    nothing, garbage = tmp_path / "nothing.pem", tmp_path / "garbage.pem"
    garbage.write_text("no key", encoding="utf-8")
    with pytest.raises(ParameterError, match=r"cannot read the key .*nothing\.pem"):
        make(signing_key=nothing)
    with pytest.raises(ParameterError, match=r"garbage\.pem' must hold a private key"):
        make(signing_key=str(garbage))


class Chatty(FedAvg):
    """A strategy that sends something besides."""

    def configure_train(self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Any) -> list[Message]:
        messages = list(super().configure_train(server_round, arrays, config, grid))
        for message in messages:
            message.content["more"] = ConfigRecord({"a": 1})
        return messages


def test_what_a_strategy_sends_besides_is_sent_unsigned_and_cannot_be_signed() -> None:
    message = pushed(GuardedStrategy(Chatty()), silent_grid(), model())[0]
    assert dict(message.content["more"].items()) == {"a": 1}
    with pytest.raises(ParameterError, match="one ConfigRecord, and the strategy adds more; leave signing_key out"):
        pushed(GuardedStrategy(Chatty(), signing_key=KEY_FILE), silent_grid(), model())


def test_the_users_own_entries_are_part_of_the_order() -> None:
    strategy = RobustStrategy(Mean(), signing_key=KEY_FILE)
    given = ConfigRecord({"dropout": 0.1, "key": b"\x00"})
    (message, *_) = strategy.configure_train(1, model(), given, silent_grid())
    told = configs([message])[0]
    order = Order.opened(told[ORDER], KEY.public)
    assert order.config["dropout"] == told["dropout"] == 0.1
    assert order.config["key"] == {"bytes": "AA=="}
    assert json.loads(json.dumps(order.config)) == order.config


def test_a_model_is_looked_at_once_in_a_round_and_anew_in_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[ArrayRecord] = []

    def look(arrays: ArrayRecord) -> str:
        looks.append(arrays)
        return model_digest(arrays)

    monkeypatch.setattr(written, "model_digest", look)
    strategy = RobustStrategy(Mean(), signing_key=KEY_FILE, num_train_nodes=len(NODES))
    arrays = model()
    for number in (1, 2):
        pushed(strategy, silent_grid(), arrays, number)
        strategy.write_again()
        list(strategy.configure_evaluate(number, arrays, ConfigRecord(), silent_grid()))
    assert looks == [arrays, arrays]
