"""Configurations as tables: everything registered goes into TOML and comes back the same."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from typing import Any

import pytest
import tomli_w

from steadfed.errors import ParameterError, UnknownNameError
from steadfed.simulation import RunConfig, config_from_table, config_table
from steadfed.simulation._tables import LATER, NAMED


def everything() -> Iterator[tuple[str, str]]:
    for key, names in NAMED.items():
        for name in names:
            yield key, name


@pytest.mark.parametrize(("key", "name"), list(everything()))
def test_everything_registered_goes_into_toml_and_comes_back(key: str, name: str) -> None:
    config = RunConfig(**{key: NAMED[key].example(name, num_byzantine=1)})
    text = tomli_w.dumps(config_table(config))
    assert config_from_table(tomllib.loads(text)) == config
    assert tomllib.loads(text).get(key, {"name": "none"})["name"] == name


def test_a_table_is_complete_but_for_what_older_versions_did_without_a_word() -> None:
    table = config_table(RunConfig())
    assert set(table) == set(RunConfig.model_fields) - set(LATER)
    told = {"byzantine_fraction": 0.25, "mode": "auto", "gram": "certified"}
    assert table["rule"] == {"name": "rage", **told}
    assert table["evaluation"] == {"every": 1, "train_points": 2_000, "test_points": "all", "measured_rounds": 10}


def test_what_is_left_out_is_at_its_default() -> None:
    assert config_from_table({}) == RunConfig()
    assert config_from_table({"total_steps": 50}) == RunConfig(rounds=10)


def test_objects_inside_objects_come_back() -> None:
    table = {"rule": {"name": "nnm", "rule": {"name": "krum", "num_byzantine": 2}}}
    config = config_from_table(table)
    assert config_table(config)["rule"]["rule"]["name"] == "krum"
    assert config_from_table(config_table(config)) == config
    assert config_from_table({"rule": {"name": "nnm+krum", "num_byzantine": 2}}) == config


@pytest.mark.parametrize(
    ("key", "wrong", "near"),
    [
        ("rule", "krumm", "krum"),
        ("attack", "sign-flop", "sign-flip"),
        ("data", "digit", "digits"),
        ("partition", "dirichle", "dirichlet"),
        ("model", "mpl", "mlp"),
        ("byzantine", "fracton", "fraction"),
        ("cohorts", "unifrom", "uniform"),
        ("schedule", "cosin", "cosine"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest(key: str, wrong: str, near: str) -> None:
    with pytest.raises(UnknownNameError, match=f"unknown .* '{wrong}', did you mean '{near}'"):
        config_from_table({key: {"name": wrong}})


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"lrr": 0.1}, "no parameter 'lrr', did you mean 'lr'"),
        ({"client": {"momentun": 0.1}}, "no parameter 'momentun', did you mean 'momentum'"),
        ({"rule": {"name": "rage", "byzantine_fraction": 0.1, "kapa": 3}}, "no parameter 'kapa', did you mean 'kappa'"),
        ({"rule": "krum"}, "rule must be a table, such as rule = { name = \"krum\" }; got 'krum'"),
        ({"client": 3}, "client must be a table, such as a table .client.; got 3"),
        ({"rule": {"byzantine_fraction": 0.1}}, "expected a table with the name of a rule"),
        ({"attack": {"name": 3}}, "expected a table with the name of an attack"),
    ],
)
def test_wrong_tables_are_refused_and_say_what_is_right(table: dict[str, Any], words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        config_from_table(table)
