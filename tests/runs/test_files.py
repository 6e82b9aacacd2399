"""Configurations in TOML: there and back, with comments, changed from the command line."""

from __future__ import annotations

import tomllib
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.simulation.test_tables import everything

from steadfed.aggregators import Krum, NearestNeighborMixing, Rage
from steadfed.attacks import SignFlip, Sleeper
from steadfed.errors import ParameterError, UnknownNameError
from steadfed.runs import config_from_toml, config_to_toml, read_config, template
from steadfed.runs._files import parse_assignment, provenance
from steadfed.simulation import ClientOptions, RunConfig
from steadfed.simulation._tables import NAMED

OPTION_TABLES = {"[client]", "[server]", "[evaluation]"}
CHANGED = RunConfig(
    rounds=7,
    batch_size="full",
    rule=NearestNeighborMixing(rule=Krum(num_byzantine=3)),
    attack=Sleeper(attack=SignFlip(factor=2.0), start=3),
    client=ClientOptions(clip=1.5),
    adversary_knows=("own",),
)


@pytest.mark.parametrize("config", [RunConfig(), CHANGED])
def test_a_configuration_goes_into_toml_and_comes_back(config: RunConfig) -> None:
    text = config_to_toml(config, {"torch": "1.2", "note": 'say "hi"\n'})
    assert config_from_toml(text) == config
    assert provenance(text) == {"torch": "1.2", "note": 'say "hi"\n'}
    assert provenance(config_to_toml(config)) == {}


@pytest.mark.parametrize("config", [RunConfig(), CHANGED])
def test_a_template_is_the_configuration_with_a_comment_before_every_key(config: RunConfig) -> None:
    text = template(config)
    assert config_from_toml(text) == config
    assert all(len(line) <= 120 for line in text.splitlines())
    assert_every_key_has_a_comment(text)


@pytest.mark.parametrize(("key", "name"), list(everything()))
def test_everything_registered_has_a_template(key: str, name: str) -> None:
    config = RunConfig(**{key: NAMED[key].example(name, num_byzantine=1)})
    text = template(config)
    assert config_from_toml(text) == config
    assert "None" not in text, "TOML has none"
    assert_every_key_has_a_comment(text)


def test_a_template_offers_what_a_person_may_choose() -> None:
    offered = " ".join(template(RunConfig()).replace("#", "").split())
    assert "digits, fashion-mnist, heart-disease" in offered
    assert "remote" not in offered


def assert_every_key_has_a_comment(text: str) -> None:
    """Look at the line before every key; the name of a table is explained before the table."""
    lines = text.splitlines()
    for before, line in pairwise(["", *lines]):
        if line.startswith("name = "):
            assert before.startswith("[")
        elif line.startswith("[") and line not in OPTION_TABLES:
            assert before.startswith("# "), f"no comment before {line}"
        elif " = " in line and not line.startswith(("#", " ", "[")):
            assert before.startswith("# "), f"no comment before the key of {line}"
    assert text.startswith("# ")


def test_a_template_shows_what_could_be_set() -> None:
    assert "# clip = ..." in template(RunConfig())
    assert "clip = 1.5" in template(CHANGED)
    assert "[rule.rule]" in template(CHANGED)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (["lr=0.5"], {"lr": 0.5}),
        (["batch_size=full"], {"batch_size": "full"}),
        (['batch_size="full"'], {"batch_size": "full"}),
        (["rounds=3", "seed=9"], {"rounds": 3, "seed": 9}),
        (["rounds=3", "rounds=4"], {"rounds": 4}),
        (["rule.byzantine_fraction=0.1"], {"rule": Rage(byzantine_fraction=0.1)}),
        (["rule=krum", "rule.num_byzantine=2"], {"rule": Krum(num_byzantine=2)}),
        (["rule=nnm+krum", "rule.num_byzantine=2"], {"rule": NearestNeighborMixing(rule=Krum(num_byzantine=2))}),
        (['rule={name="krum", num_byzantine=2}'], {"rule": Krum(num_byzantine=2)}),
        (["client.clip=2.0"], {"client": ClientOptions(clip=2.0)}),
        (["adversary_knows=['own']"], {"adversary_knows": ("own",)}),
        (["device=cpu"], {"device": "cpu"}),
        (["total_steps=50"], {"rounds": 10}),
        (["total_steps=50", "rounds=3"], {"rounds": 3}),
        (["model.hidden=[8, 4]"], {"model": RunConfig().model.model_copy(update={"hidden": (8, 4)})}),
    ],
)
def test_settings_change_a_configuration(settings: list[str], expected: dict[str, Any]) -> None:
    assert config_from_toml(template(RunConfig()), settings) == RunConfig(**expected)


def test_setting_the_number_of_byzantine_rows_takes_their_share_out_and_back() -> None:
    config = config_from_toml(template(RunConfig(rule=Rage(byzantine_fraction=0.3))), ["rule.num_byzantine=3"])
    assert config.rule == Rage(num_byzantine=3)
    assert config_from_toml(template(config), ["rule.byzantine_fraction=0.1"]).rule == Rage(byzantine_fraction=0.1)


def test_a_file_that_is_not_toml_is_named(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text("lr = ")
    with pytest.raises(ParameterError, match=r"cannot read the configuration '.*mine.toml': not valid TOML"):
        read_config(tmp_path / "mine.toml")


def test_settings_work_on_what_a_file_leaves_out() -> None:
    assert config_from_toml("", ["client.momentum=0.5"]) == RunConfig(client=ClientOptions(momentum=0.5))
    assert config_from_toml("total_steps = 20", ["rounds=3"]) == RunConfig(rounds=3)


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("lr", "KEY=VALUE, got 'lr'"),
        ("=3", "KEY=VALUE, got '=3'"),
        ("lr=fast", "lr: input should be a real number, got 'fast'"),
        ("lr.x=3", "lr is a value, not a table"),
        ("lrr=3", "no parameter 'lrr', did you mean 'lr'"),
        ("client.momentun=0.5", "did you mean 'momentum'"),
        ("rule.kapa=2", "did you mean 'kappa'"),
    ],
)
def test_wrong_settings_say_what_is_wrong(setting: str, words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        config_from_toml(template(RunConfig()), [setting])


def test_an_unknown_rule_on_the_command_line_is_refused_with_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'krum'"):
        config_from_toml("", ["rule=krun"])


def test_values_are_toml_or_else_text() -> None:
    assert parse_assignment("a.b=[1, 2]") == ("a.b", [1, 2])
    assert parse_assignment("a=true") == ("a", True)
    assert parse_assignment("a=x=y") == ("a", "x=y")
    assert parse_assignment("a=") == ("a", "")


def test_files_that_cannot_be_read_say_so(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=r"cannot read the configuration .*nowhere.*steadfed init"):
        read_config(tmp_path / "nowhere.toml")
    with pytest.raises(ParameterError, match="cannot read"):
        read_config(tmp_path)
    (tmp_path / "latin").write_bytes(b"data = '\xe4'")
    with pytest.raises(ParameterError, match="cannot read"):
        read_config(tmp_path / "latin")
    (tmp_path / "bad").write_text("rounds = = 3")
    with pytest.raises(ParameterError, match="not valid TOML"):
        read_config(tmp_path / "bad")
    (tmp_path / "good").write_text("rounds = 3")
    assert read_config(tmp_path / "good", ["lr=0.2"]) == RunConfig(rounds=3, lr=0.2)


def test_a_configuration_in_a_file_holds_plain_toml() -> None:
    assert tomllib.loads(config_to_toml(CHANGED))["attack"]["attack"] == {"name": "sign-flip", "factor": 2.0}
