"""`steadfed run` and `steadfed resume`, as a user meets them."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest
from tests.cli.commands import ONE_THREAD, PROGRAM, refused, run, small_config
from tests.same_results import same_results
from typer.testing import CliRunner

from steadfed._cli.app import app
from steadfed._cli.outcome import NO_SUCCESS
from steadfed.server._folder import RunFolder

LONG = ("--set", "rounds=100", "--set", "local_steps=20")
"""Rounds enough for a signal to come in between."""


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def config(tmp_path: Path) -> str:
    return str(small_config(tmp_path))


def test_run_shows_lines_a_table_and_the_folder(config: str) -> None:
    result = CliRunner().invoke(app, ["run", config, "--jobs", "1"], env={"COLUMNS": "120"})
    assert result.exit_code == 0, result.output
    assert "runs/small-1: 6 rounds" in result.stderr
    assert "6 of 6 rounds  loss" in result.stderr
    assert "removed 2 (2/2 Byzantine)" in result.stderr
    for word in ("runs/small-1", "complete, 6 rounds", "scaling(factor=50.0)", "updates kept (0.0 %)"):
        assert word in result.stdout


def test_every_run_has_its_own_folder(config: str) -> None:
    quiet = ("run", config, "--jobs", "1", "--quiet")
    assert run(*quiet).split() == ["runs/small-1"]
    assert run(*quiet).split() == ["runs/small-2"]
    assert run(*quiet, "--out", "here").split() == ["here"]
    assert same_results(RunFolder.open("runs/small-1"), RunFolder.open("here")) == []


@pytest.mark.usefixtures("two_threads")
def test_the_number_of_processes_changes_nothing(config: str) -> None:
    run("run", config, "--jobs", "1", "--out", "one", "-q")
    run("run", config, "--jobs", "2", "--out", "two", "-q")
    assert same_results(RunFolder.open("one"), RunFolder.open("two")) == []


def test_settings_change_the_configuration(config: str) -> None:
    run("run", config, "-q", "--jobs", "1", "--set", "rounds=2", "--set", "rule=median", "--set", "client.momentum=0.5")
    text = RunFolder.open("runs/small-1").config_text()
    for line in ("rounds = 2", 'name = "median"', "momentum = 0.5"):
        assert line in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--set", "rouds=3"), "did you mean 'rounds'"),
        (("--set", "rounds"), "KEY=VALUE"),
        (("--set", "cohort_size=500"), "at most the number of clients"),
        (("--set", "data=libsvm", "--set", "data.path=nowhere"), "nowhere"),
    ],
)
def test_what_cannot_run_leaves_no_folder(
    config: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    message: str,
) -> None:
    assert message in refused(capsys, monkeypatch, "run", config, *arguments)
    assert not list(Path("runs").glob("*"))


def test_a_folder_that_holds_a_run_is_not_overwritten(
    config: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run("run", config, "-q", "--jobs", "1", "--out", "here")
    assert "steadfed resume here" in refused(capsys, monkeypatch, "run", config, "--out", "here")


def test_resuming_a_complete_run_shows_it(config: str) -> None:
    run("run", config, "-q", "--jobs", "1", "--out", "here")
    before = (Path("here") / "rounds.jsonl").read_bytes()
    result = CliRunner().invoke(app, ["resume", "here"])
    assert result.exit_code == 0
    assert "here is complete" in result.stderr
    assert (Path("here") / "rounds.jsonl").read_bytes() == before


def test_resume_refuses_what_is_no_run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert "does not exist" in refused(capsys, monkeypatch, "resume", "nowhere")


def test_resume_names_the_runs_of_a_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("mean", "rage"):
        (tmp_path / "several" / name).mkdir(parents=True)
        (tmp_path / "several" / name / "config.toml").touch()
    said = refused(capsys, monkeypatch, "resume", str(tmp_path / "several"))
    assert "holds 2 runs; give one of them: " in said
    assert f"{tmp_path / 'several' / 'mean'}, {tmp_path / 'several' / 'rage'}" in said
    for number in range(20):
        (tmp_path / "many" / f"{number:02}").mkdir(parents=True)
        (tmp_path / "many" / f"{number:02}" / "config.toml").touch()
    said = refused(capsys, monkeypatch, "resume", str(tmp_path / "many"))
    assert f"{tmp_path / 'many' / '09'} and 10 more" in said


def test_resume_tells_what_it_passed_over(config: str) -> None:
    run("run", config, "-q", "--jobs", "1", "--out", "here", "--set", "rounds=4")
    folder = Path("here")
    (folder / "summary.json").unlink()
    newest = max(folder.glob("checkpoints/*.safetensors"))
    newest.write_bytes(newest.read_bytes()[:-1])
    result = CliRunner().invoke(app, ["resume", "here", "--jobs", "1"])
    assert result.exit_code == 0, result.output
    assert "note: the checkpoint after 4 rounds is not whole" in result.stderr
    assert (folder / "summary.json").exists()


def stopped_by(number: signal.Signals, config: str) -> RunFolder:
    """Return what is left of a run that hears a signal after its first round."""
    command = [*PROGRAM, "run", config, "--out", "stopped", "--jobs", "2", *LONG]
    with subprocess.Popen(  # noqa: S603  the project's own program
        command, stderr=subprocess.PIPE, text=True, env=ONE_THREAD, start_new_session=True
    ) as process:
        assert process.stderr is not None
        assert "100 rounds" in process.stderr.readline()
        assert process.stderr.readline().startswith("  1 of 100 rounds")
        os.killpg(process.pid, number)  # as a terminal does: the workers hear it too
        said = process.stderr.read()
    assert process.returncode == 128 + number, said
    assert "stopping after this round" in said
    assert "steadfed resume stopped" in said
    folder = RunFolder.open("stopped")
    assert 1 <= folder.num_rounds() < 100
    return folder


def test_ctrl_c_stops_between_rounds_and_resuming_ends_as_if_nothing_had_happened(config: str) -> None:
    stopped = stopped_by(signal.SIGINT, config)
    run("resume", "stopped", "-q", "--jobs", "1")
    run("run", config, "--out", "whole", "-q", "--jobs", "1", *LONG)
    assert same_results(stopped, RunFolder.open("whole")) == []


def test_sigterm_stops_between_rounds(config: str) -> None:
    with stopped_by(signal.SIGTERM, config).locked():
        pass  # nobody works in it any more


def test_a_model_in_the_current_folder_is_found(config: str, tmp_path: Path) -> None:
    (tmp_path / "mine_alone.py").write_text(
        "from torch import nn\ndef model():\n    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))\n"
    )
    settings = ("--set", "model=import", "--set", "model.factory=mine_alone:model", "--set", "rounds=1")
    command = [*PROGRAM, "run", config, "-q", "--out", "mine", *settings]
    subprocess.run(command, check=True, env=ONE_THREAD, cwd=tmp_path)  # noqa: S603
    assert RunFolder.open("mine").num_rounds() == 1


def test_a_run_that_skipped_every_round_has_an_exit_code_of_its_own(config: str) -> None:
    words = ["run", config, "--jobs", "1", "--set", "client.erasure_rate=0.95", "--out", "silent"]
    result = CliRunner().invoke(app, words, env={"COLUMNS": "120"})
    assert result.exit_code == NO_SUCCESS
    assert "no success: all 6 rounds were skipped, so the model is the one it began with: " in result.stderr
    assert "no success: all 6 rounds were skipped" in " ".join(result.stdout.split())
    assert CliRunner().invoke(app, ["resume", "silent"]).exit_code == NO_SUCCESS


def test_clients_that_a_configuration_makes_silent_are_no_failure(config: str) -> None:
    rule = ("--set", 'rule={ name = "median", num_byzantine = 1 }')
    run("run", config, "--jobs", "1", "--set", "client.erasure_rate=0.4", *rule, "--out", "some")
    assert "too many silent" in run("audit", "some")
