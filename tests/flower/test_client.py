"""A client takes the steps of the simulator, and does not trust the server blindly."""

from __future__ import annotations

import copy
import itertools
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp.strategy.strategy_utils import aggregate_metricrecords
from flwr.supercore.task_identity import TaskIdentity
from tests.flower.keys import trusting
from tests.simulation.engines.tasks import batch_norm, chunk_of, mlp, one_output, softmax, start_of, task_of
from torch import Tensor, nn

from steadfed.errors import ParameterError
from steadfed.flower._metrics import scalars_of
from steadfed.flower.client import (
    ClientLimits,
    SeededBatches,
    count_correct,
    evaluate_reply,
    local_steps,
    receive,
    reply_digest,
    train_reply,
)
from steadfed.models._losses import Logistic, Loss
from steadfed.simulation._batches import batches
from steadfed.simulation._engines.loop import LoopEngine

CONFIG: dict[str, Any] = {"server-round": 4, "round": 3, "local-steps": 5, "lr": 0.05, "batch-size": 8, "seed": 1}


@pytest.fixture(autouse=True)
def _identity(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


def message_of(model: nn.Module, config: dict[str, Any] | None = None, kind: str = "train") -> Message:
    records = {"arrays": ArrayRecord(model.state_dict()), "config": ConfigRecord(CONFIG if config is None else config)}
    return Message(RecordDict(records), dst_node_id=7, message_type=kind)  # type: ignore[arg-type]


def points(number: int = 6) -> tuple[Tensor, Tensor]:
    return torch.eye(4).repeat(number, 1)[:number], torch.arange(4).repeat(number)[:number]


@pytest.mark.parametrize("client", [2, 3])
@pytest.mark.parametrize("batch_size", [8, 64, "full"])
@pytest.mark.parametrize(
    ("architecture", "l2", "loss"),
    [(softmax, 0.0, None), (softmax, 0.1, None), (mlp, 0.0, None), (mlp, 0.1, None), (one_output, 0.1, Logistic())],
)
def test_the_steps_are_those_of_the_simulators_engine(
    architecture: Callable[[], nn.Module], l2: float, loss: Loss | None, batch_size: Any, client: int
) -> None:
    task = task_of(architecture(), loss=loss, l2=l2, dtype=torch.float32, batch_size=batch_size)
    model = copy.deepcopy(task.module)
    rows, _ = start_of(task, 1)
    x = rows.clone()
    LoopEngine(task).train(rows, chunk_of(task, [client], number=3))
    mine = torch.from_numpy(task.data.shares.points(client))
    seeded = SeededBatches(task.data.features[mine], task.data.labels[mine], client=client)
    config = CONFIG | {"batch-size": 0 if batch_size == "full" else batch_size}
    local_steps(model, seeded.batches_for(config), config, task.loss.mean, l2=l2)
    update, expected = (x - task.layout.parameters_of(model, torch.float32)) / 0.05, (x - rows) / 0.05
    assert float((update - expected).norm()) <= 1e-6 * float(expected.norm())
    assert float(expected.norm()) > 0.0


def test_a_client_with_fewer_points_than_a_batch_draws_all_of_them() -> None:
    drawn = list(SeededBatches(*points(3), client=5).batches_for(CONFIG | {"batch-size": 32}))
    assert [sorted(labels.tolist()) for _, labels in drawn] == [[0, 1, 2]] * 5


def test_batches_are_those_of_the_simulator_and_change_with_seed_round_and_client() -> None:
    labels = torch.arange(100)
    drawn = torch.stack([each for _, each in SeededBatches(labels, labels, client=9).batches_for(CONFIG)])
    expected = batches(1, 3, np.array([9]), np.array([100]), steps=5, batch_size=8)[0]
    assert drawn.tolist() == expected.tolist()
    others = [CONFIG | {"seed": 2}, CONFIG | {"round": 4}]
    for config in others:
        again = torch.stack([each for _, each in SeededBatches(labels, labels, client=9).batches_for(config)])
        assert again.tolist() != expected.tolist()
    other = torch.stack([each for _, each in SeededBatches(labels, labels, client=8).batches_for(CONFIG)])
    assert other.tolist() != expected.tolist()


def test_a_loader_that_is_too_short_is_started_again() -> None:
    seen: list[float] = []

    class Loader:
        def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
            for value in (1.0, 2.0):
                seen.append(value)
                yield torch.full((1, 1), value), torch.zeros(1, 1)

    model = nn.Linear(1, 1)
    local_steps(
        model, Loader(), CONFIG | {"local-steps": 5}, lambda outputs, labels: (outputs - labels).square().mean()
    )
    assert seen == [1.0, 2.0, 1.0, 2.0, 1.0]


def test_more_batches_than_steps_are_left() -> None:
    endless = itertools.repeat(points())
    local_steps(nn.Linear(4, 4), endless, CONFIG)
    rest = iter([points()] * 7)
    local_steps(nn.Linear(4, 4), rest, CONFIG)
    assert len(list(rest)) == 2


def test_a_generator_that_ends_too_early_is_refused() -> None:
    with pytest.raises(ParameterError, match="asks for 5 batches, got 2; pass at least one, and what can be gone"):
        local_steps(nn.Linear(4, 4), (points() for _ in range(2)), CONFIG)
    with pytest.raises(ParameterError, match="asks for 5 batches, got 0"):
        local_steps(nn.Linear(4, 4), [], CONFIG)


def test_what_is_frozen_stays_and_buffers_move() -> None:
    model = batch_norm()
    first = next(model.parameters()).requires_grad_(False)
    before, mean = first.clone(), model.state_dict()["1.running_mean"].clone()
    local_steps(model, [(torch.randn(8, 12, generator=torch.Generator()), torch.zeros(8, dtype=torch.int64))], CONFIG)
    assert torch.equal(first, before)
    assert not torch.equal(model.state_dict()["1.running_mean"], mean)
    assert model.training


def test_a_model_without_anything_to_train_is_refused() -> None:
    with pytest.raises(ParameterError, match="must have a parameter that requires a gradient"):
        local_steps(nn.Flatten(), [points()], CONFIG)


@pytest.mark.parametrize("value", [0, -1, 1001, 2.0, True, "5", None])
def test_a_number_of_steps_out_of_range_is_refused(value: Any) -> None:
    with pytest.raises(ParameterError, match=r"'local-steps' must be a whole number in 1 \.\. 1000, got"):
        local_steps(nn.Linear(4, 4), [points()], CONFIG | {"local-steps": value})


@pytest.mark.parametrize("value", [0.0, -0.1, 1e9, float("nan"), float("inf"), True, "0.1"])
def test_a_step_size_out_of_range_is_refused(value: Any) -> None:
    with pytest.raises(ParameterError, match=r"'lr' must be a number above 0 and at most 100.0, got"):
        local_steps(nn.Linear(4, 4), [points()], CONFIG | {"lr": value})


@pytest.mark.parametrize("key", ["local-steps", "lr", "batch-size", "seed", "round"])
def test_a_missing_value_is_named(key: str) -> None:
    config = {name: value for name, value in CONFIG.items() if name != key}
    with pytest.raises(ParameterError, match=f"'{key}' must be .* got nothing"):
        local_steps(nn.Linear(4, 4), SeededBatches(*points(), client=0).batches_for(config), config)


def test_a_refusal_leaves_the_model_as_it_was() -> None:
    model = nn.Linear(4, 4)
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(ParameterError):
        local_steps(model, [points()], CONFIG | {"lr": -1.0})
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_the_operator_of_a_client_sets_its_limits() -> None:
    limits = ClientLimits(steps=4, lr=0.01)
    with pytest.raises(ParameterError, match=r"1 \.\. 4, got 5"):
        local_steps(nn.Linear(4, 4), [points()], CONFIG, limits=limits)
    with pytest.raises(ParameterError, match=r"at most 0.01, got 0.05"):
        local_steps(nn.Linear(4, 4), [points()], CONFIG | {"local-steps": 4}, limits=limits)
    with pytest.raises(ParameterError, match=r"1 \.\. 4, got 5"):
        SeededBatches(*points(), client=0).batches_for(CONFIG, limits=limits)


def test_a_server_cannot_make_a_client_run_out_of_memory() -> None:
    seeded = SeededBatches(torch.zeros(2000), torch.zeros(2000), client=0)
    limits = ClientLimits(steps=100_000)
    with pytest.raises(ParameterError, match="times the client's 2000 points must be at most 134217728"):
        seeded.batches_for(CONFIG | {"local-steps": 100_000}, limits=limits)
    all_points = seeded.batches_for(CONFIG | {"local-steps": 100_000, "batch-size": 0}, limits=limits)
    assert sum(1 for _ in all_points) == 100_000


@pytest.mark.parametrize("client", [-1, True, "3", 2**63, None])
def test_a_client_is_a_number(client: Any) -> None:
    with pytest.raises(ParameterError, match="'client' must be a whole number"):
        SeededBatches(*points(), client=client)


def test_a_client_has_points_and_their_labels() -> None:
    with pytest.raises(ParameterError, match="got 6 and 5"):
        SeededBatches(points()[0], points(5)[1], client=0)
    with pytest.raises(ParameterError, match="got 0 and 0"):
        SeededBatches(*points(0), client=0)


def test_receiving_loads_the_model_and_returns_the_config() -> None:
    sent, own = nn.Linear(4, 4), nn.Linear(4, 4)
    assert receive(message_of(sent), own, trusting()) == CONFIG
    assert torch.equal(own.weight, sent.weight)
    assert torch.equal(own.bias, sent.bias)


@pytest.mark.parametrize("other", [nn.Linear(4, 3), nn.Linear(4, 4, bias=False), nn.Sequential(nn.Linear(4, 4))])
def test_arrays_of_another_model_are_refused(other: nn.Module) -> None:
    with pytest.raises(ParameterError, match="must be those of the model's state_dict"):
        receive(message_of(other), nn.Linear(4, 4), trusting())


def test_arrays_that_are_no_arrays_are_refused() -> None:
    message = message_of(nn.Linear(4, 4))
    arrays = {"weight": Array("float32", (4, 4), "numpy.ndarray", b"no array"), "bias": Array(np.zeros(4, np.float32))}
    message.content["arrays"] = ArrayRecord(arrays)
    with pytest.raises(ParameterError, match="must be those of the model's state_dict"):
        receive(message, nn.Linear(4, 4), trusting())


def test_a_message_without_arrays_or_config_is_refused() -> None:
    message = Message(RecordDict({"config": ConfigRecord(CONFIG)}), dst_node_id=7, message_type="train")
    with pytest.raises(ParameterError, match=r"must hold an ArrayRecord 'arrays' .* got \{'config': 'ConfigRecord'\}"):
        receive(message, nn.Linear(4, 4), trusting())


def test_other_keys_are_taken_where_the_server_uses_them() -> None:
    sent, own = nn.Linear(4, 4), nn.Linear(4, 4)
    records = {"weights": ArrayRecord(sent.state_dict()), "settings": ConfigRecord({"lr": 1.0})}
    message = Message(RecordDict(records), dst_node_id=7, message_type="train")  # type: ignore[arg-type]
    assert receive(message, own, trusting(), arrays_key="weights", config_key="settings") == {"lr": 1.0}
    assert torch.equal(own.weight, sent.weight)


def test_a_reply_holds_the_model_and_its_metrics() -> None:
    model = batch_norm()
    reply = train_reply(message_of(model), model, num_examples=np.int64(12), metrics={"loss": 0.5})  # type: ignore[arg-type]
    arrays, metrics = reply.content["arrays"], reply.content["metrics"]
    assert isinstance(arrays, ArrayRecord)
    assert isinstance(metrics, MetricRecord)
    assert list(arrays) == list(model.state_dict())
    assert dict(metrics) == {"num-examples": 12, "loss": 0.5}
    assert reply.metadata.message_type == "train"
    assert reply.metadata.dst_node_id == 1


def test_a_reply_is_written_in_other_bytes_every_time_and_has_one_digest() -> None:
    model = batch_norm()
    message = message_of(model)
    one, other = (train_reply(message, model, num_examples=12) for _ in range(2))
    for name in model.state_dict():
        assert one.content["arrays"][name].data != other.content["arrays"][name].data  # type: ignore[union-attr]
    plain = Message(RecordDict({"arrays": ArrayRecord(model.state_dict())}), reply_to=message)
    assert reply_digest(one) == reply_digest(other) == reply_digest(plain)


def test_a_secret_is_answered_by_a_secret_that_flowers_own_averages_take() -> None:
    model, message = batch_norm(), message_of(batch_norm(), {"steadfed-secret": "drawn by the server"})
    contents = [train_reply(message, model, num_examples=12).content for _ in range(2)]
    drawn = [content["metrics"]["steadfed-secret"] for content in contents]
    assert drawn[0] != drawn[1]
    assert [scalars_of(content) for content in contents] == [{"num-examples": 12.0}] * 2
    assert sorted(aggregate_metricrecords(contents, "num-examples")) == ["steadfed-secret"]


def test_an_evaluation_is_over_all_points_whatever_the_batches() -> None:
    model = nn.Linear(4, 4).eval()
    features, labels = points(7)
    message = message_of(model, kind="evaluate")
    parts = [(features[:5], labels[:5]), (features[5:], labels[5:])]
    reports = [evaluate_reply(message, model, each).content["metrics"] for each in ([(features, labels)], parts)]
    whole, split = (dict(report.items()) for report in reports)
    expected = nn.functional.cross_entropy(model(features), labels).detach()
    assert whole["loss"] == pytest.approx(float(expected))
    assert split["loss"] == pytest.approx(whole["loss"])
    assert split["accuracy"] == whole["accuracy"] == count_correct(model(features), labels) / 7
    assert whole["num-examples"] == 7


def test_an_evaluation_without_right_and_wrong_reports_no_accuracy() -> None:
    model = nn.Linear(4, 1)
    batch = (points()[0], torch.zeros(6, 1))
    reply = evaluate_reply(message_of(model), model, [batch], nn.functional.mse_loss, num_correct=None)
    assert sorted(reply.content["metrics"]) == ["loss", "num-examples"]


def test_an_evaluation_on_nothing_is_refused() -> None:
    model = nn.Linear(4, 4)
    with pytest.raises(ParameterError, match="at least one point"):
        evaluate_reply(message_of(model), model, [])


def test_one_output_is_right_on_the_right_side_of_zero() -> None:
    assert count_correct(torch.tensor([[0.5], [-0.5], [2.0]]), torch.tensor([1, 0, 0])) == 2


def test_a_client_and_its_drills_do_not_import_the_simulator() -> None:
    code = (
        "import sys, types, steadfed; package = types.ModuleType('steadfed.flower');"
        "package.__path__ = [steadfed.__path__[0] + '/flower']; sys.modules['steadfed.flower'] = package;"
        "import steadfed.flower.client, steadfed.flower.redteam; print('steadfed.simulation' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603
    assert done.stdout.strip() == "False"
