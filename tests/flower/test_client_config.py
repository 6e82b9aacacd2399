"""Absurd settings are refused before the first round, with their name, what was given, and what is allowed."""

from __future__ import annotations

import math
from typing import Any

import pytest
from flwr.app import ArrayRecord, ConfigRecord
from tests.flower.federations import NODES, honest, model
from tests.flower.grids import ScriptedGrid

from steadfed.aggregators import FlTrust, Mean, Rage, Zeno
from steadfed.errors import ParameterError, SteadfedError
from steadfed.flower._client_config import ClientConfig
from steadfed.flower._guarded import GuardedStrategy
from steadfed.flower._records import layout_of
from steadfed.flower._strategies import RageStrategy, RobustStrategy
from steadfed.simulation import RunConfig
from steadfed.simulation._schedules import SCHEDULES

NAN, INF = math.nan, math.inf
WORSE: tuple[Any, ...] = (None, "three", [], {}, object(), 1j)

ABSURD: dict[str, tuple[Any, ...]] = {
    "fraction_train": (-0.1, 1.1, NAN, INF, True, *WORSE),
    "fraction_evaluate": (-0.1, 1.1, NAN, INF, True, *WORSE),
    "min_train_nodes": (0, -1, 1.5, NAN, True, *WORSE),
    "min_evaluate_nodes": (0, -1, 1.5, NAN, True, *WORSE),
    "min_available_nodes": (0, -1, 1.5, NAN, True, *WORSE),
    "num_train_nodes": (0, -1, 1.5, NAN, True, *WORSE[1:]),
    "weighted_by_key": ("", 3, None, b"n"),
    "arrayrecord_key": ("", 3, None, b"arrays"),
    "configrecord_key": ("", 3, None, b"config", "arrays"),
    "train_metrics_aggr_fn": (3, "mean"),
    "evaluate_metrics_aggr_fn": (3, "mean"),
    "lr": (0.0, -1.0, NAN, INF, True, *WORSE[1:]),
    "local_steps": (0, -1, 1.5, NAN, True, *WORSE),
    "batch_size": (0, -1, 1.5, NAN, True, "half", None, [], {}, object()),
    "schedule": (3, "cosine", None),
    "server_momentum": (-0.1, 1.0, NAN, INF, True, *WORSE),
    "seed": (-1, 1.5, NAN, True, *WORSE),
    "cohorts": (3, "uniform", None),
    "nodes": ({}, 3, {1: "a", 2: "a"}, {"x": 1}, [1]),
    "run_folder": (3, 1.5, [], b"folder", ""),
    "twin": (3, "run.toml", {}),
    "convert_dtypes": ("yes", 1, None),
    "buffers": ("*running_var", 3, None, (1, 2)),
    "wait_for_nodes": (-1.0, NAN, INF, True, *WORSE),
    "trusted_update_fn": (3, "mean"),
    "trusted_loss_fn": (3, "loss"),
    "compression": (3, 0.1, "random-k", None),
    "coordinates_seed": (-1, 1.5, True, "7"),
    "signing_key": (3, 1.5, [], b"key", ""),
    "tampering": (3, "omniscient"),
    "site_weights": (3, "sizes", {}),
    "max_share": (0.0, -1.0, 1.5, NAN, True, "half"),
}
CASES = [(name, value) for name, values in ABSURD.items() for value in values]


pytestmark = pytest.mark.usefixtures("clock")


@pytest.mark.parametrize(("name", "value"), CASES, ids=[f"{name}-{value!r:.20}" for name, value in CASES])
def test_absurd_settings_are_refused_by_name_with_the_value(name: str, value: Any) -> None:
    with pytest.raises(ParameterError) as caught:
        RobustStrategy(Mean(), **{name: value})
    text = str(caught.value)
    assert name.removeprefix("server_") in text
    assert repr(value)[:20] in text or name == "nodes"


def test_every_keyword_is_among_the_absurd_ones() -> None:
    keywords = set(RobustStrategy.__dataclass_fields__) - {"rule"}
    assert keywords == set(ABSURD)


@pytest.mark.parametrize("rule", [3, None, b"rage", object()])
def test_a_rule_must_be_one(rule: Any) -> None:
    with pytest.raises(ParameterError, match="must be an Aggregator"):
        RobustStrategy(rule)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"num_malicious_nodes": 1, "byzantine_fraction": 0.1},
        {"num_malicious_nodes": -1},
        {"num_malicious_nodes": 1.5},
        {"num_malicious_nodes": True},
        {"byzantine_fraction": 0.5},
        {"byzantine_fraction": -0.1},
        {"byzantine_fraction": NAN},
        {"byzantine_fraction": "many"},
    ],
)
def test_rage_is_told_one_bound_that_can_be(settings: dict[str, Any]) -> None:
    with pytest.raises(ParameterError) as caught:
        RageStrategy(**settings)
    for name, value in settings.items():
        assert name in str(caught.value)
        assert len(settings) > 1 or repr(value) in str(caught.value)


@pytest.mark.parametrize("strategy", [3, None, "fedavg", RobustStrategy(Mean())])
def test_only_flowers_own_strategies_are_guarded(strategy: Any) -> None:
    with pytest.raises(ParameterError, match="FedAvg"):
        GuardedStrategy(strategy)


@pytest.mark.parametrize(
    ("rule", "missing"), [(FlTrust(), "trusted_update_fn"), (Zeno(num_byzantine=1), "trusted_loss_fn")]
)
def test_rules_that_need_something_trusted_say_what_to_give(rule: Any, missing: str) -> None:
    with pytest.raises(ParameterError, match=missing):
        RobustStrategy(rule)


@pytest.mark.parametrize("rounds", [0, -1, 1.5, True, None, "three"])
def test_a_number_of_rounds_must_be_one(rounds: Any) -> None:
    with pytest.raises(ParameterError, match="num_rounds"):
        RobustStrategy(Mean()).start(ScriptedGrid(honest, NODES), model(), num_rounds=rounds)


@pytest.mark.parametrize("timeout", [-1.0, NAN, "long", True])
def test_a_timeout_must_be_one(timeout: Any) -> None:
    with pytest.raises(ParameterError, match="timeout"):
        RobustStrategy(Mean()).start(ScriptedGrid(honest, NODES), model(), num_rounds=1, timeout=timeout)


def test_a_model_without_parameters_is_refused() -> None:
    with pytest.raises(SteadfedError, match="parameter"):
        RobustStrategy(Mean()).start(ScriptedGrid(honest, NODES), ArrayRecord(), num_rounds=1)


def test_before_the_first_round_there_is_no_layout_and_no_state() -> None:
    strategy = RobustStrategy(Mean())
    for name in ("layout", "state"):
        with pytest.raises(ParameterError, match="configure_train first"):
            getattr(strategy, name)
    assert strategy.aggregate_train(1, []) == (None, None)


def test_what_the_server_decides_cannot_be_replaced_by_the_users_config() -> None:
    told = ClientConfig.of(lr=0.5, rule=Rage(num_byzantine=1), local_steps=3, batch_size="full", seed=7)
    config = told.config(4, ConfigRecord({"lr": 9.0, "round": 0, "own": "word"}))
    wanted = {"lr": 0.5, "round": 4, "server-round": 5, "local-steps": 3, "batch-size": 0, "seed": 7, "own": "word"}
    assert dict(config) == wanted


@pytest.mark.parametrize("steps", [[1, 4, 2], {"name": "uniform", "lowest": 2, "highest": 9}])
def test_every_round_is_told_its_own_number_of_steps(steps: Any) -> None:
    told = ClientConfig.of(lr=0.5, rule=Rage(num_byzantine=1), local_steps=steps, seed=7).with_rounds(6)
    sent: list[Any] = [told.config(number, ConfigRecord())["local-steps"] for number in range(6)]
    assert sent == [RunConfig(local_steps=steps, seed=7).steps_of(number) for number in range(6)]
    assert len(set(sent)) > 1
    assert all(type(each) is int for each in sent)
    assert [told.steps_until(number) for number in range(7)] == [sum(sent[:number]) for number in range(7)]


def test_more_numbers_of_steps_than_rounds_are_refused_when_the_rounds_are_known() -> None:
    strategy = RobustStrategy(Mean(), local_steps=[1, 4, 2])
    with pytest.raises(ParameterError, match="at most one number per round, got 3 for 2 rounds"):
        strategy.start(ScriptedGrid(honest, NODES), model(), num_rounds=2)


@pytest.mark.parametrize("name", SCHEDULES)
def test_the_step_size_follows_the_schedule_over_the_rounds_of_the_run(name: str) -> None:
    schedule = SCHEDULES[name]()
    told = ClientConfig.of(lr=0.5, rule=Mean(), schedule=schedule).with_rounds(10)
    config = RunConfig(lr=0.5, schedule=schedule, rounds=10)
    assert [told.lr_of(number) for number in range(10)] == [config.lr_of(number) for number in range(10)]
    assert (told.lr_of(9) < told.lr_of(0)) == (name != "constant")


def test_the_description_is_a_configuration_of_the_simulator_without_its_data() -> None:
    told = ClientConfig.of(lr=None, rule=Mean()).with_rounds(3)
    config = told.to_run_config(layout_of(model()), num_clients=9, cohort_size=4, twin=None)
    assert (config.rounds, config.cohort_size, config.lr) == (3, 4, 1.0)
    twin = RunConfig(cohort_size=5)
    known = told.to_run_config(layout_of(model()), num_clients=9, cohort_size=4, twin=twin)
    assert (known.data, known.partition, known.model, known.cohort_size) == (twin.data, twin.partition, twin.model, 4)


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ({"min_train_nodes": 0}, "min_train_nodes must be a whole number of at least 1, got 0"),
        ({"fraction_train": 2}, "fraction_train must be a number from 0 to 1, got 2"),
        ({"wait_for_nodes": -1}, "wait_for_nodes must be a number of seconds from 0 on, got -1"),
    ],
)
def test_the_checks_of_numbers_show_the_value(setting: dict[str, Any], said: str) -> None:
    with pytest.raises(ParameterError, match=said):
        RobustStrategy(Mean(), **setting)
