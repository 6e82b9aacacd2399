"""Runs that a server app played."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.certification.small import convex as simulated
from tests.deployments import configured, deployment, remote_config

from steadfed.errors import CorruptRunError, MissingDataError, RunError
from steadfed.runs import Run, config_of, is_deployment
from steadfed.server._folder import RunFolder


def test_the_configuration_comes_back_and_its_seal_is_whole(tmp_path: Path) -> None:
    folder = deployment(tmp_path / "run")
    assert config_of(folder) == remote_config()
    assert is_deployment(folder)


def test_a_changed_configuration_is_noticed(tmp_path: Path) -> None:
    folder = deployment(tmp_path / "run")
    file = folder.path / "config.toml"
    file.write_text(file.read_text(encoding="utf-8").replace("lr = 0.1", "lr = 0.2"), encoding="utf-8")
    with pytest.raises(CorruptRunError, match="was changed after the run had started"):
        config_of(folder)


def test_it_is_continued_by_its_server_app_alone(tmp_path: Path) -> None:
    folder = deployment(tmp_path / "run", rounds=3)
    with pytest.raises(RunError, match=r"is a deployment.*Start its server app again.*after the 3 rounds"):
        Run.resume(folder.path)


def test_nor_does_the_simulator_continue_one_whose_data_are_known(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run", configured(simulated(), simulated().data.load().checksum))
    with pytest.raises(RunError, match="is a deployment"):
        Run.resume(folder.path)
    with pytest.raises(RunError, match="is a deployment"):
        next(Run.open(folder.path).play())


def test_one_whose_data_are_unknown_cannot_be_opened_with_data(tmp_path: Path) -> None:
    with pytest.raises(MissingDataError, match="with its clients"):
        Run.open(deployment(tmp_path / "run").path)


def test_runs_of_the_simulator_are_no_deployments(tmp_path: Path) -> None:
    assert not is_deployment(Run.start(simulated(), tmp_path / "run").folder)
