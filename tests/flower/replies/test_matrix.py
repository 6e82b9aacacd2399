"""Replies become rows: whose they are, what becomes of buffers and other dtypes, how much memory it takes."""

from __future__ import annotations

import ctypes
import gc
import os
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from flwr.app import ArrayRecord, Error, Message, RecordDict
from numpy.typing import NDArray
from tests.flower.federations import (
    LR,
    NODES,
    assert_a_model_like,
    config_in,
    everyone,
    flower_array,
    honest,
    honest_content,
    honest_once,
    model,
    one_round,
    pushed,
    silent_grid,
    update_of,
    values_of,
)
from tests.flower.grids import Clock, ScriptedGrid

from steadfed.aggregators import Mean, Median, Rage
from steadfed.errors import ReplyError
from steadfed.flower._nodes import Member, NodeDirectory
from steadfed.flower._records import RecordNumbers, layout_of
from steadfed.flower._replies.matcher import DETAIL, ReplyMatcher
from steadfed.flower._replies.stream import Unreadable
from steadfed.flower._strategies import RageStrategy, RobustStrategy
from steadfed.states._faults import Fault

pytestmark = pytest.mark.usefixtures("clock")


def claiming(reply: Message, *, sender: int | None = None, answers: str | None = None) -> Message:
    """Return the reply with something else said about who it is from and what it answers."""
    if sender is not None:
        reply.metadata.__dict__["_src_node_id"] = sender
    if answers is not None:
        reply.metadata.__dict__["_reply_to_message_id"] = answers
    return reply


def test_an_error_in_place_of_a_dead_node_comes_from_the_superlink_and_counts_for_the_node() -> None:
    def replies(messages: list[Message]) -> list[Message]:
        sent = everyone(messages)
        sent[3] = claiming(Message(Error(5, "the node is unavailable"), reply_to=messages[3]), sender=1)
        return sent

    new, record = one_round(RageStrategy(num_malicious_nodes=1, lr=LR), replies)
    assert new is not None
    assert [(drop.client, drop.fault) for drop in record.drops] == [("104", "error")]
    assert record.absent == ("104",)


def test_a_second_reply_is_noted_and_the_first_counts() -> None:
    def replies(messages: list[Message]) -> list[Message]:
        spoiled = Message(honest_once(NODES[0]), reply_to=messages[5])
        return [*everyone(messages), spoiled, spoiled]

    new, record = one_round(RobustStrategy(Mean(), lr=LR), replies)
    plain, _ = one_round(RobustStrategy(Mean(), lr=LR), everyone)
    assert [(drop.client, drop.fault) for drop in record.drops] == [("106", "repeated")] * 2
    assert new is not None
    assert plain is not None
    assert all((new[name].numpy() == plain[name].numpy()).all() for name in plain)


def test_what_clients_say_of_themselves_is_read_with_their_models() -> None:
    strategy = RobustStrategy(Mean(), lr=LR)
    _, metrics = strategy.aggregate_train(1, everyone(pushed(strategy, silent_grid(), model())))
    assert metrics is not None
    assert metrics["loss"] == pytest.approx(1.055)  # the median of nodes 101 to 110
    assert metrics["num-examples"] == 10


def test_a_reply_of_a_node_that_was_not_asked_is_noted_and_not_used() -> None:
    def replies(messages: list[Message]) -> list[Message]:
        stranger = claiming(Message(honest_once(NODES[0]), reply_to=messages[0]), sender=999, answers="other-message")
        return [stranger, *everyone(messages)]

    new, record = one_round(RageStrategy(num_malicious_nodes=1, lr=LR), replies)
    assert new is not None
    assert [(drop.client, drop.fault) for drop in record.drops] == [("999", "not asked")]
    assert len(record.kept) == 10


def test_a_reply_that_claims_to_come_from_another_node_is_the_fault_of_who_was_asked() -> None:
    def replies(messages: list[Message]) -> list[Message]:
        sent = everyone(messages)
        sent[4] = claiming(sent[4], sender=NODES[0])
        return sent

    new, record = one_round(RageStrategy(num_malicious_nodes=1, lr=LR), replies)
    assert new is not None
    assert [(drop.client, drop.fault) for drop in record.drops] == [("105", "unreadable")]
    assert "101" in record.kept
    assert record.unusable == ("105",)


def test_nobody_can_know_the_id_of_anothers_message() -> None:
    def ids() -> list[tuple[str, str]]:
        messages = pushed(RageStrategy(num_malicious_nodes=1, lr=LR), silent_grid(), model())
        return [(message.metadata.group_id, message.metadata.message_id) for message in messages]

    first, second = ids(), ids()
    assert len({word for pair in first + second for word in pair}) == 40
    assert min(len(group) for group, _ in first) >= 32


def test_over_the_wire_a_reply_under_anothers_name_is_the_senders_fault(clock: Clock) -> None:
    pushed_ids: dict[int, str] = {}

    def train(node: int, message: Message) -> Message:
        pushed_ids[node] = message.metadata.message_id
        reply = honest(node, message)
        return claiming(reply, answers=pushed_ids[NODES[0]], sender=NODES[0]) if node == NODES[1] else reply

    strategy = RageStrategy(num_malicious_nodes=1, lr=LR, fraction_evaluate=0.0)
    strategy.start(ScriptedGrid(train, NODES, clock=clock), model(), num_rounds=1, timeout=10)
    (record,) = strategy.records
    assert {drop.client for drop in record.drops} == {"102"}
    assert "101" in record.kept
    assert not record.skipped


def test_late_replies_are_erasures_and_take_no_longer_than_allowed(clock: Clock) -> None:
    grid = ScriptedGrid(honest, NODES, clock=clock, delays={NODES[0]: 50.0, NODES[1]: 5.0})
    strategy = RageStrategy(num_malicious_nodes=1, lr=LR, fraction_evaluate=0.0)
    strategy.start(grid, model(), num_rounds=1, timeout=20)
    (record,) = strategy.records
    assert [(drop.client, drop.fault) for drop in record.drops] == [("101", "silent")]
    assert "102" in record.kept
    assert 20 <= clock.now < 22


def test_a_message_that_cannot_be_sent_and_a_reply_that_cannot_be_read_end_nothing(clock: Clock) -> None:
    def train(node: int, message: Message) -> Message | Exception:
        return KeyError("chunk") if node == NODES[2] else honest(node, message)

    grid = ScriptedGrid(train, NODES, clock=clock, unreachable=[NODES[8]])
    strategy = RageStrategy(num_malicious_nodes=1, lr=LR, fraction_evaluate=0.0)
    strategy.start(grid, model(), num_rounds=1, timeout=10)
    (record,) = strategy.records
    assert sorted((drop.client, drop.fault) for drop in record.drops) == [("103", "unreadable"), ("109", "undelivered")]
    assert (record.absent, record.unusable) == (("109",), ("103",))


def test_a_long_tale_is_cut_in_the_record() -> None:
    new, record = one_round(
        RageStrategy(num_malicious_nodes=1, lr=LR),
        lambda messages: [Message(Error(1, "x" * 10_000), reply_to=messages[0]), *everyone(messages)[1:]],
    )
    assert new is not None
    assert len(record.drops[0].detail) <= DETAIL + 1


def test_the_door_names_clients_as_the_roster_does() -> None:
    directory = NodeDirectory.of({7: "clinic"})
    message = Message(RecordDict(), 7, "train")
    message.metadata.__dict__["_message_id"] = "m"
    matcher = ReplyMatcher([Member("clinic", 7)], [message], directory)
    assert matcher.place(Unreadable("m", 7, "broken")) == 0
    assert matcher.place(Unreadable("n", 8, "broken")) is None
    matcher.close()
    assert [(drop.client, drop.fault) for drop in matcher.drops] == [("8", "not asked")]


def test_what_has_no_content_says_why() -> None:
    matcher = ReplyMatcher([Member("clinic", 7)], [], NodeDirectory.of(None))
    with pytest.raises(ReplyError, match="broken") as caught:
        matcher.content(0, Unreadable("m", 7, "broken"))
    assert caught.value.fault == Fault.UNREADABLE


def several_dtypes() -> ArrayRecord:
    arrays: dict[str, NDArray[Any]] = {
        "half": np.linspace(-1, 1, 6, dtype=np.float16).reshape(2, 3),
        "single": np.ones(4, np.float32),
        "double": np.full((2, 2), np.pi),
        "scalar": np.array(2.0, np.float32),
        "empty": np.empty((0, 3), np.float32),
        "counter": np.arange(3),
        "flags": np.array([True, False]),
        "bytes": np.arange(4, dtype=np.uint8),
    }
    return ArrayRecord({name: flower_array(values) for name, values in arrays.items()})


@pytest.mark.parametrize("rule", [Rage(num_byzantine=1), Median(), Mean()])
def test_models_of_many_dtypes_scalars_and_empty_arrays_keep_them(rule: Any, clock: Clock) -> None:
    strategy = RobustStrategy(rule, lr=LR, fraction_evaluate=0.0)
    result = strategy.start(ScriptedGrid(honest, NODES, clock=clock), several_dtypes(), num_rounds=2, timeout=9)
    assert result.arrays is not None
    assert_a_model_like(result.arrays, several_dtypes())
    assert all(not record.skipped and not record.drops for record in strategy.records)
    assert result.arrays["counter"].numpy().tolist() == [10, 11, 12]
    assert result.arrays["flags"].numpy().tolist() == [True, False]
    layout = layout_of(several_dtypes())
    moved = layout.parameters_of(RecordNumbers(result.arrays)) - layout.parameters_of(RecordNumbers(several_dtypes()))
    assert moved.abs().min() > 0


def test_a_float16_model_is_never_led_beyond_what_it_can_hold() -> None:
    start = ArrayRecord({"w": flower_array(np.full(4, 60_000, np.float16))})

    def replies(messages: list[Message]) -> list[Message]:
        content = RecordDict({"arrays": ArrayRecord({"w": flower_array(np.full(4, 65_000, np.float16))})})
        return [Message(content, reply_to=message) for message in messages]

    strategy = RobustStrategy(Mean(), lr=1.0, server_momentum=0.9)
    arrays = start
    for server_round in (1, 2, 3):
        messages = pushed(strategy, silent_grid(), arrays, server_round)
        new, _ = strategy.aggregate_train(server_round, replies(messages))
        arrays = arrays if new is None else new
        assert_a_model_like(arrays, start)


def test_a_step_after_which_the_model_would_not_be_finite_is_not_taken(clock: Clock) -> None:
    def answer(_: int, message: Message) -> Message:
        far = RecordDict({"arrays": ArrayRecord([np.full(3, -3e38, np.float32)])})
        return Message(far, reply_to=message)

    # With momentum the second step is 0.9 of the first, on top of it: beyond what float32 can hold.
    strategy = RobustStrategy(Mean(), lr=1e25, server_momentum=0.9, fraction_evaluate=0.0)
    start = ArrayRecord([np.zeros(3, np.float32)])
    result = strategy.start(ScriptedGrid(answer, NODES, clock=clock), start, num_rounds=2)
    assert [record.skipped for record in strategy.records] == [False, True]
    assert strategy.records[1].reason == "the model would not be finite after this update"
    assert result.arrays["0"].numpy() == pytest.approx(np.full(3, -3e38))


@pytest.mark.parametrize("liars", [1, 2, 4])
def test_a_running_variance_never_becomes_negative(liars: int) -> None:
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2))
    start = ArrayRecord(net.state_dict())

    def replies(messages: list[Message]) -> list[Message]:
        sent = [honest(message.metadata.dst_node_id, message) for message in messages]
        for reply, message in zip(sent[:liars], messages, strict=False):
            content = honest_content(message.metadata.dst_node_id, message)
            values = values_of(content["arrays"])  # type: ignore[arg-type]
            values["1.running_var"] = np.full(4, -1e9, np.float32)
            values["1.running_mean"] = np.full(4, 1e30, np.float32)
            values["1.num_batches_tracked"] = np.array(-(2**62))
            lied = ArrayRecord({name: flower_array(each) for name, each in values.items()})
            reply.content = RecordDict({"arrays": lied})
        return sent

    new, record = one_round(RobustStrategy(Median(), lr=LR), replies, arrays=start)
    assert new is not None
    assert_a_model_like(new, start)
    assert record.drops == ()
    assert (new["1.running_var"].numpy() >= 1.0).all()
    assert np.abs(new["1.running_mean"].numpy()).max() <= 0.1
    assert new["1.num_batches_tracked"].numpy().tolist() == 5
    net.load_state_dict(new.to_torch_state_dict())


def test_even_if_all_lie_about_it_the_variance_stays() -> None:
    start = model()

    def replies(messages: list[Message]) -> list[Message]:
        sent = everyone(messages)
        for reply in sent:
            values = values_of(reply.content["arrays"])  # type: ignore[arg-type]
            values["norm.running_var"] = np.full(2, -1e9, np.float32)
            lied = ArrayRecord({name: flower_array(each) for name, each in values.items()})
            reply.content = RecordDict({"arrays": lied})
        return sent

    new, _ = one_round(RobustStrategy(Mean(), lr=LR), replies)
    assert new is not None
    assert new["norm.running_var"].numpy().tolist() == start["norm.running_var"].numpy().tolist()


def test_the_servers_momentum_is_that_of_the_formula(clock: Clock) -> None:
    strategy = RobustStrategy(Mean(), lr=LR, server_momentum=0.5, fraction_evaluate=0.0)
    result = strategy.start(ScriptedGrid(honest, NODES, clock=clock), model(), num_rounds=3, timeout=9)
    layout = layout_of(model())
    x, velocity = layout.parameters_of(RecordNumbers(model())), torch.zeros(layout.dim)
    for number in range(3):
        velocity = 0.5 * velocity + torch.stack([update_of(node, number, layout.dim) for node in NODES]).mean(0)
        x = x - LR * velocity
    assert result.arrays is not None
    assert torch.allclose(layout.parameters_of(RecordNumbers(result.arrays)), x, atol=1e-5)


def large(dim: int) -> ArrayRecord:
    return ArrayRecord({"w": flower_array(np.zeros(dim, np.float32))})


def streamed(messages: list[Message], dim: int) -> Iterator[Message]:
    for number, message in enumerate(messages):
        values = np.full(dim, 1.0 + number / 100, np.float32)
        yield Message(RecordDict({"arrays": ArrayRecord({"w": flower_array(values)})}), reply_to=message)


@pytest.mark.parametrize("rule", [Rage(num_byzantine=2), Mean()])
def test_the_peak_is_little_more_than_the_matrix_if_replies_are_streamed(rule: Any) -> None:
    dim, nodes = 200_000, tuple(range(101, 121))
    strategy = RobustStrategy(rule, lr=LR)
    messages = pushed(strategy, silent_grid(nodes), large(dim))
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        new, _ = strategy.aggregate_train(1, streamed(messages, dim))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    matrix = 4 * len(nodes) * dim  # torch's own memory, which is not traced; one more reply, the model, the update are
    assert new is not None
    assert peak - before <= 0.3 * matrix


def resident(field: str) -> int:
    """Return bytes of this process: VmRSS now, or VmHWM at most since it was reset."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    (line,) = [line for line in status.splitlines() if line.startswith(f"{field}:")]
    return 1024 * int(line.split()[1])


def test_the_process_grows_by_little_more_than_the_matrix() -> None:
    reset = Path("/proc/self/clear_refs")
    if not os.access(reset, os.W_OK):
        pytest.skip("the peak of a process cannot be reset here")
    dim, nodes = 2_000_000, tuple(range(101, 121))
    strategies = [RageStrategy(num_malicious_nodes=2, lr=LR) for _ in range(2)]
    few, messages = (
        pushed(each, silent_grid(nodes), large(n)) for each, n in zip(strategies, (1000, dim), strict=True)
    )
    strategies[0].aggregate_train(1, streamed(few, 1000))  # what is imported when it is first used is no part of it
    strategy = strategies[1]
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    reset.write_text("5", encoding="ascii")
    before = resident("VmRSS")
    strategy.aggregate_train(1, streamed(messages, dim))
    matrix = 4 * len(nodes) * dim
    assert matrix <= resident("VmHWM") - before <= 1.3 * matrix


def test_a_list_of_replies_is_emptied_as_it_is_read() -> None:
    replies: list[Message] = []

    def kept(messages: list[Message]) -> list[Message]:
        replies.extend(everyone(messages))
        return replies

    one_round(RageStrategy(num_malicious_nodes=1, lr=LR), kept)
    assert len(replies) == 10
    assert all(len(reply.content) == 0 for reply in replies)


def test_the_config_says_the_round(clock: Clock) -> None:
    seen: list[tuple[Any, Any]] = []

    def train(node: int, message: Message) -> Message:
        seen.append((config_in(message)["server-round"], config_in(message)["round"]))
        return honest(node, message)

    strategy = RobustStrategy(Mean(), lr=LR, num_train_nodes=2, fraction_evaluate=0.0)
    strategy.start(ScriptedGrid(train, NODES, clock=clock), model(), num_rounds=2, timeout=9)
    assert seen == [(1, 0), (1, 0), (2, 1), (2, 1)]
    assert [record.round for record in strategy.records] == [0, 1]
