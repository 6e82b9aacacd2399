"""The same seeds, data and attack give the same model in the simulator and in a federation on Flower."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from flwr.app import ArrayRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from tests.flower.federations import clocked
from tests.flower.grids import Clock, ScriptedGrid, identify
from torch import Tensor

from holdfast.aggregators import Aggregator, CenteredClipping, Krum, Mean, Median, Rage
from holdfast.attacks import ATTACKS, Attack, FixedMembers, Honest, SignFlip
from holdfast.data import Dataset, Digits
from holdfast.flower.client import SeededBatches, local_steps, receive, train_reply
from holdfast.flower.redteam import Omniscient, attacking
from holdfast.flower.strategy import RobustStrategy
from holdfast.linalg.threads import one_torch_thread
from holdfast.models import MultilayerPerceptron, SoftmaxRegression
from holdfast.partitions import DirichletPartition
from holdfast.rng import stream
from holdfast.server.record import RoundRecord
from holdfast.simulation import Federation, RunConfig
from holdfast.simulation.config import Evaluation, ServerOptions
from holdfast.simulation.setting import dealt

pytestmark = pytest.mark.portable

CLIENTS = 8
LIAR = 2


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


def simulated(config: RunConfig) -> tuple[Tensor, list[RoundRecord]]:
    records = []
    with Federation(config, dataset=digits()) as federation:
        state = federation.start()
        for _ in range(config.rounds):
            state, record = federation.play(state)
            records.append(record)
    return state.model, records


class Nodes:
    """Client apps, one for each client of the configuration, as a user would write them."""

    def __init__(self, config: RunConfig, mods: dict[int, Any]) -> None:
        self.ids = [int(each) for each in stream(9, "node ids").choice(10**6, CLIENTS, replace=False) + 1]
        self.names = {node: client for client, node in enumerate(self.ids)}
        self._config = config
        self._shares, _ = dealt(config, digits())
        self._apps = {client: self._app(client, mods.get(client)) for client in range(CLIENTS)}
        self._contexts = {
            client: Context(1, node, {"partition-id": client}, RecordDict(), {}) for node, client in self.names.items()
        }

    def _app(self, client: int, mod: Any) -> ClientApp:
        app = ClientApp(mods=[] if mod is None else [mod])
        points = torch.from_numpy(self._shares.points(client))
        batches = SeededBatches(digits().features[points], digits().labels[points], client=client)
        architecture, seed = self._config.model, self._config.seed

        @app.train()
        def train(message: Message, context: Context) -> Message:
            model = architecture.build(digits(), seed)
            config = receive(message, model)
            loss = local_steps(model, batches.batches_for(config), config, architecture.loss().mean, l2=architecture.l2)
            return train_reply(message, model, num_examples=len(points), metrics={"loss": loss})

        return app

    def answer(self, node: int, message: Message) -> Message:
        client = self.names[node]
        return self._apps[client](message, self._contexts[client])


def deployed(
    config: RunConfig, clock: Clock, *, mods: dict[int, Any] | None = None, **settings: Any
) -> tuple[Tensor, list[RoundRecord]]:
    nodes = Nodes(config, mods or {})
    strategy = RobustStrategy(
        config.rule,
        num_train_nodes=config.cohort_size,
        fraction_evaluate=0.0,
        lr=config.lr,
        local_steps=config.local_steps,
        batch_size=config.batch_size,
        server_momentum=config.server.momentum,
        seed=config.seed,
        nodes=nodes.names,
        **settings,
    )
    start = ArrayRecord(config.model.build(digits(), config.seed).state_dict())
    delays = dict(zip(nodes.ids, stream(1, "delays").random(CLIENTS).tolist(), strict=True))  # nobody is in order
    grid = ScriptedGrid(nodes.answer, nodes.ids, clock=clock, delays=delays)
    result = strategy.start(grid, start, num_rounds=config.rounds, timeout=60)
    assert result.arrays is not None
    return strategy.layout.parameters_of(result.arrays), strategy.records


def assert_agreement(one: tuple[Tensor, list[RoundRecord]], other: tuple[Tensor, list[RoundRecord]]) -> None:
    (model, records), (same, others) = one, other
    difference = torch.linalg.vector_norm(model - same) / torch.linalg.vector_norm(model)
    assert float(difference) <= 1e-5
    for record, another in zip(records, others, strict=True):
        assert set(record.cohort) == set(another.cohort)
        assert set(record.kept) == set(another.kept)
        assert (record.round, record.step, record.lr) == (another.round, another.step, another.lr)
        assert (record.skipped, another.drops) == (False, ())


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
        {"server": ServerOptions(momentum=0.7)},
        {"model": SoftmaxRegression(l2=0.01)},
        {"seed": 11, "batch_size": 4096},
    ],
    ids=str,
)
def test_other_settings_agree(changes: dict[str, Any], clock: Clock) -> None:
    config = config_of(**changes)
    assert_agreement(simulated(config), deployed(config, clock))


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
    assert_agreement(simulation, deployed(config, clock, mods={LIAR: attacking(attack, seed=config.seed)}))
    honest, _ = simulated(config_of(rule=RULES[rule], cohort_size=size, attack=Honest()))
    assert not torch.allclose(honest, simulation[0], rtol=1e-3)  # or nothing was attacked


@pytest.mark.parametrize("name", ["alie", "ipm", "mimic"])
def test_an_omniscient_adversary_does_the_same_in_both(name: str, clock: Clock) -> None:
    config = config_of(attack=ATTACKS.build(name), byzantine=FixedMembers(clients=(1, 6)), rule=Rage(num_byzantine=2))
    drill = Omniscient(ATTACKS.build(name), byzantine={1, 6}, seed=config.seed)
    assert_agreement(simulated(config), deployed(config, clock, tampering=drill))


def test_the_sign_of_an_update_is_flipped_and_rage_notices(clock: Clock) -> None:
    strong = SignFlip(factor=10.0)
    config = attacked(strong, rounds=2)
    _, records = deployed(config, clock, mods={LIAR: attacking(strong, seed=config.seed)})
    assert all(LIAR in record.removed for record in records)


def test_a_run_with_a_twin_has_the_simulators_configuration(clock: Clock, tmp_path: Path) -> None:
    config = config_of(rounds=2)
    model, _ = deployed(config, clock, twin=config, run_folder=tmp_path)
    assert bool(np.isfinite(model.numpy()).all())
    text = (tmp_path / "config.toml").read_text()
    assert "digits" in text
    assert "dirichlet" in text
