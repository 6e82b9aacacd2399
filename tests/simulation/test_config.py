"""Configurations: total steps, and errors that show the value and say what is allowed."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest
import torch
from tests.simulation.attackers import Copycat
from tests.simulation.small import classes, config, numbers

from steadfed.aggregators import RULES, FlTrust, Krum, Zeno
from steadfed.attacks import ATTACKS, MEMBERSHIPS, ClassFlip, FractionMembers, LabelFlip, Optimal, SignFlip, Sleeper
from steadfed.data import DATASETS
from steadfed.errors import CohortTooSmallError, ParameterError
from steadfed.extend import Registry
from steadfed.models import MODELS, Quadratic
from steadfed.partitions import PARTITIONS
from steadfed.simulation import (
    COHORTS,
    COMPRESSIONS,
    SCHEDULES,
    STEP_SCHEDULES,
    ClientOptions,
    Evaluation,
    ExponentialSchedule,
    Federation,
    RunConfig,
    ServerOptions,
)


def test_every_field_has_public_types() -> None:
    """Whoever may write a field of a configuration can import what is written there."""
    for name, field in RunConfig.model_fields.items():
        for kind in (field.annotation, type(field.default)):
            if isinstance(kind, type) and kind.__module__.startswith("steadfed."):
                package = import_module(".".join(kind.__module__.split(".")[:2]))
                assert getattr(package, kind.__name__, None) is kind, name


@pytest.mark.parametrize(
    "registry",
    [ATTACKS, COHORTS, COMPRESSIONS, DATASETS, MEMBERSHIPS, MODELS, PARTITIONS, RULES, SCHEDULES, STEP_SCHEDULES],
    ids=lambda registry: registry.kind,
)
def test_everything_with_a_name_that_a_person_may_choose_is_public(registry: Registry[Any]) -> None:
    for name in registry.offered:
        kind = registry[name]
        package = import_module(".".join(kind.__module__.split(".")[:2]))
        assert getattr(package, kind.__name__, None) is kind, name


def test_total_steps_are_rounds_times_local_steps() -> None:
    values: list[dict[str, Any]] = [{"total_steps": 60, "local_steps": 4}, {"total_steps": np.int64(20)}]
    assert [RunConfig(**each).rounds for each in values] == [15, 4]
    assert [RunConfig(**each).total_steps for each in values] == [60, 20]


@pytest.mark.parametrize(
    "values",
    [
        {"total_steps": 7, "local_steps": 2},
        {"total_steps": 0},
        {"total_steps": -5},
        {"total_steps": 2.5},
        {"total_steps": "many"},
        {"total_steps": True, "local_steps": 1},
        {"total_steps": 10, "local_steps": 0},
        {"total_steps": 10, "local_steps": -5},
        {"total_steps": 10, "local_steps": "two"},
    ],
)
def test_total_steps_that_are_no_multiple_are_refused(values: dict[str, Any]) -> None:
    with pytest.raises(ParameterError, match=f"positive multiple of local_steps = .*got {values['total_steps']!r}"):
        RunConfig(**values)


def test_rounds_and_total_steps_together_are_refused() -> None:
    with pytest.raises(ParameterError, match="one of rounds and total_steps, got 3 and 15"):
        RunConfig(rounds=3, total_steps=15)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("cls", "key", "value", "allowed"),
    [
        (RunConfig, "rounds", 0, "greater than or equal to 1"),
        (RunConfig, "seed", -1, "greater than or equal to 0"),
        (RunConfig, "cohort_size", 2.5, "whole number"),
        (RunConfig, "cohort_size", True, "whole number"),
        (RunConfig, "lr", 0.0, "greater than 0"),
        (RunConfig, "lr", float("nan"), "finite"),
        (RunConfig, "lr", float("inf"), "finite"),
        (RunConfig, "lr", "fast", "real number"),
        (RunConfig, "batch_size", 0, "greater than or equal to 1"),
        (RunConfig, "batch_size", "half", "'full'"),
        (RunConfig, "dtype", "float16", "'float32' or 'float64'"),
        (RunConfig, "engine", "fast", "'auto', 'stacked', 'vmap' or 'loop'"),
        (RunConfig, "adversary_knows", ("everything",), "'own', 'honest' or 'rule'"),
        (RunConfig, "checkpoint_every", 0, "greater than or equal to 1"),
        (RunConfig, "rule", 3, "instance of Aggregator"),
        (ClientOptions, "momentum", 1.0, "less than 1"),
        (ClientOptions, "erasure_rate", -0.1, "greater than or equal to 0"),
        (ClientOptions, "clip", 0.0, "greater than 0"),
        (ClientOptions, "weight_decay", -1.0, "greater than or equal to 0"),
        (ServerOptions, "momentum", 1.5, "less than 1"),
        (ServerOptions, "trusted_points", -1, "greater than or equal to 0"),
        (Evaluation, "every", 0, "greater than or equal to 1"),
        (Evaluation, "train_points", -1, "greater than or equal to 0"),
        (Evaluation, "test_points", "some", "'all'"),
    ],
)
def test_a_wrong_value_is_shown_with_what_is_allowed(cls: type, key: str, value: object, allowed: str) -> None:
    with pytest.raises(ParameterError) as caught:
        cls(**{key: value})
    assert key in str(caught.value)
    assert allowed in str(caught.value)
    shown = value[0] if isinstance(value, tuple) else value
    assert f"got {shown!r}" in str(caught.value)


def test_an_unknown_key_is_refused_with_the_nearest() -> None:
    with pytest.raises(ParameterError, match="no parameter 'cohort_sise', did you mean 'cohort_size'"):
        RunConfig(cohort_sise=3)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"attack": Copycat(), "adversary_knows": ("own",)}, "Copycat.. must know 'honest'.*got .'own'."),
        ({"attack": Sleeper(attack=Copycat()), "adversary_knows": ("own", "rule")}, "must know 'honest'"),
        ({"attack": Optimal(attack=SignFlip()), "adversary_knows": ("own", "honest")}, "must know 'rule'"),
        ({"attack": SignFlip(), "adversary_knows": ()}, "must know 'own'; adversary_knows must hold 'own', got \\[\\]"),
        ({"attack": ClassFlip(source=0, target=3)}, "target must lie in 0 .. 2 for 3 classes, got 3"),
        ({"rule": FlTrust()}, "needs an update of the server's own.*trusted_points to at least 1, got 0"),
        ({"rule": Zeno(num_byzantine=1)}, "needs the loss.*trusted_points to at least 1, got 0"),
        ({"server": ServerOptions(trusted_points=120)}, "less than the 120 training points, got 120"),
        ({"device": "abacus"}, "device must be one that torch can use.*got 'abacus'"),
        ({"device": "meta"}, "device must be one that torch can use.*got 'meta'"),
        ({"device": "hpu"}, "device must be one that torch can use.*got 'hpu'"),
        (
            {"rounds": 300, "schedule": ExponentialSchedule(decay=0.01)},
            r"step size of the last round must be at least 2.*got 0 with lr = 0.1 and Exp.* after 300 rounds",
        ),
        ({"engine": "stacked", "model": Quadratic()}, "'stacked' cannot train this model"),
    ],
)
def test_what_would_fail_in_some_round_is_refused_at_set_up(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        Federation(config(byzantine=FractionMembers(fraction=0.25), **changes), dataset=classes())


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_device_that_is_not_there_is_refused_at_set_up() -> None:
    with pytest.raises(ParameterError, match=r"device must be one that torch can use.*got 'cuda'"):
        Federation(config(device="cuda"), dataset=classes())


def test_a_rule_that_needs_a_larger_cohort_is_refused_at_set_up() -> None:
    with pytest.raises(CohortTooSmallError, match="at least"):
        Federation(config(rule=Krum(num_byzantine=2)), dataset=classes())


@pytest.mark.parametrize("attack", [LabelFlip(), Sleeper(attack=LabelFlip(), start=17)])
def test_an_attack_on_labels_that_are_no_classes_is_refused_at_set_up(attack: Any) -> None:
    with pytest.raises(ParameterError, match="changes classes, and the labels of numbers are no classes"):
        Federation(config(attack=attack, model=Quadratic()), dataset=numbers())
