"""What Flower's commands are told, and how their answers are read."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from steadfed.deploy import _environment as environment
from steadfed.deploy._flower_commands import Flwr, answer, superexec_command, superlink_command, supernode_command
from steadfed.deploy._folder import DeploymentFolder
from steadfed.deploy._ports import free_ports, is_free, requested_ports
from steadfed.deploy._submission import RunStatus, app_config, status_of, submit
from steadfed.errors import ParameterError, RunError

EXAMPLE = Path(__file__).parents[2] / "examples" / "flower-federation"


def test_a_secure_superlink_asks_for_keys_and_installs_nothing(tmp_path: Path) -> None:
    words = superlink_command(DeploymentFolder(tmp_path), 20000, secure=True)
    assert "--enable-supernode-auth" in words
    assert "--disable-runtime-dependency-installation" in words
    assert "--insecure" not in words
    assert words[words.index("--ssl-keyfile") + 1] == str(tmp_path / "tls" / "server.key")
    assert words[words.index("--host") + 1] == "127.0.0.1"


def test_nothing_that_lies_in_the_folder_of_the_operator_is_taken_for_a_part_of_flower(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "flwr_planted.py").touch()
    monkeypatch.chdir(tmp_path)
    python, *words = superlink_command(DeploymentFolder(tmp_path), 20000, secure=True)
    planted = [python, *words[: words.index("-m")], "-m", "flwr_planted"]
    found = subprocess.run(planted, capture_output=True, text=True, check=False)  # noqa: S603
    assert "No module named flwr_planted" in found.stderr


@pytest.mark.parametrize("secure", [True, False])
def test_nothing_mixes_secure_and_insecure(tmp_path: Path, secure: bool) -> None:
    folder = DeploymentFolder(tmp_path)
    commands = [
        superlink_command(folder, 20000, secure=secure),
        superexec_command(folder, 20000, secure=secure),
        supernode_command(folder, "node-1", 20002, 20000, secure=secure),
    ]
    assert all(("--insecure" in words) != secure for words in commands)
    assert all(any("ca.crt" in word for word in words) == secure for words in commands)


def test_every_node_shows_its_own_key(tmp_path: Path) -> None:
    words = supernode_command(DeploymentFolder(tmp_path), "node-1", 20002, 20000, secure=True)
    assert words[words.index("--auth-supernode-private-key") + 1] == str(tmp_path / "keys" / "node-1")
    assert words[words.index("--superlink") + 1] == "127.0.0.1:20000"
    assert words[words.index("--node-config") + 1] == str(tmp_path / "nodes" / "node-1.toml")


def test_a_failure_is_told_in_flowers_words_whatever_the_exit_code() -> None:
    with pytest.raises(RunError, match=r"`flwr supernode register` failed: .*Public key already in use"):
        answer(
            ["supernode", "register"],
            '{"success": false, "error-message": "[code: 23] Public key already in use."}',
            "",
        )
    with pytest.raises(RunError, match="failed: no such file"):
        answer(["run", "x"], "", "no such file")
    with pytest.raises(RunError, match="it said nothing"):
        answer(["run", "x"], "", "")


def test_a_command_that_does_not_answer_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stall(*words: object, **options: object) -> None:
        raise subprocess.TimeoutExpired(str(words), 120.0)

    monkeypatch.setattr(subprocess, "run", stall)
    with pytest.raises(RunError, match="did not answer within 120 s"):
        Flwr(DeploymentFolder(tmp_path), "mark")("list", "@")


def test_missing_flower_is_told_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RunError, match=r"flower-superlink is not installed.*pip install 'steadfed\[flower\]'"):
        environment.command("flower-superlink")


def test_a_port_in_use_is_refused_by_its_number() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert not is_free(port)
        with pytest.raises(RunError, match=rf"port {port} of 127\.0\.0\.1 is in use"):
            requested_ports(1, port)
    assert is_free(port)


def test_free_ports_are_different_and_free() -> None:
    ports = free_ports(20)
    assert len(set(ports)) == 20
    assert all(map(is_free, ports))


def test_only_a_run_that_came_to_its_end_is_complete() -> None:
    assert status_of({"status": "finished:completed", "status-details": "N/A"}) == RunStatus(
        status="finished:completed"
    )
    failed = status_of({"status": "finished:failed", "status-details": "No heartbeat received from the task"})
    assert failed.finished
    assert not failed.completed
    assert not RunStatus(status="running").finished


def test_the_example_has_the_settings_that_the_command_line_gives() -> None:
    assert {"rounds", "run-folder", "nodes", "seed", "lr", "local-steps", "batch-size"} <= set(app_config(EXAMPLE))


def test_a_folder_without_an_app_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=r"cannot read its pyproject\.toml"):
        app_config(tmp_path)
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'x'\n", encoding="utf-8")
    with pytest.raises(ParameterError, match=r"no table \[tool\.flwr\.app\]"):
        app_config(tmp_path)
    for text in ("tool = 3", "[tool]\nflwr = 3", "[tool.flwr]\napp = 3", "[tool.flwr.app]\nconfig = 3"):
        (tmp_path / "pyproject.toml").write_text(text, encoding="utf-8")
        with pytest.raises(ParameterError, match=r"no table|must be a table"):
            app_config(tmp_path)


def test_settings_that_an_app_does_not_have_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="no setting 'round', did you mean 'rounds'"):
        submit(Flwr(DeploymentFolder(tmp_path), "mark"), EXAMPLE, {"round": 3})


def test_nested_settings_have_dotted_names(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.flwr.app.config]\na.b = 1\nc = 2\n", encoding="utf-8")
    assert app_config(tmp_path) == {"a.b": 1, "c": 2}
