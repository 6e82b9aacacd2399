"""The same seeds, data and attack give the same model in the simulator and in a federation on Flower."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from flwr.app import ArrayRecord, Context, Message
from flwr.clientapp import ClientApp
from tests.flower.federations import clocked, round_in
from tests.flower.grids import Clock, ScriptedGrid, identify
from tests.flower.keys import KEY_FILE, knowing
from torch import Tensor

from steadfed._core.rng import stream
from steadfed._linalg.threads import one_torch_thread
from steadfed.aggregators import Aggregator, CenteredClipping, Krum, Mean, Median, Rage
from steadfed.attacks import ATTACKS, Attack, FixedMembers, Honest, NotANumber, SignFlip
from steadfed.data import Dataset, Digits
from steadfed.flower._records import RecordNumbers
from steadfed.flower._strategies import RobustStrategy
from steadfed.flower.client import SeededBatches, local_steps, receive, train_reply
from steadfed.flower.redteam import Omniscient, attack_mod, byzantine
from steadfed.models import ImportedModel, MultilayerPerceptron, SoftmaxRegression
from steadfed.partitions import DirichletPartition
from steadfed.server._record import RoundRecord
from steadfed.simulation import Federation, RandomK, RunConfig, UniformSteps
from steadfed.simulation._config import ClientOptions, Evaluation, ServerOptions
from steadfed.simulation._setting import deal_out

pytestmark = pytest.mark.portable

CLIENTS = 8
LIAR = 2
Played = tuple[Tensor, list[RoundRecord]]
"""The last model and the records."""


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    identify()
    with one_torch_thread():
        yield clocked(monkeypatch)


@cache
def digits() -> Dataset:
    return Digits().load()


def config_of(**changes: Any) -> RunConfig:
    settings: dict[str, Any] = {
        "seed": 3,
        "rounds": 3,
        "cohort_size": CLIENTS,
        "local_steps": 3,
        "batch_size": 16,
        "lr": 0.2,
        "partition": DirichletPartition(num_clients=CLIENTS, alpha=0.5),
        "model": MultilayerPerceptron(hidden=(8,)),
        "rule": Rage(num_byzantine=1),
        "evaluation": Evaluation(every=1000, measured_rounds=0),
    }
    return RunConfig(**(settings | changes))


def simulated(config: RunConfig) -> Played:
    records = []
    with Federation(config, dataset=digits()) as federation:
        state = federation.start()
        for _ in range(config.rounds):
            state, record = federation.play(state)
            records.append(record)
    return state.model, records


class Nodes:
    """Client apps, one for each client of the configuration, as a user would write them."""

    def __init__(self, config: RunConfig, mods: dict[int, Any], absent: list[Collection[Any]]) -> None:
        self.ids = [int(each) for each in stream(9, "node ids").choice(10**6, CLIENTS, replace=False) + 1]
        self.names = {node: client for client, node in enumerate(self.ids)}
        self._config, self._absent = config, absent
        self._shares, _ = deal_out(config, digits())
        self._apps = {client: self._app(client, mods.get(client)) for client in range(CLIENTS)}
        self._contexts = {
            client: knowing(node, partition_id=client, most_lr=1e30) for node, client in self.names.items()
        }

    def _app(self, client: int, mod: Any) -> ClientApp:
        app = ClientApp(mods=[] if mod is None else [mod])
        points = torch.from_numpy(self._shares.points(client))
        batches = SeededBatches(digits().features[points], digits().labels[points], client=client)
        architecture, seed = self._config.model, self._config.seed

        @app.train()
        def train(message: Message, context: Context) -> Message:
            model = architecture.build(digits(), seed)
            config = receive(message, model, context)
            points_of_steps, mean = batches.batches_for(config), architecture.loss().mean
            loss = local_steps(model, points_of_steps, config, mean, l2=architecture.l2)
            return train_reply(message, model, num_examples=len(points), metrics={"loss": loss})

        return app

    def answer(self, node: int, message: Message) -> Message | None:
        client = self.names[node]
        if self._absent and client in self._absent[round_in(message)]:
            return None
        return self._apps[client](message, self._contexts[client])


def deployed(
    config: RunConfig,
    clock: Clock,
    *,
    mods: dict[int, Any] | None = None,
    absent: list[Collection[Any]] | None = None,
    **settings: Any,
) -> Played:
    """Play the rounds on Flower; those who are `absent` in a round never answer in it."""
    nodes = Nodes(config, mods or {}, absent or [])
    strategy = RobustStrategy(
        config.rule,
        num_train_nodes=config.cohort_size,
        fraction_evaluate=0.0,
        lr=config.lr,
        local_steps=config.local_steps,
        batch_size=config.batch_size,
        server_momentum=config.server.momentum,
        seed=config.seed,
        compression=config.compression,
        coordinates_seed=config.seed,
        nodes=nodes.names,
        signing_key=KEY_FILE,
        **settings,
    )
    start = ArrayRecord(config.model.build(digits(), config.seed).state_dict())
    delays = dict(zip(nodes.ids, stream(1, "delays").random(CLIENTS).tolist(), strict=True))  # nobody is in order
    grid = ScriptedGrid(nodes.answer, nodes.ids, clock=clock, delays=delays)
    result = strategy.start(grid, start, num_rounds=config.rounds, timeout=60)
    assert result.arrays is not None
    return strategy.layout.parameters_of(RecordNumbers(result.arrays)), strategy.records


SAME = ("round", "step", "lr", "skipped", "reason", "coordinates")


def assert_agreement(one: Played, other: Played) -> None:
    """Fail unless models, who was there and every decision are the same; times and what only one side knows apart."""
    (model, records), (same, others) = one, other
    assert bool(torch.isfinite(model).all())
    difference = torch.linalg.vector_norm(model - same) / torch.linalg.vector_norm(model)
    assert float(difference) <= 1e-5
    for record, another in zip(records, others, strict=True):
        for name in ("cohort", "received", "absent", "unusable", "kept"):
            assert set(getattr(record, name)) == set(getattr(another, name)), (record.round, name)
        for name in (*SAME, "stop", "assumption_violated", "num_byzantine"):
            assert getattr(record, name) == getattr(another, name), (record.round, name)


def rounds_skipped(records: list[RoundRecord]) -> list[int]:
    return [record.round for record in records if record.skipped]


RULES: dict[str, Aggregator] = {
    "rage": Rage(num_byzantine=1),
    "mean": Mean(),
    "median": Median(),
    "krum": Krum(num_byzantine=1),
    "centered clipping": CenteredClipping(),
}


@pytest.mark.parametrize("rule", RULES)
def test_honest_runs_agree(rule: str, clock: Clock) -> None:
    config = config_of(rule=RULES[rule])
    assert_agreement(simulated(config), deployed(config, clock))


@pytest.mark.parametrize("size", [3, 5])
def test_they_agree_on_who_is_asked_if_not_all_are(size: int, clock: Clock) -> None:
    config = config_of(cohort_size=size, rounds=5)
    simulation, deployment = simulated(config), deployed(config, clock)
    assert_agreement(simulation, deployment)
    assert len({frozenset(record.cohort) for record in deployment[1]}) > 1


@pytest.mark.parametrize(
    "changes",
    [
        {"batch_size": "full"},
        {"local_steps": 1},
        {"local_steps": (4, 1, 2)},
        {"local_steps": UniformSteps(lowest=1, highest=6), "rounds": 4},
        {"server": ServerOptions(momentum=0.7)},
        {"model": SoftmaxRegression(l2=0.01)},
        {"seed": 11, "batch_size": 4096},
        {"compression": RandomK(coordinates=0.1)},
        {"compression": RandomK(coordinates=0.7), "server": ServerOptions(momentum=0.7)},
        {"compression": RandomK(coordinates=1), "rounds": 5},
    ],
    ids=str,
)
def test_other_settings_agree(changes: dict[str, Any], clock: Clock) -> None:
    config = config_of(**changes)
    simulation, deployment = simulated(config), deployed(config, clock)
    assert_agreement(simulation, deployment)
    sent, received = ([(each.bytes_down, each.bytes_up) for each in played[1]] for played in (simulation, deployment))
    assert sent == received


def attacked(attack: Attack, **changes: Any) -> RunConfig:
    return config_of(attack=attack, byzantine=FixedMembers(clients=(LIAR,)), adversary_knows=("own",), **changes)


@pytest.mark.parametrize(
    ("rule", "name", "size"),
    [
        ("rage", "sign-flip", CLIENTS),
        ("rage", "scaling", 5),
        ("mean", "sign-flip", 5),
        ("mean", "scaling", CLIENTS),
        ("median", "gaussian", CLIENTS),
    ],
)
def test_runs_with_a_byzantine_client_agree(rule: str, name: str, size: int, clock: Clock) -> None:
    attack = ATTACKS.build(name)
    config = attacked(attack, rule=RULES[rule], cohort_size=size)
    simulation = simulated(config)
    assert_agreement(simulation, deployed(config, clock, mods={LIAR: attack_mod(attack, seed=config.seed)}))
    honest, _ = simulated(config_of(rule=RULES[rule], cohort_size=size, attack=Honest()))
    assert not torch.allclose(honest, simulation[0], rtol=1e-3)  # or nothing was attacked


@pytest.mark.parametrize("name", ["alie", "ipm", "mimic"])
def test_an_omniscient_adversary_does_the_same_in_both(name: str, clock: Clock) -> None:
    config = config_of(attack=ATTACKS.build(name), byzantine=FixedMembers(clients=(1, 6)), rule=Rage(num_byzantine=2))
    drill = Omniscient(ATTACKS.build(name), byzantine={1, 6}, seed=config.seed)
    assert_agreement(simulated(config), deployed(config, clock, tampering=drill))


SOME = RandomK(coordinates=0.2)


@pytest.mark.parametrize("name", ["sign-flip", "gaussian"])
def test_a_byzantine_client_forges_the_coordinates_that_were_asked_for(name: str, clock: Clock) -> None:
    attack = ATTACKS.build(name)
    config = attacked(attack, compression=SOME)
    simulation = simulated(config)
    assert_agreement(simulation, deployed(config, clock, mods={LIAR: attack_mod(attack, seed=config.seed)}))
    honest, _ = simulated(config_of(compression=SOME))
    assert not torch.equal(honest, simulation[0])


def test_an_omniscient_adversary_about_coordinates_does_the_same_in_both(clock: Clock) -> None:
    attack, rule = ATTACKS.build("alie"), Rage(num_byzantine=2)
    config = config_of(attack=attack, byzantine=FixedMembers(clients=(1, 6)), rule=rule, compression=SOME)
    drill = Omniscient(attack, byzantine={1, 6}, seed=config.seed)
    assert_agreement(simulated(config), deployed(config, clock, tampering=drill))


def test_coordinates_and_running_statistics_agree(clock: Clock) -> None:
    model = ImportedModel(factory="tests.simulation.modules:normalised_digits")
    config = config_of(model=model, compression=SOME, cohort_size=5)
    assert_agreement(simulated(config), deployed(config, clock))


ERASURES = ClientOptions(erasure_rate=0.35)


def absences(records: list[RoundRecord]) -> list[Collection[Any]]:
    return [record.absent for record in records]


@pytest.mark.parametrize("rule", [Rage(byzantine_fraction=0.2), Median(byzantine_fraction=0.2)], ids=repr)
def test_a_bound_told_as_a_fraction_is_of_those_who_were_asked(rule: Aggregator, clock: Clock) -> None:
    config = config_of(rule=rule, client=ERASURES, rounds=6)
    simulation = simulated(config)
    assert {len(record.received) for record in simulation[1]} >= {4, 5}
    assert_agreement(simulation, deployed(config, clock, absent=absences(simulation[1])))
    assert {record.num_byzantine for record in simulation[1] if not record.skipped} == {2}
    assert rounds_skipped(simulation[1])


def test_rounds_in_which_nobody_answers_or_too_few_do_change_nothing_in_both(clock: Clock) -> None:
    often = ClientOptions(erasure_rate=0.6)
    config = config_of(rule=Rage(byzantine_fraction=0.2), client=often, cohort_size=4, rounds=12)
    simulation = simulated(config)
    assert {len(record.received) for record in simulation[1]} >= {0, 1, 2}
    assert_agreement(simulation, deployed(config, clock, absent=absences(simulation[1])))


def nonsense(clients: tuple[int, ...], rule: Aggregator, **changes: Any) -> RunConfig:
    return config_of(attack=NotANumber(), byzantine=FixedMembers(clients=clients), rule=rule, **changes)


LIARS = (1, 2, 6)


@pytest.mark.parametrize("rule", [Rage(num_byzantine=1), Krum(num_byzantine=2), Median(num_byzantine=1)], ids=repr)
def test_more_malformed_replies_than_assumed_liars_stop_the_round_in_both(rule: Aggregator, clock: Clock) -> None:
    config = nonsense(LIARS, rule)
    simulation = simulated(config)
    assert_agreement(simulation, deployed(config, clock, mods=dict.fromkeys(LIARS, byzantine("all-nan"))))
    assert rounds_skipped(simulation[1]) == [0, 1, 2]


@pytest.mark.parametrize("rule", [Rage(num_byzantine=3), Median(), Mean(), Krum(num_byzantine=0)], ids=repr)
def test_malformed_replies_that_were_reckoned_with_stop_nothing_in_either(rule: Aggregator, clock: Clock) -> None:
    config = nonsense(LIARS, rule)
    simulation = simulated(config)
    assert_agreement(simulation, deployed(config, clock, mods=dict.fromkeys(LIARS, byzantine("all-nan"))))
    assert rounds_skipped(simulation[1]) == []
    assert all(set(record.unusable) == set(LIARS) for record in simulation[1])


def test_malformed_replies_and_absences_together_agree(clock: Clock) -> None:
    config = nonsense((1, 6), Rage(byzantine_fraction=0.2), client=ERASURES, rounds=6, cohort_size=7)
    simulation = simulated(config)
    absent = absences(simulation[1])
    assert_agreement(
        simulation, deployed(config, clock, absent=absent, mods=dict.fromkeys((1, 6), byzantine("one-nan")))
    )


@pytest.mark.parametrize("momentum", [0.0, 0.5])
def test_a_step_to_a_model_that_is_not_finite_is_taken_by_neither(momentum: float, clock: Clock) -> None:
    config = config_of(
        rule=Median(),
        attack=SignFlip(factor=1e15),
        byzantine=FixedMembers(clients=tuple(range(5))),
        model=SoftmaxRegression(),
        local_steps=1,
        lr=1e25,  # rows whose squares are finite, and a step that is not
        server=ServerOptions(momentum=momentum),
    )
    drill = Omniscient(config.attack, byzantine=range(5), seed=config.seed)
    simulation = simulated(config)
    start = simulated(config.model_copy(update={"rounds": 0}))[0]
    same, records = deployed(config, clock, tampering=drill)
    assert rounds_skipped(records) == [0, 1, 2]
    assert torch.equal(simulation[0], start)
    assert torch.equal(same, start)
    assert [record.reason for record in simulation[1]] == [record.reason for record in records]


@pytest.mark.parametrize("size", [5, CLIENTS])
def test_running_means_and_variances_agree(size: int, clock: Clock) -> None:
    model = ImportedModel(factory="tests.simulation.modules:normalised_digits")
    config = config_of(model=model, cohort_size=size)
    assert_agreement(simulated(config), deployed(config, clock))


def test_the_sign_of_an_update_is_flipped_and_rage_notices(clock: Clock) -> None:
    strong = SignFlip(factor=10.0)
    config = attacked(strong, rounds=2)
    _, records = deployed(config, clock, mods={LIAR: attack_mod(strong, seed=config.seed)})
    assert all(LIAR in record.removed for record in records)


def test_a_run_with_a_twin_has_the_simulators_configuration(clock: Clock, tmp_path: Path) -> None:
    config = config_of(rounds=2)
    model, _ = deployed(config, clock, twin=config, run_folder=tmp_path)
    assert bool(np.isfinite(model.numpy()).all())
    text = (tmp_path / "config.toml").read_text()
    assert "digits" in text
    assert "dirichlet" in text
