"""A SuperLink that fails: rounds are tried again, skipped and written down; the server app ends only if it must."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from flwr.app import ArrayRecord, ConfigRecord, Message
from flwr.proto.log_pb2 import PushLogsRequest
from flwr.proto.runtime_pb2 import SendTaskHeartbeatRequest
from flwr.serverapp.strategy import FedAvg, Result
from flwr.supercore.run import RunNotRunningException
from flwr.supercore.runtime import RuntimeHttpClient
from tests.flower.federations import LR, NODES, config_in, either, honest, model, round_in
from tests.flower.grids import Clock, ScriptedGrid
from tests.flower.superlinks import SuperLink

from steadfed.aggregators import Mean
from steadfed.errors import RunError
from steadfed.flower import RobustStrategy
from steadfed.flower._guarded import GuardedStrategy
from steadfed.flower._link import LONGEST_ABSENCE, MOST_LOST, PAUSES, RESTS, bounded_patience
from steadfed.server._folder import RunFolder

pytestmark = pytest.mark.usefixtures("clock")


def failing(status: int = 500) -> httpx.HTTPStatusError:
    request = httpx.Request("POST", "http://superlink/v1/runtime")
    return httpx.HTTPStatusError("x", request=request, response=httpx.Response(status, request=request))


TRIES = len(PAUSES) + 1


def played(grid: ScriptedGrid, folder: Path | None = None, *, rounds: int = 3, **settings: Any) -> RobustStrategy:
    options = {"lr": LR, "fraction_evaluate": 0.0, "run_folder": folder} | settings
    strategy = RobustStrategy(Mean(), **options)
    strategy.start(grid, model(), num_rounds=rounds, timeout=30)
    return strategy


def trouble(method: str, after: int, times: int, error: Exception, clock: Clock) -> ScriptedGrid:
    """Return a grid around which the SuperLink fails so often from the n-th use of a method on."""
    grid = ScriptedGrid(either(honest), NODES, clock=clock, wired=False)
    grid.failures[method] = [*[None] * after, *[error] * times]
    return grid


@pytest.mark.parametrize("error", [failing(500), failing(404), ValueError("Invalid message"), httpx.ConnectError("x")])
@pytest.mark.parametrize("method", ["push_messages", "get_node_ids"])
def test_a_failure_that_passes_costs_no_round(method: str, error: Exception, clock: Clock) -> None:
    strategy = played(trouble(method, 1, TRIES - 1, error, clock))
    assert [record.skipped for record in strategy.records] == [False] * 3


@pytest.mark.parametrize("method", ["push_messages", "get_node_ids"])
def test_a_round_that_cannot_be_played_is_skipped_with_the_reason_and_written_down(
    method: str, clock: Clock, tmp_path: Path
) -> None:
    spared = {"push_messages": 1, "get_node_ids": 2}[method]  # the folder is made for the nodes that are online
    played(trouble(method, spared, TRIES, failing(), clock), tmp_path / "run")
    first, second, third = RunFolder.open(tmp_path / "run").records()
    assert (first.skipped, second.skipped, third.skipped) == (False, True, False)
    assert re.search("failed 5 times within 2 minutes .*HTTPStatusError", str(second.reason))
    assert (second.round, second.cohort, second.received, second.drops, second.bytes_down) == (1, (), (), (), 0)
    assert (third.round, len(third.received)) == (2, len(NODES))


def test_what_the_superlink_says_stands_on_one_line_of_the_record(clock: Clock) -> None:
    error = ValueError("one\n\x1b[2Jtwo")
    records = played(trouble("push_messages", 0, TRIES, error, clock), rounds=1).records
    assert str(records[0].reason).endswith("ValueError: one  [2Jtwo")


def test_a_superlink_that_goes_while_replies_are_waited_for_costs_the_round_and_nobody_is_blamed(clock: Clock) -> None:
    grid = trouble("pull_messages", 3, 1, failing(), clock)
    grid.failures["get_node_ids"] = [None, *[failing()] * TRIES]
    strategy = played(grid)
    assert [record.skipped for record in strategy.records] == [True, False, False]
    assert strategy.records[0].drops == ()


def test_the_model_of_a_lost_round_is_that_of_the_round_before(clock: Clock) -> None:
    strategy = RobustStrategy(Mean(), lr=LR, fraction_evaluate=0.0)
    seen: list[list[float]] = []

    def look(_round: int, arrays: ArrayRecord) -> None:
        seen.append(arrays["weight"].numpy().ravel().tolist())

    grid = trouble("push_messages", 1, TRIES, failing(), clock)
    strategy.start(grid, model(), num_rounds=3, timeout=30, evaluate_fn=look)
    assert seen[0] != seen[1] == seen[2] != seen[3]


def test_messages_that_were_refused_are_sent_with_other_secrets(clock: Clock) -> None:
    tried: list[set[str]] = []
    grid = ScriptedGrid(either(honest), NODES, clock=clock, wired=False)

    def refuse_the_first(messages: list[Message]) -> None:
        tried.append({config_in(message).object_id for message in messages})
        if len(tried) == 1:
            raise failing()

    grid.watch = refuse_the_first
    strategy = played(grid, rounds=1)
    assert not tried[0] & tried[1]
    assert len(strategy.records[0].received) == len(NODES)


def test_an_evaluation_that_the_superlink_makes_impossible_is_left_out(clock: Clock) -> None:
    grid = trouble("push_messages", 1, TRIES, failing(), clock)
    strategy = played(grid, fraction_evaluate=1.0, rounds=2)
    assert [record.skipped for record in strategy.records] == [False, False]
    assert "evaluate/loss" not in strategy.records[0].metrics
    assert "evaluate/loss" in strategy.records[1].metrics


def test_many_rounds_lost_in_a_row_end_the_run_and_what_was_written_is_continued(clock: Clock, tmp_path: Path) -> None:
    rounds = MOST_LOST + 3
    with pytest.raises(RunError, match=r"5 rounds in a row .*start the run again with the same folder"):
        played(trouble("push_messages", 1, 10**6, failing(), clock), tmp_path / "run", rounds=rounds)
    assert clock.naps == [nap for rest in (*RESTS, None) for nap in (*PAUSES, *([] if rest is None else [rest]))]
    found = list(RunFolder.open(tmp_path / "run").records())
    assert [record.skipped for record in found] == [False, *[True] * MOST_LOST]
    healthy = ScriptedGrid(either(honest), NODES, clock=clock, wired=False)
    assert len(played(healthy, tmp_path / "run", rounds=rounds).records) == rounds


def test_lost_rounds_that_do_not_follow_each_other_end_nothing(clock: Clock) -> None:
    grid = ScriptedGrid(either(honest), NODES, clock=clock, wired=False)

    def refuse_every_second_round(messages: list[Message]) -> None:
        if round_in(messages[0]) % 2:
            raise failing()

    grid.watch = refuse_every_second_round
    records = played(grid, rounds=4 * MOST_LOST).records
    assert [record.skipped for record in records] == [False, True] * (2 * MOST_LOST)


@pytest.mark.parametrize("method", ["push_messages", "get_node_ids", "pull_messages"])
@pytest.mark.parametrize("stop", [RunNotRunningException(), KeyboardInterrupt(), SystemExit()])
def test_a_run_that_the_operator_stops_ends(method: str, stop: BaseException, clock: Clock) -> None:
    grid = ScriptedGrid(either(honest), NODES, clock=clock, wired=False)
    grid.failures[method] = stop
    with pytest.raises(type(stop)):
        played(grid)
    assert clock.naps == []


def guarded(grid: ScriptedGrid, rounds: int = 3) -> Result:
    strategy = GuardedStrategy(FedAvg(min_train_nodes=2, fraction_evaluate=1.0))
    return strategy.start(grid, model(), num_rounds=rounds, timeout=30, train_config=ConfigRecord({"lr": LR}))


@pytest.mark.parametrize("method", ["push_messages", "get_node_ids"])
def test_flowers_own_strategies_skip_a_round_that_cannot_be_played(method: str, clock: Clock) -> None:
    spared = {"push_messages": 2, "get_node_ids": 4}[method]  # training and evaluation of the first round
    result = guarded(trouble(method, spared, TRIES, failing(), clock))
    assert sorted(result.train_metrics_clientapp) == [1, 3]
    assert sorted(result.evaluate_metrics_clientapp) == [1, 3]


def test_flowers_own_strategies_go_on_after_a_failure_that_passes(clock: Clock) -> None:
    result = guarded(trouble("push_messages", 1, 2, failing(), clock))
    assert sorted(result.train_metrics_clientapp) == sorted(result.evaluate_metrics_clientapp) == [1, 2, 3]


def test_flowers_own_strategies_do_without_an_evaluation(clock: Clock) -> None:
    result = guarded(trouble("push_messages", 1, TRIES, failing(), clock))
    assert sorted(result.train_metrics_clientapp) == [1, 2, 3]
    assert sorted(result.evaluate_metrics_clientapp) == [2, 3]


def test_flowers_own_strategies_end_after_many_lost_rounds(clock: Clock) -> None:
    with pytest.raises(RunError, match="5 rounds in a row"):
        guarded(trouble("push_messages", 0, 10**6, failing(), clock), rounds=MOST_LOST + 1)


def test_flower_gives_up_a_superlink_that_is_away_and_is_as_before_afterwards() -> None:
    grid = SuperLink().grid()
    retries = grid._retry_invoker  # noqa: SLF001
    with bounded_patience(grid):
        assert retries.max_time == LONGEST_ABSENCE
    assert retries.max_time is None


@pytest.fixture
def broken_client() -> Iterator[RuntimeHttpClient]:
    client = RuntimeHttpClient("http://superlink")
    transport = httpx.MockTransport(lambda request: httpx.Response(500, request=request))
    client._client = httpx.Client(transport=transport)  # noqa: SLF001
    yield client
    client.close()


def test_flowers_own_threads_take_an_error_in_the_superlink_for_a_lost_connection(
    broken_client: RuntimeHttpClient,
) -> None:
    calls = {"SendTaskHeartbeat": SendTaskHeartbeatRequest(), "PushLogs": PushLogsRequest()}
    for name, request in calls.items():
        with bounded_patience(SuperLink().grid()), pytest.raises(httpx.TransportError):
            getattr(broken_client, name)(request)
        with pytest.raises(httpx.HTTPStatusError):
            getattr(broken_client, name)(request)
