"""`steadfed federation`: what it refuses before anything starts. Real processes: tests/deploy/test_deployment.py."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cli.commands import refused, run
from typer.testing import CliRunner

from steadfed._cli.app import app
from steadfed._cli.federation import _node_configs
from steadfed.deploy import LocalDeployment, RunStatus
from steadfed.deploy._flower_commands import Flwr
from steadfed.deploy._folder import DeploymentFolder
from steadfed.deploy._services import ServerService
from steadfed.deploy._state import DeploymentState, NodeState, ProcessState
from steadfed.errors import ParameterError, RunError

EXAMPLE = Path(__file__).parents[2] / "examples" / "flower-federation"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder of a federation that was taken down."""
    place, link = DeploymentFolder(tmp_path / "federation"), ProcessState(port=20000)
    place.make()
    node = NodeState(
        process=ProcessState(port=20001),
        config={"partition-id": 0, "num-partitions": 1, "name": "Zurich", "attack": "nan"},
    )
    place.save(DeploymentState(secure=True, marker="mark", superlink=link, superexec=link, nodes=(node,)))
    return place.path


def test_nodes_are_told_what_the_options_say() -> None:
    assert _node_configs(["4=sign-flip", "0=sleeper+nan"], ["4.name=Zurich", "2.delay=1.5", "2.late=true"]) == {
        4: {"attack": "sign-flip", "name": "Zurich"},
        0: {"attack": "sleeper+nan"},
        2: {"delay": 1.5, "late": True},
    }


@pytest.mark.parametrize(("byzantine", "settings"), [(["nan"], []), (["x=nan"], []), (["1="], [])])
def test_a_drill_names_a_node_and_an_attack(byzantine: list[str], settings: list[str]) -> None:
    with pytest.raises(ParameterError, match=r"takes NODE=ATTACK, such as 4=sign-flip, got"):
        _node_configs(byzantine, settings)


@pytest.mark.parametrize("setting", ["name=x", "1.name", "1.=x", "x.name=y"])
def test_a_setting_names_a_node_a_key_and_a_value(setting: str) -> None:
    with pytest.raises(ParameterError, match=r"takes NODE\.KEY=VALUE"):
        _node_configs([], [setting])


def test_without_a_federation_one_is_told_how_to_start_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for words in (["status"], ["down"], ["run", str(EXAMPLE)]):
        told = refused(capsys, monkeypatch, "federation", *words, "--folder", str(tmp_path / "none"))
        assert "start one with `steadfed federation up`" in told


def test_a_run_needs_a_superlink_and_leaves_no_empty_folder(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, folder: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    told = refused(capsys, monkeypatch, "federation", "run", str(EXAMPLE), "--folder", str(folder))
    assert "does not run; begin anew with `steadfed federation down`" in told
    assert list((tmp_path / "runs").iterdir()) == []


def test_an_app_without_run_folders_is_given_none(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, folder: Path
) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.flwr.app]\npublisher = 'x'\n", encoding="utf-8")
    words = ["federation", "run", str(tmp_path), "--out", "x", "--folder", str(folder)]
    assert "has no setting run-folder" in refused(capsys, monkeypatch, *words)


def test_taking_down_twice_is_once(folder: Path) -> None:
    run("federation", "down", "--folder", str(folder))
    run("federation", "down", "--folder", str(folder), "--delete")
    assert not folder.exists()


def test_starting_without_flower_says_how_to_install_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    told = refused(capsys, monkeypatch, "federation", "up", "--folder", str(tmp_path / "federation"))
    assert "pip install 'steadfed[flower]'" in told
    assert not (tmp_path / "federation").exists()


@pytest.mark.parametrize(
    ("drills", "message"),
    [
        (["0=sign-flop"], "did you mean 'sign-flip'"),
        (["0=label-flip"], "in the client's data"),
        (["0=all-nan", "0=stall"], "names node 0 twice"),
    ],
)
def test_a_drill_that_cannot_be_is_refused_before_anything_starts(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    drills: list[str],
    message: str,
) -> None:
    words = [word for drill in drills for word in ("--byzantine", drill)]
    told = refused(capsys, monkeypatch, "federation", "up", *words, "--folder", str(tmp_path / "federation"))
    assert message in told
    assert "Starting" not in told
    assert not (tmp_path / "federation").exists()


@pytest.mark.parametrize("ended", ["stopped", "timeout"])
def test_a_run_of_which_nothing_came_leaves_no_empty_folder(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, folder: Path, ended: str
) -> None:
    class Submitted:
        run_id, log = 7, tmp_path / "log"

        def wait(self, timeout: float | None, *, look: Callable[[], object]) -> RunStatus:
            look()
            if ended == "timeout":
                raise RunError(f"not finished after {timeout} s")
            return RunStatus(status="finished:stopped")

        def stop(self) -> None: ...

        def output(self) -> str:
            return ""

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(LocalDeployment, "submit", lambda *_: Submitted())
    words = ["federation", "run", str(EXAMPLE), "--timeout", "5", "--folder", str(folder)]
    if ended == "timeout":
        assert "not finished after 5.0 s" in refused(capsys, monkeypatch, *words)
    else:
        assert CliRunner().invoke(app, words).exit_code == 1
    assert list((tmp_path / "runs").iterdir()) == []


@pytest.mark.parametrize("own", [None, "/etc/own.pem"])
def test_an_app_is_told_who_the_nodes_are_and_which_key_signs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, folder: Path, own: str | None
) -> None:
    told: dict[str, Any] = {}

    def submit(_flwr: Flwr, _app: Path, settings: dict[str, Any]) -> None:
        told.update(settings)
        raise RunError("seen enough")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("steadfed.deploy._deployment.submit", submit)
    monkeypatch.setattr(ServerService, "is_running", True)
    words = [] if own is None else ["--set", f"signing-key={own}"]
    assert CliRunner().invoke(app, ["federation", "run", str(EXAMPLE), "--folder", str(folder), *words]).exit_code
    place = DeploymentFolder(folder)
    assert told["nodes"] == str(place.roster)
    assert told["signing-key"] == (own or str(place.signing_key))


def test_names_are_shown_letter_by_letter(folder: Path) -> None:
    place = DeploymentFolder(folder)
    state = place.state()
    assert state is not None
    node = NodeState(
        process=ProcessState(port=20001), config={"partition-id": 0, "num-partitions": 1, "name": "[/x]\x1b[2J[red]"}
    )
    place.save(state.model_copy(update={"nodes": (node,)}))
    shown = CliRunner().invoke(app, ["federation", "status", "--folder", str(folder)], env={"COLUMNS": "120"})
    assert shown.exit_code == 1
    assert "[/x]\\x1b[2J[red]" in shown.output
