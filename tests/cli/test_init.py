"""`steadfed init` and `steadfed check`, as a user meets them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.commands import refused, run, small_config
from typer.testing import CliRunner

from steadfed._cli.app import app
from steadfed._cli.demonstration import configs
from steadfed.aggregators import FlTrust, NearestNeighborMixing
from steadfed.runs import read_config


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_init_writes_the_federation_of_the_demonstration_and_says_what_to_do_next() -> None:
    output = run("init")
    assert "steadfed check run.toml" in output
    assert "steadfed run run.toml" in output
    config = read_config(Path("run.toml"))
    assert config == configs(rounds=100)["rage"].model_copy(update={"checkpoint_every": 1})
    assert (config.cohort_size, config.local_steps, config.partition.num_clients) == (40, 5, 100)  # type: ignore[attr-defined]


def test_init_overwrites_only_if_told_to(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    Path("mine.toml").write_text("rounds = 1")
    assert "--force" in refused(capsys, monkeypatch, "init", "mine.toml")
    assert Path("mine.toml").read_text() == "rounds = 1"
    run("init", "mine.toml", "--force")
    assert read_config(Path("mine.toml")).rounds == 100


def test_init_starts_from_other_parts() -> None:
    run(
        "init",
        "--data",
        "synthetic-logistic",
        "--model",
        "logistic-regression",
        "--rule",
        "nnm+krum",
        "--attack",
        "none",
    )
    config = read_config(Path("run.toml"))
    assert isinstance(config.rule, NearestNeighborMixing)
    assert config.rule.assumed_byzantine(40) == 12
    assert not config.byzantine.members(0, 100, seed=0).any()
    assert (config.lr, config.batch_size) == (0.1, 32)


def test_init_gives_the_server_points_if_the_rule_needs_them() -> None:
    run("init", "--rule", "fltrust")
    config = read_config(Path("run.toml"))
    assert isinstance(config.rule, FlTrust)
    assert config.server.trusted_points > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--rule", "rags"), "did you mean 'rage'"),
        (("--data", "digit"), "did you mean 'digits'"),
        (("nowhere/run.toml",), "cannot write 'nowhere/run.toml'"),
        (
            ("--data", "npz"),
            "npz needs path: leave --data out, then `steadfed run FILE --set data=npz --set data.path=",
        ),
    ],
)
def test_init_refuses_what_it_cannot_write(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], message: str
) -> None:
    assert message in refused(capsys, monkeypatch, "init", *arguments)


def test_check_says_what_would_run_and_warns(tmp_path: Path) -> None:
    config = str(small_config(tmp_path))
    output = run("check", config)
    for word in ("R = 12", "d = 650", "rage", "memory"):
        assert word in output
    assert not Path("runs").exists()
    assert "warning" not in output
    doubtful = ("check", config, "--set", "byzantine.clients=[0, 1, 2, 3, 4]")
    assert "warning: ε = 0.417 > K/4R" in " ".join(run(*doubtful).split())
    assert CliRunner().invoke(app, [*doubtful, "--strict"]).exit_code == 1


def test_check_refuses_what_cannot_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = str(small_config(tmp_path))
    assert "cohort_size" in refused(capsys, monkeypatch, "check", config, "--set", "cohort_size=13")
    assert "steadfed init" in refused(capsys, monkeypatch, "check", "missing.toml")
