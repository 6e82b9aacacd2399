"""A deployment that was killed at any moment goes on to the same model; a folder is never used for something else."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, Message, MetricRecord
from flwr.serverapp.strategy import Result
from tests import own_code
from tests.flower.federations import LR, NODES, assert_the_same_model, either, flower_array, honest, model, obliging
from tests.flower.grids import Clock, Reply, ScriptedGrid
from tests.rewriting import change
from tests.same_results import timeless
from torch import Tensor

from steadfed._core.signatures import SigningKey
from steadfed.aggregators import Aggregator, CenteredClipping, FoolsGold, Mean, Rage
from steadfed.errors import CorruptRunError, ParameterError, RunError
from steadfed.flower._npy import model_digest
from steadfed.flower._strategies import RageStrategy, RobustStrategy
from steadfed.flower.client import reply_digest
from steadfed.runs import config_of
from steadfed.runs._files import provenance
from steadfed.server._folder import RunFolder
from steadfed.server._record import RoundRecord
from steadfed.server._verification import verify_run
from steadfed.simulation import RandomK

KEY = SigningKey.generate()
ROUNDS = 4
RULES: dict[str, Aggregator] = {
    "rage": Rage(num_byzantine=1),
    "remembers its centre": CenteredClipping(),
    "remembers every client": FoolsGold(),
}


class Killed(BaseException):
    """Stands for a signal that ends the process."""


pytestmark = pytest.mark.usefixtures("clock")


def evaluated(server_round: int, arrays: ArrayRecord) -> MetricRecord:
    return MetricRecord({"accuracy": 0.1 * server_round, "loss": float(np.abs(arrays["weight"].numpy()).sum())})


def played(
    folder: Path | None,
    clock: Clock,
    *,
    rule: Any = RULES["rage"],
    train: Callable[[int, Message], Reply] = honest,
    evaluate: Callable[[int, ArrayRecord], MetricRecord | None] = evaluated,
    start: ArrayRecord | None = None,
    rounds: int = ROUNDS,
    **settings: Any,
) -> tuple[Result, list[RoundRecord], ScriptedGrid]:
    options: dict[str, Any] = {"lr": LR, "server_momentum": 0.5, "num_train_nodes": 7, "run_folder": folder} | settings
    strategy = RobustStrategy(rule, **options)
    grid = ScriptedGrid(either(train), NODES, clock=clock)
    start = model() if start is None else start
    result = strategy.start(grid, start, num_rounds=rounds, timeout=30, evaluate_fn=evaluate)
    return result, strategy.records, grid


def arrays_of(result: Result) -> ArrayRecord:
    assert result.arrays is not None
    return result.arrays


def killed_in_evaluation(at: int) -> Callable[[int, ArrayRecord], MetricRecord | None]:
    def evaluate(server_round: int, arrays: ArrayRecord) -> MetricRecord | None:
        if server_round == at:
            raise Killed
        return evaluated(server_round, arrays)

    return evaluate


def killed_in_training(at: int) -> Callable[[int, Message], Reply]:
    def train(node: int, message: Message) -> Reply:
        if message.content["config"]["server-round"] == at and node % 2:
            raise Killed
        return honest(node, message)

    return train


@pytest.mark.parametrize("rule", RULES)
def test_a_run_killed_anywhere_ends_with_the_same_bytes(rule: str, tmp_path: Path, clock: Clock) -> None:
    whole, folder = tmp_path / "whole", tmp_path / "killed"
    result, records, _ = played(whole, clock, rule=RULES[rule])
    for at in range(1, ROUNDS + 1):
        with pytest.raises(Killed):
            played(folder, clock, rule=RULES[rule], evaluate=killed_in_evaluation(at))
        with pytest.raises(Killed):
            played(folder, clock, rule=RULES[rule], train=killed_in_training(at))
        assert RunFolder.open(folder).num_rounds() == at - 1
        with pytest.raises(Killed):  # one round further
            played(folder, clock, rule=RULES[rule], evaluate=killed_in_evaluation(at + 1 if at < ROUNDS else at))
    resumed, again, _ = played(folder, clock, rule=RULES[rule])
    assert_the_same_model(arrays_of(resumed), arrays_of(result))
    assert (folder / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
    assert timeless(again) == timeless(records)
    assert timeless(list(RunFolder.open(folder).records())) == timeless(records)
    assert (folder / "config.toml").read_bytes() == (whole / "config.toml").read_bytes()


@pytest.mark.parametrize(
    "own",
    [own_code.median, own_code.First(num_byzantine=1), f"{own_code.HERE}:heaviest"],
    ids=["function", "class", "path"],
)
def test_a_rule_of_ones_own_goes_on_as_any_other(own: Any, tmp_path: Path, clock: Clock) -> None:
    whole, folder = tmp_path / "whole", tmp_path / "killed"
    _, records, _ = played(whole, clock, rule=own)
    with pytest.raises(Killed):
        played(folder, clock, rule=own, evaluate=killed_in_evaluation(2))
    _, again, _ = played(folder, clock, rule=own)
    assert timeless(again) == timeless(records)
    assert (folder / "config.toml").read_bytes() == (whole / "config.toml").read_bytes()
    assert f'import = "{own_code.HERE}:' in (folder / "config.toml").read_text(encoding="utf-8")
    assert {record.attributed for record in records} == {own is not own_code.median}
    with pytest.raises(RunError, match="another configuration: rule was"):
        played(folder, clock, rule=f"{own_code.HERE}:trimmed")


def test_a_rule_that_has_no_import_path_needs_a_strategy_without_a_folder(tmp_path: Path, clock: Clock) -> None:
    def own(updates: Tensor) -> Tensor:
        return updates.median(0).values

    _, records, _ = played(None, clock, rule=own)
    assert len(records) == ROUNDS
    with pytest.raises(ParameterError, match="the rule cannot be named by import"):
        played(tmp_path / "run", clock, rule=own)


def test_a_rule_that_fails_on_what_clients_send_ends_no_run(clock: Clock) -> None:
    _, records, _ = played(None, clock, rule=own_code.failing)
    assert [record.skipped for record in records] == [True] * ROUNDS
    assert "ZeroDivisionError" in str(records[0].reason)


@pytest.mark.parametrize("steps", [(3, 1, 4), {"name": "uniform", "highest": 9}], ids=repr)
def test_a_resumed_deployment_tells_the_numbers_of_steps_that_an_unbroken_one_tells(
    steps: Any, tmp_path: Path, clock: Clock
) -> None:
    told: list[tuple[int, int]] = []

    def train(node: int, message: Message) -> Reply:
        config = message.content["config"]
        told.append((int(str(config["round"])), int(str(config["local-steps"]))))
        return honest(node, message)

    _, records, _ = played(tmp_path / "whole", clock, train=train, local_steps=steps)
    unbroken = dict(told)
    assert len(unbroken) == ROUNDS
    assert len(set(told)) == ROUNDS  # the same for every client of a round
    assert [record.step for record in records] == np.cumsum([unbroken[k] for k in range(ROUNDS)]).tolist()
    with pytest.raises(Killed):
        played(tmp_path / "killed", clock, local_steps=steps, evaluate=killed_in_evaluation(3))
    told.clear()
    _, again, _ = played(tmp_path / "killed", clock, train=train, local_steps=steps)
    assert dict(told) == {number: unbroken[number] for number in (2, 3)}
    assert timeless(again) == timeless(records)
    with pytest.raises(RunError, match="local_steps was"):
        played(tmp_path / "killed", clock, local_steps=5)


def test_rules_that_remember_would_end_elsewhere_if_they_forgot(tmp_path: Path, clock: Clock) -> None:
    for rule in ("remembers its centre", "remembers every client"):
        played(tmp_path / rule, clock, rule=RULES[rule])
        checkpoint = RunFolder.open(tmp_path / rule).latest_checkpoint()
        assert checkpoint is not None
        assert any(name.startswith("rule/") for name in checkpoint.tensors)
        assert "server/velocity" in checkpoint.tensors


def test_without_a_folder_the_model_is_the_same(tmp_path: Path, clock: Clock) -> None:
    written, records, _ = played(tmp_path / "run", clock)
    unwritten, same, _ = played(None, clock)
    assert_the_same_model(arrays_of(written), arrays_of(unwritten))
    assert timeless(records) == timeless(same)


def test_a_finished_run_returns_its_model_without_asking_anybody(tmp_path: Path, clock: Clock) -> None:
    result, records, _ = played(tmp_path, clock)
    before, summary = clock.now, (tmp_path / "summary.json").read_bytes()
    again, same, grid = played(tmp_path, clock, evaluate=killed_in_evaluation(ROUNDS))
    assert grid.pushed == []
    assert_the_same_model(arrays_of(again), arrays_of(result))
    assert timeless(same) == timeless(records)
    assert clock.now == before
    assert (tmp_path / "summary.json").read_bytes() == summary


def test_a_finished_run_waits_for_nobody(tmp_path: Path, clock: Clock) -> None:
    result, _, _ = played(tmp_path, clock)
    before = clock.now
    strategy = RobustStrategy(RULES["rage"], lr=LR, server_momentum=0.5, num_train_nodes=7, run_folder=tmp_path)
    again = strategy.start(ScriptedGrid(honest, [], clock=clock), model(), num_rounds=ROUNDS)
    assert_the_same_model(arrays_of(again), arrays_of(result))
    assert clock.now == before


@pytest.mark.parametrize(
    ("change", "shown"),
    [
        ({"rule": Rage(num_byzantine=2)}, r"Rage\(num_byzantine=2\)"),
        ({"lr": 0.25}, "lr was 0.5, is 0.25"),
        ({"seed": 4}, "seed was 0, is 4"),
        ({"rounds": ROUNDS + 1}, "rounds was 4, is 5"),
        ({"local_steps": 9}, "local_steps was 1, is 9"),
        ({"batch_size": "full"}, "batch_size"),
        ({"server_momentum": 0.0}, "server"),
    ],
)
def test_another_configuration_is_refused(change: dict[str, Any], shown: str, tmp_path: Path, clock: Clock) -> None:
    with pytest.raises(Killed):
        played(tmp_path, clock, evaluate=killed_in_evaluation(2))
    before = (tmp_path / "rounds.jsonl").read_bytes()
    with pytest.raises(RunError, match=shown) as caught:
        played(tmp_path, clock, **change)
    assert "another folder" in str(caught.value)
    assert (tmp_path / "rounds.jsonl").read_bytes() == before


@pytest.mark.parametrize(("given", "other"), [(4, 5), (4, None), (None, 4)])
def test_a_run_goes_on_only_with_the_seed_its_coordinates_were_drawn_from(
    given: int | None, other: int | None, tmp_path: Path, clock: Clock
) -> None:
    def oblige(_node: int, message: Message) -> Reply:
        return Message(obliging(message), reply_to=message)

    settings: dict[str, Any] = {"compression": RandomK(coordinates=3), "train": oblige}
    with pytest.raises(Killed):
        played(tmp_path, clock, evaluate=killed_in_evaluation(2), coordinates_seed=given, **settings)
    recorded = provenance((tmp_path / "config.toml").read_text()).get("coordinates_seed")
    assert recorded == (None if given is None else str(given))
    with pytest.raises(RunError, match=f"coordinates_seed was {given}, is {other}; .*another folder"):
        played(tmp_path, clock, coordinates_seed=other, **settings)
    _, records, _ = played(tmp_path, clock, coordinates_seed=given, **settings)
    assert not any(record.skipped or record.drops for record in records)
    assert len({record.coordinates for record in records}) == ROUNDS


@pytest.mark.parametrize("shape", [(2, 4), (3, 2)])
def test_another_model_is_refused(shape: tuple[int, int], tmp_path: Path, clock: Clock) -> None:
    with pytest.raises(Killed):
        played(tmp_path, clock, evaluate=killed_in_evaluation(2))
    with pytest.raises(RunError, match="model"):
        played(tmp_path, clock, start=model(shape))


def test_the_same_numbers_under_other_names_are_another_model(tmp_path: Path, clock: Clock) -> None:
    with pytest.raises(Killed):
        played(tmp_path, clock, evaluate=killed_in_evaluation(2))
    renamed = ArrayRecord({f"{name}.new": array for name, array in model().items()})
    with pytest.raises(RunError, match="fingerprint"):
        played(tmp_path, clock, start=renamed, buffers=("*running*", "*tracked*"))


def test_it_goes_on_with_fewer_nodes(tmp_path: Path, clock: Clock) -> None:
    with pytest.raises(Killed):
        played(tmp_path, clock, num_train_nodes=None, evaluate=killed_in_evaluation(2))
    strategy = RobustStrategy(RULES["rage"], lr=LR, server_momentum=0.5, run_folder=tmp_path)
    grid = ScriptedGrid(either(honest), NODES[:6], clock=clock)
    strategy.start(grid, model(), num_rounds=ROUNDS, timeout=9)
    assert [len(record.cohort) for record in strategy.records] == [10, 6, 6, 6]


def test_two_cannot_work_in_one_folder(tmp_path: Path, clock: Clock) -> None:
    def another(server_round: int, arrays: ArrayRecord) -> MetricRecord | None:
        with pytest.raises(RunError, match="is working in"):
            played(tmp_path, clock)
        return None

    played(tmp_path, clock, rounds=ROUNDS, evaluate=another)
    assert RunFolder.open(tmp_path).num_rounds() == ROUNDS


def _torn_line(folder: Path) -> None:
    with (folder / "rounds.jsonl").open("ab") as file:
        file.write(b'{"round":2,"step"')


def _torn_checkpoint(folder: Path) -> None:
    newest = max((folder / "checkpoints").glob("*.safetensors"))
    newest.write_bytes(newest.read_bytes()[:-7])


def _no_checkpoints(folder: Path) -> None:
    shutil.rmtree(folder / "checkpoints")


def _a_record_without_checkpoint(folder: Path) -> None:
    newest = max((folder / "checkpoints").glob("*"))
    for path in (folder / "checkpoints").glob(f"{newest.stem}.*"):
        path.unlink()


@pytest.mark.parametrize("damage", [_torn_line, _torn_checkpoint, _no_checkpoints, _a_record_without_checkpoint])
def test_torn_files_are_computed_again(damage: Callable[[Path], None], tmp_path: Path, clock: Clock) -> None:
    result, records, _ = played(tmp_path / "whole", clock)
    folder = tmp_path / "torn"
    with pytest.raises(Killed):
        played(folder, clock, evaluate=killed_in_evaluation(3))
    damage(folder)
    resumed, again, _ = played(folder, clock)
    assert_the_same_model(arrays_of(resumed), arrays_of(result))
    assert timeless(again) == timeless(records)
    assert (folder / "model.safetensors").read_bytes() == (tmp_path / "whole" / "model.safetensors").read_bytes()


def test_a_changed_record_is_an_error_that_names_the_line(tmp_path: Path, clock: Clock) -> None:
    with pytest.raises(Killed):
        played(tmp_path, clock, evaluate=killed_in_evaluation(3))
    lines = (tmp_path / "rounds.jsonl").read_text().splitlines()
    (tmp_path / "rounds.jsonl").write_text("\n".join(["nonsense", *lines[1:]]) + "\n")
    with pytest.raises(CorruptRunError, match="line 1"):
        played(tmp_path, clock)


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path, clock: Clock) -> None:
    (tmp_path / "config.toml").write_text("title = 'something else'\n")
    with pytest.raises((RunError, CorruptRunError)):
        played(tmp_path, clock)
    assert (tmp_path / "config.toml").read_text() == "title = 'something else'\n"


def test_the_configuration_says_what_a_server_knows(tmp_path: Path, clock: Clock) -> None:
    played(tmp_path, clock)
    config = config_of(RunFolder.open(tmp_path))
    assert (config.rounds, config.cohort_size, config.lr, config.rule) == (ROUNDS, 7, LR, RULES["rage"])
    assert type(config.data).__name__ == "RemoteData"


def test_a_run_without_training_writes_no_rounds(tmp_path: Path, clock: Clock) -> None:
    result, records, grid = played(tmp_path, clock, fraction_train=0.0)
    assert records == []
    assert_the_same_model(arrays_of(result), model())
    assert {message.metadata.message_type for message in grid.pushed} == {"evaluate"}


def test_skipped_rounds_are_written_down_and_survive_a_resume(tmp_path: Path, clock: Clock) -> None:
    def train(node: int, message: Message) -> Reply:
        return None if message.content["config"]["round"] == 1 else honest(node, message)

    whole, records, _ = played(tmp_path / "whole", clock, train=train)
    with pytest.raises(Killed):
        played(tmp_path / "killed", clock, train=train, evaluate=killed_in_evaluation(3))
    resumed, again, _ = played(tmp_path / "killed", clock, train=train)
    assert [record.skipped for record in records] == [False, True, False, False]
    assert timeless(again) == timeless(records)
    assert_the_same_model(arrays_of(resumed), arrays_of(whole))


def test_float16_models_and_other_dtypes_resume_bit_by_bit(tmp_path: Path, clock: Clock) -> None:
    start = ArrayRecord(
        {
            "half": flower_array(np.linspace(-1, 1, 5, dtype=np.float16)),
            "double": flower_array(np.full(3, np.pi)),
            "flag": flower_array(np.array([True])),
            "empty": flower_array(np.empty((0, 2), np.float32)),
        }
    )
    quiet: dict[str, Any] = {"start": start, "rule": Mean()}
    whole, _, _ = played(tmp_path / "whole", clock, evaluate=lambda *_: None, **quiet)

    def killing(server_round: int, arrays: ArrayRecord) -> MetricRecord | None:
        if server_round == 2:
            raise Killed
        return None

    with pytest.raises(Killed):
        played(tmp_path / "killed", clock, evaluate=killing, **quiet)
    resumed, _, _ = played(tmp_path / "killed", clock, evaluate=lambda *_: None, **quiet)
    assert_the_same_model(arrays_of(resumed), arrays_of(whole))


def test_a_strategy_can_be_started_twice_and_forgets_the_first_time(clock: Clock) -> None:
    strategy = RageStrategy(num_malicious_nodes=1, lr=LR)
    grid = ScriptedGrid(either(honest), NODES, clock=clock)
    first = strategy.start(grid, model(), num_rounds=2, timeout=9)
    again = strategy.start(grid, model(), num_rounds=2, timeout=9)
    assert_the_same_model(arrays_of(first), arrays_of(again))
    assert len(strategy.records) == 2


@pytest.fixture
def key(tmp_path: Path) -> Path:
    """Return the file of a private key."""
    path = tmp_path / "server-signing.pem"
    path.write_bytes(KEY.to_pem())
    return path


def test_every_line_is_signed_and_names_models_and_replies(tmp_path: Path, clock: Clock, key: Path) -> None:
    sent: dict[int, list[str]] = {}

    def train(node: int, message: Message) -> Reply:
        reply = honest(node, message)
        assert isinstance(reply, Message)
        sent.setdefault(int(str(message.content["config"]["round"])), []).append(reply_digest(reply))
        return reply

    result, records, _ = played(tmp_path / "run", clock, signing_key=key, train=train)
    found = verify_run(tmp_path / "run", KEY.public)
    assert not found.broken
    assert found.signed
    assert list(found.records) == records
    assert records[0].model_before == model_digest(model())
    assert records[-1].model_after == model_digest(arrays_of(result))
    for record in records:
        assert sorted(map(str, record.reply_digests)) == sorted(sent[record.round])
        assert record.finished is not None
        assert datetime.fromisoformat(record.finished).tzinfo is not None


def test_the_hash_of_a_reply_does_not_depend_on_how_its_numbers_lie(tmp_path: Path, clock: Clock) -> None:
    def turned(node: int, message: Message) -> Reply:
        reply = honest(node, message)
        assert isinstance(reply, Message)
        arrays = reply.content.array_records["arrays"]
        plain = {name: array.numpy() for name, array in arrays.items()}
        reply.content["arrays"] = ArrayRecord(
            {name: Array(np.array(plain[name], order="F")) for name in reversed(plain)}
        )
        return reply

    _, straight, _ = played(tmp_path / "straight", clock)
    _, other, _ = played(tmp_path / "turned", clock, train=turned)
    assert [record.reply_digests for record in straight] == [record.reply_digests for record in other]


def test_a_reply_that_is_no_model_has_no_hash(tmp_path: Path, clock: Clock) -> None:
    def train(node: int, message: Message) -> Reply:
        reply = honest(node, message)
        if node == NODES[0] and isinstance(reply, Message):
            reply.content["arrays"] = ArrayRecord([np.full(3, np.nan)])
        return reply

    _, records, _ = played(tmp_path / "run", clock, train=train)
    for record in records:
        hashes = dict(zip(record.received, record.reply_digests, strict=True))
        dropped = {drop.client for drop in record.drops}
        assert {client for client, digest in hashes.items() if digest is None} == dropped & hashes.keys()
    assert any(None in record.reply_digests for record in records)


@pytest.mark.parametrize("at", [2, 4])
def test_a_signed_run_that_was_killed_goes_on_and_every_line_is_signed(
    tmp_path: Path, clock: Clock, key: Path, at: int
) -> None:
    _, records, _ = played(tmp_path / "whole", clock, signing_key=key)
    with pytest.raises(Killed):
        played(tmp_path / "run", clock, signing_key=key, evaluate=killed_in_evaluation(at))
    _, again, _ = played(tmp_path / "run", clock, signing_key=key)
    assert timeless(again) == timeless(records)
    found = verify_run(tmp_path / "run", KEY.public)
    assert (found.broken, found.signed) == (False, True)


def test_a_run_goes_on_only_with_the_key_it_was_started_with(tmp_path: Path, clock: Clock, key: Path) -> None:
    other = tmp_path / "other.pem"
    other.write_bytes(SigningKey.generate().to_pem())
    for then, now in ((key, None), (key, other), (None, key)):
        folder = tmp_path / f"run-{then is None}-{now is None}"
        with pytest.raises(Killed):
            played(folder, clock, signing_key=then, evaluate=killed_in_evaluation(2))
        with pytest.raises(RunError, match="continue it with the same signing_key"):
            played(folder, clock, signing_key=now)


def _another_line(folder: Path) -> None:
    change(folder, 0, lr=0.25)


def _no_signatures(folder: Path) -> None:
    (folder / "signatures.jsonl").write_bytes(b"")


def _another_key(folder: Path) -> None:
    (folder / "server-signing.pub.pem").write_bytes(SigningKey.generate().public.to_pem())


@pytest.mark.parametrize("damage", [_another_line, _no_signatures, _another_key])
def test_a_server_does_not_go_on_from_lines_that_it_has_not_signed(
    damage: Callable[[Path], None], tmp_path: Path, clock: Clock, key: Path
) -> None:
    with pytest.raises(Killed):
        played(tmp_path / "run", clock, signing_key=key, evaluate=killed_in_evaluation(4))
    damage(tmp_path / "run")
    before = (tmp_path / "run" / "rounds.jsonl").read_bytes()
    with pytest.raises(CorruptRunError, match=r"signed|is not the key"):
        played(tmp_path / "run", clock, signing_key=key)
    assert (tmp_path / "run" / "rounds.jsonl").read_bytes() == before


def test_a_poisoned_model_in_a_checkpoint_with_hashes_that_fit_is_not_taken(tmp_path: Path, clock: Clock) -> None:
    """Whoever may write in the folder can make a checkpoint that fits the lines, but not one that fits the model."""
    with pytest.raises(Killed):
        played(tmp_path / "run", clock, evaluate=killed_in_evaluation(3))
    folder = RunFolder.open(tmp_path / "run")
    checkpoint = folder.latest_checkpoint()
    assert checkpoint is not None
    poisoned = {**checkpoint.tensors, "model": checkpoint.tensors["model"] + 1.0}
    folder.save_checkpoint(replace(checkpoint, tensors=poisoned))
    with pytest.raises(CorruptRunError, match=r"holds the model .*, and the last of these rounds ended with"):
        played(tmp_path / "run", clock)


@pytest.mark.parametrize("part", ["server/velocity", "facts"])
def test_a_state_that_was_changed_with_its_hashes_is_not_the_one_that_the_signed_line_names(
    part: str, tmp_path: Path, clock: Clock, key: Path
) -> None:
    """The momentum, which no model shows: a step of a thousand would follow."""
    settings: dict[str, Any] = {"signing_key": key, "server_momentum": 0.9}
    with pytest.raises(Killed):
        played(tmp_path / "run", clock, evaluate=killed_in_evaluation(3), **settings)
    folder = RunFolder.open(tmp_path / "run")
    checkpoint = folder.latest_checkpoint()
    assert checkpoint is not None
    assert [record.state_after for record in folder.records()][checkpoint.round - 1] == checkpoint.digest
    tensors = {name: 1000.0 + each if name == part else each for name, each in checkpoint.tensors.items()}
    facts = {**checkpoint.facts, "more": 1} if part == "facts" else checkpoint.facts
    folder.save_checkpoint(replace(checkpoint, tensors=tensors, facts=facts))
    assert "is not the one that line" in str(verify_run(folder.path))
    with pytest.raises(CorruptRunError, match="is not the one that the line of the last of these rounds names"):
        played(tmp_path / "run", clock, **settings)


def test_the_checkpoints_of_another_deployment_are_passed_over(tmp_path: Path, clock: Clock) -> None:
    result, records, _ = played(tmp_path / "whole", clock)
    for name, seed in (("run", 0), ("other", 1)):
        with pytest.raises(Killed):
            played(tmp_path / name, clock, seed=seed, evaluate=killed_in_evaluation(3))
    shutil.copytree(tmp_path / "other" / "checkpoints", tmp_path / "run" / "checkpoints", dirs_exist_ok=True)
    resumed, again, _ = played(tmp_path / "run", clock)
    assert_the_same_model(arrays_of(resumed), arrays_of(result))
    assert timeless(again) == timeless(records)


def test_two_server_apps_that_start_at_once_do_not_share_a_folder(tmp_path: Path, clock: Clock) -> None:
    """Between the look whether there is a run and the making of it, another app may have made one."""
    first = tmp_path / "first"
    with pytest.raises(Killed):
        played(first, clock, evaluate=killed_in_evaluation(1))
    with pytest.raises(RunError, match="holds a run already"):
        RunFolder.create(first, RunFolder.open(first).config_text())
