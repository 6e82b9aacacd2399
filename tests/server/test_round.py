"""The server's half of a round: the step by hand, what stays if there is none, the line that is written."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from steadfed.aggregators import Aggregation, Aggregator, FlTrust, Mean, Rage, Zeno
from steadfed.server._buffers import variance_columns
from steadfed.server._decision import Skipped
from steadfed.server._round import MessageBytes, Received, Server, round_record
from steadfed.server._state import ServerState

ROWS = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
VARIANCES = variance_columns([("running_mean", 1)])


def state() -> ServerState:
    return ServerState(3, torch.tensor([10.0, 20.0]), torch.tensor([1.0]), {"count": np.array(5)})


def received(rows: Tensor = ROWS) -> Received:
    buffers = torch.arange(float(len(rows)))[:, None]
    return Received(rows, tuple("abcdef"[: len(rows)]), buffers, tuple({"count": np.array(7)} for _ in rows))


def nothing() -> Tensor:
    raise AssertionError("it is not needed")


def played(server: Server, before: ServerState, rows: Tensor = ROWS) -> tuple[Aggregation | Skipped, ServerState]:
    view = server.view(before, asked=len(rows), sampled=True, trusted_row=nothing, trusted_loss=lambda _: 0.0)
    return server.conclude(before, received(rows), view, lr=0.5)


def test_the_step_is_x_minus_lr_times_the_update_and_buffers_are_medians() -> None:
    outcome, after = played(Server(Mean(), 0.0, VARIANCES), state())
    assert isinstance(outcome, Aggregation)
    assert after.model.tolist() == [9.0, 18.5]
    assert (after.round, after.velocity) == (4, None)
    assert (after.buffers.tolist(), after.counters["count"].tolist()) == ([0.5], 7)


def test_momentum_adds_up() -> None:
    server = Server(Mean(), 0.5, VARIANCES)
    _, first = played(server, state())
    _, second = played(server, first)
    assert first.velocity is not None
    assert second.velocity is not None
    assert second.velocity.tolist() == [3.0, 4.5]
    assert second.model.tolist() == [9.0 - 1.5, 18.5 - 2.25]


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_a_step_out_of_the_floats_is_refused_and_nothing_changes(momentum: float) -> None:
    before = ServerState(3, torch.tensor([3e38]), torch.zeros(1), velocity=torch.tensor([-3e38]) if momentum else None)
    rows = torch.full((3, 1), -1e18)
    server = Server(Mean(), momentum, VARIANCES)
    view = server.view(before, asked=3, sampled=True, trusted_row=nothing, trusted_loss=lambda _: 0.0)
    outcome, after = server.conclude(before, received(rows), view, lr=0.5 if momentum else 1e21)
    assert outcome == Skipped("the model would not be finite after this update", assumed=0)
    assert after.round == 4
    assert after.model is before.model
    assert after.velocity is before.velocity
    assert after.buffers is before.buffers


def test_a_skipped_round_changes_nothing_but_the_count() -> None:
    before = state()
    outcome, after = played(Server(Rage(num_byzantine=1), 0.9, VARIANCES), before)
    assert isinstance(outcome, Skipped)
    assert (after.round, after.velocity) == (4, None)
    assert after.model is before.model
    assert after.counters is before.counters


def test_a_rule_is_told_what_it_needs_and_how_many_were_asked() -> None:
    row = torch.tensor([1.0, 1.0])
    plain = Server(Mean(), 0.0, VARIANCES).view(
        state(), asked=9, sampled=True, trusted_row=nothing, trusted_loss=lambda _: 2.0
    )
    assert (plain.round, plain.cohort_size, plain.trusted_row, plain.trusted_loss) == (3, 9, None, None)
    trusting = Server(FlTrust(), 0.0, VARIANCES).view(
        state(), asked=0, sampled=True, trusted_row=lambda: row, trusted_loss=lambda _: 2.0
    )
    assert trusting.trusted_row is row
    assert trusting.cohort_size == 1
    zeno = Server(Zeno(num_byzantine=1), 0.0, VARIANCES)
    judging = zeno.view(state(), asked=4, sampled=True, trusted_row=nothing, trusted_loss=lambda _: 2.0)
    assert judging.trusted_loss is not None
    assert judging.trusted_loss(row) == 2.0


def test_the_line_says_who_was_asked_who_is_missing_and_what_was_sent() -> None:
    record = round_record(
        Skipped("why"),
        round=2,
        step=15,
        lr=0.1,
        cohort=["a", "b", "c"],
        received=("c",),
        message_bytes=MessageBytes(100, 100),
        byzantine=("a",),
    )
    assert (record.round, record.step, record.lr) == (2, 15, 0.1)
    assert (record.cohort, record.absent, record.received) == (("a", "b", "c"), ("a", "b"), ("c",))
    assert (record.bytes_down, record.bytes_up) == (300, 100)
    assert (record.skipped, record.reason, record.byzantine) == (True, "why", ("a",))


@pytest.mark.parametrize(
    ("rule", "spoiled"), [(Rage(num_byzantine=1), (0, 2)), (Mean(), (0, 1, 2)), (Rage(num_byzantine=2), (1,))], ids=repr
)
def test_a_skipped_round_says_whose_updates_were_unusable(rule: Aggregator, spoiled: tuple[int, ...]) -> None:
    """More than assumed, all of them, or some among rows that are too few anyway."""
    rows = torch.arange(6.0).reshape(3, 2)
    rows[list(spoiled)] = torch.nan
    outcome, _ = played(Server(rule, 0.0, VARIANCES), state(), rows)
    whose = tuple("abc"[place] for place in spoiled)
    assert isinstance(outcome, Skipped)
    assert outcome.unusable == whose
    record = round_record(
        outcome, round=2, step=15, lr=0.1, cohort="abc", received="abc", message_bytes=MessageBytes(100, 100)
    )
    assert (record.skipped, record.unusable) == (True, whose)
