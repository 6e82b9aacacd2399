"""What clients say of themselves is shown and never ends the run; the server's own scores stand in the records."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from flwr.app import Error, Message, MetricRecord, RecordDict
from tests.flower.federations import LR, NODES, honest, model
from tests.flower.grids import Clock, Reply, ScriptedGrid

from steadfed.aggregators import Aggregator, Krum, Mean, NearestNeighborMixing, Rage
from steadfed.flower import _logs
from steadfed.flower._logs import RoundLog, rule_table
from steadfed.flower._metrics import MOST_METRICS
from steadfed.flower._reports import common_record, figures, metrics_of, scores_of
from steadfed.flower._strategies import RobustStrategy
from steadfed.reports import report_of, write_tables
from steadfed.server._folder import RunFolder
from steadfed.server._history import RunHistory
from steadfed.server._record import DroppedReply, RoundRecord

NAN, INF = math.nan, math.inf


pytestmark = pytest.mark.usefixtures("clock")


def saying(**said: Any) -> Callable[[int, Message], Reply]:
    """Return nodes of which the first says something else of itself, in training and in evaluation."""

    def answer(node: int, message: Message) -> Reply:
        metrics = MetricRecord(said if node == NODES[0] else {"loss": 0.5, "num-examples": 10})
        if message.metadata.message_type == "evaluate":
            return Message(RecordDict({"metrics": metrics}), reply_to=message)
        reply = honest(node, message)
        reply.content["metrics"] = metrics
        return reply

    return answer


def started(answer: Callable[[int, Message], Reply], clock: Clock, **settings: Any) -> tuple[Any, RobustStrategy]:
    evaluate_fn = settings.pop("evaluate_fn", None)
    strategy = RobustStrategy(Mean(), lr=LR, **settings)
    grid = ScriptedGrid(answer, NODES, clock=clock)
    return strategy.start(grid, model(), num_rounds=2, timeout=9, evaluate_fn=evaluate_fn), strategy


LIES: list[dict[str, Any]] = [
    {"loss": NAN, "num-examples": NAN},
    {"loss": INF},
    {"loss": -1e308, "num-examples": 2**62},
    {"loss": [1.0, NAN], "num-examples": [1]},
    {"loss": []},
    {},
    {"loss": 1.0, "accuracy": 1.0, "steadfed-skipped": 1},
]


@pytest.mark.parametrize("said", LIES)
def test_one_liar_moves_no_metric(said: dict[str, Any], clock: Clock, tmp_path: Path) -> None:
    result, strategy = started(saying(**said), clock, run_folder=tmp_path)
    for number in (1, 2):
        assert result.train_metrics_clientapp[number]["loss"] == 0.5
        assert result.evaluate_metrics_clientapp[number]["loss"] == 0.5
        assert result.train_metrics_clientapp[number]["steadfed-skipped"] == 0
    for record in strategy.records:
        assert record.metrics["train/loss"] == 0.5
        assert record.metrics["evaluate/loss"] == 0.5
        assert len(record.kept) == 10
    assert list(RunFolder.open(tmp_path).records()) == strategy.records


def test_a_users_function_is_not_shown_the_secrets_of_replies() -> None:
    contents = [RecordDict({"metrics": MetricRecord({"loss": 0.5, "steadfed-secret": [each]})}) for each in (1, 2)]
    shown: list[RecordDict] = []

    def combine(given: list[RecordDict], _key: str) -> MetricRecord:
        shown.extend(given)
        return MetricRecord({"clients": len(given)})

    assert dict(common_record([], contents, combine, "num-examples")) == {"clients": 2}
    assert [dict(content["metrics"]) for content in shown] == [{"loss": 0.5}] * 2


def raising(_contents: list[RecordDict], _key: str) -> MetricRecord:
    raise ZeroDivisionError("one client's words")


def weighted(contents: list[RecordDict], key: str) -> MetricRecord:
    """Average as many users do: NaN in, NaN out."""
    total = sum(float(content["metrics"][key]) for content in contents)  # type: ignore[arg-type, misc]
    losses = [float(content["metrics"]["loss"]) for content in contents]  # type: ignore[arg-type]
    return MetricRecord({"mean": sum(losses) / total, "losses": losses})


STRANGE: list[Callable[..., Any]] = [
    raising,
    lambda _contents, _key: None,
    lambda _contents, _key: {"loss": 1.0},
    lambda _contents, _key: MetricRecord({"huge": 10**400}),
]


@pytest.mark.parametrize("combine", STRANGE)
def test_a_function_for_metrics_that_fails_ends_nothing(combine: Any, clock: Clock, tmp_path: Path) -> None:
    functions = {"train_metrics_aggr_fn": combine, "evaluate_metrics_aggr_fn": combine}
    result, strategy = started(saying(loss=0.5), clock, run_folder=tmp_path, **functions)
    assert len(strategy.records) == 2
    if combine is not STRANGE[-1]:
        assert result.train_metrics_clientapp[1]["loss"] == 0.5
        assert strategy.records[0].metrics["evaluate/loss"] == 0.5


def test_a_function_for_metrics_that_says_nan_ends_nothing(clock: Clock, tmp_path: Path) -> None:
    said = {"loss": NAN, "num-examples": NAN}
    functions = {"train_metrics_aggr_fn": weighted, "evaluate_metrics_aggr_fn": weighted}
    _, strategy = started(saying(**said), clock, run_folder=tmp_path, **functions)
    for record in (*strategy.records, *RunFolder.open(tmp_path).records()):
        assert record.metrics["train/mean"] is None
        assert record.metrics["evaluate/mean"] is None


def test_the_users_function_sees_records_without_arrays_and_its_word_counts(clock: Clock) -> None:
    def combine(contents: list[RecordDict], key: str) -> MetricRecord:
        assert key == "weight"
        assert all(not content.array_records for content in contents)
        return MetricRecord({"clients": len(contents)})

    result, strategy = started(saying(loss=1.0), clock, train_metrics_aggr_fn=combine, weighted_by_key="weight")
    assert result.train_metrics_clientapp[1]["clients"] == 10
    assert strategy.records[0].metrics["train/clients"] == 10


def test_the_servers_own_scores_stand_in_the_record(clock: Clock, tmp_path: Path) -> None:
    def evaluate(server_round: int, _arrays: Any) -> MetricRecord:
        return MetricRecord({"accuracy": server_round / 10, "loss": 1.0, "train-loss": 2.0, "f1": 0.3})

    result, strategy = started(saying(loss=1.0), clock, evaluate_fn=evaluate, run_folder=tmp_path)
    assert [record.test_accuracy for record in strategy.records] == [0.1, 0.2]
    assert strategy.records[0].test_loss == 1.0
    assert strategy.records[0].train_loss == 2.0
    assert strategy.records[0].metrics["server/f1"] == 0.3
    assert sorted(result.evaluate_metrics_serverapp) == [0, 1, 2]
    assert list(RunFolder.open(tmp_path).records()) == strategy.records


@pytest.mark.parametrize("value", [NAN, INF, -INF])
def test_a_score_that_is_not_finite_is_none_in_the_record_and_ends_nothing(
    value: float, clock: Clock, tmp_path: Path
) -> None:
    def evaluate(_round: int, _arrays: Any) -> MetricRecord:
        return MetricRecord({"loss": value, "accuracy": 0.5, "other": value})

    _, strategy = started(saying(loss=1.0), clock, evaluate_fn=evaluate, run_folder=tmp_path)
    for record in (*strategy.records, *RunFolder.open(tmp_path).records()):
        assert record.test_loss is None
        assert record.test_accuracy == 0.5
        assert record.metrics["server/other"] is None


def test_nobody_evaluates_and_the_run_goes_on(clock: Clock) -> None:
    def answer(node: int, message: Message) -> Reply:
        if message.metadata.message_type == "evaluate":
            return None if node % 2 else Message(Error(1, "no"), reply_to=message)
        return honest(node, message)

    result, strategy = started(answer, clock)
    assert result.evaluate_metrics_clientapp == {}
    assert all("evaluate/loss" not in record.metrics for record in strategy.records)


def test_evaluations_of_strangers_and_second_ones_are_not_heard(clock: Clock) -> None:
    def answer(node: int, message: Message) -> Reply:
        if message.metadata.message_type != "evaluate":
            return honest(node, message)
        good = Message(RecordDict({"metrics": MetricRecord({"loss": 1.0})}), reply_to=message)
        bad = [Message(RecordDict({"metrics": MetricRecord({"loss": 99.0})}), reply_to=message) for _ in range(30)]
        return [good, *bad] if node == NODES[0] else good

    result, _ = started(answer, clock)
    assert result.evaluate_metrics_clientapp[1]["loss"] == 1.0


def test_figures_are_single_numbers_under_a_prefix() -> None:
    assert figures(MetricRecord({"a": 1, "b": 0.5, "c": [1.0]}), "x/") == {"x/a": 1.0, "x/b": 0.5}


def test_of_two_names_for_a_score_the_plainer_counts() -> None:
    assert scores_of(MetricRecord({"acc": 0.1, "test_accuracy": 0.9})) == {"test_accuracy": 0.9}
    assert scores_of(None) == {}


def test_the_median_stands_where_no_function_is_given() -> None:
    said = [{"loss": 1.0}, {"loss": 2.0}, {"loss": 900.0}]
    assert dict(common_record(said, [], None, "num-examples")) == {"loss": 2.0}


ESCAPED = "loss\x1b[2J\u202e"
"""A name of a metric that a client chose: it would clear a screen and turn a line around."""


def passing_on(contents: list[RecordDict], _key: str) -> MetricRecord:
    """Hand on whatever names the clients chose, as many users do."""
    return MetricRecord({name: 1.0 for content in contents for name in content["metrics"]})


def test_names_of_metrics_that_a_users_function_hands_on_do_nothing(clock: Clock, tmp_path: Path) -> None:
    functions = {"train_metrics_aggr_fn": passing_on, "evaluate_metrics_aggr_fn": passing_on}
    result, strategy = started(saying(**{ESCAPED: 1.0, "x" * 5000: 1.0}), clock, run_folder=tmp_path, **functions)
    names = [*strategy.records[0].metrics, *result.train_metrics_clientapp[1], *RunHistory(tmp_path).columns]
    assert "train/loss\\x1b[2J\\u202e" in names
    assert "evaluate/loss\\x1b[2J\\u202e" in names
    for name in names:
        assert name.isprintable()
        assert len(name) <= 150
    write_tables(report_of([RunHistory(tmp_path)], guarantee=False), tmp_path / "csv")
    for file in (tmp_path / "csv").iterdir():
        assert "\x1b" not in file.read_text(encoding="utf-8")


def test_a_users_function_cannot_be_made_to_return_any_number_of_metrics(clock: Clock) -> None:
    def many(_contents: list[RecordDict], _key: str) -> MetricRecord:
        return MetricRecord({f"m{number}": 1.0 for number in range(5000)})

    _, strategy = started(saying(loss=1.0), clock, train_metrics_aggr_fn=many)
    assert len([name for name in strategy.records[0].metrics if name.startswith("train/")]) == MOST_METRICS


def logged(record: RoundRecord, rule: Aggregator, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the lines of the log about a round."""
    lines: list[str] = []
    monkeypatch.setattr(_logs, "log", lambda _level, text, *facts: lines.append(text % facts))
    RoundLog(rule).add(record)
    return lines


def test_the_log_names_who_was_removed_and_who_was_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("Barcelona", "Jena", "Gera", "Ulm", "Bonn", "Erfurt\x1b", "Kiel")
    drops = (DroppedReply(client="Erfurt\x1b", fault="silent", detail="no reply within 60 s"),)
    record = RoundRecord(
        round=0,
        step=1,
        lr=0.1,
        cohort=names,
        received=names[:5],
        weights=(0.0, 0.25, 0.25, 0.25, 0.25),
        scores=(1681.0, 1.0, 1.0, 1.0, 1.0),
        kept=names[1:5],
        num_byzantine=1,
        drops=drops,
    )
    assert logged(record, Rage(num_byzantine=1), monkeypatch) == [
        "aggregate_train: 4 kept, 1 removed, 2 absent of 7 asked",
        "\t> removed: Barcelona (41 standard deviations)",
        "\t> silent: Erfurt\\x1b, Kiel",
        "\t> Erfurt\\x1b: silent: 'no reply within 60 s'",
        (
            "\t> 2 of 7 were silent: Erfurt\\x1b, Kiel; more than the 1 client assumed to be Byzantine "
            "(f/n = 1/5 = 20 % of those who replied)"
        ),
    ]


def test_the_log_says_how_often_rounds_of_before_an_interruption_included(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    monkeypatch.setattr(_logs, "log", lambda _level, text, *facts: lines.append(text % facts))
    names = ("Barcelona", "Jena", "Ulm")
    facts = {"weights": (0.0, 0.5, 0.5), "scores": (1681.0, 1.0, 1.0), "kept": names[1:]}
    record = RoundRecord(round=2, step=3, lr=0.1, cohort=names, received=names, **facts)
    RoundLog(Rage(num_byzantine=1), before=[record, record]).add(record)
    assert "\t> removed: Barcelona (41 standard deviations, 3rd time)" in lines


def test_few_nodes_are_told_once_what_can_be_promised(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    monkeypatch.setattr(_logs, "log", lambda _level, text, *facts: lines.append(text % facts))
    told = RoundLog(Rage(num_byzantine=1))
    told.asking(5, 5)
    assert lines[0] == "configure_train: asking 5 of 5 nodes"
    assert any("updates far from the others are removed" in line for line in lines)
    assert lines[-1].startswith("\t> K = 5 < 6: ")
    lines.clear()
    told.asking(5, 6)
    told.asking(11, 11)
    assert lines == ["configure_train: asking 5 of 6 nodes", "configure_train: asking 11 of 11 nodes"]


def test_rules_inside_and_rules_of_ones_own_have_names_for_the_log() -> None:
    assert rule_table(NearestNeighborMixing(rule=Krum(num_byzantine=1))) == {"name": "nnm", "rule": {"name": "krum"}}


def test_a_strategy_warns_of_too_much_silence(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    monkeypatch.setattr(_logs, "log", lambda _level, text, *facts: lines.append(text % facts))

    def answer(node: int, message: Message) -> Reply:
        return None if node in NODES[:3] else honest(node, message)

    strategy = RobustStrategy(Rage(num_byzantine=2), lr=LR)
    strategy.start(ScriptedGrid(answer, NODES, clock=clock), model(), num_rounds=1, timeout=9)
    assert not strategy.records[0].skipped
    (warned,) = [line for line in lines if "more than the 2 clients assumed to be Byzantine" in line]
    assert f"3 of 10 were silent: {', '.join(map(str, NODES[:3]))}" in warned
    assert "f/n = 2/7 = 29 % of those who replied" in warned


def test_a_metric_of_the_servers_own_evaluation_is_known_by_its_name() -> None:
    said = MetricRecord({"balanced-accuracy": 0.5, "test_auroc": 0.7, "loss": 0.1, "accuracy": 0.9, "mine": 3.0})
    assert metrics_of(said) == {"auroc": 0.7, "balanced_accuracy": 0.5}
    assert metrics_of(None) == {}
