"""`steadfed federation`: what it refuses before anything starts. Real processes: tests/deploy/test_deployment.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.cli.commands import refused, run
from tests.deployments import AWAY, BROKEN, LIAR, configured, played_round, remote_config, skipped_round
from typer.testing import CliRunner

from steadfed._cli.app import app
from steadfed._cli.federation import _node_configs
from steadfed._cli.outcome import NO_SUCCESS
from steadfed.deploy import LocalDeployment, RunStatus, _attempts as attempts
from steadfed.deploy._attempts import OWN_ERROR
from steadfed.deploy._flower_commands import Flwr
from steadfed.deploy._folder import DeploymentFolder
from steadfed.deploy._services import ServerService
from steadfed.deploy._state import DeploymentState, NodeState, ProcessState
from steadfed.errors import ParameterError, RunError
from steadfed.flower.redteam import DRILLS
from steadfed.server._folder import RunFolder

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


def test_a_drill_against_the_superlink_is_one_of_those_that_the_help_names(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    words = ["federation", "drill", "0", "many-object", "--folder", str(folder)]
    assert "did you mean 'many-objects'" in refused(capsys, monkeypatch, *words)
    words[3] = "many-objects"
    assert "does not run; start it with" in refused(capsys, monkeypatch, *words)
    shown = " ".join(run("federation", "drill", "--help").split())
    assert not [name for name in DRILLS if name not in shown]


@pytest.mark.parametrize(("statuses", "code"), [([413, 200], 0), ([413], 1)])
def test_a_drill_says_what_the_superlink_answered(
    statuses: list[int], code: int, monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    asked: list[Any] = []

    class Node:
        def play(self, name: str, *, rounds: int, patience: float) -> list[int]:
            asked.append((name, rounds, patience))
            return statuses

    @contextmanager
    def in_place_of(_deployment: LocalDeployment, index: int) -> Iterator[Node]:
        asked.append(index)
        yield Node()

    monkeypatch.setattr("steadfed.deploy._drills.in_place_of", in_place_of)
    monkeypatch.setattr("steadfed.deploy._services.Service.is_running", property(lambda _: True))
    words = ["federation", "drill", "0", "large-object", "--rounds", "2", "--timeout", "5", "--folder", str(folder)]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == code
    assert result.stdout.splitlines()[0] == "large-object: 413 Request Entity Too Large"
    assert ("1 message did not come within 5 s; is there a run?" in result.output) == bool(code)
    assert asked == [0, ("large-object", 2, 5.0)]


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


class Federation:
    """Stands in for a deployment: every submission plays some rounds into the run folder and ends in some way."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *plan: tuple[int, RunStatus]) -> None:
        self.plan, self.log = list(plan), tmp_path / "log"
        self.timeouts: list[float | None] = []
        self.pauses: list[float] = []
        self.submitted = 0
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(LocalDeployment, "submit", self.submit)
        monkeypatch.setattr(attempts, "wait_for_folder", lambda _, pause: self.pauses.append(pause))

    def submit(self, _app: Path, settings: dict[str, Any]) -> Federation:
        self.place = Path(settings["run-folder"])
        self.submitted += 1
        self.run_id = self.submitted
        return self

    def wait(self, timeout: float | None, *, look: Callable[[], object]) -> RunStatus:
        self.timeouts.append(timeout)
        rounds, status = self.plan.pop(0)
        if not (self.place / "config.toml").exists():
            RunFolder.create(self.place, configured(remote_config()))
        folder = RunFolder.open(self.place)
        for _ in range(rounds):
            folder.append(played_round(remote_config(), folder.num_rounds()))
            look()
        if status.completed:
            folder.write_summary({"rounds": folder.num_rounds(), "last": {}, "best": {}})
        return status

    def stop(self) -> None: ...

    def output(self) -> str:
        return "the end of the log"


COMPLETED = RunStatus(status="finished:completed")
KILLED = RunStatus(status="finished:failed", details="No heartbeat received from the task")


def follow(folder: Path, *options: str) -> Any:
    """Return what `federation run` makes of it."""
    words = ["federation", "run", str(EXAMPLE), "--folder", str(folder), "--set", "rounds=5", *options]
    return CliRunner().invoke(app, words, catch_exceptions=False)


def test_a_run_that_flower_ended_goes_on_in_the_same_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, folder: Path
) -> None:
    federation = Federation(monkeypatch, tmp_path, (2, KILLED), (3, COMPLETED))
    found = follow(folder, "--timeout", "60")
    assert found.exit_code == 0, found.output
    assert federation.pauses == [5.0]
    assert federation.timeouts[0] == 60.0
    assert (federation.timeouts[1] or 0.0) <= 60.0
    assert (
        "Flower ended run 1: No heartbeat received from the task; 2 of 5 rounds are written down; "
        "submitted again in 5 s, try 2 of 5" in found.stderr
    )
    assert len(list(RunFolder.open(federation.place).records())) == 5


@pytest.mark.parametrize(
    ("plan", "options", "why"),
    [
        ([(0, KILLED), (0, KILLED)], (), "it failed 2 times in a row without a new round"),
        ([(1, KILLED), (1, KILLED)], ("--tries", "2"), "it was submitted 2 times"),
        ([(1, KILLED)], ("--tries", "1"), "it was submitted 1 time"),
        ([(1, KILLED)], ("--timeout", "2"), "the time is over"),
        ([(1, RunStatus(status="finished:stopped"))], (), "it was stopped"),
        ([(0, RunStatus(status="finished:failed", details=f"{OWN_ERROR}: \x1b[2Jno"))], (), "the app itself failed"),
    ],
)
def test_a_run_that_would_fail_again_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    folder: Path,
    plan: list[tuple[int, RunStatus]],
    options: tuple[str, ...],
    why: str,
) -> None:
    federation = Federation(monkeypatch, tmp_path, *plan)
    found = follow(folder, *options)
    assert found.exit_code == 1
    assert federation.submitted == len(plan)
    assert f"not submitted again: {why}" in found.stderr
    assert "the end of the log" in found.stderr


def test_rounds_name_who_was_removed_or_silent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, folder: Path) -> None:
    Federation(monkeypatch, tmp_path, (5, COMPLETED))
    found = follow(folder)
    (first,) = [line for line in found.stderr.splitlines() if line.startswith("1 of 5 rounds")]
    assert f"removed: {LIAR} (" in first
    assert " standard deviations); malformed: " in first
    assert f"malformed: {BROKEN} (shape); silent: {AWAY}" in first


def test_a_run_that_is_no_success_has_an_exit_code_of_its_own_and_says_why(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, folder: Path
) -> None:
    monkeypatch.setattr("tests.cli.test_federation.played_round", skipped_round)
    Federation(monkeypatch, tmp_path, (5, COMPLETED))
    found = follow(folder)
    assert found.exit_code == NO_SUCCESS == 3
    assert (
        "no success: all 5 rounds were skipped, so the model is the one it began with: nobody answered" in found.stderr
    )
    assert f"no success: in 5 of 5 rounds more clients were silent than are assumed to be Byzantine: {LIAR} (5×)" in (
        found.stderr
    )
