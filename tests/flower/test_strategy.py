"""Whatever one client sends, wherever it stands: the round ends with a finite model; the record says who and why."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, Error, Message, RecordDict
from flwr.serverapp.strategy import FedAvg, FedMedian, Krum as FlowerKrum
from tests.flower.federations import (
    LR,
    NODES,
    arrays_in,
    assert_a_model_like,
    assert_the_same_model,
    everyone,
    forged,
    forged_once,
    honest,
    model,
    one_round,
    pushed,
    round_in,
    silent_grid,
    update_of,
    values_of,
)
from tests.flower.grids import Clock, ScriptedGrid
from tests.same_results import timeless
from torch import Tensor

from steadfed.aggregators import Aggregator, Krum, Mean, Median, Rage, ServerView
from steadfed.errors import ParameterError
from steadfed.flower._guarded import GuardedStrategy
from steadfed.flower._records import RecordNumbers, layout_of
from steadfed.flower._replies.validator import ReplyValidator
from steadfed.flower._strategies import RageStrategy, RobustStrategy
from steadfed.flower._strategy import ResilientStrategy
from steadfed.flower.redteam import MALFORMED
from steadfed.states._faults import Fault

RULES: dict[str, Aggregator] = {
    "rage-1": Rage(num_byzantine=1),
    "rage-2": Rage(num_byzantine=2),
    "krum": Krum(num_byzantine=1),
    "median": Median(num_byzantine=1),
    "mean": Mean(),
}
STRATEGIES: dict[str, Callable[[], ResilientStrategy]] = {
    "rage-1": lambda: RageStrategy(num_malicious_nodes=1, lr=LR),
    "rage-2": lambda: RageStrategy(num_malicious_nodes=2, lr=LR),
    "krum": lambda: RobustStrategy(RULES["krum"], lr=LR),
    "median": lambda: RobustStrategy(RULES["median"], lr=LR),
    "mean": lambda: RobustStrategy(RULES["mean"], lr=LR),
}
FLOWERS: dict[str, Callable[[], FedAvg]] = {
    "fedavg": FedAvg,
    "krum": lambda: FlowerKrum(num_malicious_nodes=1),
    "fedmedian": FedMedian,
}
BAD = [name for name, each in MALFORMED.items() if not each.harmless]
HARMLESS = [name for name, each in MALFORMED.items() if each.harmless]


pytestmark = pytest.mark.usefixtures("clock")


def with_liar(name: str, place: int) -> Callable[[list[Message]], list[Message]]:
    """Return replies of honest clients, but for the one at a place."""

    def replies(messages: list[Message]) -> list[Message]:
        sent = everyone(messages)
        sent[place] = Message(forged_once(name), reply_to=messages[place])
        return sent

    return replies


def rows_of(replies: list[Message]) -> Tensor:
    """Return the updates of replies; a row of NaN for those that are no models."""
    layout = layout_of(model())
    x, rows = layout.parameters_of(RecordNumbers(model())), torch.full((len(replies), layout.dim), torch.nan)
    for row, reply in zip(rows, replies, strict=True):
        local = np.empty(layout.dim, np.float32)
        try:
            ReplyValidator(layout).admit(reply.content, local)
        except ValueError:
            continue
        row.copy_((x - torch.from_numpy(local)) / LR)
    return rows


def expected(rule: Aggregator, rows: Tensor) -> Tensor:
    """Return the parameters after a step along what the rule makes of the rows."""
    names = tuple(str(node) for node in NODES)
    update = rule(rows, ServerView(cohort_size=len(rows), clients=names)).update
    return layout_of(model()).parameters_of(RecordNumbers(model())) - LR * update


def parameters(arrays: ArrayRecord | None) -> Tensor:
    assert arrays is not None
    return layout_of(model()).parameters_of(RecordNumbers(arrays))


def check_malformed(name: str, strategy: str, place: int) -> None:
    new, record = one_round(STRATEGIES[strategy](), with_liar(name, place))
    liar = str(NODES[place])
    assert new is not None
    assert_a_model_like(new, model())
    assert [drop.client for drop in record.drops] == [liar]
    assert not Fault(record.drops[0].fault).means_absent
    assert record.drops[0].detail
    assert (record.absent, record.unusable, record.skipped) == ((), (liar,), False)
    assert liar not in record.kept
    rows = torch.stack([update_of(each, 0, 8) for each in NODES])
    rows[place] = torch.nan
    assert torch.allclose(parameters(new), expected(RULES[strategy], rows), rtol=1e-5, atol=1e-6)
    if strategy in {"mean", "rage-1"}:  # RAGE has caught as many as it assumes
        mean = layout_of(model()).parameters_of(RecordNumbers(model())) - LR * rows[~rows.isnan().any(1)].mean(0)
        assert torch.allclose(parameters(new), mean, rtol=1e-5, atol=1e-6)
        assert len(record.kept) == 9


def check_harmless(name: str, strategy: str, place: int) -> None:
    given: list[Message] = []

    def replies(messages: list[Message]) -> list[Message]:
        given.extend(with_liar(name, place)(messages))
        return [Message(each.content, reply_to=message) for each, message in zip(given, messages, strict=True)]

    new, record = one_round(STRATEGIES[strategy](), replies)
    assert new is not None
    assert_a_model_like(new, model())
    assert record.drops == ()
    assert (len(record.received), record.skipped) == (10, False)
    assert torch.allclose(parameters(new), expected(RULES[strategy], rows_of(given)), rtol=1e-5, atol=1e-6)


def check_guarded(name: str, flower: str, place: int) -> None:
    guarded = GuardedStrategy(FLOWERS[flower]())
    messages = sorted(pushed(guarded, silent_grid(), model()), key=lambda message: message.metadata.dst_node_id)
    new, metrics = guarded.aggregate_train(1, with_liar(name, place)(messages))
    assert new is not None
    assert metrics is not None
    assert_a_model_like(new, model())
    dropped = [] if MALFORMED[name].harmless else [(1, str(NODES[place]))]
    assert [(number, drop.client) for number, drop in guarded.drops] == dropped


def check(name: str, strategy: str, place: int) -> None:
    (check_harmless if MALFORMED[name].harmless else check_malformed)(name, strategy, place)


def somewhere(name: str) -> int:
    """Return a place that differs from name to name."""
    return list(MALFORMED).index(name) % len(NODES)


@pytest.mark.parametrize("name", MALFORMED)
@pytest.mark.parametrize("strategy", list(STRATEGIES)[1:])  # the first is tried at every place below
def test_a_malformed_reply_is_a_row_of_nan_and_a_harmless_one_is_used(strategy: str, name: str) -> None:
    check(name, strategy, somewhere(name))


@pytest.mark.parametrize("name", MALFORMED)
@pytest.mark.parametrize("flower", list(FLOWERS)[1:])  # the first is tried at every place below
def test_flowers_own_strategies_survive_every_reply_behind_the_front(flower: str, name: str) -> None:
    check_guarded(name, flower, somewhere(name))


def first_of(names: Mapping[str, object]) -> list[object]:
    """Return names as parameters: the usual tests play the first everywhere, the slow ones the others."""
    first, *others = names
    return [first, *(pytest.param(name, marks=pytest.mark.slow) for name in others)]


@pytest.mark.parametrize("place", range(10))
@pytest.mark.parametrize("strategy", first_of(STRATEGIES))
def test_it_does_not_matter_where_the_liar_stands(strategy: str, place: int) -> None:
    for name in MALFORMED:
        check(name, strategy, place)


@pytest.mark.parametrize("place", range(10))
@pytest.mark.parametrize("flower", first_of(FLOWERS))
def test_it_does_not_matter_to_flowers_own_either(flower: str, place: int) -> None:
    for name in MALFORMED:
        check_guarded(name, flower, place)


def one_after_the_other(node: int, message: Message) -> Message:
    """Answer honestly but when it is the node's turn; then with the malformed reply of the round."""
    name = list(MALFORMED)[round_in(message)]
    return forged(name, node, message) if node == NODES[somewhere(name)] else honest(node, message)


def test_over_the_wire_a_run_survives_every_malformed_reply_one_after_the_other(clock: Clock) -> None:
    strategy = RageStrategy(num_malicious_nodes=1, lr=0.001, fraction_evaluate=0.0)
    grid = ScriptedGrid(one_after_the_other, NODES, clock=clock)
    result = strategy.start(grid, model(), num_rounds=len(MALFORMED), timeout=60)
    assert result.arrays is not None
    assert_a_model_like(result.arrays, model())
    for record, (name, reply) in zip(strategy.records, MALFORMED.items(), strict=True):
        assert not record.skipped, name
        assert [drop.client for drop in record.drops] == ([] if reply.harmless else [str(NODES[somewhere(name)])]), name


@pytest.mark.parametrize("flower", first_of(FLOWERS))
def test_over_the_wire_flowers_own_strategies_survive_them_too(flower: str, clock: Clock) -> None:
    guarded = GuardedStrategy(FLOWERS[flower]())
    guarded.strategy.fraction_evaluate = 0.0
    result = guarded.start(ScriptedGrid(one_after_the_other, NODES, clock=clock), model(), len(MALFORMED), timeout=60)
    assert result.arrays is not None
    assert_a_model_like(result.arrays, model())
    wanted = [
        (number, str(NODES[somewhere(name)]))
        for number, (name, reply) in enumerate(MALFORMED.items(), 1)
        if not reply.harmless
    ]
    assert [(number, drop.client) for number, drop in guarded.drops] == wanted


def test_two_malformed_replies_refute_the_assumption_of_one_and_the_model_stays() -> None:
    strategy = RageStrategy(num_malicious_nodes=1, lr=LR)

    def replies(messages: list[Message]) -> list[Message]:
        sent = with_liar("one-nan", 2)(messages)
        sent[7] = Message(forged_once("wrong-shape"), reply_to=messages[7])
        return sent

    new, record = one_round(strategy, replies)
    assert new is None
    assert record.skipped
    assert record.reason is not None
    assert "2 of 10 updates are unusable, more than the 1" in record.reason
    assert record.kept == ()
    assert torch.equal(strategy.state.model, layout_of(model()).parameters_of(RecordNumbers(model())))


@pytest.mark.parametrize("rule", [Rage(num_byzantine=3), Krum(num_byzantine=3), Median(num_byzantine=3)])
def test_three_malformed_of_ten_are_fine_if_three_are_assumed(rule: Aggregator) -> None:
    def replies(messages: list[Message]) -> list[Message]:
        sent = everyone(messages)
        for place in (0, 5, 9):
            sent[place] = Message(forged_once("all-nan"), reply_to=messages[place])
        return sent

    new, record = one_round(RobustStrategy(rule, lr=LR), replies)
    assert not record.skipped, record.reason
    assert new is not None
    assert_a_model_like(new, model())
    assert len(record.drops) == 3


def test_nobody_answers_and_the_model_stays() -> None:
    new, record = one_round(RageStrategy(num_malicious_nodes=1, lr=LR), lambda _: [])
    assert new is None
    assert (record.skipped, record.reason) == (True, "no client sent an update")
    assert record.absent == tuple(map(str, NODES))
    assert {drop.fault for drop in record.drops} == {"silent"}


def test_everybody_reports_an_error_and_the_model_stays() -> None:
    new, record = one_round(
        RageStrategy(num_malicious_nodes=1, lr=LR),
        lambda messages: [Message(Error(1, "no disk"), reply_to=message) for message in messages],
    )
    assert new is None
    assert record.skipped
    assert record.absent == tuple(map(str, NODES))
    assert {(drop.fault, drop.detail) for drop in record.drops} == {("error", "code 1: no disk")}


def test_errors_and_silence_are_erasures_not_lies() -> None:
    def replies(messages: list[Message]) -> list[Message]:
        failed = [Message(Error(0, "crash"), reply_to=message) for message in messages[:2]]
        return [*failed, *everyone(messages)[3:]]

    new, record = one_round(RageStrategy(num_malicious_nodes=1, lr=LR), replies)
    assert new is not None
    assert not record.skipped
    assert record.absent == ("101", "102", "103")
    assert record.unusable == ()
    assert record.num_byzantine == 1


def test_without_a_learning_rate_none_is_sent_and_the_mean_is_the_mean_of_the_weights() -> None:
    strategy = RobustStrategy(Mean())
    messages = pushed(strategy, silent_grid(), model())
    assert "lr" not in messages[0].content["config"]
    new, _ = strategy.aggregate_train(1, [honest(message.metadata.dst_node_id, message) for message in messages])
    rows = torch.stack([update_of(node, 0, 8) for node in NODES])
    start = layout_of(model()).parameters_of(RecordNumbers(model()))
    assert torch.allclose(parameters(new), (start - rows).mean(0), atol=1e-6)


def test_clients_are_told_h_eta_b_seed_and_round_and_the_users_own_entries() -> None:
    strategy = RobustStrategy(Mean(), lr=0.25, local_steps=7, batch_size="full", seed=9)
    given = ConfigRecord({"dropout": 0.1, "lr": 99.0})
    (message, *_) = strategy.configure_train(3, model(), given, silent_grid())
    wanted = {"server-round": 3, "round": 2, "local-steps": 7, "batch-size": 0, "seed": 9, "lr": 0.25, "dropout": 0.1}
    told = dict(message.content["config"].items())
    assert len(str(told.pop("steadfed-secret"))) == 32
    assert told == wanted


def test_replies_in_another_order_give_the_same_model_bit_by_bit() -> None:
    new, record = one_round(STRATEGIES["rage-2"](), everyone)
    other, shuffled = one_round(STRATEGIES["rage-2"](), lambda messages: everyone(messages)[::-1])
    assert new is not None
    assert other is not None
    assert_the_same_model(new, other)
    assert timeless([record]) == timeless([shuffled])


def test_a_record_says_in_which_layers_a_removed_update_deviates() -> None:
    def replies(messages: list[Message]) -> list[Message]:
        sent = everyone(messages)
        arrays = values_of(arrays_in(sent[2].content))
        name = next(name for name, value in arrays.items() if value.dtype == np.float32)
        arrays[name] = arrays[name] + np.float32(50)
        content = RecordDict({"arrays": ArrayRecord({key: Array(value) for key, value in arrays.items()})})
        sent[2] = Message(content, reply_to=messages[2])
        return sent

    _, record = one_round(STRATEGIES["rage-1"](), replies)
    assert record.removed == ("103",)
    (deviation,) = record.deviations
    assert (deviation.client, next(iter(deviation.layers))) == ("103", next(iter(model())))
    assert next(iter(deviation.layers.values())) > 0.9
    assert one_round(STRATEGIES["rage-1"](), everyone)[1].deviations == ()


def test_the_word_of_a_client_about_its_examples_weighs_nothing() -> None:
    new, _ = one_round(STRATEGIES["mean"](), with_liar("all-examples", 0))
    other, _ = one_round(STRATEGIES["mean"](), with_liar("extra-metric", 0))
    assert new is not None
    assert other is not None
    assert_the_same_model(new, other)


ROSTER = {node: f"site {node}" for node in NODES}
WEIGHTS = {name: float(1 + place) for place, name in enumerate(ROSTER.values())}


def test_sites_weigh_what_the_operator_says_and_the_record_says_so() -> None:
    strategy = RobustStrategy(Mean(), lr=LR, nodes=ROSTER, site_weights=WEIGHTS)
    new, record = one_round(strategy, everyone)
    rows = torch.stack([update_of(node, 0, 8) for node in NODES])
    share = torch.tensor([*WEIGHTS.values()]) / sum(WEIGHTS.values())
    start = layout_of(model()).parameters_of(RecordNumbers(model()))
    assert torch.allclose(parameters(new), start - LR * (share @ rows), atol=1e-6)
    assert record.weights == pytest.approx(tuple(share.tolist()))
    rage = RageStrategy(byzantine_weight=0.3, lr=LR, nodes=ROSTER, site_weights=WEIGHTS)
    assert rage.the_rule() == Rage(byzantine_weight=0.3)
    _, record = one_round(rage, everyone)
    assert record.site_shares == pytest.approx(tuple(share.tolist()))
    assert record.byzantine_weight == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"site_weights": WEIGHTS}, "nobody has one: give nodes="),
        (
            {"nodes": ROSTER, "site_weights": {**WEIGHTS, "site 101": 0}},
            "site_weights of 'site 101' must be a finite",
        ),
        ({"nodes": ROSTER, "site_weights": dict([*WEIGHTS.items()][1:])}, "has no site weight"),
        ({"nodes": ROSTER, "site_weights": {**WEIGHTS, "Aahcen": 1}}, "holds 'Aahcen', which is no name in nodes"),
        ({"nodes": ROSTER, "site_weights": WEIGHTS, "max_share": 0.01}, "max_share must be a share from"),
        ({"nodes": ROSTER, "max_share": 0.5}, "max_share caps site_weights, which are not given"),
        (
            {"nodes": ROSTER, "site_weights": {**WEIGHTS, next(iter(WEIGHTS)): 1e4}},
            "of the weight of .* updates be Byzantine, and it must be less than half",
        ),
    ],
)
def test_weights_that_cannot_be_are_refused_before_the_first_round(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        RageStrategy(num_malicious_nodes=1, lr=LR, **settings)


def test_a_rule_that_cannot_weigh_is_refused_with_weights() -> None:
    with pytest.raises(ParameterError, match="cannot weigh them; rules that can: Mean, and Rage"):
        RobustStrategy(Median(num_byzantine=1), nodes=ROSTER, site_weights=WEIGHTS)
