"""Configurations of runs, built, and what can be said with them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests import deployments
from tests.reports.made import config, folder, four

from steadfed.attacks import Honest, SignFlip, Sleeper
from steadfed.reports._settings import attack_start, attack_start_of, config_of, problems_of
from steadfed.server._history import RunHistory


def test_another_configuration_is_built_again(tmp_path: Path) -> None:
    folder(tmp_path / "run", [four(0)])
    history = RunHistory(tmp_path / "run")
    assert config_of(history) == config()
    assert (attack_start(history), problems_of(history)) == (0, [])
    folder(tmp_path / "other", [], rounds=7)
    (tmp_path / "run" / "config.toml").write_bytes((tmp_path / "other" / "config.toml").read_bytes())
    (tmp_path / "run" / "rounds.jsonl").write_bytes(b"")
    assert history.refresh()
    assert config_of(history) == config(rounds=7)


@pytest.mark.parametrize("text", ["rounds = ", "rounds = 3\n", "\x00"])
def test_a_configuration_that_cannot_be_read_is_a_problem_and_no_error(tmp_path: Path, text: str) -> None:
    folder(tmp_path / "run", [four(0)])
    (tmp_path / "run" / "config.toml").write_text(text)
    history = RunHistory(tmp_path / "run")
    assert config_of(history) is None
    assert len(problems_of(history)) == 1
    assert history.rounds_played == 1
    assert attack_start(history) is None


def test_a_deployment_does_not_know_when_it_was_attacked(tmp_path: Path) -> None:
    deployments.deployment(tmp_path / "run")
    assert attack_start(RunHistory(tmp_path / "run")) is None


def test_the_start_of_an_attack_is_that_of_the_sleeper() -> None:
    inner = Sleeper(attack=SignFlip(), start=5)
    assert attack_start_of(config(rounds=20, attack=Sleeper(attack=inner, start=3)), range(20)) == 5
    assert attack_start_of(config(attack=Honest()), range(20)) is None
    assert attack_start_of(config(rounds=4, attack=inner), range(4)) is None
